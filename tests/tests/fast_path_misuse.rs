//! Streams and captures that are used in ways which compressed calls cannot follow: the call is refused and has had no
//! effect, or the communicator fails on all its ranks; the log says why.

use airamp_tests::scenario::{Scenario, assert_compressed, assert_right};

/// The ranks that err are told the reason, and so is nobody else.
#[track_caller]
fn assert_refused(name: &'static str, cases: usize, reason: &str) {
    for ranks in [2, 3] {
        let outcomes = Scenario::new(name, ranks).compressed();
        assert_right(&outcomes, cases);
        for (rank, outcome) in outcomes.iter().enumerate() {
            let told = outcome.stderr_text().lines().filter(|line| line.contains(reason)).count();
            let right = if rank % 2 == 1 { told >= cases } else { told == 0 };
            assert!(right, "{told} lines: {outcome}");
        }
    }
}

/// Every rank tells the reason, once in each case, and that the communicator has failed.
#[track_caller]
fn assert_lost(scenario: &Scenario, cases: usize, reason: &str) {
    let outcomes = scenario.compressed();
    for line in assert_right(&outcomes, cases).iter().flatten() {
        assert!(line.compressed > 0, "nothing was compressed in {}", line.case);
    }
    for outcome in &outcomes {
        let text = outcome.stderr_text();
        let told = text.lines().filter(|line| line.contains(reason) && line.contains("ncclInternalError"));
        assert_eq!(told.count(), cases, "{outcome}");
    }
}

#[test]
fn a_group_whose_stream_has_come_into_a_capture_or_out_of_one_is_refused_and_does_not_count() {
    assert_compressed(&Scenario::new("refused/a_capture_that", 2), 2);
    assert_refused("refused/a_capture_that", 2, "some streams of the group are captured and others are not");
}

#[test]
fn a_call_of_a_capture_whose_last_call_is_forgotten_is_refused_and_those_of_others_are_not() {
    assert_refused("refused/a_capture_whose", 1, "more than 4 other captures had calls of the communicator");
}

#[test]
fn a_call_of_which_nobody_can_tell_whether_it_is_captured_fails_the_communicator() {
    for ranks in [2, 3] {
        let outside = Scenario::new("refused/a_stream_that_is_gone", ranks);
        assert_lost(&outside, 3, "an AllReduce cannot be compressed: ");
        let at_the_end = Scenario::new("refused/a_stream_that_goes", ranks);
        assert_lost(&at_the_end, 1, "in a group, cannot be compressed: ");
    }
}

#[test]
fn a_call_that_cannot_be_counted_fails_the_communicator_and_no_other() {
    let scenario = Scenario::new("refused/a_communicator", 2).env("AIRAMP_EMU_NCCL_VERSION", "23203");
    assert_lost(&scenario, 1, "an AllReduce cannot be compressed: its calls can no longer be counted");
}
