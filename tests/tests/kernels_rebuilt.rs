//! From source to code object: `airamp kernels build`, which gets its compilers from PyPI, makes every file that is in
//! the repository again, to the byte. Hashes alone would say only that one tool wrote both.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use airamp_tests::artifacts::folder;
use airamp_tests::{End, Outcome, Run, airamp, package_dir, skip_outside_ci};

/// Two downloads of 90 and 100 MB, and 110 s of one core, which other work may want too.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// Before each attempt to download.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(20)];

fn build_into(folder_of_objects: &Path) -> Outcome {
    let run = Run::new(airamp()).args(["kernels", "build", "--out"]).arg(folder_of_objects);
    // How pip reaches PyPI may be in any variable.
    let run = std::env::vars_os().fold(run, |run, (name, value)| run.env(name, value));
    let cache = folder().with_file_name("compilers");
    run.env("XDG_CACHE_HOME", cache).time_limit(TIME_LIMIT).run()
}

/// What came of it, or why there are no compilers.
fn built_into(folder_of_objects: &Path) -> Result<Outcome, String> {
    let mut why = String::new();
    for pause in PAUSES {
        sleep(pause);
        let outcome = build_into(folder_of_objects);
        if outcome.end == End::Code(0) || !outcome.stderr_text().contains("from PyPI: ") {
            return Ok(outcome);
        }
        why = outcome.stderr_text();
    }
    Err(why)
}

fn files_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        fs::read_dir(folder).expect("a folder of code objects").map(|entry| entry.expect("an entry"));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name of ours");
        (name, fs::read(entry.path()).expect("a readable file"))
    };
    entries.map(read).collect()
}

#[test]
fn the_sources_compile_to_the_code_objects_in_the_repository() {
    let fresh = tempfile::tempdir().expect("a temporary folder");
    let outcome = match built_into(fresh.path()) {
        Ok(outcome) => outcome,
        Err(why) => return skip_outside_ci(&format!("there are no compilers for the kernels: {why}")),
    };
    outcome.assert_success();
    let (built, kept) = (files_of(fresh.path()), files_of(&package_dir().join("../crates/kernels/blobs")));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&built), names(&kept));
    assert_eq!(built.len(), 8, "seven code objects and their manifest");
    let differ: Vec<&String> = built.keys().filter(|name| built[*name] != kept[*name]).collect();
    assert!(
        differ.is_empty(),
        "{differ:?} in crates/kernels/blobs are not what the sources compile to; after a change of the sources: \
         airamp kernels build --out crates/kernels/blobs"
    );
}
