//! What goes into a bundle, document by document. Everything that is put in goes through `privacy` here, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use airamp_machine::{Machine, Options};
use airamp_observer::view::{FindingKind, Node};
use serde_json::{Value, json};

use super::archive::Document;
use super::privacy::Names;
use super::{calls, environment, versions};
use crate::observe::Which;
use crate::{config, doctor, explain, streams};

const MOST_EVIDENCE: usize = 1000;
/// For a driver that answers slowly; one that hangs is left alone.
const MACHINE_LIMIT: Duration = Duration::from_secs(5);

/// All documents but the manifest, and whether there was a job.
pub(super) fn gathered(which: &Which, has_names: bool) -> (Vec<Document>, bool) {
    let say = |what: &str| streams::complain(&format!("airamp: {what}"));
    say("looking at the jobs of this machine");
    let node = which.seen();
    let names = names_of(&node, has_names);
    say("asking the doctor, which may take half a minute where there is a GPU");
    let report = doctor::report();
    say("reading counters of GPUs and network");
    let machine = machine();
    let documents = documents(which, &node, &report, machine, &names);
    (documents, !node.jobs.is_empty())
}

fn documents(which: &Which, node: &Node, report: &Value, machine: String, names: &Names) -> Vec<Document> {
    let loaded = airamp_settings::load();
    let evidence = loaded
        .settings
        .evidence_dir
        .clone()
        .unwrap_or_else(|| PathBuf::from(airamp_settings::DEFAULT_EVIDENCE_DIR));
    let pids: Vec<u32> = node.jobs.iter().flat_map(|job| &job.ranks).map(|rank| rank.pid).collect();
    let bases = which.bases();
    let explained = explain::Explained::of_node(which, node.clone());
    let json = |name, about, mut value: Value| {
        names.clean(&mut value);
        Document::new(name, about, format!("{value:#}\n"))
    };
    let text = |name, about, text: &str| Document::new(name, about, names.cleaned(text));
    vec![
        json(
            "versions.json",
            "versions of airamp, NCCL, driver, kernel and system; the GPUs",
            versions::of(node, report),
        ),
        json("settings.json", "every setting in force here and where it comes from", settings(&loaded)),
        json(
            "environment.json",
            "AIRAMP_* and NCCL_* variables of the processes; values only of those that are known to be settings",
            environment::of(node, names),
        ),
        json("doctor.json", "what `airamp doctor` says of this machine", report.clone()),
        json(
            "node.json",
            "what `airamp status --json` shows: jobs, ranks, communicators with the state of their agreement, classes, \
             decisions, last events, findings",
            serde_json::to_value(node).unwrap_or_default(),
        ),
        text(
            "explain.txt",
            "the decisions in sentences, as `airamp explain --live --all`",
            &explained.as_text(true),
        ),
        json("explain.json", "the same as JSON", explained.as_json(true)),
        json(
            "calls.json",
            "the last calls of each process: kind, path, size, times",
            calls::of(&bases, &pids),
        ),
        json(
            "evidence.json",
            "which windows of calls airampd has kept around anomalies (time, kind and size only)",
            evidence_in(&evidence),
        ),
        text("machine.txt", "counters of GPUs, network interfaces, RDMA ports and TCP", &machine),
    ]
}

fn names_of(node: &Node, has_names: bool) -> Names {
    let mut names = Names::of_this_machine(has_names);
    for host in std::iter::once(&node.node).chain(node.events.iter().map(|event| &event.node)) {
        names.learn("host", host);
    }
    for job in &node.jobs {
        names.learn("job", &job.job);
        names.learn("pod", &job.pod);
        names.learn("user", &job.user);
    }
    names
}

/// A setting that names the job holds a name whatever the field is called.
fn settings(loaded: &airamp_settings::Loaded) -> Value {
    let mut value = config::as_json(loaded);
    for setting in value["settings"].as_array_mut().into_iter().flatten() {
        if setting["key"] == "job" && setting["value"].is_string() {
            setting["value"] = json!("(set)");
        }
    }
    value
}

/// The name of a file holds the name of its job, which may have ended and be unknown here: of the name only the
/// kind is told.
fn evidence_in(folder: &Path) -> Value {
    let Ok(entries) = fs::read_dir(folder) else {
        return json!({ "folder": folder.to_string_lossy(), "found": false, "files": [] });
    };
    let mut files: Vec<(Option<u64>, Value)> = entries
        .flatten()
        .filter_map(|entry| {
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let kind = kind_in(&entry.file_name().to_string_lossy());
            let written = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let written = written.map(|since| since.as_secs());
            Some((written, json!({ "kind": kind, "bytes": found.len(), "written_unix": written })))
        })
        .take(MOST_EVIDENCE)
        .collect();
    files.sort_by_key(|(written, _)| *written);
    let files: Vec<Value> = files.into_iter().map(|(_, file)| file).collect();
    json!({ "folder": folder.to_string_lossy(), "found": true, "files": files })
}

/// Of `evidence-TIME-KIND-JOB-NUMBER.jsonl`; nothing for a word that is no kind.
fn kind_in(name: &str) -> Option<&'static str> {
    let word = name.strip_prefix("evidence-")?.split('-').nth(1)?;
    FindingKind::ALL.into_iter().map(FindingKind::name).find(|kind| *kind == word)
}

fn machine() -> String {
    let reading = Machine::watch(Options::default()).reading(MACHINE_LIMIT);
    format!("{reading:#?}\n")
}
