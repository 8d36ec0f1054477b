//! What a writer is told, a reader gets: exactly, and whoever wrote it.

mod place;

use std::sync::atomic::{AtomicBool, Ordering};

use airamp_telemetry::*;
use place::{Place, identity};

const F16: Datatype = Datatype(6);

#[test]
fn who_writes_is_read_back() {
    let place = Place::new();
    let mut told = identity();
    told.job = "Ärger\0hidden".repeat(30);
    let writer = create(Some(place.base()), &told).unwrap();
    writer.set_vendor("NCCL 2.28.9");
    writer.set_state(State::Shadow);
    let found = place.only();
    let snapshot = found.snapshot().unwrap();
    assert_eq!(snapshot.identity.job, "Ärger", "a zero ends a text");
    assert_eq!(snapshot.identity.vendor, "NCCL 2.28.9");
    assert_eq!(Identity { job: String::new(), vendor: String::new(), ..snapshot.identity }, identity());
    assert_eq!((snapshot.pid, snapshot.state), (std::process::id(), State::Shadow));
    assert!(snapshot.pid_is_ours && found.liveness() == Liveness::Alive);
    assert!(snapshot.started_ns <= snapshot.taken_ns && snapshot.started_ns > 0);
    assert_eq!(snapshot.torn, 0);
}

#[test]
fn a_text_is_cut_between_two_characters() {
    let place = Place::new();
    let mut told = identity();
    told.job = format!("x{}", "ä".repeat(100));
    let writer = create(Some(place.base()), &told).unwrap();
    writer.event(EventKind::Note, None, 0, 0, &format!("{}ß", "e".repeat(159)));
    let reader = place.only();
    assert_eq!(reader.snapshot().unwrap().identity.job, format!("x{}", "ä".repeat(63)));
    assert_eq!(reader.events_since(0).unwrap().items[0].text, "e".repeat(159));
}

#[test]
fn calls_and_bytes_are_counted_by_kind_path_and_datatype() {
    let place = Place::new();
    let writer = place.writer();
    writer.count(Kind::AllReduce, Path::Vendor, F16, 3, 3 * 16384, 3 * 24576, 0);
    writer.count(Kind::AllReduce, Path::Compressed, F16, 1, 1 << 30, 1 << 29, 1 << 30);
    writer.count(Kind::Recv, Path::VendorCaptured, Datatype::of(99), 1, 7, 0, 0);
    writer.count(Kind::Recv, Path::Vendor, F16, 0, 7, 7, 7);
    let snapshot = place.only().snapshot().unwrap();
    let told: Vec<_> = snapshot
        .counts
        .iter()
        .map(|c| {
            (c.kind, c.path, c.datatype.name(), c.calls, c.logical_bytes, c.wire_bytes, c.would_wire_bytes)
        })
        .collect();
    assert_eq!(
        told,
        [
            (Kind::AllReduce, Path::Vendor, "float16", 3, 49152, 73728, 0),
            (Kind::AllReduce, Path::Compressed, "float16", 1, 1 << 30, 1 << 29, 1 << 30),
            (Kind::Recv, Path::VendorCaptured, "other", 1, 7, 0, 0),
        ]
    );
    let sizes: Vec<_> = snapshot.sizes.iter().map(|sizes| (sizes.kind, sizes.path, sizes.calls)).collect();
    let one = |class: usize, calls| std::array::from_fn(|place| if place == class { calls } else { 0 });
    assert_eq!(sizes[0], (Kind::AllReduce, Path::Vendor, one(2, 3)), "16 KiB each, not 48");
    assert_eq!(sizes[1], (Kind::AllReduce, Path::Compressed, one(10, 1)));
}

#[test]
fn times_reasons_and_errors_add_up() {
    let place = Place::new();
    let writer = place.writer();
    writer.duration(Kind::AllGather, Path::Vendor, 3, 1000);
    writer.duration(Kind::AllGather, Path::Vendor, 3, 1001);
    writer.duration(Kind::AllGather, Path::Vendor, 255, u64::MAX / 2);
    writer.spent(0, 0, 1);
    writer.spent(5, 1000, 3);
    writer.fallback(Reason::Size, 2);
    writer.fallback(Reason::Other, 1);
    for result in [1, 3, 3, 14, 15, -7, 99] {
        writer.error(result);
    }
    let snapshot = place.only().snapshot().unwrap();
    let [small, large] = &snapshot.durations[..] else { panic!("{:?}", snapshot.durations) };
    assert_eq!((small.size_class, small.samples, small.sum_ns), (3, 2, 2001));
    assert_eq!((small.buckets[0], small.buckets[1]), (1, 1), "one microsecond belongs to the first");
    assert_eq!((large.size_class, large.buckets[27]), (15, 1));
    assert_eq!((snapshot.hook.spent.calls, snapshot.hook.buckets[0], snapshot.hook.buckets[3]), (4, 1, 3));
    assert!(snapshot.hook.bounds_ns.is_sorted());
    assert_eq!(snapshot.in_vendor.calls, 3, "where the vendor was not called, it took no time");
    assert_eq!(snapshot.fallbacks, [(Reason::Size, 2), (Reason::Other, 1)]);
    assert_eq!(snapshot.errors, [(1, 1), (3, 2), (14, 1), (-1, 3)]);
}

#[test]
fn threads_lose_nothing_of_each_other() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let place = Place::new();
    let writer = place.writer();
    let slot = writer.open(&CommunicatorFacts::default()).unwrap();
    let record = place::call(slot.index());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for n in 0..EACH {
                    writer.count(Kind::AllReduce, Path::Vendor, F16, 1, 1 << 14, 3, 1);
                    writer.duration(Kind::AllReduce, Path::Vendor, 2, n);
                    writer.spent(n, 1, 1);
                    slot.enter(now());
                    slot.completed(slot.issued(1, now()), now());
                    slot.leave();
                    slot.codec(CodecCounters { saturated: 1, nonfinite: 2, foreign: 3, blocks: 4 });
                    writer.call(&record);
                }
            });
        }
    });
    let reader = place.only();
    let snapshot = reader.snapshot().unwrap();
    let all = THREADS * EACH;
    let count = snapshot.counts[0];
    assert_eq!(
        (count.calls, count.logical_bytes, count.wire_bytes, count.would_wire_bytes),
        (all, all << 14, 3 * all, all)
    );
    assert_eq!((snapshot.sizes[0].calls[2], snapshot.durations[0].samples), (all, all));
    assert_eq!(snapshot.durations[0].sum_ns, THREADS * (EACH * (EACH - 1) / 2));
    assert_eq!((snapshot.hook.spent.calls, snapshot.in_vendor.calls), (all, all));
    let communicator = &snapshot.communicators[0];
    assert_eq!((communicator.issued, communicator.completed, communicator.inside), (all, all, 0));
    assert_eq!((communicator.sums.codec.blocks, snapshot.sums.codec.foreign), (4 * all, 3 * all));
    let calls = reader.calls_since(0).unwrap();
    assert_eq!(snapshot.calls_written, all);
    assert_eq!(calls.items.len() as u64 + calls.lost, all);
    assert!(calls.lost >= all - 4096 && calls.lost <= all - 4096 + snapshot.dropped, "{}", calls.lost);
}

#[test]
fn a_reader_beside_the_writer_never_sees_a_counter_go_backwards_or_a_mixed_record() {
    let place = Place::new();
    let writer = place.writer();
    let enough = AtomicBool::new(false);
    let write = || {
        let mut record = place::call(0);
        for n in (0_u64..).take_while(|_| !enough.load(Ordering::Relaxed)) {
            record.count = n;
            record.sequence = n ^ u64::MAX;
            (record.step, record.device_ns) = (n as u32, n as u32);
            writer.call(&record);
            writer.count(Kind::AllReduce, Path::Vendor, F16, 1, 251, 65_521, 0);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        scope.spawn(write);
        let _end = Ends(&enough);
        watch(&place.only());
    });
}

/// Ends the writers also when the reader has found a fault.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn watch(reader: &Reader) {
    let (mut cursor, mut before, mut seen, mut looks) = (0, (0, 0), 0, 0);
    while seen < 20_000 || looks < 200 {
        let snapshot = reader.snapshot().unwrap();
        let now = snapshot.counts.first().map_or((0, 0), |count| (count.calls, count.wire_bytes));
        assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} {now:?}");
        before = now;
        let calls = reader.calls_since(cursor).unwrap();
        assert_eq!(calls.next - cursor, calls.items.len() as u64 + calls.lost);
        for call in &calls.items {
            assert_eq!((call.sequence, call.step), (call.count ^ u64::MAX, call.device_ns));
            assert_eq!(call.step, call.count as u32);
        }
        seen += calls.items.len();
        looks += 1;
        cursor = calls.next;
    }
}
