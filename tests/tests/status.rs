//! `airamp status`, `airamp explain --live` and `airamp dump` on real jobs of the emulator: their numbers are what the
//! job did, also after its end, and a rank that does not come is named.

use std::path::Path;
use std::time::{Duration, Instant};

use airamp_tests::live::LiveJob;
use airamp_tests::scenario;
use airamp_tests::{Outcome, Run, airamp};
use serde_json::Value;

const RANKS: u32 = 4;
const STEPS: u64 = 200;
const BYTES: u64 = 16_384;
const LIMIT: Duration = Duration::from_secs(90);

fn command(base: &Path, args: &[&str]) -> Run {
    Run::new(airamp()).args(args).arg("--telemetry-dir").arg(base)
}

#[track_caller]
fn status(base: &Path) -> Value {
    let outcome = command(base, &["status", "--json"]).run();
    json(&outcome)
}

#[track_caller]
fn json(outcome: &Outcome) -> Value {
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

fn job<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    node["jobs"].as_array()?.iter().find(|job| job["job"] == name)
}

/// Looks until the job is as is wanted.
#[track_caller]
fn until(base: &Path, name: &str, what: &str, wanted: impl Fn(&Value, &Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let node = status(base);
        if job(&node, name).is_some_and(|job| wanted(&node, job)) {
            return node;
        }
        assert!(Instant::now() < deadline, "{what} was not seen: {node:#}");
    }
}

/// Calls, logical bytes and wire bytes of all rows of a path.
fn sums(job: &Value, path: &str) -> [u64; 3] {
    let rows = job["totals"]["calls"].as_array().expect("rows");
    let of_path = || rows.iter().filter(|row| row["path"] == path);
    ["calls", "logical_bytes", "wire_bytes"]
        .map(|field| of_path().filter_map(|row| row[field].as_u64()).sum())
}

#[test]
fn the_numbers_of_a_job_are_what_it_did_also_when_it_has_ended() {
    let base = tempfile::tempdir().expect("a folder");
    let steps = STEPS.to_string();
    let bytes = BYTES.to_string();
    let ended = LiveJob::start(base.path(), "exact", RANKS, &["--steps", &steps, "--bytes", &bytes]).finish();
    for outcome in &ended {
        outcome.assert_success();
    }
    let node = status(base.path());
    let job = job(&node, "exact").unwrap_or_else(|| panic!("{node:#}"));
    let calls = u64::from(RANKS) * STEPS;
    let wire = BYTES * 2 * u64::from(RANKS - 1) / u64::from(RANKS);
    assert_eq!(sums(job, "vendor"), [calls, calls * BYTES, calls * wire], "{job:#}");
    for other in ["compressed", "trial", "vendor_captured", "compressed_captured"] {
        assert_eq!(sums(job, other), [0; 3], "{other}");
    }
    assert_eq!((&job["state"], &job["ranks_here"]), (&"ended".into(), &0.into()), "{job:#}");
    let ranks = job["ranks"].as_array().expect("ranks");
    assert_eq!(ranks.len(), RANKS as usize);
    for rank in ranks {
        assert_eq!(sums(rank, "vendor")[0], STEPS, "{rank:#}");
    }
}

#[test]
fn a_running_job_has_rates_and_a_rank_that_stands_still_is_named() {
    let base = tempfile::tempdir().expect("a folder");
    let mut live = LiveJob::start(base.path(), "live", RANKS, &["--bytes", "65536"]);
    live.await_first_step();
    let node = until(base.path(), "live", "a job at work", |_, job| {
        job["ranks_here"] == RANKS && job["rates"]["calls_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    let seen = job(&node, "live").expect("the job");
    assert_eq!((&seen["mode"], &seen["state"]), (&"observe".into(), &"running".into()));
    let text = command(base.path(), &["status", "--once"]).run();
    text.assert_success();
    for part in ["job live (given)", "all_reduce", "airamp-rank"] {
        assert!(text.stdout_text().contains(part), "{part} is not in {text}");
    }
    live.signal(1, libc::SIGSTOP);
    until(base.path(), "live", "the rank that stands still", |_, job| {
        let ranks = job["ranks"].as_array().into_iter().flatten();
        ranks
            .filter(|rank| rank["process_state"] == "stopped")
            .map(|rank| &rank["rank"])
            .eq([&Value::from(1)])
    });
    live.signal(1, libc::SIGCONT);
}

#[test]
fn explain_says_of_a_running_job_why_each_class_is_on() {
    let base = tempfile::tempdir().expect("a folder");
    let forced = |_, run| scenario::planned(scenario::settings(run));
    let mut live = LiveJob::start_with(base.path(), "on", 2, &["--bytes", "65536"], forced);
    live.await_first_step();
    let deadline = Instant::now() + LIMIT;
    let (outcome, value) = loop {
        let outcome = command(base.path(), &["explain", "--live", "--job", "on", "--json"]).run();
        let value = json(&outcome);
        if value["communicators"].as_array().is_some_and(|all| !all.is_empty()) {
            break (outcome, value);
        }
        assert!(Instant::now() < deadline, "no decision: {outcome}\n{}", live.said());
    };
    outcome.assert_success();
    let communicator = &value["communicators"][0];
    assert_eq!(communicator["ranks"], 2, "{value:#}");
    let said = communicator["said"].as_array().expect("said");
    let classes = communicator["classes"].as_array().expect("classes");
    let is_on = |record: &Value| record["decision"] == "compressed";
    assert!(said.iter().chain(classes).any(is_on), "{value:#}");
    assert_eq!(value["jobs"][0]["job"], "on");
}

#[test]
fn a_bundle_of_a_running_job_holds_its_calls_and_none_of_its_names() {
    let base = tempfile::tempdir().expect("a folder");
    let mut live = LiveJob::start(base.path(), "confidential", 2, &["--bytes", "65536"]);
    live.await_first_step();
    let file = base.path().join("bundle.tar.gz");
    command(base.path(), &["dump"]).arg("--out").arg(&file).run().assert_success();
    let listed = Run::new("/bin/sh").arg("-c").arg("tar -xOzf \"$0\"").arg(&file).run();
    let text = listed.assert_success().stdout_text();
    assert!(text.contains("\"kind\": \"all_reduce\"") && text.contains("AIRAMP_TELEMETRY_DIR"), "{text}");
    assert!(!text.contains("confidential"), "the job's name is in it");
}
