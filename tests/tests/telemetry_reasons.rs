//! Why calls went to the vendor, as telemetry counts it on each rank: the rank that has no kernels or no memory says
//! that, its peers that there was no agreement; and what a plan says is told in words.

use airamp_telemetry::{EventKind, Reason, Snapshot};
use airamp_tests::Run;
use airamp_tests::account::files;
use airamp_tests::code_object::BlobFolder;
use airamp_tests::scenario::{CALLS_OF_FAULT, Scenario};
use tempfile::TempDir;

const RANKS: u32 = 2;

/// A job whose last rank has something done to it, and the folder with its telemetry.
fn job(fault: impl Fn(Run) -> Run) -> TempDir {
    let base = tempfile::tempdir().expect("a temporary folder");
    let job = Scenario::new("fault", RANKS).env("AIRAMP_CONSENSUS_TIMEOUT_MS", "30000");
    let outcomes = job.compressed_but(|rank, run| {
        let run = run.env("AIRAMP_TELEMETRY_DIR", base.path());
        if rank + 1 == RANKS { fault(run) } else { run }
    });
    outcomes.iter().for_each(|outcome| _ = outcome.assert_success());
    base
}

/// By rank.
fn snapshots(base: &TempDir) -> Vec<Snapshot> {
    let mut found: Vec<Snapshot> =
        files(base.path()).iter().map(|reader| reader.snapshot().expect("a snapshot")).collect();
    found.sort_by_key(|file| file.identity.world_rank);
    assert_eq!(found.len(), RANKS as usize);
    found
}

/// Each call of both ranks went to the vendor, on the last one for that reason.
#[track_caller]
fn assert_reason(base: &TempDir, reason: Reason) {
    let calls = CALLS_OF_FAULT as u64;
    let told: Vec<_> = snapshots(base).into_iter().map(|file| file.fallbacks).collect();
    assert_eq!(told, [vec![(Reason::NoAgreement, calls)], vec![(reason, calls)]]);
}

#[test]
fn a_rank_without_kernels_counts_its_calls_as_that() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    assert_reason(&job(|run| run.env("AIRAMP_KERNEL_DIR", empty.path())), Reason::Kernels);
    let spoilt = BlobFolder::whole();
    spoilt.spoil("sm_90.cubin", |bytes| bytes[100] ^= 1);
    assert_reason(&job(|run| run.env("AIRAMP_KERNEL_DIR", spoilt.path())), Reason::Kernels);
    assert_reason(&job(|run| run.env("AIRAMP_EMU_WRONG_KERNEL", "airamp_reduce_bf16_auto")), Reason::Kernels);
}

/// The first allocation is for the kernels' self-test, the second the arena.
#[test]
fn a_rank_without_memory_counts_its_calls_as_that() {
    for number in ["1", "2"] {
        assert_reason(&job(|run| run.env("AIRAMP_EMU_FAIL_ALLOC", number)), Reason::Memory);
    }
}

#[test]
fn a_rank_with_a_wrong_setting_has_another_reason() {
    assert_reason(&job(|run| run.env("AIRAMP_WIRE_FORMAT", "nonsense")), Reason::Other);
}

#[test]
fn a_new_plan_is_told_in_words_and_what_the_codec_wrote_in_blocks() {
    let base = job(|run| run);
    for reader in files(base.path()) {
        let events = reader.events_since(0).expect("events").items;
        let plan = events.iter().find(|event| event.kind == EventKind::PlanChanged).expect("a plan");
        assert_eq!(plan.text, "compressed: float16, bfloat16, float32");
        let sums = reader.snapshot().expect("a snapshot").sums;
        assert_eq!(sums.compressed_calls, CALLS_OF_FAULT as u64);
        // An element has one to four bytes, a block has 128 of them, and the ranks exchange everything once.
        let (blocks, bytes) = (sums.codec.blocks, sums.codec_bytes);
        assert!(blocks >= bytes / 4 / 128 && blocks <= bytes / 128, "{sums:?}");
    }
}
