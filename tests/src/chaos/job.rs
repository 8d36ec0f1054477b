//! A job of the chaos tests as a value, to be written down, shrunk and run again: how many ranks, in which mode, which
//! steps, which faults. The steps are those that `airamp-rank scenario planned` reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Harm, Outcome};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub seed: u64,
    pub ranks: u32,
    pub mode: Mode,
    /// Egress of each device in gigabits per second; 0: as fast as the machine.
    pub link_gbps: u32,
    /// Hardware queues of a device. Streams that share one wait for each other, with the library at other places than
    /// without it, so that jobs in which ranks differ in their order have many.
    #[serde(default = "many")]
    pub queues: u32,
    /// The program does not ask for the state of a communicator that it has made.
    #[serde(default)]
    pub heedless: bool,
    /// What the library takes for one node; a job that was written down without it has a rank on each.
    #[serde(default = "one")]
    pub ranks_per_node: u32,
    pub communicators: Vec<Kin>,
    pub steps: Vec<Step>,
    pub faults: Vec<Fault>,
}

/// As many as a device can have.
pub const MANY_QUEUES: u32 = 32;

fn many() -> u32 {
    MANY_QUEUES
}

fn one() -> u32 {
    1
}

/// What the library is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Observe,
    Shadow,
    /// Tries, and compresses what pays.
    On,
    /// Compresses from the first call on.
    Forced,
}

impl Mode {
    pub fn may_compress(self) -> bool {
        matches!(self, Self::On | Self::Forced)
    }

    /// Whether the library adds nothing to the vendor's calls.
    pub fn is_passthrough(self) -> bool {
        self == Self::Observe
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kin {
    World,
    Split { of: usize, parts: usize, reversed: bool },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Make(usize),
    End(usize),
    Calls { calls: Vec<Call>, manner: Manner, times: usize, skew_us: u64 },
    Messages { comm: usize, bytes: usize },
    Forks(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    Plain,
    Shuffled,
    Grouped,
    Captured,
    Threads,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub comm: usize,
    pub collective: String,
    pub datatype: String,
    pub reduction: String,
    pub count: usize,
    pub in_place: bool,
    pub shift: usize,
    pub root: usize,
    pub seed: usize,
}

/// The file that the ranks read.
#[derive(Serialize)]
pub struct PlanFile<'a> {
    pub communicators: &'a [Kin],
    pub steps: &'a [Step],
    pub harms: Vec<Harm>,
    pub rounds: usize,
    pub seconds: Option<u64>,
    pub patience_s: u64,
    pub heedless: bool,
    pub meets: bool,
    pub tells_results: bool,
    pub tells_vitals: bool,
}

/// Waits of the library's, shorter than by default and long enough for two busy cores.
pub const CONSENSUS_MS: u64 = 4000;
pub const DOUBT_MS: u64 = 6000;

/// How long the emulator tries to reach the rank that made the id.
const VENDORS_DIAL_MS: u64 = 30_000;

/// Longer than every wait of the library's in these jobs, and than a rank is stopped.
pub const PATIENCE_S: u64 = 40;

impl Job {
    pub fn plan_file(&self) -> PlanFile<'_> {
        PlanFile {
            communicators: &self.communicators,
            steps: &self.steps,
            harms: self.faults.iter().filter_map(Fault::harm).collect(),
            rounds: 1,
            seconds: None,
            patience_s: PATIENCE_S,
            heedless: self.heedless,
            meets: !self.heedless && self.owes() != Outcome::Through,
            tells_results: true,
            tells_vitals: false,
        }
    }

    /// The least that its faults leave it.
    pub fn owes(&self) -> Outcome {
        self.faults.iter().map(|fault| fault.owes(self.mode)).max().unwrap_or(Outcome::Through)
    }

    /// How long it may wait because of its faults where it does not without the library: each communicator once for its
    /// creation and once in doubt; and in the vendor's own creation, where a kill at some moment finds it only because the
    /// library has waited before.
    pub fn waits(&self) -> Duration {
        if self.mode.is_passthrough() || !self.faults.iter().any(Fault::parts_ranks) {
            return Duration::ZERO;
        }
        let made = self.steps.iter().filter(|step| matches!(step, Step::Make(_))).count() as u64;
        let killed = self.faults.iter().any(Fault::kills_at_some_moment);
        let vendors = if killed { VENDORS_DIAL_MS } else { 0 };
        Duration::from_millis(made * (CONSENSUS_MS + DOUBT_MS) + vendors)
    }

    /// One line for people.
    pub fn told(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(|fault| format!("{fault:?}")).collect();
        let steps = self.steps.len();
        let nodes = if self.ranks_per_node > 1 {
            format!(" ({} to a node)", self.ranks_per_node)
        } else {
            String::new()
        };
        format!(
            "seed {}: {} ranks{nodes}, {:?}, {steps} steps, faults: {}",
            self.seed,
            self.ranks,
            self.mode,
            faults.join("; ")
        )
    }
}
