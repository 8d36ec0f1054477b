//! The traces of tests/traces: those that were made up are what their recipes make, all of them can be read, and all
//! together they are small. `AIRAMP_BLESS=1 cargo test -p airamp-trace` writes the made-up ones.

use std::path::{Path, PathBuf};

use airamp_trace::synthesise::{recipe_of, synthesise};
use airamp_trace::{read_file, write, write_file};

const MOST_BYTES: u64 = 2_000_000;

const SYNTHESISED: &[(&str, &str)] = &[
    ("ddp", "ddp seed=11"),
    ("ddp-jitter", "ddp buckets=24 jitter=0.1 seed=7 steps=80"),
    ("ddp-warm-up", "ddp buckets=6 warm_up=3 seed=12"),
    ("ddp-evaluation", "ddp buckets=5 steps=150 pause_every=30 seed=13"),
    ("ddp-one-bucket", "ddp buckets=1 steps=200 step_ms=12 seed=14"),
    ("accumulation", "accumulation steps=240 seed=15"),
    ("accumulation-8", "accumulation every=8 buckets=10 steps=320 jitter=0.06 seed=16"),
    ("fsdp", "fsdp seed=17 steps=50"),
    ("fsdp-deep", "fsdp layers=32 steps=24 warm_up=2 jitter=0.06 seed=18"),
    ("decode", "decode steps=80 step_ms=25 seed=19"),
    ("decode-busy", "decode layers=8 steps=150 step_ms=12 batch_changes=0.6 jitter=0.08 seed=20"),
    ("interleaved", "interleaved steps=50 seed=21"),
    ("interleaved-evaluation", "interleaved layers=3 steps=60 pause_every=20 warm_up=2 seed=22"),
    ("adversary-aperiodic", "aperiodic steps=60 seed=23"),
    ("adversary-switching", "switching steps=120 seed=24"),
    ("adversary-noise", "noise steps=150 dropped=0.3 added=0.3 resized=0.3 seed=25"),
    ("adversary-growing", "growing steps=100 seed=26"),
];

#[test]
fn the_synthesised_traces_are_what_their_recipes_make() {
    let folder = folder().join("synthesised");
    let is_blessed = std::env::var_os("AIRAMP_BLESS").is_some();
    for (name, recipe) in SYNTHESISED {
        let path = folder.join(format!("{name}.jsonl"));
        let made = synthesise(recipe).unwrap();
        if is_blessed {
            std::fs::create_dir_all(&folder).unwrap();
            write_file(&made, &path).unwrap();
        }
        let mut bytes = Vec::new();
        write(&made, &mut bytes).unwrap();
        let advice = "AIRAMP_BLESS=1 cargo test -p airamp-trace writes it";
        assert!(
            std::fs::read(&path).is_ok_and(|held| held == bytes),
            "{name} differs or is missing: {advice}"
        );
        assert_eq!(synthesise(recipe_of(&made.source).unwrap()).unwrap(), read_file(&path).unwrap());
    }
    let held = files(&folder).len();
    assert_eq!(held, SYNTHESISED.len(), "a file that no recipe makes");
}

#[test]
fn all_stored_traces_can_be_read_and_are_small() {
    let all = files(&folder());
    let mut bytes = 0;
    for path in &all {
        let trace = read_file(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(trace.calls.len() > 50 && trace.lost == 0, "{}", path.display());
        bytes += path.metadata().unwrap().len();
    }
    assert!(!all.is_empty() && bytes < MOST_BYTES, "{bytes} bytes");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else if entry.extension().is_some_and(|end| end == "jsonl") {
            found.push(entry);
        }
    }
    found
}
