//! `airamp explain`, `airamp disable` and `airamp enable`, as a user meets them.

mod support;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use support::{airamp, finish, run, start, stderr, stdout};

const RECORD: &str = "{\"communicator\":\"00000000000000ab\",\"rank\":0,\"ranks\":4,\"index\":12,\"class\":{\"collective\":\
    \"AllReduce\",\"datatype\":\"float32\",\"from_bytes\":65536,\"below_bytes\":262144},\"decision\":\"compressed\",\"reason\":\
    \"it pays\",\"speedup\":1.83,\"ours_us\":100.0,\"vendor_us\":183.0,\"vnmse\":8.6e-5}";
const REFUSAL: &str = "{\"communicator\":\"00000000000000cd\",\"rank\":1,\"ranks\":2,\"decision\":\"vendor\",\"reason\":\
    \"rank 1 has no memory\",\"who\":[1]}";

fn log() -> String {
    format!(
        "loss 0.7\n[0] airamp info rank 0: decision {RECORD}\nairamp warn rank 1: decision {REFUSAL}\nloss 0.6\n"
    )
}

#[test]
fn explain_reads_decisions_out_of_a_mixed_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.log");
    fs::write(&path, log()).expect("written");
    let output = run(&mut airamp(&["explain", path.to_str().expect("UTF-8")]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["00000000000000ab, 4 ranks", "64 KiB to 256 KiB", "1.83x", "8.6e-5", "it pays"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(text.contains("all calls: vendor: rank 1 has no memory; because of rank 1"), "{text}");
}

#[test]
fn explain_reads_standard_input_and_gives_json() {
    let mut command = airamp(&["explain", "--json", "--all"]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(log().as_bytes()).expect("written");
    drop(input);
    let output = finish(child);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let first = &value["communicators"][0];
    assert_eq!(first["classes"][0]["speedup"], 1.83);
    assert_eq!(first["decisions"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["communicators"][1]["said"][0]["logged_by"][0], 1);
}

#[test]
fn explain_says_what_to_do_where_there_is_no_decision() {
    let output = run(&mut airamp(&["explain"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("AIRAMP_LOG=info"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn explain_names_a_file_that_it_cannot_read_and_counts_damaged_lines() {
    let output = run(&mut airamp(&["explain", "/no/such/file"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("/no/such/file"), "{}", stderr(&output));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.log");
    fs::write(&path, format!("airamp info: decision {}", &RECORD[..90])).expect("written");
    let output = run(&mut airamp(&["explain", path.to_str().expect("UTF-8")]));
    assert!(stderr(&output).contains("1 lines of decisions cannot be read"), "{}", stderr(&output));
}

#[test]
fn an_order_that_nobody_hears_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    for order in ["disable", "enable"] {
        let output = run(airamp(&[order, "--job", "no-such-job"]).env("XDG_RUNTIME_DIR", folder.path()));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("no process of job no-such-job"), "{}", stderr(&output));
        // Without a job it would tell those of this machine.
        let output =
            run(airamp(&[order, "--job", "no-such-job", "--json"]).env("XDG_RUNTIME_DIR", folder.path()));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&value["order"], &value["answers"]), (&order.into(), &Value::Array(Vec::new())));
    }
}
