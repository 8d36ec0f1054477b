//! What keeps a rank from compressing, before the ranks have agreed, keeps all of them from it: every
//! result is exact, nobody hangs, and the log says why.

use airamp_tests::code_object::BlobFolder;
use airamp_tests::comparison::Presence;
use airamp_tests::scenario::{Came, Report, Scenario, launches_of_creation, parsed};
use airamp_tests::{Outcome, Run};

const INTERNAL_ERROR: i32 = 3;
const REMOTE_ERROR: i32 = 6;

fn job(ranks: u32) -> Scenario {
    Scenario::new("fault", ranks)
}

/// Something that is done to the last rank alone.
fn to_the_last(ranks: u32, change: impl Fn(Run) -> Run) -> impl Fn(u32, Run) -> Run {
    move |rank, run| if rank + 1 == ranks { change(run) } else { run }
}

/// Every rank made all its calls, and each result is the vendor's.
#[track_caller]
fn assert_exact(outcomes: &[Outcome]) {
    for outcome in outcomes {
        let report = Report::of(outcome);
        assert!(report.all(Came::Exact) && report.async_error == 0, "{outcome}");
        assert_eq!(report.compressed.unwrap_or(0), 0, "{outcome}");
        assert!(!outcome.stderr_text().contains("compression on"), "{outcome}");
    }
}

/// The ranks that were asked to compress say why they do not.
#[track_caller]
fn assert_off(outcomes: &[Outcome], reasons: &[&str]) {
    assert_exact(outcomes);
    for outcome in outcomes {
        let text = outcome.stderr_text();
        let said = text.lines().find_map(|line| line.split_once("compression off: ").map(|(_, why)| why));
        let said = said.unwrap_or_else(|| panic!("no reason: {outcome}"));
        assert!(reasons.iter().any(|reason| said.to_lowercase().contains(reason)), "{said:?}: {outcome}");
    }
}

#[track_caller]
fn assert_all_compressed(outcomes: &[Outcome]) {
    for outcome in outcomes {
        let report = Report::of(outcome);
        assert!(report.all(Came::Compressed), "{outcome}");
        assert_eq!(report.compressed, Some(report.calls.len() as u64), "{outcome}");
    }
}

#[test]
fn with_nothing_wrong_every_call_is_compressed() {
    for ranks in [2, 3] {
        assert_all_compressed(&job(ranks).compressed());
        assert_all_compressed(&job(ranks).args(&["--grouped"]).compressed());
    }
}

#[test]
fn with_nothing_wrong_and_no_plan_every_call_is_exact() {
    assert_exact(&job(2).bare());
    assert_exact(&job(2).with_the_library());
}

#[test]
fn a_rank_without_the_library_leaves_all_of_them_exact() {
    for ranks in [2, 3] {
        let outcomes = job(ranks).planned(|rank, run| match rank + 1 == ranks {
            true => Presence::Absent.applied_to(run),
            false => Presence::Preloaded.applied_to(run),
        });
        assert_exact(&outcomes);
        assert_off(&outcomes[..ranks as usize - 1], &[""]);
    }
}

#[test]
fn a_rank_without_the_plan_leaves_all_of_them_exact() {
    for (ranks, without) in [(2, 0), (2, 1), (3, 1)] {
        let outcomes = job(ranks).planned_on(|rank| rank != without);
        assert_exact(&outcomes);
        let planned = outcomes.iter().enumerate().filter(|(rank, _)| *rank != without as usize);
        planned.for_each(|(_, outcome)| assert_off(std::slice::from_ref(outcome), &[""]));
    }
}

#[test]
fn settings_that_must_be_equal_and_are_not_are_named() {
    let unequal = [
        ("AIRAMP_WIRE_FORMAT", "int8", ["format", "settings"]),
        ("AIRAMP_ARENA_BYTES", "2097152", ["arena", "settings"]),
        ("AIRAMP_MIN_BYTES", "8192", ["min", "settings"]),
    ];
    for (name, value, reasons) in unequal {
        let outcomes = job(2).compressed_but(to_the_last(2, |run| run.env(name, value)));
        assert_off(&outcomes, &reasons);
    }
}

#[test]
fn a_wire_format_that_there_is_not_is_told_and_never_replaced_by_another() {
    let outcomes = job(2).compressed_but(|_, run| run.env("AIRAMP_WIRE_FORMAT", "nonsense"));
    assert_off(&outcomes, &["airamp_wire_format"]);
    for outcome in &outcomes {
        assert!(outcome.stderr_text().contains("AIRAMP_WIRE_FORMAT"), "{outcome}");
    }
}

#[test]
fn an_arena_too_small_for_one_step_is_told() {
    for ranks in [2, 3] {
        let outcomes = job(ranks).compressed_but(|_, run| run.env("AIRAMP_ARENA_BYTES", "65536"));
        assert_off(&outcomes, &["arena"]);
    }
}

#[test]
fn kernels_that_do_not_load_on_one_rank_are_told() {
    let spoilt = BlobFolder::whole();
    spoilt.spoil("sm_90.cubin", |bytes| bytes[100] ^= 1);
    let empty = tempfile::tempdir().expect("a temporary folder");
    let faults: [&dyn Fn(Run) -> Run; 4] = [
        &|run| run.env("AIRAMP_KERNEL_DIR", spoilt.path()),
        &|run| run.env("AIRAMP_KERNEL_DIR", empty.path()),
        &|run| run.env("AIRAMP_EMU_WRONG_KERNEL", "airamp_reduce_bf16_auto"),
        &|run| run.env("AIRAMP_EMU_ARCH", "sm_70"),
    ];
    for fault in faults {
        for ranks in [2, 3] {
            let outcomes = job(ranks).compressed_but(to_the_last(ranks, fault));
            assert_off(&outcomes, &[""]);
            let warned = outcomes[ranks as usize - 1].stderr_text();
            assert!(warned.contains("warn"), "no warning where the fault is: {warned}");
        }
    }
}

#[test]
fn a_refused_allocation_of_ours_on_one_rank_leaves_all_of_them_exact() {
    for ranks in [2, 3] {
        let refused = |number: usize| {
            let fault = move |run: Run| run.env("AIRAMP_EMU_FAIL_ALLOC", number.to_string());
            job(ranks).compressed_but(to_the_last(ranks, fault))
        };
        let ours = |outcomes: &[Outcome]| !Report::of(&outcomes[ranks as usize - 1]).own_allocation_refused;
        let mut number = 1;
        let mut outcomes = refused(number);
        while ours(&outcomes) {
            assert_off(&outcomes, &[""]);
            number += 1;
            outcomes = refused(number);
        }
        assert!(number > 1, "the library allocated nothing");
        assert_all_compressed(&outcomes);
    }
}

/// The others hear nothing of it, and wait for the time-out.
#[test]
fn a_panic_of_ours_during_creation_leaves_all_of_them_exact() {
    for place in ["ncclCommInitRank:before", "ncclCommInitRank:after"] {
        let fault = |run: Run| run.env("AIRAMP_INJECT_PANIC", place);
        let hasty = job(2).env("AIRAMP_CONSENSUS_TIMEOUT_MS", "1500");
        assert_exact(&hasty.compressed_but(to_the_last(2, fault)));
    }
}

#[test]
fn a_rank_whose_driver_cannot_order_captured_calls_leaves_all_of_them_exact() {
    let without = |run: Run| run.env("AIRAMP_EMU_HIDE_SYMBOLS", "cuEventRecordWithFlags");
    assert_off(&job(2).compressed_but(to_the_last(2, without)), &["captures"]);
}

mod connecting {
    use super::*;

    /// The first exchange: an AllGather between two ranks, messages among more.
    fn first_exchange(ranks: u32) -> &'static str {
        if ranks == 2 { "ncclAllGather:1:1" } else { "ncclSend:1:1" }
    }

    /// Nobody compresses; exchanges may be half done, so that a communicator may be lost instead of exact.
    #[track_caller]
    fn assert_nobody_compresses(outcomes: &[Outcome]) {
        for outcome in outcomes {
            let report = Report::of(outcome);
            assert_eq!(report.compressed.unwrap_or(0), 0, "{outcome}");
            let fine = |came: Came| matches!(came, Came::Exact | Came::Lost | Came::Refused);
            assert!(report.calls.iter().all(|step| fine(step.outcome)), "{outcome}");
            assert!(!outcome.stderr_text().contains("compression on"), "{outcome}");
        }
    }

    /// By its own failure, or since it heard of another rank's first.
    fn is_told(returned: i32) -> bool {
        matches!(returned, INTERNAL_ERROR | REMOTE_ERROR)
    }

    /// Creation fails on every rank.
    #[track_caller]
    fn assert_not_made(outcomes: &[Outcome]) {
        assert_nobody_compresses(outcomes);
        let not_made = |report: &Report| is_told(report.creation) && report.calls.is_empty();
        assert!(outcomes.iter().all(|outcome| not_made(&Report::of(outcome))), "{outcomes:?}");
    }

    #[test]
    fn that_fails_on_all_ranks_is_the_end_of_compression_on_all_of_them() {
        for ranks in [2, 3] {
            let fault = |_, run: Run| run.env("AIRAMP_EMU_FAIL_CALL", first_exchange(ranks));
            assert_not_made(&job(ranks).compressed_but(fault));
        }
    }

    #[test]
    fn that_fails_on_one_rank_alone_fails_the_creation_of_all() {
        for ranks in [2, 3] {
            let fault = |run: Run| run.env("AIRAMP_EMU_FAIL_CALL", first_exchange(ranks));
            assert_not_made(&job(ranks).compressed_but(to_the_last(ranks, fault)));
        }
    }

    /// What one process of `scenario creation` says.
    #[derive(Debug, serde::Deserialize)]
    struct Creation {
        returned: i32,
        handles: Vec<bool>,
        refused: Vec<i32>,
        way_out: Option<i32>,
        ends: Vec<i32>,
        mismatch: Option<String>,
        compressed: u64,
    }

    impl Creation {
        #[track_caller]
        fn of(outcome: &Outcome) -> Self {
            parsed(outcome.assert_success()).pop().unwrap_or_else(|| panic!("no report: {outcome}"))
        }
    }

    /// A creation in which a call of the last rank fails, with what each rank says of it.
    fn creations(way: &'static str, ranks: u32, call: &str) -> Vec<(Creation, Outcome)> {
        let job = Scenario::new("creation", ranks).args(&["--way", way]);
        let fault = |run: Run| run.env("AIRAMP_EMU_FAIL_CALL", call);
        let outcomes = job.compressed_but(to_the_last(ranks, fault));
        outcomes.into_iter().map(|outcome| (Creation::of(&outcome), outcome)).collect()
    }

    /// The application has an error and no handle, may end what it does not have, and makes another communicator, which
    /// compresses.
    #[test]
    fn outside_a_group_takes_the_communicator_back_however_it_was_made() {
        for (way, call) in
            [("plain", "ncclSend:1:1"), ("config", "ncclRecv:1:2"), ("scalable", "ncclGroupEnd:1:2")]
        {
            for (report, outcome) in creations(way, 3, call) {
                assert!(is_told(report.returned), "{way}: {outcome}");
                assert_eq!(
                    (&report.handles[..], &report.ends[..]),
                    (&[false][..], &[0][..]),
                    "{way}: {outcome}"
                );
                assert_eq!(report.mismatch, None, "{way}: {outcome}");
                assert!(report.compressed > 0, "{way}: {outcome}");
            }
        }
    }

    /// NCCL puts the environment above configurations. The library's own question comes when the creation is through.
    #[test]
    fn that_the_environment_makes_non_blocking_leaves_it_to_the_vendor() {
        let ways: [(u32, &[&'static str]); 2] =
            [(1, &["--way", "all", "--layout", "2"]), (2, &["--way", "blocking"])];
        for (processes, way) in ways {
            let job = Scenario::new("creation", processes).args(way).env("NCCL_COMM_BLOCKING", "0");
            for outcome in &job.env("AIRAMP_EMU_SLOW_CALL", "ncclCommCuDevice:200").compressed() {
                let report = Creation::of(outcome);
                assert_eq!(report.returned, 0, "{outcome}");
                assert!(report.handles.iter().all(|there| *there), "{outcome}");
                assert!(outcome.stderr_text().contains("the communicator is not blocking"), "{outcome}");
            }
        }
    }

    #[test]
    fn of_a_child_leaves_its_parent_as_it_was() {
        // The parent's two messages come first.
        for (report, outcome) in creations("split", 3, "ncclSend:3:1") {
            assert!(is_told(report.returned), "{outcome}");
            assert_eq!((&report.handles[..], report.mismatch), (&[false][..], None), "{outcome}");
            assert!(report.compressed > 1, "{outcome}");
        }
    }

    /// NCCL would abort the parent with it, which the application goes on with.
    #[test]
    fn of_a_child_that_shares_with_its_parent_aborts_neither() {
        let job = Scenario::new("creation", 3).args(&["--way", "split"]);
        let fault = |run: Run| run.env("AIRAMP_EMU_FAIL_CALL", "ncclSend:3:1");
        let shared = job.env("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1");
        for outcome in &shared.compressed_but(to_the_last(3, fault)) {
            let report = Creation::of(outcome);
            assert!(is_told(report.returned), "{outcome}");
            assert_eq!((&report.handles[..], report.mismatch), (&[true][..], None), "{outcome}");
            assert!(report.refused.iter().all(|code| is_told(*code)), "{outcome}");
        }
    }

    #[test]
    fn during_which_a_rank_dies_fails_the_creation_of_the_others() {
        for ranks in [2, 4] {
            let death = format!("{}:1", ranks - 1);
            let outcomes = job(ranks).env("AIRAMP_EMU_DIE_AT_CALL", death).compressed();
            assert_not_made(&outcomes[..ranks as usize - 1]);
        }
    }

    #[test]
    fn of_all_ranks_in_one_process_takes_them_all_back() {
        let job = Scenario::new("creation", 1).args(&["--way", "all", "--layout", "3"]);
        let outcomes = job.env("AIRAMP_EMU_FAIL_CALL", "ncclSend:1:1").compressed();
        let report = Creation::of(&outcomes[0]);
        assert!(is_told(report.returned), "{}", outcomes[0]);
        assert_eq!((report.handles, report.ends), (vec![false; 3], vec![0; 3]), "{}", outcomes[0]);
    }

    /// The handles are the application's by then. Whatever would wait for peers is refused at once.
    #[test]
    fn in_a_group_is_the_error_of_its_end_and_whoever_goes_on_by_it_is_refused() {
        for (way, handles) in [("group", 1), ("pair", 2)] {
            for (report, outcome) in creations(way, 3, "ncclSend:1:1") {
                assert!(is_told(report.returned), "{way}: {outcome}");
                assert_eq!(report.handles, vec![true; handles], "{way}: {outcome}");
                assert_eq!(report.refused.len(), 5 * handles, "{way}: {outcome}");
                assert!(report.refused.iter().all(|code| is_told(*code)), "{way}: {outcome}");
                assert!(report.way_out.is_none_or(|code| code == 0), "{way}: {outcome}");
                assert_eq!((report.ends, report.mismatch), (vec![0; handles], None), "{way}: {outcome}");
                assert!(report.compressed > 0, "{way}: {outcome}");
            }
        }
    }

    #[test]
    fn gives_the_memory_back_that_was_to_be_used() {
        let fault = |_, run: Run| run.env("AIRAMP_EMU_FAIL_CALL", "ncclSend:1:1").env("AIRAMP_LOG", "debug");
        for outcome in &Scenario::new("fault", 3).compressed_but(fault) {
            assert!(is_told(Report::of(outcome).creation), "{outcome}");
            assert!(outcome.stderr_text().contains("an arena was given back"), "{outcome}");
        }
    }
}

mod launches {
    use super::*;

    fn refused_at(number: usize) -> Vec<Outcome> {
        let fault = move |run: Run| run.env("AIRAMP_EMU_REFUSE_LAUNCH", number.to_string());
        job(2).compressed_but(to_the_last(2, fault))
    }

    #[test]
    fn one_that_is_refused_during_creation_leaves_all_of_them_exact() {
        for number in 1..=launches_of_creation(refused_at) {
            assert_off(&refused_at(number), &[""]);
        }
    }

    #[test]
    fn a_device_that_is_lost_during_creation_costs_nobody_else_a_wrong_result() {
        let fault = |run: Run| run.env("AIRAMP_EMU_FAIL_LAUNCH", "5");
        let outcomes = job(2).compressed_but(to_the_last(2, fault));
        let report = Report::of(&outcomes[0]);
        assert_eq!(report.compressed.unwrap_or(0), 0, "{}", outcomes[0]);
        let fine = |came: Came| matches!(came, Came::Exact | Came::Lost | Came::Refused);
        assert!(report.calls.iter().all(|step| fine(step.outcome)), "{}", outcomes[0]);
    }
}
