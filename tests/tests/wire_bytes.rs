//! The wire bytes that the library counts, beside what the kernel counted on each rank's own cable. Every rank has a
//! network namespace of its own, and all it sends to its peers crosses one interface.
//!
//! The bound: the kernel sees at least what was counted. Above it are the headers of what was sent, the
//! acknowledgements of what was received (one for each packet at worst), both at most as many as with packets of 1,500
//! bytes, and what it takes to meet. A veth carries larger packets, so the difference is mostly far below. A formula
//! that is wrong by one rank's part is wrong by a third or more.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use airamp_telemetry::{Kind, Path as CallPath, Reader, Snapshot, folders};
use airamp_tests::hosts::Hosts;
use airamp_tests::scenario::planned;
use airamp_tests::{Outcome, Run, emulator_dir, interposer, rank_program, skip_outside_ci};

const RANKS: usize = 3;
/// Three ranks, two steps of the ring, four bytes: it divides evenly.
const BYTES: u64 = 3 << 20;
const STEPS: u64 = 4;

/// Ethernet, IPv4, and TCP with time stamps.
const HEADERS: u64 = 14 + 20 + 32;
/// What a packet of 1,500 bytes carries behind them.
const PAYLOAD: u64 = 1448;
/// Addresses, the rank program's own meeting, NCCL's, the agreement, and the first exchange with every peer.
const MEETING: u64 = 256 << 10;

/// One rank: what it counted, by kind and path, and what its cable carried.
struct Counted {
    calls: BTreeMap<(Kind, CallPath), Count>,
    sent: u64,
    received: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    calls: u64,
    wire: u64,
    would: u64,
}

/// Runs a job of one kind of collective, one rank on each host.
fn counted(ranks: usize, collective: &str, steps: u64, adjust: impl Fn(Run) -> Run) -> Option<Vec<Counted>> {
    let hosts = Hosts::new(ranks)?;
    let base = tempfile::tempdir().expect("a folder");
    let before = carried(&hosts, ranks);
    for outcome in run(&hosts, ranks, (collective, steps), base.path(), adjust) {
        outcome.assert_success();
    }
    let after = carried(&hosts, ranks);
    let cables = before.iter().zip(&after).map(|(before, after)| (after.0 - before.0, after.1 - before.1));
    let mut files = snapshots(base.path());
    files.sort_by_key(|file| file.identity.world_rank);
    let of: Vec<_> = files.iter().map(|file| file.identity.world_rank).collect();
    assert_eq!(of, (0..ranks as i32).collect::<Vec<_>>(), "one file of each rank");
    Some(
        files
            .iter()
            .zip(cables)
            .map(|(file, (sent, received))| Counted { calls: by_path(file), sent, received })
            .collect(),
    )
}

fn carried(hosts: &Hosts, ranks: usize) -> Vec<(u64, u64)> {
    (0..ranks).map(|host| (hosts.counted(host, "tx_bytes"), hosts.counted(host, "rx_bytes"))).collect()
}

fn run(
    hosts: &Hosts,
    ranks: usize,
    (collective, steps): (&str, u64),
    base: &Path,
    adjust: impl Fn(Run) -> Run,
) -> Vec<Outcome> {
    let (steps, bytes) = (steps.to_string(), BYTES.to_string());
    let arguments = ["steps", "--collective", collective, "--steps", &steps, "--bytes", &bytes];
    let one = |rank: usize| {
        let run = hosts.inside(rank, &rank_program()).args(arguments).env("AIRAMP_TELEMETRY_DIR", base);
        let run =
            run.env("RANK", rank.to_string()).env("LOCAL_RANK", "0").env("WORLD_SIZE", ranks.to_string());
        let run =
            run.env("MASTER_ADDR", Hosts::FIRST).env("MASTER_PORT", "29555").library_dir(emulator_dir());
        adjust(run.preload(interposer()).time_limit(Duration::from_secs(100)))
    };
    let threads: Vec<_> = (0..ranks).map(one).map(|run| std::thread::spawn(move || run.run())).collect();
    threads.into_iter().map(|thread| thread.join().expect("a rank's run")).collect()
}

fn snapshots(base: &Path) -> Vec<Snapshot> {
    let found = folders(Some(base));
    let read = |folder: &airamp_telemetry::Found| {
        let names = folder.files();
        let open = |name: &String| {
            Reader::open(folder, name).and_then(|reader| reader.snapshot()).expect("it is readable")
        };
        names.iter().map(open).collect::<Vec<_>>()
    };
    found.iter().flat_map(read).collect()
}

fn by_path(file: &Snapshot) -> BTreeMap<(Kind, CallPath), Count> {
    let mut calls = BTreeMap::<_, Count>::new();
    for row in &file.counts {
        let count = calls.entry((row.kind, row.path)).or_default();
        count.calls += row.calls;
        count.wire += row.wire_bytes;
        count.would += row.would_wire_bytes;
    }
    calls
}

impl Counted {
    /// The rank made so many of these calls and no others.
    #[track_caller]
    fn of(&self, kind: Kind, path: CallPath, calls: u64) -> Count {
        let count = self.calls.get(&(kind, path)).copied().unwrap_or_default();
        assert_eq!((self.calls.len(), count.calls), (1, calls), "{:?}", self.calls);
        count
    }
}

/// A cable carried what was counted as sent over it.
#[track_caller]
fn assert_carried(whose: &str, counted: u64, sent: u64, received: u64) {
    let overhead = (counted + received) / PAYLOAD * HEADERS + MEETING;
    let more = sent as i64 - counted as i64;
    eprintln!(
        "{whose} counted {counted} wire bytes, and its cable carried {more} more; {overhead} is allowed"
    );
    assert!(
        sent >= counted && sent <= counted + overhead,
        "{whose} counted {counted}, its cable carried {sent}"
    );
}

#[test]
fn the_vendors_collectives_put_on_the_wire_what_is_counted() {
    let kinds = [
        ("all_reduce", Kind::AllReduce),
        ("reduce", Kind::Reduce),
        ("reduce_scatter", Kind::ReduceScatter),
        ("all_gather", Kind::AllGather),
        ("broadcast", Kind::Broadcast),
        ("all_to_all", Kind::AllToAll),
        ("gather", Kind::Gather),
        ("scatter", Kind::Scatter),
    ];
    for (name, kind) in kinds {
        let Some(ranks) = counted(RANKS, name, STEPS, |run| run) else {
            return skip_outside_ci("network namespaces need root and iproute2");
        };
        for (rank, counted) in ranks.iter().enumerate() {
            let count = counted.of(kind, CallPath::Vendor, STEPS);
            assert_carried(&format!("{name}: rank {rank}"), count.wire, counted.sent, counted.received);
            assert_eq!(count.wire, count.would, "nothing is saved by the vendor's own call");
        }
        let all: u64 = ranks.iter().flat_map(|rank| rank.calls.values()).map(|count| count.wire).sum();
        assert!(all >= STEPS * BYTES / RANKS as u64, "{name}: all ranks together sent {all}");
    }
}

/// With two ranks everything is exchanged once, with three it is scattered and gathered. Connecting the peers when the
/// communicator is made takes some megabytes of its own, which are no call's: what a longer job sent more than a shorter
/// one is compared.
#[test]
fn a_compressed_all_reduce_puts_its_packets_on_the_wire_and_no_more() {
    for ranks in [2, 3] {
        let job = |steps| counted(ranks, "all_reduce", steps, planned);
        let (Some(short), Some(long)) = (job(STEPS), job(3 * STEPS)) else {
            return skip_outside_ci("network namespaces need root and iproute2");
        };
        for (rank, (short, long)) in short.iter().zip(&long).enumerate() {
            let fewer = short.of(Kind::AllReduce, CallPath::Compressed, STEPS);
            let more = long.of(Kind::AllReduce, CallPath::Compressed, 3 * STEPS);
            let (wire, would) = (more.wire - fewer.wire, more.would - fewer.would);
            assert_eq!(wire, 2 * fewer.wire, "every call sends the same");
            // The shorter job may have sent something twice while it met.
            let (sent, received) =
                (long.sent + MEETING - short.sent, long.received + MEETING - short.received);
            assert_carried(&format!("rank {rank} of {ranks}"), wire, sent, received);
            // Four bytes become little more than one.
            assert!(wire * 3 < would, "rank {rank} of {ranks}: {wire} instead of {would}");
        }
    }
}

/// Around a ring: whoever gets a message has nothing to send for it.
#[test]
fn messages_put_on_the_wire_what_is_counted_for_who_sends_them() {
    let Some(ranks) = counted(RANKS, "send_recv", STEPS, |run| run) else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    for (rank, counted) in ranks.iter().enumerate() {
        let count = |kind| counted.calls.get(&(kind, CallPath::Vendor)).copied().unwrap_or_default();
        let (sent, got) = (count(Kind::Send), count(Kind::Recv));
        assert_eq!((counted.calls.len(), sent.calls, got.calls), (2, STEPS, STEPS), "{:?}", counted.calls);
        assert_eq!((sent.wire, got.wire), (STEPS * BYTES, 0));
        assert_carried(&format!("send_recv: rank {rank}"), sent.wire, counted.sent, counted.received);
    }
}

/// Each rank sends another part to each, and keeps one.
#[test]
fn what_only_rccl_has_puts_on_the_wire_what_is_counted() {
    for (name, kind) in [("all_to_all_v", Kind::AllToAllV), ("all_reduce_with_bias", Kind::AllReduceWithBias)]
    {
        let Some(ranks) = counted(RANKS, name, STEPS, |run| run.arg("--hip")) else {
            return skip_outside_ci("network namespaces need root and iproute2");
        };
        let wire: Vec<u64> =
            ranks.iter().map(|counted| counted.of(kind, CallPath::Vendor, STEPS).wire).collect();
        for (rank, (counted, wire)) in ranks.iter().zip(&wire).enumerate() {
            assert_carried(&format!("{name}: rank {rank}"), *wire, counted.sent, counted.received);
        }
        let all: u64 = wire.iter().sum();
        assert!(all >= STEPS * BYTES / RANKS as u64, "{name}: all ranks together sent {all}");
    }
}

/// A trial is a dry run of the packets and then the vendor's own call, and both cross the wire. Peers are connected when
/// the communicator is made, as for compressed calls.
#[test]
fn a_trial_puts_both_its_ways_on_the_wire() {
    let job = |steps| counted(RANKS, "all_reduce", steps, |run| run.env("AIRAMP_MODE", "shadow"));
    let (Some(short), Some(long)) = (job(1), job(4 * STEPS)) else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    for (rank, (short, long)) in short.iter().zip(&long).enumerate() {
        let sums = |counted: &Counted| {
            let of = |path| counted.calls.get(&(Kind::AllReduce, path)).copied().unwrap_or_default();
            let (trials, others) = (of(CallPath::Trial), of(CallPath::Vendor));
            assert!(trials.wire > trials.would || trials.calls == 0, "{:?}", counted.calls);
            (trials.calls, trials.calls + others.calls, trials.wire + others.wire)
        };
        let ((fewer_trials, one, less), (trials, calls, more)) = (sums(short), sums(long));
        assert_eq!((one, calls), (1, 4 * STEPS), "rank {rank}");
        assert!(trials > fewer_trials, "rank {rank}: {trials} trials, {fewer_trials} in the shorter job");
        let (sent, received) = (long.sent + MEETING - short.sent, long.received + MEETING - short.received);
        assert_carried(&format!("trials: rank {rank}"), more - less, sent, received);
    }
}
