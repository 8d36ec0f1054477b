//! Calls and bytes in the telemetry file equal, exactly, what a program did: for every collective and datatype, on
//! every path, in groups of every outcome, captured, refused, on two communicators and three threads. The program
//! keeps its own account.

use airamp_fast_path::{Plan, Shape};
use airamp_telemetry::sizes::SIZE_CLASSES;
use airamp_telemetry::snapshot::{Call, Communicator, Count, Sizes};
use airamp_telemetry::{
    CallRecord, Datatype, EventKind, Kind, Path, Reader, Reason, Snapshot, State, size_class,
};
use airamp_tests::account::{Account, Counts, Totals, counts, files};
use airamp_tests::comparison::Presence;
use airamp_tests::scenario::planned;
use airamp_tests::{CProgram, Run};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const RANKS: usize = 3;
const ARENA_BYTES: usize = 1 << 20;
const MIN_BYTES: &str = "4096";
const FLOAT32: Datatype = Datatype(7);

struct Job {
    account: Account,
    snapshot: Snapshot,
    reader: Reader,
    _folder: TempDir,
}

fn program() -> PathBuf {
    CProgram::linked("counted_calls.c").build()
}

/// Runs the program to its end and reads what it left.
fn run(min_bytes: &str, adjust: impl Fn(Run) -> Run) -> Job {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = Run::new(program()).arg(min_bytes).time_limit(Duration::from_secs(180));
    let run = run.env("AIRAMP_TELEMETRY_DIR", folder.path()).env("AIRAMP_MIN_BYTES", MIN_BYTES);
    let run = run.env("AIRAMP_ARENA_BYTES", ARENA_BYTES.to_string());
    let outcome = Presence::Preloaded.applied_to(adjust(run)).run();
    let mut readers = files(folder.path());
    assert_eq!(readers.len(), 1, "{outcome}");
    let reader = readers.remove(0);
    let snapshot = reader.snapshot().expect("a snapshot");
    assert_eq!((snapshot.torn, snapshot.dropped), (0, 0), "{outcome}");
    Job { account: Account::of(&outcome), snapshot, reader, _folder: folder }
}

impl Job {
    fn assert_issued(&self) {
        for (slot, communicator) in self.snapshot.communicators.iter().enumerate() {
            let (on, rank) = ((slot / RANKS) as u64, communicator.facts.rank as u64);
            assert_eq!(communicator.facts.ranks, RANKS as i32);
            assert_eq!(communicator.issued, self.account.issued[&(on, rank)], "rank {rank} of {on}");
            assert!(communicator.ended.is_some() && communicator.inside == 0, "{communicator:?}");
        }
        assert_eq!(self.snapshot.communicators.len(), 2 * RANKS);
    }

    fn assert_errors(&self) {
        let told: Vec<(i32, u64)> =
            self.account.errors.iter().map(|(result, calls)| (*result, *calls)).collect();
        assert!(!told.is_empty());
        assert_eq!(self.snapshot.errors, told);
    }

    /// Every call that took effect, as the ring holds it.
    fn records(&self) -> Vec<Call> {
        let records = self.reader.calls_since(0).expect("records");
        assert_eq!(records.lost, 0, "the program makes no more calls than the ring holds");
        records.items.into_iter().filter(|call| call.flags & CallRecord::ERROR == 0).collect()
    }

    /// The rank that made the call.
    fn rank_of(&self, call: &Call) -> usize {
        let made = |it: &&Communicator| Some(it.slot) == call.slot;
        self.snapshot.communicators.iter().find(made).expect("its communicator").facts.rank as usize
    }

    fn calls(&self, kind: Kind, path: Path) -> u64 {
        let of = |count: &&Count| (count.kind, count.path) == (kind, path);
        self.snapshot.counts.iter().filter(of).map(|count| count.calls).sum()
    }

    fn wire(&self, path: Path) -> u64 {
        self.snapshot.counts.iter().filter(|count| count.path == path).map(|count| count.wire_bytes).sum()
    }
}

#[test]
fn every_call_of_the_vendors_is_counted_once_and_with_its_bytes() {
    let job = run("0", |run| run);
    assert_eq!(counts(&job.snapshot), job.account.counts);
    job.assert_issued();
    job.assert_errors();
    assert_eq!(job.snapshot.state, State::Observing);
    for count in &job.snapshot.counts {
        assert_eq!(count.wire_bytes, count.would_wire_bytes, "{count:?}");
    }
    for path in [Path::Vendor, Path::VendorCaptured] {
        assert!(job.account.counts.keys().any(|(_, of, _)| *of == path), "{path:?} is among them");
    }
    assert!(job.snapshot.fallbacks.is_empty(), "nothing was meant to be compressed");
}

#[test]
fn size_classes_and_records_add_up_to_the_calls() {
    let job = run("0", |run| run);
    for sizes in &job.snapshot.sizes {
        assert_eq!(sizes.calls.iter().sum::<u64>(), job.calls(sizes.kind, sizes.path), "{sizes:?}");
    }
    let all_reduce = |it: &&Sizes| (it.kind, it.path) == (Kind::AllReduce, Path::Vendor);
    let told = job.snapshot.sizes.iter().find(all_reduce).expect("AllReduces").calls;
    let mut expected = [0; SIZE_CLASSES];
    for call in job.records().iter().filter(|it| (it.kind, it.path) == (Kind::AllReduce, Path::Vendor)) {
        expected[usize::from(size_class(call.count * bytes_of(call.datatype)))] += 1;
    }
    assert_eq!(told, expected);
    assert!(expected.iter().filter(|calls| **calls > 0).count() > 1, "of several classes: {expected:?}");
    let calls: u64 = job.account.counts.values().map(|totals| totals.calls).sum();
    let records = job.reader.calls_since(0).expect("records");
    // A call that the vendor refuses has a record too; one of a group that is refused has none.
    let refused = records.items.iter().filter(|call| call.flags & CallRecord::ERROR != 0).count() as u64;
    assert!(refused > 0);
    assert_eq!(job.snapshot.calls_written, calls + refused);
}

#[test]
fn some_calls_are_timed_on_the_device_and_the_last_is_seen_to_be_done() {
    let job = run("0", |run| run);
    let samples: u64 = job.snapshot.durations.iter().map(|durations| durations.samples).sum();
    assert!(samples > 0, "{:?}", job.snapshot.durations);
    let is_captured = |path| matches!(path, Path::VendorCaptured | Path::CompressedCaptured);
    assert!(
        !job.snapshot.durations.iter().any(|durations| is_captured(durations.path)),
        "never of a capture"
    );
    let main = &job.snapshot.communicators[..RANKS];
    assert!(main.iter().all(|it| it.completed > 0 && it.completed <= it.issued), "{main:?}");
    let off = run("0", |run| run.env("AIRAMP_DEVICE_TIMINGS", "0"));
    assert!(off.snapshot.durations.is_empty());
    assert_eq!(counts(&off.snapshot), off.account.counts);
}

#[test]
fn what_is_compressed_is_counted_as_such_with_the_bytes_of_its_packets() {
    let job = run(MIN_BYTES, planned);
    assert_eq!(counts(&job.snapshot), job.account.counts);
    job.assert_issued();
    job.assert_errors();
    assert_eq!(job.snapshot.state, State::On);
    let calls =
        |path| job.account.counts.iter().filter(move |((_, of, _), _)| *of == path).map(|(_, it)| it.calls);
    let compressed = calls(Path::Compressed).sum::<u64>() + calls(Path::CompressedCaptured).sum::<u64>();
    assert_eq!(job.snapshot.sums.compressed_calls, compressed);
    assert!(calls(Path::Compressed).sum::<u64>() > 0 && calls(Path::CompressedCaptured).sum::<u64>() > 0);
    // One call of each size that is captured on each rank, three times.
    let sent = |count: usize| {
        let plan = Plan::new(count, RANKS, ARENA_BYTES, Shape::usual(RANKS)).expect("a plan");
        (0..RANKS).map(|rank| plan.sent_bytes(rank)).sum::<usize>() as u64
    };
    assert_eq!(job.wire(Path::CompressedCaptured), 3 * (sent(2048) + sent(2049)));
    let reason =
        |reason| job.snapshot.fallbacks.iter().find(|(of, _)| *of == reason).map_or(0, |(_, calls)| *calls);
    assert!(reason(Reason::Datatype) > 0 && reason(Reason::Size) > 0, "{:?}", job.snapshot.fallbacks);
}

#[test]
fn what_a_compressed_call_sends_and_writes_is_added_up_exactly() {
    let job = run(MIN_BYTES, planned);
    let (mut sent, mut blocks, mut bytes) = ([0, 0], 0, 0);
    for call in job.records() {
        let captured = match call.path {
            Path::Compressed => 0,
            Path::CompressedCaptured => 1,
            _ => continue,
        };
        let plan = Plan::new(call.count as usize, RANKS, ARENA_BYTES, Shape::usual(RANKS)).expect("a plan");
        sent[captured] += plan.sent_bytes(job.rank_of(&call)) as u64;
        blocks += plan.blocks(job.rank_of(&call)) as u64;
        bytes += call.count * bytes_of(call.datatype);
    }
    assert_eq!([Path::Compressed, Path::CompressedCaptured].map(|path| job.wire(path)), sent);
    let sums = job.snapshot.sums;
    assert_eq!((sums.codec.blocks, sums.codec_bytes), (blocks, bytes));
    assert!(blocks > 0 && sums.codec_ns > 0);
    for communicator in &job.snapshot.communicators {
        assert_eq!(communicator.arena_bytes, ARENA_BYTES as u64);
    }
    let of_communicators: u64 = job.snapshot.communicators.iter().map(|it| it.sums.codec.blocks).sum();
    assert_eq!(of_communicators, blocks, "the process's sums are those of its communicators");
}

#[test]
fn each_all_reduce_that_went_to_the_vendor_has_one_reason() {
    let job = run(MIN_BYTES, planned);
    let mut expected = BTreeMap::new();
    // An empty call has no index, and nothing in it to be compressed.
    for call in job.records().iter().filter(|call| call.kind == Kind::AllReduce && call.count > 0) {
        let is_element = matches!(call.datatype.0, 6 | 7 | 9);
        let small = call.count * bytes_of(call.datatype) < MIN_BYTES.parse().expect("a number");
        let reason = match call.path {
            Path::Vendor | Path::VendorCaptured if !is_element => Reason::Datatype,
            Path::Vendor | Path::VendorCaptured if small => Reason::Size,
            Path::Vendor | Path::VendorCaptured => Reason::Reduction,
            _ => continue,
        };
        *expected.entry(reason).or_insert(0) += 1;
    }
    assert_eq!(job.snapshot.fallbacks, expected.into_iter().collect::<Vec<_>>());
}

/// Equal calls of a group are told together there, and each of them has the reason.
#[test]
fn without_kernels_every_all_reduce_has_a_reason_in_groups_too() {
    let nothing = tempfile::tempdir().expect("a folder without kernels");
    let job = run("0", |run| planned(run).env("AIRAMP_KERNEL_DIR", nothing.path()));
    assert_eq!(counts(&job.snapshot), job.account.counts);
    let paths = [Path::Vendor, Path::VendorCaptured].map(|path| job.calls(Kind::AllReduce, path));
    let (reasons, calls): (Vec<Reason>, Vec<u64>) = job.snapshot.fallbacks.iter().copied().unzip();
    // What is split from a communicator that does not compress finds nobody to agree with.
    assert_eq!(reasons, [Reason::NoAgreement, Reason::Kernels]);
    assert_eq!(calls.iter().sum::<u64>(), paths.iter().sum::<u64>());
}

fn bytes_of(datatype: Datatype) -> u64 {
    const BYTES: [u64; Datatype::COUNT] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0];
    BYTES[usize::from(datatype.0)]
}

#[test]
fn a_trial_is_a_call_of_its_own_path_and_is_counted_once() {
    let job = run("0", |run| run.env("AIRAMP_MODE", "shadow"));
    let tried: u64 = job.account.trials.values().sum();
    assert!(tried > 0, "{:?}", job.account.trials);
    let told = counts(&job.snapshot);
    let trials: u64 =
        told.iter().filter(|((_, path, _), _)| *path == Path::Trial).map(|(_, it)| it.calls).sum();
    assert_eq!((trials, job.snapshot.sums.trial_calls), (tried, tried));
    assert_eq!(without_trials(told), job.account.counts);
    let of_trials = |count: &&Count| count.path == Path::Trial;
    let would: u64 = job.snapshot.counts.iter().filter(of_trials).map(|count| count.would_wire_bytes).sum();
    assert!(
        would > 0 && job.wire(Path::Trial) > would,
        "the dry run crosses the wire beside the vendor's call"
    );
    job.assert_issued();
    assert_eq!(job.snapshot.state, State::Shadow);
}

/// Trials among the vendor's calls.
fn without_trials(counts: Counts) -> Counts {
    let mut merged = Counts::new();
    for ((kind, path, datatype), totals) in counts {
        let path = if path == Path::Trial { Path::Vendor } else { path };
        let sum = merged.entry((kind, path, datatype)).or_default();
        let Totals { calls, logical, would } = totals;
        *sum = Totals { calls: sum.calls + calls, logical: sum.logical + logical, would: sum.would + would };
    }
    merged
}

#[test]
fn what_only_rccl_has_is_counted_too() {
    let vendor = CProgram::unlinked("rccl_vendor.c").shared_library().build();
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(&vendor, folder.path().join("libnccl.so.2")).expect("a link");
    let program = CProgram::linked_with_nccl_alone("rccl_tour.c").build();
    let run = Run::new(program).library_dir(folder.path()).preload(airamp_tests::interposer());
    let run = run.library_dir(airamp_tests::emulator_dir());
    let outcome = run.env("AIRAMP_TELEMETRY_DIR", folder.path()).run();
    let readers = files(folder.path());
    let snapshot = readers.first().unwrap_or_else(|| panic!("{outcome}")).snapshot().expect("a snapshot");
    let row = |calls, logical| Totals { calls, logical, would: 0 };
    let expected = Counts::from([
        ((Kind::AllReduceWithBias, Path::Vendor, FLOAT32), row(1, 20)),
        ((Kind::AllToAll, Path::Vendor, FLOAT32), row(1, 20)),
        ((Kind::AllToAllV, Path::Vendor, FLOAT32), row(2, 8)),
    ]);
    assert_eq!(counts(&snapshot), expected, "{outcome}");
}

#[test]
fn a_process_without_telemetry_leaves_no_file_and_one_that_cannot_have_any_says_so_and_goes_on() {
    for (name, value) in [("AIRAMP_TELEMETRY", "0"), ("AIRAMP_DISABLE", "1")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run =
            Run::new(CProgram::linked("all_reduce.c").build()).env("AIRAMP_TELEMETRY_DIR", folder.path());
        Presence::Preloaded.applied_to(run.env(name, value)).run().assert_success();
        assert!(files(folder.path()).is_empty(), "{name}={value}");
    }
    let nowhere =
        Run::new(CProgram::linked("all_reduce.c").build()).env("AIRAMP_TELEMETRY_DIR", "/proc/self/fd");
    let outcome = Presence::Preloaded.applied_to(nowhere).run();
    let lines = outcome.assert_success().product_lines();
    assert!(lines.iter().filter(|line| line.contains("no telemetry")).count() == 1, "{outcome}");
}

#[test]
fn a_forked_child_has_a_file_only_if_it_makes_a_communicator() {
    for (scenario, processes) in [("untouched", 1), ("questions", 1), ("group", 1), ("afresh", 2)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = Run::new(CProgram::linked("fork.c").build()).arg(scenario);
        let outcome = Presence::Preloaded.applied_to(run.env("AIRAMP_TELEMETRY_DIR", folder.path())).run();
        outcome.assert_success();
        let readers = files(folder.path());
        assert_eq!(readers.len(), processes, "{scenario}: {outcome}");
        for reader in readers {
            let snapshot = reader.snapshot().expect("a snapshot");
            assert_eq!(snapshot.communicators.len(), 2, "{scenario}: {outcome}");
            let events = reader.events_since(0).expect("events").items;
            assert_eq!(events.first().map(|event| event.kind), Some(EventKind::Started));
        }
    }
}
