//! The library's file while jobs run, and after it is gone. Packages replace a file by renaming another over it, which
//! leaves the old one to whoever has it mapped; a job that runs goes on with that, and one that finds none runs without.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use airamp_tests::comparison::Presence;
use airamp_tests::scenario::{Scenario, settings};
use airamp_tests::tuned::{Tuned, assert_alike};
use airamp_tests::{Outcome, Run, emulator_dir, interposer, rank_program};

/// An installed library.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let installed = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        fs::copy(interposer(), installed.library()).expect("a copy of the library");
        installed
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("libairamp_accel.so")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The next version, written beside the one that is in use.
    fn unpack(&self) {
        let mut bytes = fs::read(interposer()).expect("the library");
        bytes.extend_from_slice(b"another file than the one before");
        fs::write(self.file("unpacked"), bytes).expect("the new file");
    }

    /// As package managers do it: the new file takes the name of the old one.
    fn upgrade(&self) {
        fs::rename(self.file("unpacked"), self.library()).expect("a rename");
    }

    fn remove(&self) {
        fs::remove_file(self.library()).expect("the library is there");
    }
}

fn with(run: Run, library: &Path) -> Run {
    run.preload(library).library_dir(emulator_dir())
}

/// A job that compresses every call, with something done when the first results are there.
fn disturbed(installed: &Installed, disturb: fn(&Installed)) -> Vec<Outcome> {
    let (library, told) = (installed.library(), installed.file("progress"));
    let job = Scenario::new("tuned-loop", 3).args(&["--steps", "150", "--tensors", "float32:262144"]);
    let job = job.args(&["--progress"]).arg(&told).env("AIRAMP_EMU_LINK_GBPS", "1");
    let running = std::thread::spawn(move || job.planned(|_, run| with(run, &library)));
    while !told.exists() {
        assert!(!running.is_finished(), "the job ended: {:?}", running.join());
        std::thread::sleep(Duration::from_millis(2));
    }
    disturb(installed);
    assert!(!running.is_finished(), "the job was over too soon to be disturbed");
    running.join().expect("the job's thread")
}

#[test]
fn a_job_goes_on_while_its_library_is_upgraded_or_removed() {
    for disturb in [Installed::upgrade, Installed::remove] {
        let installed = Installed::new();
        installed.unpack();
        for report in assert_alike(&disturbed(&installed, disturb)) {
            assert!(report.agreed && report.steps == 150 && report.count('e') == 0, "{report:?}");
        }
    }
}

#[test]
fn a_job_that_starts_after_an_upgrade_has_the_new_library() {
    let installed = Installed::new();
    installed.unpack();
    installed.upgrade();
    let job = Scenario::new("tuned-loop", 2).args(&["--steps", "12"]).presence(Presence::Absent);
    for outcome in job.in_mode_but("on", |_, run| with(run, &installed.library())) {
        assert!(Tuned::of(outcome.assert_success()).agreed, "{outcome}");
    }
}

#[test]
fn a_job_whose_library_is_gone_is_what_it_was_without() {
    let installed = Installed::new();
    installed.remove();
    let run = settings(Run::new(rank_program()).args(["conformance", "--quick"])).env("AIRAMP_MODE", "on");
    let bare =
        Presence::Absent.applied_to(Run::new(rank_program()).args(["conformance", "--quick"])).run_ranks(2);
    let gone = with(run.clone(), &installed.library()).run_ranks(2);
    let unset = Presence::Absent.applied_to(run).run_ranks(2);
    for ((bare, gone), unset) in bare.iter().zip(&gone).zip(&unset) {
        assert!(bare.assert_success().stdout_text().lines().count() > 50, "{bare}");
        assert_eq!((gone.end, gone.stdout_text()), (bare.end, bare.stdout_text()), "{gone}");
        assert_eq!((unset.end, unset.stdout_text()), (bare.end, bare.stdout_text()), "{unset}");
        // The dynamic linker says so, and nobody else says anything more than without it.
        let said = |line: &&str| line.contains("libairamp_accel.so") && line.contains("ignored");
        let text = gone.stderr_text();
        assert!(text.lines().any(|line| said(&line)), "{gone}");
        assert_eq!(
            text.lines().filter(|line| !said(line)).count(),
            bare.stderr_text().lines().count(),
            "{gone}"
        );
    }
}
