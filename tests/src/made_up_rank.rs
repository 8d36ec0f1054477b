//! A rank without a job: its telemetry file, written here by the library's own path of a call. For tests of those who
//! read such files, and for what is measured of them.

use std::path::Path as Folder;

use airamp_telemetry::{
    CallRecord, CommunicatorFacts, Datatype, Identity, Kind, Path, Shape, Slot, Times, Writer, create, now,
    size_class,
};

/// Of a world of this many.
const RANKS: i32 = 64;

/// Bytes of a call, and that is what it puts on the wire.
const CALL_BYTES: u64 = 1 << 20;
const SHAPE: Shape = Shape {
    kind: Kind::AllReduce,
    path: Path::Vendor,
    datatype: Datatype(7),
    count: CALL_BYTES / 4,
    logical: CALL_BYTES,
    wire: CALL_BYTES,
    would_wire: CALL_BYTES,
};

/// The telemetry of one rank, which lives as long as the process that made it up.
pub struct MadeUpRank {
    pub writer: Writer,
    pub slots: Vec<Slot>,
}

impl MadeUpRank {
    /// Its communicators are named from 1 on.
    pub fn new(base: &Folder, job: &str, rank: i32, communicators: u64) -> Self {
        let mut identity = Identity::of_this_process("0.1.0", 2);
        identity.job = job.to_owned();
        (identity.world_rank, identity.local_rank) = (rank, rank);
        let writer = create(Some(base), &identity).expect("a telemetry file");
        let facts = |name| CommunicatorFacts { name, rank, ranks: RANKS, ..CommunicatorFacts::default() };
        let slots = (1..=communicators).map(|name| writer.open(&facts(name)).expect("a slot")).collect();
        Self { writer, slots }
    }

    /// An AllReduce that is done, and took that long on the device.
    pub fn call(&self, communicator: usize, device_ns: u32) {
        let slot = self.slots[communicator];
        let recipe = self.writer.recipe(slot.bits(), SHAPE);
        let (sequence, number) = recipe.took_effect_in(1, CallRecord::SAMPLED, now(), Times::new(10, 1));
        slot.completed(sequence, now());
        self.writer.device_time(number, device_ns.into());
        self.writer.duration(SHAPE.kind, SHAPE.path, size_class(SHAPE.logical), device_ns.into());
        self.writer.spent(1, 10, 1);
    }

    /// So many calls of a millisecond on each communicator.
    pub fn work(&self, calls: u64) {
        for communicator in 0..self.slots.len() {
            (0..calls).for_each(|_| self.call(communicator, 1_000_000));
        }
    }
}
