//! Recipes of docs/guide/frameworks.md that can be tried without the framework: how vLLM and SGLang reach NCCL (ctypes, functions
//! taken from a handle), both ways to stand in between, and how programs that capture graphs at their start are helped by a tuning cache.
//! On the emulator, over a link that is slow enough for compression to pay.

use std::path::Path;
use std::time::Duration;

use airamp_tests::scenario::patient;
use airamp_tests::{
    Outcome, Run, artifacts, emulator_dir, interposer, package_dir, rank_program, skip_outside_ci,
};
use serde_json::Value;

/// Enough for the tuner to decide and for some calls more.
const MANY_CALLS: &str = "60";
const FEW_CALLS: &str = "5";
/// Gbit/s: two busy cores fill it, so that the wire is the bottleneck.
const SLOW_LINK: &str = "0.2";

/// Two ranks of the recipe that open `library`; none where there is no Python.
fn ranks(library: &Path, calls: &str, adjust: impl Fn(Run) -> Run) -> Option<Vec<Value>> {
    if Run::new("/usr/bin/env").args(["python3", "-c", ""]).run().end != airamp_tests::End::Code(0) {
        skip_outside_ci("python3 is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = Run::new("/usr/bin/env")
        .arg("python3")
        .arg(package_dir().join("recipes/ctypes_calls.py"))
        .arg(library)
        .arg(calls)
        .library_dir(emulator_dir())
        .env("AIRAMP_EMU_LINK_GBPS", SLOW_LINK)
        .env("AIRAMP_TELEMETRY_DIR", folder.path())
        .time_limit(Duration::from_secs(120));
    Some(patient(adjust(run)).run_ranks(2).iter().map(report).collect())
}

fn report(outcome: &Outcome) -> Value {
    outcome.assert_success();
    serde_json::from_str(&outcome.stdout_text()).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// Exact while it was tried, compressed from one call on, alike on all ranks, and close to the sum.
fn assert_compressed_at_one_call(reports: &[Value]) {
    let [first, second] = reports else { panic!("two ranks: {reports:?}") };
    let results = first["results"].as_str().expect("a letter per call");
    assert!(results.starts_with('e') && results.ends_with('c') && !results.contains("ce"), "{results}");
    assert_eq!(first["results"], second["results"]);
    assert_eq!(first["digest"], second["digest"]);
    assert!(first["error"].as_f64().is_some_and(|error| error > 0.0 && error < 0.02), "{first}");
}

#[test]
fn without_the_library_every_sum_is_exact() {
    let Some(reports) = ranks(Path::new("libnccl.so.2"), FEW_CALLS, |run| run) else { return };
    for report in reports {
        assert_eq!(report["results"].as_str().map(|results| results.replace('e', "")), Some(String::new()));
    }
}

#[test]
fn preloaded_it_is_between_a_server_and_the_nccl_that_it_opens_by_name() {
    let with = |run: Run| run.preload(interposer()).env("AIRAMP_MODE", "on");
    let Some(reports) = ranks(Path::new("libnccl.so.2"), MANY_CALLS, with) else { return };
    assert_compressed_at_one_call(&reports);
}

#[test]
fn named_as_the_nccl_library_it_needs_no_preload() {
    let nccl = artifacts::emulated_nccl();
    let with = |run: Run| run.env("AIRAMP_MODE", "on").env("AIRAMP_NCCL_PATH", &nccl);
    let Some(reports) = ranks(&interposer(), MANY_CALLS, with) else { return };
    assert_compressed_at_one_call(&reports);
}

#[test]
fn a_preloaded_library_that_was_not_asked_to_compress_changes_no_bit() {
    let Some(reports) = ranks(Path::new("libnccl.so.2"), FEW_CALLS, |run| run.preload(interposer())) else {
        return;
    };
    for report in reports {
        assert_eq!(report["error"].as_f64(), Some(0.0), "{report}");
    }
}

/// What rank 0 tells of two ranks that run a program of `airamp-rank` with the cache in `folder`.
fn with_cache(folder: &Path, program: &str) -> Value {
    let outcomes = patient(Run::new(rank_program()))
        .args(["scenario", program, "--steps", "150", "--after-decided", "5"])
        .args(["--tensors", "float32:1048576,float16:1048576,bfloat16:1048576"])
        .preload(interposer())
        .library_dir(emulator_dir())
        .env("AIRAMP_MODE", "on")
        .env("AIRAMP_EMU_LINK_GBPS", SLOW_LINK)
        .env("AIRAMP_TUNING_CACHE", folder.join("tuning.toml"))
        .env("AIRAMP_TELEMETRY_DIR", folder)
        .time_limit(Duration::from_secs(120))
        .run_ranks(2);
    report(&outcomes[0])
}

#[test]
fn with_a_tuning_cache_a_graph_that_is_captured_at_the_start_holds_compressed_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    with_cache(folder.path(), "tuned-loop");
    let second = with_cache(folder.path(), "tuned-graphs");
    let first_graph = &second["graphs"][0];
    assert_eq!(first_graph["captured"], "before");
    let replays = first_graph["replays"].as_str().unwrap_or_default();
    assert!(replays.ends_with('c') && !replays.contains('e'), "{second}");
}
