//! The file of a planned job, as its planner writes it: communicators, steps, and what a rank does to itself. Parsed
//! strictly; what it names must exist. Every rank reads the same file.

use std::path::Path;

use airamp_vendor_abi::nccl::DataType;
use serde::{Deserialize, Deserializer, de};

use crate::collective::Collective;
use crate::error::RankError;
use crate::pattern::Reduction;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Those that a step may make, by their place in this list.
    pub(super) communicators: Vec<Kin>,
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) harms: Vec<Harm>,
    /// How often all steps are walked through.
    #[serde(default = "once")]
    pub(super) rounds: usize,
    /// Instead: until so many seconds have passed, by rank 0's clock.
    #[serde(default)]
    pub(super) seconds: Option<u64>,
    /// How long a call may take before it counts as stuck.
    pub(super) patience_s: u64,
    /// Goes on after it has made a communicator without asking for its state, as nobody's watchdog does.
    #[serde(default)]
    pub(super) heedless: bool,
    /// Meets the other ranks before each new communicator, as frameworks do: one that is gone is missed there, and not in
    /// the vendor's creation, which waits for ever.
    #[serde(default)]
    pub(super) meets: bool,
    /// Whether each result is told, or their number alone.
    #[serde(default = "yes")]
    pub(super) tells_results: bool,
    /// Whether memory, descriptors and threads are told round by round.
    #[serde(default)]
    pub(super) tells_vitals: bool,
}

/// Where a communicator comes from.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Kin {
    /// All ranks, under an id of its own.
    World,
    /// The ranks of another one whose number there leaves the same rest when divided by `parts`.
    Split { of: usize, parts: usize, reversed: bool },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    Make(usize),
    End(usize),
    Calls {
        calls: Vec<CallPlan>,
        manner: Manner,
        #[serde(default = "once")]
        times: usize,
        /// Before each call a rank is late by chance, by so many microseconds at most.
        #[serde(default)]
        skew_us: u64,
    },
    /// Messages around the ring of a communicator.
    Messages {
        comm: usize,
        bytes: usize,
    },
    /// So many children, which do nothing but end: each in another way.
    Forks(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Manner {
    /// One after the other.
    Plain,
    /// From the second time on each rank takes the communicators in another order.
    Shuffled,
    /// In one group.
    Grouped,
    /// Captured once they have run, and replayed as often as the step is repeated.
    Captured,
    /// The calls of each communicator on a thread of their own.
    Threads,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallPlan {
    pub(super) comm: usize,
    #[serde(deserialize_with = "collective")]
    pub(super) collective: Collective,
    #[serde(deserialize_with = "datatype")]
    pub(super) datatype: DataType,
    #[serde(deserialize_with = "reduction")]
    pub(super) reduction: Reduction,
    pub(super) count: usize,
    pub(super) in_place: bool,
    pub(super) shift: usize,
    pub(super) root: usize,
    pub(super) seed: usize,
}

/// What a rank does to itself before a step.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Harm {
    pub(super) rank: usize,
    pub(super) before_step: usize,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum What {
    /// It dies at once.
    Die,
    /// All its connections but that to the planner's star end.
    CutAll,
    /// One of them ends.
    CutOne(usize),
    /// It sleeps.
    Pause { ms: u64 },
}

impl Plan {
    pub(super) fn read(path: &Path) -> Result<Self, RankError> {
        let wrong =
            |error: &dyn std::fmt::Display| RankError::Arguments(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    }
}

fn once() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn collective<'de, D: Deserializer<'de>>(from: D) -> Result<Collective, D::Error> {
    let name = String::deserialize(from)?;
    Collective::named(&name).ok_or_else(|| de::Error::custom(format!("no collective {name}")))
}

fn datatype<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
    let name = String::deserialize(from)?;
    let known = DataType::ALL.iter().find(|(_, known)| *known == name);
    known.map(|(datatype, _)| *datatype).ok_or_else(|| de::Error::custom(format!("no datatype {name}")))
}

fn reduction<'de, D: Deserializer<'de>>(from: D) -> Result<Reduction, D::Error> {
    let name = String::deserialize(from)?;
    Ok(match name.as_str() {
        "sum" => Reduction::Sum,
        "prod" => Reduction::Prod,
        "max" => Reduction::Max,
        "min" => Reduction::Min,
        "avg" => Reduction::Avg,
        other => return Err(de::Error::custom(format!("no reduction {other}"))),
    })
}
