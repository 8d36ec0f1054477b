//! What a look costs on a large node: 64 processes with 32 communicators each, all of them at work. Prints the time
//! of looks, and of their JSON. `node_of_64 DIR [LOOKS]` makes the files in DIR and leaves the processes' part to
//! this one, so that a daemon can be pointed at them: with LOOKS 0 it only keeps them busy until it is stopped.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use airamp_observer::{Observer, Options};
use airamp_telemetry::{
    CallRecord, CommunicatorFacts, Datatype, Identity, Kind, Path, Slot, Writer, create, now,
};

const PROCESSES: i32 = 64;
const COMMUNICATORS: u64 = 32;
/// Collectives that each communicator issues between two looks: more than the rings of arrivals hold.
const CALLS: u64 = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let own = tempfile::tempdir().expect("a folder");
    let base = arguments.next().map_or_else(|| own.path().to_path_buf(), PathBuf::from);
    let looks: u32 = arguments.next().and_then(|looks| looks.parse().ok()).unwrap_or(20);
    let processes: Vec<Process> = (0..PROCESSES).map(|rank| Process::new(&base, rank)).collect();
    if looks == 0 {
        loop {
            processes.iter().for_each(Process::work);
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    let mut observer = Observer::new(Options { bases: vec![base], ..Options::default() });
    let (mut times, mut idle, mut encoding, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..looks {
        processes.iter().for_each(Process::work);
        times.push(timed(|| drop(observer.look())));
        let mut node = None;
        idle.push(timed(|| node = Some(observer.look())));
        encoding.push(timed(|| {
            bytes = node.as_ref().and_then(|node| serde_json::to_vec(node).ok()).map_or(0, |json| json.len())
        }));
    }
    report("a look after every communicator issued 100 collectives", &times);
    report("a look after nothing happened", &idle);
    report(&format!("the view as JSON ({} KiB)", bytes / 1024), &encoding);
}

/// On the clock, and on the processor: what others do at the same time shows in the first alone.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    processor: Duration,
}

fn timed(work: impl FnOnce()) -> Took {
    let (began, before) = (Instant::now(), processor());
    work();
    Took { wall: began.elapsed(), processor: processor().saturating_sub(before) }
}

fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(what: &str, all: &[Took]) {
    println!(
        "{what}: {}; on the processor {}",
        line(all, |took| took.wall),
        line(all, |took| took.processor)
    );
}

fn line(all: &[Took], which: fn(&Took) -> Duration) -> String {
    let mut times: Vec<f64> = all.iter().map(|took| which(took).as_secs_f64() * 1e3).collect();
    times.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| times.get(place).copied().unwrap_or(0.0);
    format!(
        "median {:.1} ms, longest {:.1} ms of {}",
        at(times.len() / 2),
        at(times.len().saturating_sub(1)),
        times.len()
    )
}

struct Process {
    writer: Writer,
    slots: Vec<Slot>,
}

impl Process {
    fn new(base: &std::path::Path, rank: i32) -> Self {
        let mut identity = Identity::of_this_process("0.1.0", 2);
        identity.job = "large".to_owned();
        (identity.world_rank, identity.local_rank) = (rank, rank);
        let writer = create(Some(base), &identity).expect("a telemetry file");
        let facts = |name| CommunicatorFacts { name, rank, ranks: PROCESSES, ..CommunicatorFacts::default() };
        let slots = (1..=COMMUNICATORS).filter_map(|name| writer.open(&facts(name))).collect();
        Self { writer, slots }
    }

    fn work(&self) {
        for slot in &self.slots {
            for _ in 0..CALLS {
                let sequence = slot.issued(1, now());
                slot.pending(sequence, now());
                slot.completed(sequence, now());
                self.writer.call(&record(*slot, sequence));
            }
            for kind in [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter] {
                self.writer.count(
                    kind,
                    Path::Vendor,
                    Datatype(9),
                    CALLS,
                    CALLS << 20,
                    CALLS << 20,
                    CALLS << 20,
                );
                self.writer.duration(kind, Path::Vendor, 5, 1_000_000);
            }
        }
    }
}

fn record(slot: Slot, sequence: u64) -> CallRecord {
    let sampled = sequence.is_multiple_of(16);
    CallRecord {
        flags: if sampled { CallRecord::SAMPLED } else { 0 },
        sequence,
        entered: now(),
        vendor_ticks: 1000,
        hook_ticks: 100,
        device_ns: if sampled { 1_000_000 } else { 0 },
        ..CallRecord::new(slot.index(), Kind::AllReduce, Path::Vendor, Datatype(9), 1 << 19)
    }
}
