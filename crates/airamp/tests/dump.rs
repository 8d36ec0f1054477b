//! `airamp dump`: what is in the bundle, and what is not.

#[path = "support/job.rs"]
mod job;
mod support;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use job::COMPRESSED_CALLS;
use serde_json::Value;
use support::{airamp, run, stderr};

const SECRET: &str = "token-9f8e7d";

/// The documents of a bundle by their name.
fn documents(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut documents = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        documents.insert(name.strip_prefix("airamp-dump/").expect("in one folder").to_owned(), text);
    }
    documents
}

fn parsed(documents: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&documents[name]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A job called `llama`, and settings that name private places.
fn dump(base: &Path, args: &[&str]) -> Command {
    let mut command = airamp(&[&["dump", "--out", "-"], args].concat());
    command.arg("--telemetry-dir").arg(base).env("HOME", base.join("zq-home"));
    command
}

#[test]
fn the_bundle_holds_what_support_needs() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    let output = run(&mut dump(base.path(), &["--with-names"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("asking the doctor"), "{}", stderr(&output));
    let documents = documents(&output.stdout);
    for name in documents.keys().filter(|name| *name != "README.txt") {
        assert!(documents["README.txt"].contains(name), "{name} is not in the list");
    }
    assert_eq!(parsed(&documents, "versions.json")["airamp"], env!("CARGO_PKG_VERSION"));
    assert_eq!(parsed(&documents, "versions.json")["nccl_in_jobs"][0], "NCCL 2.28.9");
    assert!(parsed(&documents, "settings.json")["settings"].as_array().is_some_and(|all| all.len() > 20));
    assert_eq!(parsed(&documents, "doctor.json")["checks"][0]["name"], "preload");
    assert_eq!(parsed(&documents, "node.json")["jobs"][0]["job"], "llama");
    assert!(documents["explain.txt"].contains("is on from call 12"), "{}", documents["explain.txt"]);
    let processes = &parsed(&documents, "calls.json")["processes"];
    assert_eq!(
        processes[0]["calls"].as_array().map(Vec::len),
        Some(COMPRESSED_CALLS as usize),
        "{processes:#}"
    );
    assert!(documents["machine.txt"].contains("Reading"));
}

#[test]
fn nothing_private_is_in_the_bundle() {
    let base = tempfile::tempdir().expect("a folder");
    let private = base.path().join("zq-home");
    std::fs::create_dir(&private).expect("made");
    std::fs::write(private.join("token"), SECRET).expect("written");
    job::started(base.path(), "llama");
    // Of a job that runs, and of one that ended.
    let evidence = tempfile::tempdir().expect("a folder");
    for job in ["llama", "walrus_xl"] {
        let name = format!("evidence-1700000000000-late_rank-{job}-0.jsonl");
        std::fs::write(evidence.path().join(name), "{}").expect("written");
    }
    let mut command = dump(base.path(), &[]);
    command
        .env("AIRAMP_EVIDENCE_DIR", evidence.path())
        .env("AIRAMP_METRICS_TOKEN_FILE", private.join("token"))
        .env("AIRAMP_LOG_FILE", private.join("my secret project.log"))
        .env("AIRAMP_JOB", "zebra")
        .env("AIRAMP_METRICS_ADDR", "192.0.2.77")
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let documents = documents(&output.stdout);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let test_program = std::env::args().next().expect("a name");
    for private in [
        SECRET,
        "secret project",
        "zq-home",
        "llama",
        "zebra",
        "walrus",
        "192.0.2.77",
        "AWS_",
        host.trim(),
        &test_program,
    ] {
        for (name, text) in &documents {
            assert!(!text.contains(private), "{private:?} is in {name}:\n{text}");
        }
    }
    assert_eq!(parsed(&documents, "node.json")["jobs"][0]["job"], "job-1");
    let kept = &parsed(&documents, "evidence.json")["files"];
    assert_eq!((&kept[0]["kind"], &kept[1]["bytes"]), (&"late_rank".into(), &2.into()), "{kept:#}");
    let log_file = parsed(&documents, "settings.json")["settings"]
        .as_array()
        .and_then(|all| all.iter().find(|setting| setting["key"] == "log_file").cloned());
    assert_eq!(log_file.expect("the setting")["value"], "~/…");
}

#[test]
fn a_file_is_written_for_its_user_alone_and_never_over_another() {
    let base = tempfile::tempdir().expect("a folder");
    let path = base.path().join("bundle.tar.gz");
    let mut command = airamp(&["dump", "--telemetry-dir"]);
    command.arg(base.path()).arg("--out").arg(&path);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1), "written, and no job: {}", stderr(&output));
    assert!(stderr(&output).contains("no job was seen"), "{}", stderr(&output));
    assert_eq!(path.metadata().expect("written").permissions().mode() & 0o777, 0o600);
    assert!(documents(&std::fs::read(&path).expect("read")).contains_key("doctor.json"));
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(said.contains("bundle.tar.gz cannot be written: it is there already"), "{said}");
    assert!(said.contains("another name with --out"), "{said}");
    let output =
        run(airamp(&["dump", "--out", "/no/such/folder/x"]).env("AIRAMP_TELEMETRY_DIR", base.path()));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(std::fs::read_dir(base.path()).expect("listed").count(), 1, "nothing else is left");
}

#[test]
fn a_place_where_nothing_can_be_written_is_refused_before_anything_is_gathered() {
    let folder = tempfile::Builder::new().prefix("airamp-dump-").tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    for (place, why) in [(folder.path().join("absent"), "No such file"), (file, "not a directory")] {
        let output = run(airamp(&["dump", "--out"]).arg(place.join("x.tar.gz")));
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
        for part in ["looking at the jobs", ".tmp"] {
            assert!(!stderr(&output).contains(part), "{part}: {}", stderr(&output));
        }
    }
}
