//! What a process holds does not grow with the library in it: steady work, communicators that come and go, children by
//! fork. Short here; `cargo run --release -p airamp-tests --bin soak` takes as long as one likes. See docs/chaos.md.

use std::path::Path;

use airamp_telemetry::{Kind, Reader, folders};
use airamp_tests::chaos::job::Mode;
use airamp_tests::chaos::soak::{self, Growth, Soak};
use tempfile::TempDir;

/// Of the steady run with the library. That without it, to compare with, is a quarter of it.
const SECONDS: u64 = 120;

fn seconds() -> u64 {
    let asked = std::env::var("AIRAMP_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(SECONDS)
}

/// What a run held, in which every result was right and every rank made so many children.
#[track_caller]
fn held(soak: &Soak, with: bool, forks: usize) -> (Growth, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = soak.run(folder.path(), with);
    let reports = soak::reports(&ran).unwrap_or_else(|wrong| panic!("with the library: {with}: {wrong}"));
    assert!(reports.iter().all(|report| report.forks == forks), "{reports:?}");
    let growth = soak::growth(&reports);
    println!("with the library: {with}, {} s: {growth:?}", ran.took.as_secs());
    assert!(growth.rounds > 3, "too few rounds to tell: {growth:?}");
    (growth, folder)
}

/// No more than without the library.
#[track_caller]
fn assert_no_growth(of: impl Fn(bool) -> Soak, forks: usize) -> TempDir {
    let (bare, _) = held(&of(false), false, forks);
    let (with, folder) = held(&of(true), true, forks);
    let found = with.beyond(&bare);
    assert!(found.is_empty(), "{found:?}");
    folder
}

#[test]
fn eight_ranks_at_steady_work_hold_no_more_at_the_end() {
    let share = |with: bool| if with { seconds() } else { seconds() / 4 };
    assert_no_growth(|with| Soak::steady(8, Mode::On, share(with)), 0);
}

#[test]
fn communicators_that_come_and_go_leave_nothing() {
    assert_no_growth(|_| Soak::churn(2, Mode::Forced, 200), 0);
}

#[test]
fn children_by_fork_end_and_leave_nothing_and_no_telemetry_of_their_own() {
    let folder = assert_no_growth(|_| Soak::forks(2, Mode::Forced, 10), 100);
    // Ten rounds with two steps of three calls each.
    assert_eq!(counted_calls(&folder.path().join("telemetry")), [60, 60]);
}

/// The AllReduces that each telemetry file tells of.
fn counted_calls(folder: &Path) -> Vec<u64> {
    let mut all = Vec::new();
    for folder in folders(Some(folder)) {
        for file in folder.files() {
            let snapshot = Reader::open(&folder, &file).expect("a file").snapshot().expect("a whole one");
            let reduced = snapshot.counts.iter().filter(|count| count.kind == Kind::AllReduce);
            all.push(reduced.map(|count| count.calls).sum());
        }
    }
    all
}
