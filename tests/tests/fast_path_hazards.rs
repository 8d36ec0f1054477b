//! Groups that are used in unusual ways, and failures of one rank: what the vendor alone runs has the same
//! output with compression on, and no rank ever goes on alone.

use std::time::Duration;

use airamp_tests::comparison::Presence;
use airamp_tests::scenario::{self, Scenario};
use airamp_tests::{CProgram, Outcome, Run};

fn planned(run: Run) -> Outcome {
    let run = scenario::planned(run).env("AIRAMP_MIN_BYTES", "16");
    Presence::Preloaded.applied_to(run.env("AIRAMP_ARENA_BYTES", "1048576").env("AIRAMP_LOG", "info")).run()
}

fn program(scenario: &str) -> Run {
    Run::new(CProgram::linked("group_hazards.c").build()).arg(scenario).time_limit(Duration::from_secs(40))
}

#[track_caller]
fn assert_same(scenario: &str) {
    let bare = Presence::Absent.applied_to(program(scenario)).run();
    let with = planned(program(scenario));
    assert_eq!((with.end, with.stdout_text()), (bare.end, bare.stdout_text()), "{with}");
}

#[test]
fn an_operator_may_be_destroyed_before_the_end_of_the_group() {
    assert_same("operators");
}

#[test]
fn an_operator_that_was_made_later_is_not_taken_for_the_one_that_was_given() {
    assert_same("recycled");
}

#[test]
fn a_communicator_is_lost_when_a_group_fails_after_its_compressed_part() {
    let outcome = planned(program("failing"));
    assert_eq!(outcome.assert_success().stdout_text(), "group failed 1\nnext group 3\n", "{outcome}");
}

#[test]
fn so_is_one_whose_call_went_to_the_vendor_ahead_of_the_rest() {
    let outcome = planned(program("configured").env("AIRAMP_EMU_NCCL_VERSION", "23203"));
    assert_eq!(outcome.assert_success().stdout_text(), "group failed 1\nnext group 3\n", "{outcome}");
}

#[test]
fn a_group_with_a_call_that_is_refused_at_once_does_nothing() {
    let outcome = planned(program("null"));
    assert_eq!(outcome.assert_success().stdout_text(), "group failed 1\nnext group 0\n", "{outcome}");
}

#[test]
fn communicators_that_are_made_in_a_group_are_left_as_they_are() {
    assert_same("in_a_group");
}

#[test]
fn what_a_group_holds_of_a_communicator_that_is_finalized_is_done() {
    assert_same("finalized");
}

#[test]
fn a_group_whose_communicator_was_destroyed_fails() {
    assert_same("ended");
}

#[test]
fn groups_that_name_communicators_in_another_order_meet() {
    assert_same("crossing");
}

#[test]
fn a_late_end_of_a_group_does_not_poison_the_communicator_at_that_address() {
    assert_same("renewed");
}

/// By the length of the queue the calling thread is held up at each launch of a call in turn, and goes on when the abort has
/// emptied the queue and freed the communicator.
#[test]
fn a_call_that_an_abort_overtakes_is_not_posted_on_what_is_gone() {
    let program =
        Run::new(CProgram::linked("abort.c").build()).arg("full").time_limit(Duration::from_secs(40));
    let aborted = |queue: usize| planned(program.clone().env("AIRAMP_EMU_LAUNCH_QUEUE", queue.to_string()));
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (16..28).map(|queue| scope.spawn(move || aborted(queue))).collect();
        for job in jobs {
            let outcome = job.join().expect("it only waits");
            outcome.assert_success();
            assert!(outcome.stdout_text().ends_with("abort gave 0\nabort gave 0\n"), "{outcome}");
            assert!(outcome.stderr_text().contains("compression on"), "{outcome}");
            assert!(!outcome.stderr_text().contains("which was destroyed"), "{outcome}");
        }
    });
}

/// The first exchange of the first call fails.
fn struck(scenario: &str) -> Outcome {
    planned(program(scenario).env("AIRAMP_EMU_FAIL_CALL", "ncclAllGather:9:3"))
}

#[test]
fn no_group_with_a_call_that_was_refused_succeeds() {
    let outcome = struck("careless");
    assert!(!outcome.stdout_text().contains("group end 0"), "{outcome}");
}

/// A panic of ours at a group's begin or end: how deep the thread is in groups stays known.
#[test]
fn nor_does_one_behind_an_internal_error_of_ours_at_any_place_of_a_group() {
    for place in
        ["ncclGroupStart:before", "ncclGroupStart:after", "ncclGroupEnd:before", "ncclGroupEnd:after"]
    {
        let outcome = planned(program("careless").env("AIRAMP_INJECT_PANIC", place));
        let ends: Vec<String> = outcome.assert_success().stdout_text().lines().map(str::to_owned).collect();
        assert_eq!(ends.len(), 3, "{place}: {outcome}");
        assert_eq!(ends[1..], ["group end 3", "group end 3"], "{place}: {outcome}");
    }
}

/// The vendor would wait for peers that may wait for this rank in that call, until the communicator is revoked.
#[test]
fn behind_an_internal_error_of_ours_others_are_made_from_a_communicator_once_it_is_revoked() {
    let program = program("derived").env("AIRAMP_EMU_NCCL_VERSION", "23203");
    let outcome = planned(program.env("AIRAMP_INJECT_PANIC", "ncclAllReduce:before"));
    let expected = "call 3\nsplit 3\nrevoke 0\nrevoke 0\nshrink 0\n";
    assert_eq!(outcome.assert_success().stdout_text(), expected, "{outcome}");
}

#[test]
fn so_they_are_where_the_error_comes_with_the_revocation() {
    for place in ["ncclCommRevoke:before", "ncclCommRevoke:after"] {
        let program = program("derived").env("AIRAMP_EMU_NCCL_VERSION", "23203");
        let outcome = planned(program.env("AIRAMP_INJECT_PANIC", place));
        let expected = "call 0\nsplit 0\nrevoke 0\nrevoke 0\nshrink 0\n";
        assert_eq!(outcome.assert_success().stdout_text(), expected, "{place}: {outcome}");
    }
}

#[test]
fn a_group_whose_communicators_are_aborted_while_it_ends_posts_nothing_on_what_is_gone() {
    let outcome = planned(program("overtaken").env("AIRAMP_EMU_SLOW_CALL", "ncclGroupEnd:1500"));
    let expected = "abort 0\nabort 0\ngroup failed 1\n";
    assert_eq!(outcome.assert_success().stdout_text(), expected, "{outcome}");
    assert!(!outcome.stderr_text().contains("which was destroyed"), "{outcome}");
}

#[test]
fn nothing_is_posted_on_a_communicator_after_it_is_poisoned() {
    let outcome = struck("twice");
    assert!(outcome.stderr_text().contains("compressed 0"), "{outcome}");
}

fn assert_no_rank_is_alone(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert!(!outcome.stderr_text().contains("ranks disagree"), "{outcome}");
    }
}

#[test]
fn a_rank_whose_first_exchange_fails_does_not_go_to_the_vendor_alone() {
    let outcomes = Scenario::new("fault", 2).compressed_but(|rank, run| match rank {
        1 => run.env("AIRAMP_EMU_FAIL_CALL", "ncclAllGather:2:1"),
        _ => run,
    });
    assert_no_rank_is_alone(&outcomes);
}
