//! Programs that bare NCCL runs and that compression could break: ranks that make the same calls in
//! unlike ways, orders that only connected communicators bear, arguments that are gone at the end of
//! a group, communicators that end in the middle of one.

use airamp_tests::Outcome;
use airamp_tests::scenario::{Scenario, assert_compressed, assert_exact_without_a_plan, assert_right};

#[track_caller]
fn assert_both(scenario: &Scenario, cases: usize) {
    assert_exact_without_a_plan(scenario, cases);
    assert_compressed(scenario, cases);
}

#[test]
fn a_group_on_one_rank_is_its_calls_in_turn_on_another() {
    for ranks in [2, 3] {
        assert_both(&Scenario::new("unlike", ranks), 12);
    }
}

#[test]
fn so_is_a_group_of_calls_with_configurations() {
    let newest = |ranks| Scenario::new("unlike/configured", ranks).env("AIRAMP_EMU_NCCL_VERSION", "23203");
    assert_both(&newest(3), 3);
}

#[test]
fn two_communicators_may_be_used_crosswise_from_the_first_call_on() {
    for ranks in [2, 3] {
        assert_both(&Scenario::new("crossing", ranks), 4);
    }
}

#[test]
fn operators_may_be_destroyed_before_the_end_of_the_group() {
    assert_both(&Scenario::new("arguments/operators", 2), 1);
}

#[test]
fn configurations_may_be_overwritten_before_the_end_of_the_group() {
    let newest = Scenario::new("arguments/configurations", 2).env("AIRAMP_EMU_NCCL_VERSION", "23203");
    assert_both(&newest, 1);
}

#[test]
fn arrays_of_counts_may_be_overwritten_before_the_end_of_the_group() {
    assert_both(&Scenario::new("arguments/counts", 2).args(&["--hip"]), 1);
}

#[track_caller]
fn assert_no_failure_of_ours(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert!(!outcome.stderr_text().contains("cannot be compressed"), "{outcome}");
    }
}

#[test]
fn what_a_group_holds_of_a_communicator_that_is_aborted_is_dropped() {
    for ranks in [2, 3] {
        let scenario = Scenario::new("endings/aborted", ranks);
        assert_both(&scenario, 1);
        assert_no_failure_of_ours(&scenario.compressed());
    }
}

/// What frees something of a communicator waits for the end of a group in which it has calls, and the communicator may not
/// be there any more then.
#[test]
fn a_communicator_that_has_ended_is_not_touched_at_the_end_of_the_group() {
    for ranks in [2, 3] {
        for (name, cases) in [("endings/by_another_thread", 1), ("endings/in_a_group", 1)] {
            let scenario = Scenario::new(name, ranks);
            assert_exact_without_a_plan(&scenario, cases);
            let outcomes = scenario.compressed();
            assert_right(&outcomes, cases);
            for outcome in &outcomes {
                assert!(!outcome.stderr_text().contains("was destroyed"), "{outcome}");
            }
        }
    }
}

/// Kernels and arenas of before are not used, and not given back into the new context either.
#[test]
fn after_a_reset_of_the_device_communicators_compress_with_what_is_loaded_anew() {
    let scenario = Scenario::new("endings/before_the_device_is_reset", 2);
    assert_both(&scenario, 1);
    for outcome in &scenario.compressed_but(|_, run| run.env("AIRAMP_LOG", "debug")) {
        assert!(outcome.stderr_text().contains("an arena is gone with its context"), "{outcome}");
    }
}

#[test]
fn calls_on_a_revoked_communicator_fail_before_they_reach_the_fast_path() {
    for ranks in [2, 3] {
        let scenario = Scenario::new("endings/revoked", ranks);
        assert_exact_without_a_plan(&scenario, 4);
        let outcomes = scenario.compressed();
        assert_right(&outcomes, 4);
        assert_no_failure_of_ours(&outcomes);
    }
}

#[test]
fn a_call_without_a_buffer_is_an_invalid_argument_and_does_not_count() {
    for ranks in [2, 3] {
        let scenario = Scenario::new("endings/nothing", ranks);
        assert_compressed(&scenario, 1);
        assert_no_failure_of_ours(&scenario.compressed());
    }
}

#[test]
fn without_external_events_captured_calls_go_to_the_vendor_and_live_ones_do_not() {
    for ranks in [2, 3] {
        let hip = Scenario::new("uncaptured", ranks).args(&["--hip"]);
        assert_both(&hip.env("AIRAMP_EMU_HIDE_SYMBOLS", "hipEventRecordWithFlags"), 2);
    }
}
