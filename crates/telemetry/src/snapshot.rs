//! What a reader gets: owned plain values. Times are nanoseconds of CLOCK_MONOTONIC on this node, 0 for 'never'.

use crate::sizes::{DURATION_BUCKETS, HOOK_BUCKETS, SIZE_CLASSES};
use crate::{
    AgreementState, CodecCounters, CommunicatorFacts, Datatype, Deviation, Ended, EventKind, Identity, Kind,
    Path, PatternState, Reason, State,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// In the writer's own pid namespace.
    pub pid: u32,
    /// Whether that is ours too, so that `pid` can be looked up here.
    pub pid_is_ours: bool,
    pub uid: u32,
    pub identity: Identity,
    pub state: State,
    pub started_ns: u64,
    pub started_unix_ms: u64,
    /// When this snapshot was taken.
    pub taken_ns: u64,
    /// The last call or event.
    pub active_ns: u64,
    /// Those that are not all zero.
    pub counts: Vec<Count>,
    pub sizes: Vec<Sizes>,
    pub durations: Vec<Durations>,
    pub hook: Hook,
    pub in_vendor: Spent,
    pub fallbacks: Vec<(Reason, u64)>,
    /// By ncclResult_t; -1 stands for all others.
    pub errors: Vec<(i32, u64)>,
    /// Communicators that found no slot.
    pub untracked: u64,
    /// Sums over all communicators that ever were.
    pub sums: Sums,
    /// Nanoseconds of the first kernel after a gap, without ghost kernels and with them, once measured.
    pub ghosts_measured: Option<(u64, u64)>,
    pub communicators: Vec<Communicator>,
    pub calls_written: u64,
    pub events_written: u64,
    pub decisions_written: u64,
    /// Records that never came into a ring.
    pub dropped: u64,
    /// Parts that were being written each time they were looked at, and are missing above.
    pub torn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub kind: Kind,
    pub path: Path,
    pub datatype: Datatype,
    pub calls: u64,
    pub logical_bytes: u64,
    pub wire_bytes: u64,
    /// What the vendor would have sent.
    pub would_wire_bytes: u64,
}

/// Calls by size class (`sizes::size_class_bytes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub kind: Kind,
    pub path: Path,
    pub calls: [u64; SIZE_CLASSES],
}

/// Device time of sampled calls. Buckets are not cumulative (`sizes::duration_bound_ns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    pub kind: Kind,
    pub path: Path,
    pub size_class: u8,
    pub samples: u64,
    pub sum_ns: u64,
    pub buckets: [u64; DURATION_BUCKETS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub calls: u64,
    pub ns: u64,
}

/// Our own host time. Bucket `i` holds calls of at most `bounds_ns[i]`; the last has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub spent: Spent,
    pub buckets: [u64; HOOK_BUCKETS],
    pub bounds_ns: [u64; HOOK_BUCKETS - 1],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub codec: CodecCounters,
    pub codec_ns: u64,
    pub codec_bytes: u64,
    pub compressed_calls: u64,
    pub trial_calls: u64,
    pub ghosts: u64,
    /// By `Deviation`.
    pub deviations: [u64; Deviation::ALL.len()],
    pub pace_changes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Communicator {
    pub slot: u8,
    /// Tells one holder of the slot from the next.
    pub generation: u64,
    pub facts: CommunicatorFacts,
    pub opened_ns: u64,
    pub ended: Option<Ended>,
    pub ended_ns: u64,
    /// The vendor's result that poisoned it; 0: not poisoned.
    pub poisoned: i32,
    /// Collectives issued; the sequence of the last one.
    pub issued: u64,
    pub issued_ns: u64,
    pub completed: u64,
    pub completed_ns: u64,
    /// The newest sequence behind which an event was enqueued, and when.
    pub pending: u64,
    pub pending_ns: u64,
    /// When a pending event was last asked for in vain.
    pub polled_ns: u64,
    /// How many threads are inside a vendor call on it, and since when.
    pub inside: u32,
    pub inside_since_ns: u64,
    /// What they are inside of is no collective: messages, or the communicator's end.
    pub inside_other: bool,
    pub agreement: AgreementState,
    pub agreement_reason: String,
    pub plan_from: u64,
    pub plan: [u8; 64],
    /// AllReduce calls by the agreement's index.
    pub all_reduces: u64,
    pub arena_bytes: u64,
    pub sums: Sums,
    /// The last measured error; `None`: never measured.
    pub vnmse: Option<f64>,
    pub pattern: Pattern,
    /// The newest, in the order of their sequence.
    pub arrivals: Vec<Arrival>,
    /// Of every 256th sequence.
    pub milestones: Vec<Arrival>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub sequence: u64,
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    pub state: PatternState,
    pub confidence: f32,
    pub period_calls: u32,
    pub period_ns: u64,
    pub step: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Counts up from 0 for each process.
    pub number: u64,
    pub kind: EventKind,
    pub slot: Option<u8>,
    pub at_ns: u64,
    pub a: u64,
    pub b: u64,
    /// Of the communicator's rhythm; 0: none.
    pub step: u64,
    /// What its kind says (`EventKind`).
    pub about: u64,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub number: u64,
    pub at_ns: u64,
    /// A `policy::explain::Record`, not checked here.
    pub json: String,
}

/// A call with its times as nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    pub slot: Option<u8>,
    pub kind: Kind,
    pub path: Path,
    pub datatype: Datatype,
    pub flags: u8,
    pub count: u64,
    pub sequence: u64,
    pub step: u32,
    pub entered_ns: u64,
    pub vendor_ns: u64,
    pub hook_ns: u64,
    /// 0: not known.
    pub device_ns: u32,
}

/// What of a ring was read: `next` is the cursor for the next time, `lost` what could not be had any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Since<T> {
    pub items: Vec<T>,
    pub next: u64,
    pub lost: u64,
}
