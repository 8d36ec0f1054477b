//! The claim that most suites make: a program behaves with the library as it
//! does without it. Here are the ways of bringing the library into a program
//! and the comparison of what they leave behind.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::artifacts::{self, emulator_dir, interposer};
use crate::process::{End, Outcome, Run};

/// How the interposer gets into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Not at all: the vendor alone.
    Absent,
    /// By `LD_PRELOAD`.
    Preloaded,
    /// In the vendor's place, as `libnccl.so.2`; the vendor by `AIRAMP_NCCL_PATH`.
    NamedAsNccl,
}

impl Presence {
    /// `run` on the emulated cluster, with the interposer in this way.
    pub fn applied_to(self, run: Run) -> Run {
        match self {
            Self::Absent => run.library_dir(emulator_dir()),
            Self::Preloaded => run.preload(interposer()).library_dir(emulator_dir()),
            Self::NamedAsNccl => run
                .library_dir(interposer_as_nccl_dir())
                .library_dir(emulator_dir())
                .env("AIRAMP_NCCL_PATH", artifacts::emulated_nccl()),
        }
    }
}

/// The outcome without the library and with it preloaded.
pub struct Compared {
    pub without: Outcome,
    pub with: Outcome,
}

/// Runs the program without the library and with it preloaded; exit status and
/// standard output, into which the programs print their result bits, are equal.
#[track_caller]
pub fn assert_unchanged_when_preloaded(run: &Run) -> Compared {
    assert_unchanged(run, Presence::Preloaded)
}

/// The same, and also with the library in the place of `libnccl.so.2`.
#[track_caller]
pub fn assert_unchanged_in_every_way(run: &Run) {
    assert_unchanged(run, Presence::Preloaded);
    assert_unchanged(run, Presence::NamedAsNccl);
}

#[track_caller]
pub fn assert_unchanged(run: &Run, presence: Presence) -> Compared {
    let without = Presence::Absent.applied_to(run.clone()).run();
    assert!(!gave_up(&without), "without the library: {without}");
    let with = presence.applied_to(run.clone()).run();
    assert_equal(&without, &with);
    Compared { without, with }
}

/// The C programs end with one of these codes where a step of theirs failed
/// that should not: two such runs are equal and show nothing.
fn gave_up(outcome: &Outcome) -> bool {
    matches!(outcome.end, End::Code(95..=99))
}

#[track_caller]
pub fn assert_equal(without: &Outcome, with: &Outcome) {
    assert!(
        without.end == with.end && without.stdout == with.stdout,
        "with the library: {with}\nwithout it: {without}"
    );
}

/// A folder whose `libnccl.so.2` is the interposer.
pub fn interposer_as_nccl_dir() -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let folder = artifacts::folder();
        let dir = folder.join("interposer-as-nccl");
        fs::create_dir_all(&dir).expect("a folder beside the artifacts");
        let link = dir.join("libnccl.so.2");
        // Suites make the same link at the same time: whoever comes second finds it.
        let made = std::os::unix::fs::symlink(interposer(), &link);
        assert!(made.is_ok() || link.exists(), "{made:?}");
        dir
    })
    .clone()
}
