//! What telemetry does for one collective, so many times: `cost CALLS`. Under callgrind, the difference between two runs
//! tells the instructions of one call.

use airamp_telemetry::{CallRecord, CommunicatorFacts, Datatype, Identity, Kind, Path, create, now};

fn main() {
    let calls: u64 = std::env::args().nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(1_000_000);
    let base = tempfile::tempdir().expect("a folder for the file");
    let identity = Identity::of_this_process("0", 0);
    let writer = create(Some(base.path()), &identity).expect("a telemetry file");
    let slot = writer.open(&CommunicatorFacts::default()).expect("a free slot");
    let start = std::time::Instant::now();
    for _ in 0..calls {
        let entered = now();
        slot.enter(entered);
        slot.leave();
        let left = now();
        let datatype = std::hint::black_box(Datatype::of(6));
        writer.count(Kind::AllReduce, Path::Vendor, datatype, 1, 1 << 14, 24 << 10, 24 << 10);
        let sequence = slot.issued(1, entered);
        writer.in_vendor(left.since(entered));
        writer.hook(left.since(entered));
        writer.call(&CallRecord {
            slot: slot.index(),
            kind: Kind::AllReduce,
            path: Path::Vendor,
            datatype,
            flags: 0,
            count: 8192,
            sequence,
            step: 0,
            entered,
            vendor_ticks: 1,
            hook_ticks: 1,
            device_ns: 0,
        });
    }
    println!("{:.1} ns per call", start.elapsed().as_nanos() as f64 / calls.max(1) as f64);
}
