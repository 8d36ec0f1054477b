//! What an observer saw, as plain values: the JSON of `/api/v1/node` and of `airamp status --json`. Bytes are
//! integers, seconds end in `_s`, unix time in milliseconds in `_unix_ms`, and what is not known is null.
//! Every number is finite. No logic lives here.

mod communicator;
mod event;
mod job;
mod totals;

use airamp_machine::Reading;
use serde::{Deserialize, Serialize};

pub use communicator::{Communicator, CommunicatorState, Member, MemberState, Pattern};
pub use event::{Event, Finding, FindingKind, Severity};
pub use job::{
    Bound, BoundBy, Class, Exemplar, Gain, GhostGain, Job, JobState, Latency, OnLink, PaceChange,
    ProcessState, Rank, RankPace, Rhythm, Sizes,
};
pub use totals::{Calls, Deviations, Errors, Fallbacks, Rates, Totals};

/// A word of a fixed vocabulary, such as `all_reduce`: borrowed by who writes it, owned by who parsed it.
pub use airamp_machine::Word;

pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub schema: u32,
    pub node: String,
    /// Of the observer.
    pub version: String,
    pub time_unix_ms: u64,
    /// Of the observer.
    pub uptime_s: f64,
    /// Processes that live and can be read.
    pub processes: u64,
    /// Files that are not shown, with the reason; the first few of many.
    pub unreadable: Vec<Unreadable>,
    pub unreadable_count: u64,
    /// How long finding, reading and adding up took.
    pub look_s: f64,
    /// Those that run, and those that ended in the last ten minutes.
    pub jobs: Vec<Job>,
    /// The newest, oldest first.
    pub events: Vec<Event>,
    /// What is wrong now.
    pub findings: Vec<Finding>,
    /// Devices and network, which stand beside the rest in the JSON. The observer leaves them empty; `airampd` fills
    /// them in.
    #[serde(flatten)]
    pub machine: Reading,
    /// Of all jobs since the observer began, ended and forgotten ones too.
    pub totals: Totals,
    pub rates: Rates,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unreadable {
    pub file: String,
    pub why: String,
}

impl Node {
    /// A node with two jobs, one of them with a late rank: for tests of whatever shows a node.
    pub fn example() -> Self {
        serde_json::from_str(include_str!("../../fixtures/node.json")).unwrap_or_default()
    }
}
