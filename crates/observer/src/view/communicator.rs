//! A communicator as its ranks on this node see it.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// Sixteen hexadecimal digits, equal on all ranks; of a communicator without a name its process and slot.
    pub name: String,
    pub parent: Option<String>,
    /// A number in its job, the same for all members and kept while the communicator lives, then given to
    /// another; the smallest that is free, so below 32 unless a job has more communicators on this node.
    pub slot: u32,
    pub size: u64,
    /// Those on this node.
    pub ranks: Vec<Member>,
    pub state: CommunicatorState,
    /// Ranks (the job's) on this node that have not issued what the others wait for.
    pub missing: Vec<u32>,
    /// Ranks on other nodes, of which nothing is known here.
    pub elsewhere: u64,
    /// The sequence that the missing have not issued, or that does not complete.
    pub behind_sequence: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommunicatorState {
    #[default]
    Running,
    Late,
    Hung,
    Poisoned,
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The job's rank, as in `Rank`.
    pub rank: Option<u32>,
    /// The rank in the communicator.
    pub member: u32,
    pub pid: u32,
    pub issued: u64,
    pub completed: u64,
    /// Since when the oldest event that was asked for has not come; null when nothing is under way.
    pub oldest_in_flight_s: Option<f64>,
    /// Since when the host is inside the vendor's function; null outside.
    pub inside_host_s: Option<f64>,
    /// not_sought, joining, candidate, ready, on, off, frozen or in_doubt.
    pub agreement: Word,
    pub reason: String,
    pub arena_bytes: u64,
    pub compressed_calls: u64,
    pub trial_calls: u64,
    pub vnmse: Option<f64>,
    pub saturated: u64,
    pub nonfinite: u64,
    pub codec_s: f64,
    pub pattern: Pattern,
    pub ghosts: u64,
    pub state: MemberState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    #[default]
    Running,
    Ended,
    Poisoned,
    /// Its process is gone, and the communicator was not ended.
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// off, learning, locked or drifting.
    pub state: Word,
    pub confidence: f64,
    pub period_s: Option<f64>,
    pub step: u64,
    /// Of a step; null: not known.
    #[serde(default)]
    pub period_calls: Option<u32>,
    /// Calls that were not as foreseen, of all kinds.
    #[serde(default)]
    pub deviations: u64,
    #[serde(default)]
    pub pace_changes: u64,
}
