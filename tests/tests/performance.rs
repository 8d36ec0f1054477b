//! What the host's paths cost, in instructions, against what they cost before: `tests/performance/baseline.json`. More by
//! over 5% fails; fewer by over 5% is said, so that the baseline follows. AIRAMP_BLESS=1 writes it anew.
//!
//! Counted are our own functions alone, and none of the C library's or the emulator's, so that another machine agrees.
//! A path that this processor has no instructions for is not measured.

use airamp_tests::c_program::vendor_dir;
use airamp_tests::callgrind::{self, Count};
use airamp_tests::scenario::planned;
use airamp_tests::{CProgram, artifacts, emulator_dir, interposer, package_dir, skip, skip_outside_ci};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// In parts of a hundred.
const TOLERANCE: f64 = 5.0;
const LIBRARY: &str = "libairamp_accel";
const CALLS_OF_STEP: u64 = 24;
/// What telemetry adds to one collective it adds to the others, and nothing to a look-up: not measured with it.
const ONCE: [&str; 4] = ["broadcast", "empty_group", "look_up", "look_up_other"];

#[derive(Debug, Default, Deserialize, Serialize)]
struct Baseline {
    /// For people: the same compiler gives the same counts, another one may not.
    machine: String,
    /// Instructions of one call, frame, block or page.
    instructions: BTreeMap<String, f64>,
}

fn baseline_path() -> PathBuf {
    package_dir().join("performance/baseline.json")
}

#[test]
fn no_path_of_the_host_costs_over_five_percent_more_than_it_did() {
    if !callgrind::is_there() {
        return skip_outside_ci("valgrind is not installed");
    }
    let measured = measure();
    if std::env::var_os("AIRAMP_BLESS").is_some() {
        return bless(measured);
    }
    let text = std::fs::read_to_string(baseline_path()).expect("tests/performance/baseline.json");
    let baseline: Baseline = serde_json::from_str(&text).expect("its form");
    let mut worse = Vec::new();
    for (path, now) in &measured {
        let Some(before) = baseline.instructions.get(path) else {
            worse.push(format!("{path}: {now}, of which the baseline knows nothing"));
            continue;
        };
        let change = (now / before - 1.0) * 100.0;
        println!("{path:<32} {now:>12.1} {change:>+6.1}%");
        if change > TOLERANCE {
            worse.push(format!("{path}: {before} before, {now} now, {change:+.1}%"));
        } else if change < -TOLERANCE {
            // Past the capture of a passing test's output.
            let anew = "write the baseline anew with AIRAMP_BLESS=1";
            let _ = writeln!(std::io::stderr(), "CHEAPER: {path} costs {change:+.1}%: {anew}");
        }
    }
    let is_gone = |path: &&String| !measured.contains_key(*path) && !path.ends_with("avx2");
    worse.extend(
        baseline.instructions.keys().filter(is_gone).map(|path| format!("{path} is not measured any more")),
    );
    assert!(
        worse.is_empty(),
        "{worse:#?}\nIf that is meant to be so: ./x build && AIRAMP_BLESS=1 cargo test -p airamp-tests --test performance\n\
         (the baseline is of {})",
        baseline.machine
    );
}

fn bless(instructions: BTreeMap<String, f64>) {
    let baseline = Baseline { machine: machine(), instructions };
    let text = serde_json::to_string_pretty(&baseline).expect("plain numbers") + "\n";
    std::fs::write(baseline_path(), text).expect("the baseline can be written");
}

fn machine() -> String {
    let line = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown");
    format!(
        "{model}; {}; {}; {}",
        line("rustc", "--version"),
        line("valgrind", "--version"),
        line("ldd", "--version")
    )
}

fn measure() -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    passed_through(&mut all);
    compressed(&mut all);
    alone(&mut all);
    all
}

/// Calls over a vendor that does nothing: without telemetry, with it, and with the rhythm, which is the default.
fn passed_through(all: &mut BTreeMap<String, f64>) {
    let program = CProgram::linked_with_nccl_alone("passthrough_calls.c").flag("-O2").build();
    let vendor = null_vendor();
    let count = Count { program: &program, function: Some("measured"), object: Some(LIBRARY) };
    let settings = [("pass_through", "0", "0"), ("telemetry", "1", "0"), ("default", "1", "1")];
    let kinds: [(&str, u64, u64); 9] = [
        ("all_reduce", 1000, 1),
        ("broadcast", 1000, 1),
        ("send", 1000, 1),
        ("group", 1000, 3),
        ("empty_group", 1000, 2),
        ("mixed", 50, CALLS_OF_STEP),
        ("steps", 50, CALLS_OF_STEP),
        ("look_up", 1000, 1),
        ("look_up_other", 1000, 1),
    ];
    for (setting, telemetry, pattern) in settings {
        for (kind, rounds, calls) in kinds {
            if setting != "pass_through" && ONCE.contains(&kind) {
                continue;
            }
            // A step's pauses take time, and only the rhythm cares for them.
            if kind == "steps" && setting != "default" {
                continue;
            }
            let instructions = count.of([kind, &rounds.to_string(), "learnt"], |run| {
                let run = run.library_dir(vendor.path()).preload(interposer());
                let run = run.env("AIRAMP_TELEMETRY_DIR", vendor.path());
                run.env("AIRAMP_TELEMETRY", telemetry).env("AIRAMP_PATTERN", pattern)
            });
            all.insert(format!("{setting}.{kind}"), rounded(instructions, rounds * calls));
        }
    }
}

/// The library's own part of a compressed AllReduce of one rank, on the emulator: with two ranks everything is exchanged
/// at once, with four it is scattered and gathered, on two nodes of two summed up within them before, or all of that captured.
fn compressed(all: &mut BTreeMap<String, f64>) {
    let shapes = [
        ("one_shot", 2, "group", "1"),
        ("two_shot", 4, "group", "1"),
        ("three_shot", 4, "group", "2"),
        ("captured", 4, "captured", "1"),
    ];
    for (shape, ranks, how, per_node) in shapes {
        let program = CProgram::linked("compressed_calls.c").flag(format!("-DRANKS={ranks}")).build();
        let count = Count { program: &program, function: Some("in_groups"), object: Some(LIBRARY) };
        let calls = |calls: u64| {
            count.of([how, &calls.to_string()], |run| {
                let run = run.library_dir(emulator_dir()).preload(interposer());
                let run = planned(run).env("AIRAMP_MIN_BYTES", "4096").env("AIRAMP_ARENA_BYTES", "4194304");
                let run = run.env("AIRAMP_RANKS_PER_NODE", per_node);
                // Valgrind has no room for devices as large as the emulator's usually are.
                let run = run.env("AIRAMP_EMU_MEMORY_BYTES", "67108864").env("AIRAMP_EMU_RACECHECK", "0");
                // Which calls are timed depends on the time.
                run.env("AIRAMP_TELEMETRY", "0")
            })
        };
        let (many, few) = (calls(40), calls(8));
        let instructions = many.checked_sub(few).expect("more calls take more instructions");
        all.insert(format!("compressed.{shape}"), rounded(instructions, 32 * ranks));
    }
}

/// What needs no job.
fn alone(all: &mut BTreeMap<String, f64>) {
    let program = artifacts::artifact("host_paths");
    let count = Count { program: &program, function: Some("*measured*"), object: Some("host_paths") };
    let paths: [(&str, &str, u64, u64); 6] = [
        ("frame", "agreement.frame", 200, 2),
        ("quantise_scalar", "codec.quantise_block.scalar", 20, 8),
        ("reduce_scalar", "codec.reduce_block.scalar", 20, 8),
        ("quantise_avx2", "codec.quantise_block.avx2", 50, 8),
        ("reduce_avx2", "codec.reduce_block.avx2", 50, 8),
        ("metrics", "metrics.page", 1, 1),
    ];
    for (argument, path, rounds, of_each) in paths {
        let has_instructions = airamp_codec::arithmetic() == "AVX2";
        if path.ends_with("avx2") && !has_instructions {
            skip(&format!("{path}: this processor has no AVX2"));
            continue;
        }
        let instructions = count.of([argument, &rounds.to_string()], |run| run);
        all.insert(path.to_owned(), rounded(instructions, rounds * of_each));
    }
}

fn rounded(instructions: u64, times: u64) -> f64 {
    (instructions as f64 / times as f64 * 10.0).round() / 10.0
}

fn null_vendor() -> tempfile::TempDir {
    vendor_dir(&CProgram::unlinked("null_nccl.c").flag("-O2").shared_library().build())
}
