//! What fails after the ranks have agreed to compress fails as NCCL does: the call returns an error and
//! so does every later one on that communicator; the peers see a lost rank. No rank goes on with other
//! data, and nobody hangs.

use airamp_tests::scenario::{CALLS_OF_FAULT, Came, Report, Scenario, Step, launches_of_creation};
use airamp_tests::{Outcome, Run};

const INTERNAL_ERROR: i32 = 3;

/// A job of so many ranks in which something is done to the last.
fn job(ranks: u32, arguments: &[&'static str], fault: impl Fn(Run) -> Run) -> Vec<Outcome> {
    let scenario = Scenario::new("fault", ranks).args(arguments);
    scenario.compressed_but(|rank, run| if rank + 1 == ranks { fault(run) } else { run })
}

/// The calls that gave a result come first, all of them compressed.
fn compressed_first(calls: &[Step]) -> (usize, &[Step]) {
    let good = calls.iter().take_while(|step| step.returned == 0 && step.outcome == Came::Compressed).count();
    (good, &calls[good..])
}

/// The last rank's calls are refused with `error` from some call on, to the end.
#[track_caller]
fn assert_poisoned(outcomes: &[Outcome], error: i32) -> usize {
    let last = outcomes.last().expect("a rank");
    let report = Report::of(last);
    let (good, rest) = compressed_first(&report.calls);
    assert!(!rest.is_empty(), "nothing failed: {last}");
    assert_eq!(good + rest.len(), CALLS_OF_FAULT, "{last}");
    for step in rest {
        assert_eq!((step.returned, step.outcome), (error, Came::Refused), "{last}");
    }
    assert_eq!(report.async_error, error, "{last}");
    good
}

/// The other ranks have compressed results and then an error, and nothing else.
#[track_caller]
fn assert_peers_see_it(outcomes: &[Outcome]) {
    for outcome in &outcomes[..outcomes.len() - 1] {
        let report = Report::of(outcome);
        let (_, rest) = compressed_first(&report.calls);
        let fine = |came: Came| matches!(came, Came::Lost | Came::Refused);
        assert!(!rest.is_empty() && rest.iter().all(|step| fine(step.outcome)), "{outcome}");
        assert_ne!(report.async_error, 0, "{outcome}");
    }
}

#[track_caller]
fn assert_fails_for_good(outcomes: &[Outcome]) -> usize {
    assert_fails_with(outcomes, INTERNAL_ERROR)
}

#[track_caller]
fn assert_fails_with(outcomes: &[Outcome], error: i32) -> usize {
    let good = assert_poisoned(outcomes, error);
    assert_peers_see_it(outcomes);
    good
}

fn refused_at(ranks: u32, launch: usize) -> Vec<Outcome> {
    job(ranks, &[], move |run| run.env("AIRAMP_EMU_REFUSE_LAUNCH", launch.to_string()))
}

#[test]
fn a_refused_launch_of_a_call_poisons_the_communicator() {
    for ranks in [2, 3] {
        let first = launches_of_creation(|launch| refused_at(ranks, launch)) + 1;
        let struck = |launch| assert_fails_for_good(&refused_at(ranks, launch));
        let good: Vec<usize> = (first..first + 6).map(struck).collect();
        assert!(good.is_sorted() && good[0] == 0, "{good:?}");
    }
}

fn failing(place: &str, error: i32) -> impl Fn(Run) -> Run + use<> {
    let fault = format!("{place}:{error}");
    move |run: Run| run.env("AIRAMP_EMU_FAIL_CALL", &fault)
}

#[test]
fn a_call_of_the_vendors_that_fails_poisons_the_communicator_with_the_vendors_error() {
    let places = [(2, "ncclAllGather:5", 1), (3, "ncclSend:12", 6), (3, "ncclGroupEnd:12", 2)];
    for (ranks, place, error) in places {
        for arguments in [&[][..], &["--grouped"]] {
            assert_fails_with(&job(ranks, arguments, failing(place, error)), error);
        }
    }
}

/// Of the ends of groups that follow each other some are the application's own, before anything of the group is on the
/// wire, and the rest are the library's, in the middle of a compressed call. Either way the peers have gone on.
#[test]
fn an_end_of_a_group_that_fails_on_one_rank_poisons_the_communicator_whoever_made_the_group() {
    for end in 13..=16 {
        let fault = failing(&format!("ncclGroupEnd:{end}"), 2);
        let outcomes = job(3, &["--grouped"], fault);
        assert_fails_with(&outcomes, 2);
        assert!(
            !outcomes.iter().any(|outcome| outcome.stderr_text().contains("ranks disagree")),
            "{outcomes:?}"
        );
    }
}

/// The peers count a call that failed here: the next one of this rank would have its index.
#[test]
fn a_call_that_is_not_compressed_poisons_a_communicator_that_compresses_when_it_fails_on_one_rank() {
    for (arguments, place) in [(&[][..], "ncclAllReduce:4"), (&["--grouped"], "ncclGroupEnd:9")] {
        let (all_exact, fault) = (|run: Run| run.env("AIRAMP_MIN_BYTES", "1073741824"), failing(place, 2));
        let outcomes = Scenario::new("fault", 3).args(arguments).compressed_but(|rank, run| match rank {
            2 => fault(all_exact(run)),
            _ => all_exact(run),
        });
        let reports: Vec<Report> = outcomes.iter().map(Report::of).collect();
        let exact = |step: &&Step| (step.returned, step.outcome) == (0, Came::Exact);
        let good = reports[2].calls.iter().take_while(exact).count();
        let refused = |step: &Step| (step.returned, step.outcome) == (2, Came::Refused);
        assert!((1..CALLS_OF_FAULT).contains(&good), "{}", outcomes[2]);
        assert!(reports[2].calls[good..].iter().all(refused), "{}", outcomes[2]);
        assert_eq!((reports[2].calls.len(), reports[2].async_error), (CALLS_OF_FAULT, 2), "{}", outcomes[2]);
        for (report, outcome) in reports.iter().zip(&outcomes).take(2) {
            // A peer may see the end of the rank before it has looked at its last result.
            let before = report.calls.iter().take_while(exact).count();
            let lost = |step: &Step| matches!(step.outcome, Came::Lost | Came::Refused);
            assert!(before <= good && report.calls[before..].iter().all(lost), "{outcome}");
            assert!(!outcome.stderr_text().contains("ranks disagree"), "{outcome}");
        }
    }
}

#[test]
fn a_panic_of_ours_at_a_compressed_call_poisons_the_communicator() {
    for ranks in [2, 3] {
        let before = |run: Run| run.env("AIRAMP_INJECT_PANIC", "ncclAllReduce:before");
        assert_eq!(assert_fails_for_good(&job(ranks, &[], before)), 0);
        assert_eq!(assert_fails_for_good(&job(ranks, &["--grouped"], before)), 0);
        let at_the_end = |run: Run| run.env("AIRAMP_INJECT_PANIC", "ncclGroupEnd:before");
        assert_eq!(assert_fails_for_good(&job(ranks, &["--grouped"], at_the_end)), 0);
        // The first call is under way by then: only what follows can be refused.
        let after = |run: Run| run.env("AIRAMP_INJECT_PANIC", "ncclAllReduce:after");
        assert_fails_for_good(&job(ranks, &[], after));
    }
}

/// The vendor gives the next communicators the place of the one that failed. On rank 0, whose ids lead nobody to it any more.
#[test]
fn after_a_panic_of_ours_further_communicators_are_the_vendors_on_all_ranks() {
    for arguments in [&["--again"][..], &["--again", "--grouped"]] {
        let mut outcomes = Scenario::new("fault", 2).args(arguments).compressed_but(|rank, run| match rank {
            0 => run.env("AIRAMP_INJECT_PANIC", "ncclAllReduce:before"),
            _ => run,
        });
        outcomes.reverse();
        assert_eq!(assert_fails_for_good(&outcomes), 0);
        for outcome in &outcomes {
            assert_eq!(Report::of(outcome).again, None, "{outcome}");
        }
    }
}

/// It was to be forgotten in that part of ours; the vendor ends it all the same.
#[test]
fn nor_has_a_communicator_at_whose_end_we_panic_anything_to_do_with_the_next_at_its_place() {
    for place in ["ncclCommDestroy:before", "ncclCommDestroy:after"] {
        let outcomes = Scenario::new("fault", 2).args(&["--again"]).compressed_but(|rank, run| match rank {
            0 => run.env("AIRAMP_INJECT_PANIC", place),
            _ => run,
        });
        for outcome in &outcomes {
            let report = Report::of(outcome);
            assert!(report.all(Came::Compressed), "{place}: {outcome}");
            assert_eq!(report.again, None, "{place}: {outcome}");
        }
        assert!(outcomes[0].stderr_text().contains("interposer inert"), "{}", outcomes[0]);
    }
}

#[test]
fn a_device_that_is_lost_in_a_call_costs_nobody_else_a_wrong_result() {
    let first = launches_of_creation(|launch| refused_at(2, launch)) + 1;
    for launch in [first, first + 3] {
        let fault = move |run: Run| run.env("AIRAMP_EMU_FAIL_LAUNCH", launch.to_string());
        assert_peers_see_it(&job(2, &[], fault));
    }
}

#[test]
fn a_rank_that_dies_is_lost_to_its_peers() {
    for (ranks, place) in [(2, "1:5"), (3, "2:20")] {
        let fault = |run: Run| run.env("AIRAMP_EMU_DIE_AT_CALL", place);
        assert_peers_see_it(&job(ranks, &[], fault));
    }
}

#[test]
fn a_message_taken_for_one_of_ours_shows_in_the_result_and_poisons_the_communicator() {
    let outcomes = Scenario::new("fault", 3).args(&["--misplaced"]).compressed();
    for (rank, outcome) in outcomes.iter().enumerate() {
        let report = Report::of(outcome);
        assert_eq!((report.calls[0].returned, report.calls[0].outcome), (0, Came::Marked), "{outcome}");
        // Rank 1 took it, and knows.
        let fine = |step: &Step| match rank {
            1 => (step.returned, step.outcome) == (INTERNAL_ERROR, Came::Refused),
            _ => matches!(step.outcome, Came::Lost | Came::Refused),
        };
        assert!(report.calls.len() > 1 && report.calls[1..].iter().all(fine), "{outcome}");
        assert_ne!(report.async_error, 0, "{outcome}");
    }
}
