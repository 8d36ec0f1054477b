//! The faults: each a value that says what is done to whom, and what may come of it. How it is done stands in `apply`.

use serde::{Deserialize, Serialize};

use super::job::Mode;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The rank kills itself with signal 9 before a step.
    Die {
        rank: u32,
        before_step: usize,
    },
    /// The rank is killed from outside.
    KillAfter {
        rank: u32,
        ms: u64,
    },
    /// The rank is killed inside a call of the vendor's, which may be one of the library's own.
    DieInCall {
        rank: u32,
        number: u32,
    },
    /// Signal STOP, and CONT later.
    Stop {
        rank: u32,
        after_ms: u64,
        for_ms: u64,
    },
    Pause {
        rank: u32,
        before_step: usize,
        ms: u64,
    },
    /// All connections of the rank end, the vendor's and the library's.
    CutAll {
        rank: u32,
        before_step: usize,
    },
    /// One of them, whosever it is.
    CutOne {
        rank: u32,
        before_step: usize,
        which: usize,
    },
    /// The rank's connection to its leader, after so many frames.
    CutControl {
        rank: u32,
        frames: u32,
        forever: bool,
    },
    /// Each operation of the rank begins later.
    SlowRank {
        rank: u32,
        ms: u32,
    },
    /// Each call of a function takes longer.
    SlowCall {
        rank: u32,
        function: String,
        ms: u32,
    },
    /// The library's address in the id leads nowhere, or is damaged.
    Refuse {
        how: String,
    },
    /// The device's n-th allocation is out of memory.
    Memory {
        rank: u32,
        number: u32,
    },
    /// The n-th kernel launch is refused by the call.
    RefuseLaunch {
        rank: u32,
        number: u32,
    },
    /// The n-th kernel launch fails on the device, which is lost with it.
    FailLaunch {
        rank: u32,
        number: u32,
    },
    /// The n-th call of a function of the vendor's fails.
    FailCall {
        rank: u32,
        function: String,
        number: u32,
        result: u32,
    },
    /// A code object of which a byte is wrong.
    Blob {
        rank: u32,
    },
    /// Another architecture than the others'.
    Architecture {
        rank: u32,
        name: String,
    },
    Setting {
        rank: u32,
        name: String,
        value: String,
    },
    /// The rank speaks another version of the agreement.
    Version {
        rank: u32,
    },
    /// The rank has no library.
    MixedPreload {
        rank: u32,
    },
    /// No room for the telemetry file.
    DiskFull {
        rank: u32,
    },
    /// Room for it, and later none at all.
    DiskFills {
        rank: u32,
        after_ms: u64,
    },
    /// The folder for telemetry is none.
    DiskGone {
        rank: u32,
    },
    /// The rank's monotonic clock differs from the others' by so much.
    ClockOffset {
        rank: u32,
        seconds: u32,
    },
    /// The time of day jumps while the rank runs.
    ClockJump {
        rank: u32,
        seconds: i64,
        after_ms: u32,
    },
    /// The monotonic clock leaps ahead while the rank runs.
    ClockLeap {
        rank: u32,
        ms: u32,
        after_ms: u32,
    },
    /// A panic of the library's own.
    Panic {
        rank: u32,
        place: String,
    },
}

/// What a job with this fault owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All ranks go through, with right results.
    Through,
    /// Each rank ends as it does without the library.
    Same,
    /// Each rank ends well or with an error; never with a wrong result, a hang or a crash.
    Bounded,
}

/// What a rank does to itself, in the ranks' own file.
#[derive(Clone, Debug, Serialize)]
pub struct Harm {
    rank: u32,
    before_step: usize,
    what: serde_json::Value,
}

impl Fault {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Die { .. } | Self::KillAfter { .. } | Self::DieInCall { .. } => "kill",
            Self::Stop { .. } | Self::Pause { .. } => "stop",
            Self::CutAll { .. } | Self::CutOne { .. } | Self::CutControl { .. } => "cut",
            Self::SlowRank { .. } | Self::SlowCall { .. } => "delay",
            Self::Refuse { .. } => "refuse",
            Self::Memory { .. } => "memory",
            Self::RefuseLaunch { .. } | Self::FailLaunch { .. } => "launch",
            Self::FailCall { .. } => "vendor call",
            Self::Blob { .. } | Self::Architecture { .. } => "blob",
            Self::Setting { .. } => "settings",
            Self::Version { .. } => "version",
            Self::MixedPreload { .. } => "mixed preload",
            Self::DiskFull { .. } | Self::DiskFills { .. } | Self::DiskGone { .. } => "disk full",
            Self::ClockOffset { .. } | Self::ClockJump { .. } | Self::ClockLeap { .. } => "clock",
            Self::Panic { .. } => "panic",
        }
    }

    /// The rank that it is done to; `None` where it is done to all.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Refuse { .. } => None,
            Self::Die { rank, .. }
            | Self::KillAfter { rank, .. }
            | Self::DieInCall { rank, .. }
            | Self::Stop { rank, .. }
            | Self::Pause { rank, .. }
            | Self::CutAll { rank, .. }
            | Self::CutOne { rank, .. }
            | Self::CutControl { rank, .. }
            | Self::SlowRank { rank, .. }
            | Self::SlowCall { rank, .. }
            | Self::Memory { rank, .. }
            | Self::RefuseLaunch { rank, .. }
            | Self::FailLaunch { rank, .. }
            | Self::FailCall { rank, .. }
            | Self::Blob { rank }
            | Self::Architecture { rank, .. }
            | Self::Setting { rank, .. }
            | Self::Version { rank }
            | Self::MixedPreload { rank }
            | Self::DiskFull { rank }
            | Self::DiskFills { rank, .. }
            | Self::DiskGone { rank }
            | Self::ClockOffset { rank, .. }
            | Self::ClockJump { rank, .. }
            | Self::ClockLeap { rank, .. }
            | Self::Panic { rank, .. } => Some(*rank),
        }
    }

    /// Whether the rank may end by signal 9.
    pub fn kills(&self) -> Option<u32> {
        match self {
            Self::Die { rank, .. } | Self::KillAfter { rank, .. } | Self::DieInCall { rank, .. } => {
                Some(*rank)
            }
            _ => None,
        }
    }

    /// Whether what the rank is killed in is chance, or another call with the library.
    pub fn kills_at_some_moment(&self) -> bool {
        matches!(self, Self::KillAfter { .. } | Self::DieInCall { .. })
    }

    /// Whether ranks may wait in the library for one that is gone, cannot be reached or has failed.
    pub fn parts_ranks(&self) -> bool {
        matches!(
            self,
            Self::Die { .. }
                | Self::KillAfter { .. }
                | Self::DieInCall { .. }
                | Self::CutAll { .. }
                | Self::CutOne { .. }
                | Self::CutControl { .. }
                | Self::Refuse { .. }
                | Self::FailLaunch { .. }
                | Self::FailCall { .. }
                | Self::Panic { .. }
        )
    }

    /// Whether time passes otherwise than it seems to: a wait until a moment, which a sleep is too, lasts longer by the whole leap, each
    /// one of them.
    pub fn stretches_waits(&self) -> bool {
        matches!(self, Self::ClockLeap { .. })
    }

    pub fn harm(&self) -> Option<Harm> {
        let (rank, before_step, what) = match self {
            Self::Die { rank, before_step } => (*rank, *before_step, serde_json::json!("die")),
            Self::CutAll { rank, before_step } => (*rank, *before_step, serde_json::json!("cut_all")),
            Self::CutOne { rank, before_step, which } => {
                (*rank, *before_step, serde_json::json!({ "cut_one": which }))
            }
            Self::Pause { rank, before_step, ms } => {
                (*rank, *before_step, serde_json::json!({ "pause": { "ms": ms } }))
            }
            _ => return None,
        };
        Some(Harm { rank, before_step, what })
    }

    pub fn owes(&self, mode: Mode) -> Outcome {
        match self {
            // Dead before a step, at the same place both ways.
            Self::Die { .. } | Self::CutAll { .. } => Outcome::Same,
            // The library makes calls and connections of its own, so that it is another one that is struck.
            Self::FailCall { .. } | Self::DieInCall { .. } if mode.is_passthrough() => Outcome::Same,
            Self::FailCall { .. } | Self::DieInCall { .. } => Outcome::Bounded,
            Self::KillAfter { .. } | Self::CutOne { .. } => Outcome::Bounded,
            // An application of its own launches no kernel here, so that without compression nothing is struck.
            Self::RefuseLaunch { .. } | Self::FailLaunch { .. } | Self::Panic { .. }
                if mode.is_passthrough() =>
            {
                Outcome::Through
            }
            Self::RefuseLaunch { .. } | Self::FailLaunch { .. } | Self::Panic { .. } => Outcome::Bounded,
            Self::CutControl { .. } if mode.is_passthrough() => Outcome::Through,
            Self::CutControl { forever: true, .. } => Outcome::Bounded,
            _ => Outcome::Through,
        }
    }
}
