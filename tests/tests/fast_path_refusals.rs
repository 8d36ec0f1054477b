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

/// What a rank that was asked to compress says why it does not.
#[track_caller]
fn why_off(outcome: &Outcome) -> String {
    let text = outcome.stderr_text();
    let off = |line: &str| line.split_once("compression off: ").map(|(_, why)| why.to_lowercase());
    text.lines().find_map(off).unwrap_or_else(|| panic!("no reason: {outcome}"))
}

/// All results are exact, and every rank's reason has one of the words.
#[track_caller]
fn assert_off(outcomes: &[Outcome], reasons: &[&str]) {
    assert_exact(outcomes);
    for outcome in outcomes {
        let said = why_off(outcome);
        assert!(reasons.iter().any(|reason| said.contains(reason)), "{said:?}: {outcome}");
    }
}

/// The same with all of the words, so that each rank names the fault.
#[track_caller]
fn assert_off_naming(outcomes: &[Outcome], words: &[&str]) {
    words.iter().for_each(|word| assert_off(outcomes, &[word]));
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
        assert_off(&outcomes[..ranks as usize - 1], &["did not join"]);
    }
}

#[test]
fn a_rank_without_the_plan_leaves_all_of_them_exact() {
    for (ranks, without) in [(2, 0), (2, 1), (3, 1)] {
        let outcomes = job(ranks).planned_on(|rank| rank != without);
        assert_exact(&outcomes);
        let planned = outcomes.iter().enumerate().filter(|(rank, _)| *rank != without as usize);
        let reasons = ["did not join", "in observe mode"];
        planned.for_each(|(_, outcome)| assert_off(std::slice::from_ref(outcome), &reasons));
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

/// Folders of which the emulated device cannot use what is for it, and what a warning must say of each.
fn broken_blobs() -> Vec<(BlobFolder, &'static [&'static str])> {
    const FILE: &str = "sm_90.cubin";
    let broken = |change: &dyn Fn(&mut BlobFolder), words: &'static [&'static str]| {
        let mut folder = BlobFolder::whole();
        change(&mut folder);
        (folder, words)
    };
    let half = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let other = std::fs::read(BlobFolder::whole().file("sm_80.cubin")).expect("a blob");
    let without = |file: &'static str| {
        move |folder: &mut BlobFolder| std::fs::remove_file(folder.file(file)).expect("a file")
    };
    vec![
        broken(&|folder| folder.spoil(FILE, |bytes| bytes[100] ^= 1), &["damaged kernel blob", FILE]),
        broken(&|folder| folder.spoil(FILE, half), &["truncated kernel blob", FILE]),
        broken(&|folder| folder.put("sm_90", FILE, &other), &["foreign kernel blob", FILE, "is sm_80"]),
        broken(
            &|folder| folder.put_without("sm_90", FILE, "airamp_reduce_f16_int8"),
            &[FILE, "has no kernel airamp_reduce_f16_int8"],
        ),
        broken(&without(FILE), &["missing kernel blob", FILE]),
        broken(&without("manifest.toml"), &["missing kernel blob", "manifest.toml"]),
        broken(
            &|folder| folder.spoil("manifest.toml", |text| text.extend(b"nonsense")),
            &["kernel manifest", "cannot be used"],
        ),
    ]
}

#[test]
fn kernels_that_do_not_load_on_one_rank_are_told() {
    for (folder, words) in broken_blobs() {
        let fault = |run: Run| run.env("AIRAMP_KERNEL_DIR", folder.path());
        for ranks in [2, 3] {
            assert_off_naming(&job(ranks).compressed_but(to_the_last(ranks, fault)), words);
        }
    }
}

#[test]
fn a_folder_of_broken_blobs_on_every_rank_is_told_and_leaves_all_of_them_exact() {
    for (folder, words) in broken_blobs() {
        let fault = |_, run: Run| run.env("AIRAMP_KERNEL_DIR", folder.path());
        assert_off_naming(&job(2).compressed_but(fault), words);
    }
}

#[test]
fn a_device_on_which_kernels_compute_wrongly_or_that_has_none_is_told() {
    let faults: [(&str, &str, &[&str]); 2] = [
        (
            "AIRAMP_EMU_WRONG_KERNEL",
            "airamp_reduce_bf16_auto",
            &["self-test mismatch", "airamp_reduce_bf16_auto"],
        ),
        ("AIRAMP_EMU_ARCH", "sm_70", &["unknown architecture", "sm_70"]),
    ];
    for (name, value, words) in faults {
        for ranks in [2, 3] {
            let fault = |run: Run| run.env(name, value);
            assert_off_naming(&job(ranks).compressed_but(to_the_last(ranks, fault)), words);
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
            assert_off(&outcomes, &["out of memory"]);
            number += 1;
            outcomes = refused(number);
        }
        assert!(number > 1, "the library allocated nothing");
        assert_all_compressed(&outcomes);
    }
}

/// The others hear nothing of it, and wait for the time-out.
/// Before anybody relies on it, although all ranks lack it and would fail together.
#[test]
fn a_vendor_without_an_operation_that_calls_take_leaves_all_of_them_exact() {
    for (ranks, lean, hidden) in
        [(3, "0", "ncclSend"), (3, "0", "ncclRecv"), (2, "0", "ncclAllGather"), (3, "1", "ncclReduce")]
    {
        let job = job(ranks).env("AIRAMP_LEAN_MESSAGES", lean);
        let outcomes = job.env("AIRAMP_EMU_HIDE_SYMBOLS", format!("{hidden},p{hidden}")).compressed();
        assert_off(&outcomes, &[&format!("the vendor has no {}", hidden.to_lowercase())]);
    }
    let outcomes = job(2).env("AIRAMP_EMU_HIDE_SYMBOLS", "ncclSend,pncclSend").compressed();
    assert_all_compressed(&outcomes);
}

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

    /// Of the last rank.
    fn refused_at(job: &Scenario, ranks: u32, number: usize) -> Vec<Outcome> {
        let fault = move |run: Run| run.env("AIRAMP_EMU_REFUSE_LAUNCH", number.to_string());
        job.compressed_but(to_the_last(ranks, fault))
    }

    #[track_caller]
    fn assert_each_leaves_all_of_them_exact(job: &Scenario, ranks: u32) {
        for number in 1..=launches_of_creation(|number| refused_at(job, ranks, number)) {
            assert_off(&refused_at(job, ranks, number), &["culaunchkernel failed"]);
        }
    }

    #[test]
    fn one_that_is_refused_during_creation_leaves_all_of_them_exact() {
        for ranks in [2, 3] {
            assert_each_leaves_all_of_them_exact(&job(ranks), ranks);
        }
    }

    #[test]
    fn one_that_is_refused_on_a_node_of_several_ranks_leaves_both_nodes_exact() {
        assert_each_leaves_all_of_them_exact(&job(4).env("AIRAMP_RANKS_PER_NODE", "2"), 4);
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
