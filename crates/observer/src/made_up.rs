//! Snapshots for tests, made up, and the world that looks at them.

use airamp_telemetry::sizes::HOOK_BUCKETS;
use airamp_telemetry::snapshot::{Arrival, Call, Communicator, Count, Hook, Pattern, Snapshot, Spent, Sums};
use airamp_telemetry::{
    AgreementState, CommunicatorFacts, Datatype, Identity, JobSource, Kind, Path, PatternState, State,
};

use crate::conditions::Limits;
use crate::reading::{Now, Reading};
use crate::view::{FindingKind, Node, ProcessState};
use crate::world::World;

pub(crate) const S: u64 = 1_000_000_000;

pub(crate) fn world() -> World {
    World::new("node-1".to_owned(), Limits { hang_after_ns: 10 * S, late_after_ns: S })
}

pub(crate) fn at(second: u64) -> Now {
    Now { ns: second * S, unix_ms: 1_000_000 + second * 1000 }
}

pub(crate) fn kinds(node: &Node) -> Vec<FindingKind> {
    node.findings.iter().map(|finding| finding.kind).collect()
}

/// The jobs, and how many processes of each live.
pub(crate) fn labels(node: &Node) -> Vec<(&str, u64)> {
    node.jobs.iter().map(|job| (job.label.as_str(), job.ranks_here)).collect()
}

/// What a process left that has ended since.
pub(crate) fn ended(mut last: Reading) -> Reading {
    last.process = ProcessState::Gone;
    last
}

pub(crate) fn communicator(name: u64, rank: i32, ranks: i32) -> Communicator {
    Communicator {
        slot: 0,
        generation: 1,
        facts: CommunicatorFacts { name, rank, ranks, ..CommunicatorFacts::default() },
        opened_ns: 1,
        ended: None,
        ended_ns: 0,
        poisoned: 0,
        issued: 0,
        issued_ns: 0,
        completed: 0,
        completed_ns: 0,
        pending: 0,
        pending_ns: 0,
        polled_ns: 0,
        inside: 0,
        inside_since_ns: 0,
        inside_other: false,
        agreement: AgreementState::NotSought,
        agreement_reason: String::new(),
        plan_from: 0,
        plan: [0; 64],
        all_reduces: 0,
        arena_bytes: 0,
        sums: Sums::default(),
        vnmse: None,
        pattern: Pattern {
            state: PatternState::Off,
            confidence: 0.0,
            period_calls: 0,
            period_ns: 0,
            step: 0,
        },
        arrivals: Vec::new(),
        milestones: Vec::new(),
    }
}

/// A sampled AllReduce of 4 MiB.
pub(crate) fn call(sequence: u64, device_ns: u32) -> Call {
    Call {
        number: sequence,
        slot: Some(0),
        kind: Kind::AllReduce,
        path: Path::Vendor,
        datatype: Datatype(7),
        flags: 2,
        count: 1 << 20,
        sequence,
        step: 0,
        entered_ns: 1,
        vendor_ns: 1000,
        hook_ns: 100,
        device_ns,
    }
}

pub(crate) fn snapshot(job: &str, rank: i32, pid: u32) -> Snapshot {
    Snapshot {
        pid,
        pid_is_ours: true,
        uid: 1000,
        identity: identity(job, rank),
        state: State::On,
        started_ns: 1,
        started_unix_ms: 1_000,
        taken_ns: 1,
        active_ns: 1,
        counts: Vec::new(),
        sizes: Vec::new(),
        durations: Vec::new(),
        hook: Hook { spent: Spent::default(), buckets: [0; HOOK_BUCKETS], bounds_ns: [0; HOOK_BUCKETS - 1] },
        in_vendor: Spent::default(),
        fallbacks: Vec::new(),
        errors: Vec::new(),
        untracked: 0,
        sums: Sums::default(),
        ghosts_measured: None,
        communicators: Vec::new(),
        calls_written: 0,
        events_written: 0,
        decisions_written: 0,
        dropped: 0,
        torn: 0,
    }
}

fn identity(job: &str, rank: i32) -> Identity {
    let mut identity = Identity::of_this_process("0.1.0", 2);
    identity.job = job.to_owned();
    identity.job_source = if job.is_empty() { JobSource::None } else { JobSource::Slurm };
    identity.world_rank = rank;
    identity.local_rank = rank;
    identity
}

pub(crate) fn reading(id: u64, snapshot: Snapshot) -> Reading {
    Reading {
        id,
        user: "somebody".to_owned(),
        snapshot,
        process: ProcessState::Running,
        sampled: Vec::new(),
        events: Vec::new(),
        events_lost: 0,
        decisions: Vec::new(),
    }
}

/// Rank `rank` of four that share one communicator, having issued the sequences at these times.
pub(crate) fn member(rank: i32, arrivals: &[(u64, u64)]) -> Reading {
    let mut made_up = snapshot("job", rank, 100 + rank as u32);
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|(sequence, at_ns)| Arrival { sequence: *sequence, at_ns: *at_ns }).collect();
    let last = arrivals.last().copied().unwrap_or(Arrival { sequence: 0, at_ns: 0 });
    made_up.communicators = vec![Communicator {
        issued: last.sequence,
        issued_ns: last.at_ns,
        arrivals,
        ..communicator(0xabc, rank, 4)
    }];
    reading(rank as u64 + 1, made_up)
}

pub(crate) fn counted(mut snapshot: Snapshot, calls: u64) -> Snapshot {
    snapshot.counts = vec![Count {
        kind: Kind::AllReduce,
        path: Path::Vendor,
        datatype: Datatype(7),
        calls,
        logical_bytes: calls * 1000,
        wire_bytes: calls * 1500,
        would_wire_bytes: calls * 1500,
    }];
    snapshot
}
