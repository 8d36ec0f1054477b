//! A made-up job: telemetry files of this test's own process, written as the library writes them.

#![allow(dead_code, reason = "each test file uses its own part of this module")]

use std::path::Path;

use airamp_telemetry::{
    AgreementState, CallRecord, CommunicatorFacts, Datatype, EventKind, Identity, JobSource, Kind,
    Path as Way, State, Writer, create, now,
};

pub(crate) const RANKS: i32 = 2;
/// Of each rank.
pub(crate) const VENDOR_CALLS: u64 = 40;
pub(crate) const COMPRESSED_CALLS: u64 = 24;
pub(crate) const CALL_BYTES: u64 = 1 << 20;
pub(crate) const COMMUNICATOR: &str = "00000000000000ab";

const RECORD: &str = "{\"communicator\":\"00000000000000ab\",\"rank\":0,\"ranks\":2,\"index\":12,\"class\":{\"collective\":\
    \"AllReduce\",\"datatype\":\"float32\",\"from_bytes\":1048576,\"below_bytes\":4194304},\"decision\":\"compressed\",\"reason\":\
    \"1.83 times the vendor's speed\",\"speedup\":1.83,\"ours_us\":100.0,\"vendor_us\":183.0,\"vnmse\":8.6e-5}";

/// The files stay while the test's process lives.
pub(crate) fn started(base: &Path, job: &str) {
    for rank in 0..RANKS {
        let writer = create(Some(base), &identity(job, rank)).expect("a telemetry file");
        fill(writer, rank);
    }
}

fn identity(job: &str, rank: i32) -> Identity {
    let mut identity = Identity::of_this_process("0.1.0", 2);
    identity.job = job.to_owned();
    identity.job_source = JobSource::Given;
    (identity.world_rank, identity.local_rank) = (rank, rank);
    identity.command = "python3".to_owned();
    identity
}

fn fill(writer: Writer, rank: i32) {
    writer.set_vendor("NCCL 2.28.9");
    writer.set_state(State::On);
    let facts =
        CommunicatorFacts { name: 0xab, rank, ranks: RANKS, device: rank, ..CommunicatorFacts::default() };
    let slot = writer.open(&facts).expect("a slot");
    slot.agreement(AgreementState::from_name("on").expect("a state"), "");
    let float32 = Datatype::of(7);
    let wire = CALL_BYTES; // of two ranks: 2 (n-1)/n
    for _ in 0..VENDOR_CALLS {
        writer.count(Kind::AllReduce, Way::Vendor, float32, 1, CALL_BYTES, wire, wire);
        slot.completed(slot.issued(1, now()), now());
    }
    for _ in 0..COMPRESSED_CALLS {
        writer.count(Kind::AllReduce, Way::Compressed, float32, 1, CALL_BYTES, wire / 4, wire);
        let sequence = slot.issued(1, now());
        slot.compressed(1);
        slot.completed(sequence, now());
        writer.call(&record(slot.index(), float32, sequence));
    }
    writer.event(EventKind::CommunicatorMade, Some(slot), 0, 0, "a communicator of 2 ranks");
    if rank == 0 {
        writer.decision(RECORD);
    }
}

fn record(slot: u8, datatype: Datatype, sequence: u64) -> CallRecord {
    CallRecord {
        sequence,
        entered: now(),
        vendor_ticks: 100,
        hook_ticks: 10,
        ..CallRecord::new(slot, Kind::AllReduce, Way::Compressed, datatype, CALL_BYTES / 4)
    }
}
