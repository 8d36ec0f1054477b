//! `airamp status` and `airamp explain --live` on a made-up job, as a user meets them.

#[path = "support/job.rs"]
mod job;
mod support;

use std::path::Path;
use std::process::Command;

use job::{CALL_BYTES, COMMUNICATOR, COMPRESSED_CALLS, RANKS, VENDOR_CALLS};
use serde_json::Value;
use support::{airamp, finish, run, start, stderr, stdout};

fn looking_at(base: &Path, args: &[&str]) -> Command {
    let mut command = airamp(args);
    command.arg("--telemetry-dir").arg(base);
    command
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[test]
fn the_json_holds_exactly_what_the_processes_counted() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    let output = run(&mut looking_at(base.path(), &["status", "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let node = json(&output);
    let jobs = node["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 1, "{node:#}");
    assert_eq!(
        (&jobs[0]["job"], &jobs[0]["state"], &jobs[0]["mode"]),
        (&"llama".into(), &"running".into(), &"on".into())
    );
    let row = |path: &str| {
        let calls = jobs[0]["totals"]["calls"].as_array().expect("rows");
        calls.iter().find(|row| row["path"] == path).unwrap_or_else(|| panic!("{path}: {calls:#?}")).clone()
    };
    let ranks = RANKS as u64;
    assert_eq!(row("vendor")["calls"], ranks * VENDOR_CALLS);
    assert_eq!(row("vendor")["logical_bytes"], ranks * VENDOR_CALLS * CALL_BYTES);
    let compressed = ranks * COMPRESSED_CALLS * CALL_BYTES;
    assert_eq!(row("compressed")["calls"], ranks * COMPRESSED_CALLS);
    assert_eq!(row("compressed")["wire_bytes"], compressed / 4);
    assert_eq!(row("compressed")["saved_bytes"], compressed - compressed / 4);
    let members = jobs[0]["communicators"][0]["ranks"].as_array().expect("ranks");
    assert_eq!(jobs[0]["communicators"][0]["name"], COMMUNICATOR);
    assert_eq!(members.len(), RANKS as usize);
    assert!(members.iter().all(|member| member["issued"] == VENDOR_CALLS + COMPRESSED_CALLS), "{members:#?}");
}

#[test]
fn the_text_shows_each_section_and_json_lines_come_again_and_again() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    let output = run(&mut looking_at(base.path(), &["status"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in
        ["job llama (given)", "\nranks\n", COMMUNICATOR, "1 MiB to 4 MiB", "all_reduce", "communicator_made"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains('\u{1b}'), "a pipe gets no control sequences");

    let mut child = start(&mut looking_at(base.path(), &["status", "--json", "--watch", "0.1"]));
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    for line in lines.take(3) {
        let node: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_eq!(node["jobs"][0]["job"], "llama");
    }
    child.kill().expect("ended");
    child.wait().expect("waited");
}

#[test]
fn where_nothing_runs_the_advice_is_on_stderr() {
    let base = tempfile::tempdir().expect("a folder");
    for command in ["status", "explain"] {
        let output = run(&mut looking_at(base.path(), &[command]));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("AIRAMP_TELEMETRY_DIR"), "{}", stderr(&output));
    }
    let output = run(&mut looking_at(base.path(), &["status", "--json"]));
    assert_eq!(json(&output)["jobs"], Value::Array(Vec::new()));
}

#[test]
fn one_job_of_several_is_chosen() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    job::started(base.path(), "bert");
    let all = json(&run(&mut looking_at(base.path(), &["status", "--json"])));
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(2), "{all:#}");
    let one = json(&run(&mut looking_at(base.path(), &["status", "--json", "--job", "bert"])));
    assert_eq!(one["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(one["jobs"][0]["job"], "bert");
    let none = run(&mut looking_at(base.path(), &["status", "--job", "gpt"]));
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("gpt") && stderr(&none).contains("without --job"), "{}", stderr(&none));
}

#[test]
fn explain_reads_running_jobs_as_it_reads_logs() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    let output = run(&mut looking_at(base.path(), &["explain", "--live"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in
        ["job llama", "mode on", "00000000000000ab, 2 ranks", "1.83x", "is on from call 12: 1.83 times"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let value = json(&run(&mut looking_at(base.path(), &["explain", "--json"])));
    assert_eq!(value["communicators"][0]["classes"][0]["speedup"], 1.83);
    assert_eq!(value["jobs"][0]["job"], "llama");
    let sentence = value["communicators"][0]["sentences"][0].as_str().expect("a sentence");
    assert!(sentence.starts_with("AllReduce float32 1 MiB to 4 MiB is on"), "{sentence}");
}

#[test]
fn a_log_and_a_choice_of_jobs_exclude_each_other() {
    for args in
        [&["explain", "--job", "x", "file"][..], &["explain", "--live", "file"], &["status", "--watch", "0"]]
    {
        let output = finish(start(&mut airamp(args)));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
}
