//! The call index, one claim per clause of its definition: per communicator it
//! counts non-empty AllReduce calls that took effect, reserved at the call and
//! committed on success, inside a group at the outermost end.
//! Each line reads reserved/committed.

use airamp_tests::comparison::Presence;
use airamp_tests::{CProgram, Run};

#[track_caller]
fn shows(scenario: &str, expected: &[&str]) {
    shows_with(scenario, None, expected);
}

/// Preloaded and named as NCCL: the index is the same either way.
#[track_caller]
fn shows_with(scenario: &str, fault: Option<&str>, expected: &[&str]) {
    let program = CProgram::linked("call_index.c").build();
    for presence in [Presence::Preloaded, Presence::NamedAsNccl] {
        let mut run = presence.applied_to(Run::new(&program).arg(scenario));
        if let Some(fault) = fault {
            run = run.env("AIRAMP_EMU_FAIL_CALL", fault);
        }
        let outcome = run.run();
        outcome.assert_success();
        let text = outcome.stdout_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, expected, "{presence:?}: {outcome}");
    }
}

#[test]
fn a_call_outside_a_group_is_committed_when_it_returns() {
    shows("outside", &["new: 0/0", "call: 1/1", "call: 2/2", "call: 3/3"]);
}

#[test]
fn a_call_in_a_group_is_reserved_at_the_call_and_committed_at_the_end() {
    shows("group", &["first call: 1/0", "second call: 2/0", "end: 2/2"]);
}

#[test]
fn a_nested_group_commits_only_at_the_outermost_end() {
    shows("nested", &["inner end: 1/0", "outer call: 2/0", "outer end: 2/2"]);
}

#[test]
fn a_call_that_failed_does_not_count() {
    shows_with(
        "failing-call",
        Some("ncclAllReduce:2:4"),
        &["call gave 0", "call: 1/1", "call gave 4", "call: 1/1", "call gave 0", "call: 2/2"],
    );
}

#[test]
fn a_call_with_an_invalid_argument_does_not_count() {
    shows("invalid", &["bad type gave 4", "bad type: 0/0", "good call: 1/1"]);
}

#[test]
fn a_group_whose_end_failed_is_rolled_back() {
    shows_with(
        "failing-end",
        Some("ncclGroupEnd:1:3"),
        &["call: 1/0", "end gave 3", "end: 0/0", "next call: 1/1"],
    );
}

#[test]
fn a_group_with_an_invalid_call_is_rolled_back() {
    shows("invalid-in-group", &["bad type gave 4", "bad type: 1/0", "end failed: 1", "end: 0/0"]);
}

#[test]
fn zero_counts_do_not_count() {
    shows("zero", &["zero: 0/0", "zero and one: 1/1"]);
}

#[test]
fn a_simulated_group_does_not_count() {
    shows("simulated", &["call: 1/0", "simulated end: 0/0", "next call: 1/1"]);
}

#[test]
fn a_captured_call_counts_once_and_its_replays_do_not() {
    shows("captured", &["live call: 1/1", "captured call: 2/2", "three replays: 2/2"]);
}

#[test]
fn send_recv_and_other_collectives_do_not_count() {
    shows("others", &["other functions: 0/0"]);
}

#[test]
fn each_communicator_has_its_own_index_until_it_is_destroyed() {
    shows("per-communicator", &["first: 2/2", "other: 1/1", "destroyed: unknown"]);
}

#[test]
fn a_recycled_address_starts_anew() {
    shows("recycled", &["recycled: 0/0", "an address came back: 1"]);
}

#[test]
fn addresses_that_are_no_communicators_are_unknown() {
    shows("unknown", &["null: unknown", "never made: unknown"]);
}

#[test]
fn a_communicator_is_counted_however_it_was_made() {
    let run = Run::new(CProgram::linked("creation.c").build()).env("AIRAMP_EMU_NCCL_VERSION", "23203");
    let outcome = run.library_dir(airamp_tests::emulator_dir()).preload(airamp_tests::interposer()).run();
    outcome.assert_success();
    let text = outcome.stderr_text();
    let made = [
        "all",
        "rank",
        "configured",
        "scalable",
        "rank-in-group",
        "non-blocking",
        "split",
        "split-in-group",
        "shrunk",
        "shrunk-with-abort",
    ];
    let expected = made.map(|how| format!("{how} 1/1")).into_iter();
    for line in expected.chain(["grown 0/0".into(), "joined 0/0".into()]) {
        assert!(text.lines().any(|found| found == line), "no line {line:?}: {outcome}");
    }
}
