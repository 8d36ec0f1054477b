//! The connection between a rank and its leader, cut after each frame in turn, until there is no such frame any more:
//! at every step of the protocol. Nobody hangs, and at no call do two ranks do different things.

use std::time::Duration;

use airamp_tests::Outcome;
use airamp_tests::scenario::{Came, Report, Scenario};
use airamp_tests::tuned::Tuned;

/// Ends an enumeration that would not end; a creation takes far fewer frames.
const PLENTY: u32 = 60;
const TRIES: u32 = 4;
const REMOTE_ERROR: i32 = 6;

/// The same environment on all ranks, as jobs have it; the link of one is cut.
fn cut(which: u32, frame: u32) -> String {
    format!("{which}:{frame}")
}

fn happened(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.stderr_text().contains("injected cut"))
}

fn short_waits(scenario: Scenario) -> Scenario {
    let waits = scenario.env("AIRAMP_CONSENSUS_TIMEOUT_MS", "2500").env("AIRAMP_DOUBT_MS", "4000");
    waits.time_limit(Duration::from_secs(60))
}

/// A run that is cut, or in which all agree since it carries no such frame. In one that is neither the machine stood still for as
/// long as the ranks wait, and the frame is tried again.
#[track_caller]
fn cut_or_agreed(run: impl Fn() -> Vec<Outcome>) -> Vec<Outcome> {
    let agreed = |outcome: &Outcome| outcome.stderr_text().contains("compression on");
    let mut outcomes = Vec::new();
    for _ in 0..TRIES {
        outcomes = run();
        if happened(&outcomes) || outcomes.iter().all(agreed) {
            return outcomes;
        }
    }
    panic!("neither cut nor agreed: {outcomes:?}");
}

/// All of each call's results are equal, or it failed on some and none of the others has one of another kind.
#[track_caller]
fn assert_no_divergence(outcomes: &[Outcome], what: &str) {
    let reports: Vec<Report> = outcomes.iter().map(Report::of).collect();
    let calls = reports.iter().map(|report| report.calls.len()).max().unwrap_or(0);
    for call in 0..calls {
        let came = |kind: Came| {
            reports.iter().any(|report| report.calls.get(call).is_some_and(|step| step.outcome == kind))
        };
        for bad in [Came::Wrong, Came::Stuck, Came::Marked] {
            assert!(!came(bad), "{what}, call {call} is {bad:?}: {outcomes:?}");
        }
        let diverged = came(Came::Exact) && came(Came::Compressed);
        assert!(!diverged, "{what}, call {call}: {outcomes:?}");
    }
    for outcome in outcomes {
        assert!(!outcome.stderr_text().contains("ranks disagree"), "{what}: {outcome}");
    }
}

#[test]
fn at_every_frame_of_creation_all_compress_or_none_or_all_fail() {
    // Rank 0's link to its own leader lies inside its process.
    for (ranks, which) in [(2, 1), (3, 1), (4, 3)] {
        let (mut frame, mut compressed, mut off) = (1, 0, 0);
        loop {
            let job = short_waits(Scenario::new("fault", ranks)).env("AIRAMP_INJECT_CUT", cut(which, frame));
            let outcomes = cut_or_agreed(|| {
                let outcomes = job.compressed();
                assert_no_divergence(&outcomes, &format!("rank {which} of {ranks}, frame {frame}"));
                outcomes
            });
            compressed += u32::from(Report::of(&outcomes[0]).all(Came::Compressed));
            off += u32::from(Report::of(&outcomes[0]).all(Came::Exact));
            if !happened(&outcomes) {
                break;
            }
            frame += 1;
            assert!(frame < PLENTY, "rank {which}'s link carries too many frames");
        }
        assert!(frame > 4, "only {frame} frames were cut at rank {which} of {ranks}");
        // Early cuts leave the job to the vendor, late ones find it agreed.
        assert!(compressed > 0 && off > 0, "{compressed} runs compressed and {off} did not");
        println!("rank {which} of {ranks}: {} cuts, {off} runs off, {compressed} compressed", frame - 1);
    }
}

/// Nobody hears of the rank again. What it has pledged ends in an error of its own creation, whose communicator is
/// aborted; its peers may be in the vendor's code by then, where they wait for it, and are freed by that.
#[test]
fn a_rank_that_is_cut_off_for_good_in_creation_ends_its_own_wait_and_by_that_those_of_its_peers() {
    let (ranks, which) = (3, 1);
    let (mut in_doubt, mut off) = (0, 0);
    for frame in 1..PLENTY {
        let waits = Scenario::new("fault", ranks).env("AIRAMP_CONSENSUS_TIMEOUT_MS", "2500");
        let waits = waits.env("AIRAMP_DOUBT_MS", "1500").time_limit(Duration::from_secs(60));
        let job = waits.env("AIRAMP_INJECT_CUT", format!("{which}:{frame}:forever"));
        let outcomes = cut_or_agreed(|| {
            let outcomes = job.compressed();
            assert_no_divergence(&outcomes, &format!("frame {frame}"));
            outcomes
        });
        if !happened(&outcomes) {
            break;
        }
        let cut_off = &outcomes[which as usize];
        let report = Report::of(cut_off);
        if cut_off.stderr_text().contains("after this rank had pledged") {
            in_doubt += 1;
            assert_eq!((report.creation, report.calls.len()), (REMOTE_ERROR, 0), "{cut_off}");
        }
        off += u32::from(report.all(Came::Exact));
    }
    assert!(in_doubt > 0 && off > 0, "{in_doubt} cuts left it in doubt, {off} left it to the vendor");
}

/// In a job that tunes itself more frames follow: reports, proposals, pledges and verdicts.
#[test]
fn at_every_frame_of_tuning_the_results_stay_right_and_equal() {
    let (ranks, which) = (3, 1);
    let mut cuts = 0;
    for frame in 1..PLENTY {
        let job = Scenario::new("tuned-loop", ranks).args(&["--steps", "300", "--after-decided", "16"]);
        let job = job.args(&["--tensors", "float32:65536"]);
        let job = short_waits(job).env("AIRAMP_INJECT_CUT", cut(which, frame));
        let outcomes = cut_or_agreed(|| {
            let outcomes = job.in_mode("on");
            assert_tuned_alike(&outcomes, frame);
            outcomes
        });
        if !happened(&outcomes) {
            break;
        }
        cuts += 1;
    }
    println!("{cuts} cuts");
    assert!(cuts > 4, "only {cuts} cuts");
}

/// Equal results call by call as far as each came; errors, where there are any, end the job.
#[track_caller]
fn assert_tuned_alike(outcomes: &[Outcome], frame: u32) {
    let reports: Vec<Tuned> = outcomes.iter().map(Tuned::of).collect();
    let fine = |report: &Tuned| report.count('w') == 0;
    assert!(reports.iter().all(fine), "frame {frame}: {outcomes:?}");
    let spelt: Vec<String> = reports.iter().map(|report| spelt(&report.outcomes)).collect();
    let shortest = spelt.iter().map(String::len).min().unwrap_or(0);
    for own in &spelt {
        assert_eq!(own[..shortest], spelt[0][..shortest], "frame {frame}: {outcomes:?}");
    }
    // Where all went to the end they have tried the same calls, which their results do not show.
    if reports.iter().all(Tuned::is_right) {
        let trials: Vec<u64> = reports.iter().map(|report| report.trials).collect();
        assert!(trials.iter().all(|own| *own == trials[0]), "frame {frame}: {trials:?} {outcomes:?}");
    }
}

/// `3e1c` as `eeec`, without the errors at the end.
fn spelt(outcomes: &str) -> String {
    let mut text = String::new();
    for run in outcomes.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
        let (count, letter) = run.split_at(run.len() - 1);
        text.push_str(&letter.repeat(count.parse().unwrap_or(0)));
    }
    text.trim_end_matches(['r', 'l']).to_owned()
}
