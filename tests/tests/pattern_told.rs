//! What a process tells of its rhythm: the step that it found, in which step each call was, and that a call came late.

use airamp_telemetry::snapshot::Communicator;
use airamp_telemetry::{EventKind, PatternState, Reader};
use airamp_tests::account::files;
use airamp_tests::c_program::name_as_vendor;
use airamp_tests::live::LiveJob;
use airamp_tests::{CProgram, Run, interposer};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// As passthrough_calls.c has them.
const CALLS_OF_STEP: usize = 24;
/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs training steps over a vendor that does nothing, and reads what that left.
fn told(folder: &Path, adjust: impl Fn(Run) -> Run) -> Reader {
    let program = CProgram::linked_with_nccl_alone("passthrough_calls.c").flag("-O2").build();
    let vendor = CProgram::unlinked("null_nccl.c").flag("-O2").shared_library().build();
    name_as_vendor(&vendor, folder);
    let run = Run::new(program).args(["steps", "40"]).library_dir(folder).preload(interposer());
    adjust(run.env("AIRAMP_TELEMETRY_DIR", folder)).run().assert_success();
    files(folder).pop().expect("a telemetry file")
}

fn communicator(reader: &Reader) -> Communicator {
    reader.snapshot().expect("a snapshot").communicators.remove(0)
}

fn has_told(reader: &Reader, kind: EventKind) -> bool {
    reader.events_since(0).is_ok_and(|events| events.items.iter().any(|event| event.kind == kind))
}

#[test]
fn a_job_of_equal_steps_is_locked_onto_and_its_calls_carry_the_number_of_their_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reader = told(folder.path(), |run| run);
    let pattern = communicator(&reader).pattern;
    assert_eq!((pattern.state, pattern.period_calls), (PatternState::Locked, CALLS_OF_STEP as u32));
    // The program pauses for two milliseconds in a step, but one that begins late is shorter than that by so much.
    assert!(pattern.confidence > 0.9 && pattern.period_ns > 1_000_000 && pattern.step > 100, "{pattern:?}");
    let events = reader.events_since(0).expect("events").items;
    let locked = events.iter().find(|event| event.kind == EventKind::PatternLocked).expect("an event");
    assert_eq!((locked.a, locked.slot), (CALLS_OF_STEP as u64, Some(0)));
    let mut by_step = BTreeMap::<u32, usize>::new();
    for call in reader.calls_since(0).expect("calls").items {
        *by_step.entry(call.step).or_default() += 1;
    }
    // The oldest is cut off by the end of the ring.
    let whole: Vec<_> = by_step.into_iter().filter(|(step, _)| *step > 0).skip(1).collect();
    assert!(whole.len() > 100 && whole.iter().all(|(_, calls)| *calls == CALLS_OF_STEP), "{whole:?}");
}

#[test]
fn without_the_setting_nothing_is_learnt() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reader = told(folder.path(), |run| run.env("AIRAMP_PATTERN", "0"));
    assert_eq!(communicator(&reader).pattern.state, PatternState::Off);
    assert!(reader.calls_since(0).expect("calls").items.iter().all(|call| call.step == 0));
    assert!(!has_told(&reader, EventKind::PatternLocked));
}

#[test]
fn a_rank_that_was_stopped_for_a_moment_tells_that_it_was_late() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut job = LiveJob::start(folder.path(), "late", 2, &["--compute-ms", "40"]);
    job.await_first_step();
    let pid = job.pid(1);
    let file_of_rank_1 = || {
        let is_its = |reader: &Reader| reader.snapshot().is_ok_and(|snapshot| snapshot.pid == pid);
        files(folder.path()).into_iter().find(is_its)
    };
    let deadline = Instant::now() + LIMIT;
    let is_locked = |reader: &Reader| communicator(reader).pattern.state == PatternState::Locked;
    while !file_of_rank_1().as_ref().is_some_and(is_locked) {
        assert!(Instant::now() < deadline, "it was never locked: {}", job.said());
        sleep(Duration::from_millis(100));
    }
    // On a busy machine a moment may become so long that it is no late call but a break: then once more.
    let deadline = Instant::now() + LIMIT;
    while !file_of_rank_1().is_some_and(|reader| has_told(&reader, EventKind::CallLate)) {
        assert!(Instant::now() < deadline, "no late call was told: {}", job.said());
        job.signal(1, libc::SIGSTOP);
        sleep(Duration::from_millis(100));
        job.signal(1, libc::SIGCONT);
        sleep(Duration::from_millis(500));
    }
    let reader = file_of_rank_1().expect("a file");
    let late = communicator(&reader).sums.deviations[airamp_telemetry::Deviation::Late as usize];
    assert!(late > 0, "each is counted, too");
}
