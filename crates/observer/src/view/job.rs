//! A job on this node: its ranks, its communicators, and what holds it back.

use airamp_policy::explain::Record;
use serde::{Deserialize, Serialize};

use super::{Communicator, Rates, Totals, Word};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Unique on the node while the observer lives: the job's name, with `#2` and so on where several jobs
    /// have the same; empty where there is no name. The label of metrics.
    pub label: String,
    /// As the environment gave it; empty without one.
    pub job: String,
    /// given, slurm, elastic, pod or none.
    pub source: Word,
    pub pod: String,
    pub user: String,
    pub uid: u32,
    /// observe, shadow or on.
    pub mode: Word,
    pub state: JobState,
    pub started_unix_ms: u64,
    pub ended_unix_ms: Option<u64>,
    /// Processes of the job that live on this node.
    pub ranks_here: u64,
    /// Ranks of the largest communicator.
    pub size: u64,
    /// Of the library; more than one is worth a look.
    pub versions: Vec<String>,
    pub vendor: String,
    pub totals: Totals,
    pub rates: Rates,
    /// Device time of collectives by wall time, 0 to 1; null without samples.
    pub communication_share: Option<f64>,
    /// Of that, waiting for the rank that arrives last.
    pub waiting_share: Option<f64>,
    /// Host time inside the vendor's functions and in the library, by wall time.
    pub host_share: Option<f64>,
    pub bound_by: BoundBy,
    pub gain: Gain,
    /// Locked when all ranks that have a rhythm are; the step of the slowest.
    #[serde(default)]
    pub rhythm: Rhythm,
    /// The newest, oldest first.
    #[serde(default)]
    pub pace_changes: Vec<PaceChange>,
    pub ranks: Vec<Rank>,
    pub communicators: Vec<Communicator>,
    pub classes: Vec<Class>,
    /// The newest, oldest first.
    pub decisions: Vec<Record>,
    pub latency: Vec<Latency>,
    pub sizes: Vec<Sizes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    #[default]
    Running,
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoundBy {
    pub what: Bound,
    /// One sentence with numbers.
    pub why: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Compute,
    Communication,
    Straggler,
    Host,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Of the calls that were compressed, against what the vendor took for their class; null without a baseline.
    pub speedup: Option<f64>,
    pub saved_s: Option<f64>,
    pub saved_bytes: u64,
    /// trials or none.
    pub baseline: Word,
    pub on_other_links: Vec<OnLink>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OnLink {
    pub gbit_per_s: f64,
    /// By a model, see docs/diagnosis.md; null where what it needs was not measured.
    pub speedup: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Unique in the job. Null: what has no rank, and ranks that ended and were added up.
    pub rank: Option<u32>,
    pub local_rank: Option<u32>,
    /// Of the newest process with this rank.
    pub pid: u32,
    pub process_state: ProcessState,
    /// What the library does there: observing, shadow, on, inert, disabled.
    pub state: Word,
    pub version: String,
    pub command: String,
    pub step_id: String,
    pub device: Option<u32>,
    /// `GPU-xxxxxxxx-…`; empty where not known.
    pub device_uuid: String,
    pub nic: String,
    /// Mean arrival behind the first, over the arrivals that were new in this look; null without any.
    pub lag_s: Option<f64>,
    /// How often it was the last to arrive, 0 to 1.
    pub last_share: Option<f64>,
    pub late: bool,
    #[serde(default)]
    pub rhythm: Rhythm,
    /// What ghost kernels bring; null until it was measured.
    #[serde(default)]
    pub ghosts: Option<GhostGain>,
    pub totals: Totals,
    pub rates: Rates,
    /// Lag by the largest of the job's, 0 to 1; 1 also for a rank that is missing.
    pub heat: f64,
}

/// The step that repeats: that of the communicator whose step takes longest, of those that are locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rhythm {
    /// off, learning, locked or drifting.
    pub state: Word,
    pub step: Option<u64>,
    pub step_s: Option<f64>,
    /// Calls of a step on that communicator.
    pub step_calls: Option<u32>,
}

/// Steps became longer or shorter, and stayed so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaceChange {
    pub time_unix_ms: u64,
    pub communicator: String,
    /// The first with the new pace.
    pub step: u64,
    pub before_s: f64,
    pub after_s: f64,
    /// Those that saw it, at most 64.
    pub ranks: Vec<RankPace>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankPace {
    pub rank: Option<u32>,
    /// What of its step grew, or shrank: unknown, communication, compute or both.
    pub grew: Word,
}

/// The first kernel after a gap, without and with ghost kernels in the gap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GhostGain {
    pub without_s: f64,
    pub with_s: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    #[default]
    Running,
    /// By a signal or a debugger (`T`, `t`).
    Stopped,
    /// In the kernel, and not to be woken (`D`).
    Blocked,
    Gone,
    /// Of a job that runs: gone before those that live began, or it has another number now, or was never shown to be of it.
    /// Nobody misses it.
    Left,
    /// Of another pid namespace: it lives, and more is not to be seen.
    Foreign,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    pub communicator: String,
    pub collective: String,
    pub datatype: String,
    pub from_bytes: u64,
    pub below_bytes: Option<u64>,
    /// As in `policy::explain::Decision`: vendor, compressed, trial, would, would-not, frozen.
    pub decision: Word,
    pub reason: String,
    pub speedup: Option<f64>,
    pub vnmse: Option<f64>,
    pub ours_us: Option<f64>,
    pub vendor_us: Option<f64>,
    /// The call from which on it holds.
    pub index: Option<u64>,
}

/// Device times of sampled calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub kind: Word,
    pub path: Word,
    /// Upper bounds, inclusive; `counts` has one more, for what lies above. Not cumulative.
    pub bounds_s: Vec<f64>,
    pub counts: Vec<u64>,
    pub sum_s: f64,
    /// The newest sampled call of each bucket that has one.
    pub exemplars: Vec<Exemplar>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exemplar {
    /// Index into `counts`.
    pub bucket: u32,
    pub rank: Option<u32>,
    pub communicator: String,
    pub sequence: u64,
    pub seconds: f64,
    pub unix_ms: u64,
}

/// Logical bytes of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    pub kind: Word,
    pub path: Word,
    /// Upper bounds, inclusive; `counts` has one more, for what lies above. Not cumulative.
    pub bounds_bytes: Vec<u64>,
    pub counts: Vec<u64>,
    pub sum_bytes: u64,
}
