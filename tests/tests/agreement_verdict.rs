//! The verdict of a communicator's ranks, inside its creation: all of them compress, or none does, every result is
//! exact, and each rank says why.

use airamp_tests::code_object::BlobFolder;
use airamp_tests::comparison::Presence;
use airamp_tests::scenario::{Came, Report, Scenario};
use airamp_tests::tuned::{Tuned, assert_exact, assert_off, why_off};
use airamp_tests::{Outcome, Run};

const STEPS: [&str; 4] = ["--steps", "12", "--tensors", "float32:65536,float16:20000"];

fn job(ranks: u32) -> Scenario {
    Scenario::new("tuned-loop", ranks).args(&STEPS)
}

/// A job in which something is done to one rank.
fn with_one(ranks: u32, which: u32, change: impl Fn(Run) -> Run) -> Vec<Outcome> {
    job(ranks).in_mode_but("on", |rank, run| if rank == which { change(run) } else { run })
}

/// All are exact, and the reason of every rank has one of the words.
#[track_caller]
fn assert_off_because(outcomes: &[Outcome], words: &[&str]) {
    for reason in assert_off(outcomes) {
        let lower = reason.to_lowercase();
        assert!(words.iter().any(|word| lower.contains(word)), "{words:?} are not in: {reason}");
    }
}

#[test]
fn two_to_eight_processes_agree_and_compress() {
    for ranks in 2..=8 {
        let outcomes = Scenario::new("fault", ranks).compressed();
        for outcome in &outcomes {
            let report = Report::of(outcome);
            assert!(report.all(Came::Compressed), "{outcome}");
            assert_eq!(report.compressed, Some(report.calls.len() as u64), "{outcome}");
        }
    }
}

#[test]
fn in_mode_on_they_agree_and_begin_with_exact_calls() {
    for ranks in [2, 5] {
        for outcome in &job(ranks).in_mode("on") {
            let report = Tuned::of(outcome.assert_success());
            assert!(report.agreed, "{outcome}");
            assert!(report.outcomes.contains('e') && report.count('w') == 0, "{outcome}");
            assert!(outcome.stderr_text().contains("compression on"), "{outcome}");
        }
    }
}

/// The time that a rank says it took them to agree.
fn said_ms(outcome: &Outcome) -> Option<u64> {
    let text = outcome.stderr_text();
    let (_, after) = text.split_once("agreed in ")?;
    after.split(' ').next()?.parse().ok()
}

#[test]
fn the_time_to_the_verdict_is_shown() {
    for ranks in [2, 4, 8] {
        let (bare, with) = (job(ranks).bare(), job(ranks).in_mode("on"));
        let longest = |outcomes: &[Outcome]| {
            outcomes.iter().map(|outcome| Tuned::of(outcome.assert_success()).creation_ms).fold(0.0, f64::max)
        };
        let said =
            with.iter().map(|outcome| said_ms(outcome).unwrap_or_else(|| panic!("no time: {outcome}")));
        println!(
            "{ranks} processes agreed in {} ms; creation took {:.0} ms, without the library {:.0} ms",
            said.max().unwrap_or(0),
            longest(&with),
            longest(&bare)
        );
    }
}

#[test]
fn a_rank_without_the_library_leaves_the_job_exact() {
    for (ranks, without) in [(2, 0), (2, 1), (4, 2), (8, 7)] {
        let outcomes = Scenario::in_mode_but(&job(ranks).presence(Presence::Absent), "on", |rank, run| {
            if rank == without { run } else { Presence::Preloaded.applied_to(run) }
        });
        assert_exact(&outcomes);
        let with = outcomes.iter().enumerate().filter(|(rank, _)| *rank != without as usize);
        with.for_each(|(_, outcome)| drop(why_off(outcome)));
    }
}

/// Once the vendor's init is through, whoever will come has said so: what is left is a grace of 0.4 s, and not the
/// time-out. Busy cores may take longer than the second that is promised, so that creation is to be over long before
/// a time-out that is long.
#[test]
fn a_missing_rank_is_named_and_nobody_waits_for_the_time_out() {
    let patient = job(3).env("AIRAMP_CONSENSUS_TIMEOUT_MS", "60000").presence(Presence::Absent);
    let outcomes = Scenario::in_mode_but(&patient, "on", |rank, run| {
        if rank == 2 { run } else { Presence::Preloaded.applied_to(run) }
    });
    for outcome in &outcomes[..2] {
        assert!(why_off(outcome).contains("rank 2"), "{outcome}");
        let creation_ms = Tuned::of(outcome.assert_success()).creation_ms;
        println!("creation without rank 2 took {creation_ms:.0} ms");
        assert!(creation_ms < 30_000.0, "{outcome}");
    }
}

#[test]
fn a_rank_that_speaks_another_version_leaves_the_job_exact_and_both_versions_are_named() {
    for which in [0, 1, 2] {
        let outcomes = with_one(3, which, |run| run.env("AIRAMP_INJECT_PROTOCOL", "77"));
        assert_off_because(&outcomes, &["protocol", "version"]);
        assert!(outcomes.iter().any(|outcome| why_off(outcome).contains("77")), "{outcomes:?}");
    }
}

/// As where a library was replaced on one node of a job and not yet on the others.
#[test]
fn a_rank_with_another_version_of_the_library_leaves_the_job_exact_and_both_versions_are_named() {
    for which in [0, 2] {
        let outcomes = with_one(3, which, |run| run.env("AIRAMP_INJECT_VERSION", "9.8.7"));
        assert_off_because(&outcomes, &["library version"]);
        for version in ["9.8.7", env!("CARGO_PKG_VERSION")] {
            assert!(outcomes.iter().any(|outcome| why_off(outcome).contains(version)), "{outcomes:?}");
        }
    }
}

/// As where nodes were given builds of two commits, neither of which was a release.
#[test]
fn a_rank_with_another_build_of_the_same_version_leaves_the_job_exact_and_both_builds_are_named() {
    let outcomes = with_one(3, 2, |run| run.env("AIRAMP_INJECT_BUILD", "another"));
    assert_off_because(&outcomes, &["library build"]);
    assert!(outcomes.iter().any(|outcome| why_off(outcome).contains("'another'")), "{outcomes:?}");
}

#[test]
fn a_rank_with_another_setting_leaves_the_job_exact_and_the_setting_is_named() {
    let settings = [
        ("AIRAMP_WIRE_FORMAT", "int8", "format"),
        ("AIRAMP_ARENA_BYTES", "2097152", "arena"),
        ("AIRAMP_MIN_BYTES", "8192", "min"),
        ("AIRAMP_MIN_SPEEDUP", "1.5", "speedup"),
        ("AIRAMP_MAX_VNMSE", "0.1", "vnmse"),
        ("AIRAMP_RANKS_PER_NODE", "2", "ranks_per_node"),
    ];
    for (number, (name, value, word)) in settings.into_iter().enumerate() {
        let outcomes = with_one(2, number as u32 % 2, |run| run.env(name, value));
        assert_off_because(&outcomes, &[word]);
    }
}

#[test]
fn ranks_in_different_modes_are_exact() {
    for (ranks, which, mode) in [(2, 1, "observe"), (2, 0, "observe"), (3, 2, "shadow"), (2, 0, "shadow")] {
        let outcomes = with_one(ranks, which, |run| run.env("AIRAMP_MODE", mode));
        assert_exact(&outcomes);
        let asked = outcomes.iter().enumerate().filter(|(rank, _)| *rank != which as usize);
        asked.for_each(|(_, outcome)| drop(why_off(outcome)));
    }
}

#[test]
fn a_rank_that_is_disabled_leaves_the_job_exact() {
    for which in [0, 1] {
        assert_exact(&with_one(2, which, |run| run.env("AIRAMP_DISABLE", "1")));
    }
}

#[test]
fn a_rank_on_another_architecture_leaves_the_job_exact_and_both_are_named() {
    for which in [0, 2] {
        let outcomes = with_one(3, which, |run| run.env("AIRAMP_EMU_ARCH", "sm_80"));
        assert_off_because(&outcomes, &["architecture"]);
        for word in ["sm_80", "sm_90"] {
            assert!(outcomes.iter().any(|outcome| why_off(outcome).contains(word)), "{outcomes:?}");
        }
    }
}

#[test]
fn a_rank_with_a_broken_code_object_leaves_the_job_exact_and_is_named() {
    let spoilt = BlobFolder::whole();
    spoilt.spoil("sm_90.cubin", |bytes| bytes[100] ^= 1);
    for which in [0, 1] {
        let outcomes = with_one(3, which, |run| run.env("AIRAMP_KERNEL_DIR", spoilt.path()));
        assert_off(&outcomes);
        let named = |outcome: &Outcome| why_off(outcome).contains(&format!("rank {which}"));
        assert!(outcomes.iter().any(named), "{outcomes:?}");
    }
}

/// The first allocations of a process are the library's: the program's own come when its communicator is there.
#[test]
fn a_rank_without_memory_leaves_the_job_exact_and_is_named() {
    for which in [0, 2] {
        let outcomes = with_one(3, which, |run| run.env("AIRAMP_EMU_FAIL_ALLOC", "1"));
        assert_off(&outcomes);
        let named = |outcome: &Outcome| why_off(outcome).contains(&format!("rank {which}"));
        assert!(outcomes.iter().any(named), "{outcomes:?}");
    }
}

/// The others hear nothing of it, and wait for the time-out.
#[test]
fn a_panic_of_ours_in_creation_leaves_the_job_exact() {
    for place in ["ncclGetUniqueId:after", "ncclCommInitRank:before", "ncclCommInitRank:after"] {
        for which in [0, 1] {
            let hasty = job(2).env("AIRAMP_CONSENSUS_TIMEOUT_MS", "4000");
            assert_exact(&hasty.in_mode_but("on", |rank, run| match rank == which {
                true => run.env("AIRAMP_INJECT_PANIC", place),
                false => run,
            }));
        }
    }
}

#[test]
fn an_id_that_every_rank_makes_for_itself_is_left_alone() {
    let port = airamp_tests::process::free_port();
    let outcomes = job(2).env("NCCL_COMM_ID", format!("127.0.0.1:{port}")).in_mode("on");
    assert_off_because(&outcomes, &["nccl_comm_id", "id"]);
}

#[test]
fn the_same_reason_is_a_decision_in_the_log() {
    let outcomes = with_one(2, 1, |run| run.env("AIRAMP_MIN_SPEEDUP", "1.5"));
    for outcome in &outcomes {
        assert!(outcome.stderr_text().contains("decision {"), "{outcome}");
    }
}
