//! What happened, and what is wrong.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Rises by one with each event that the observer saw, from the time of its first look in milliseconds on.
    pub seq: u64,
    pub time_unix_ms: u64,
    /// `communicator_made`, … of the telemetry; `finding_began` and `finding_ended` of the observer.
    pub kind: Word,
    pub severity: Severity,
    /// The job's label.
    pub job: String,
    pub node: String,
    pub rank: Option<u32>,
    pub device_uuid: String,
    pub nic: String,
    pub communicator: String,
    pub step: Option<u64>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    #[default]
    Info,
    Warning,
    Error,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: FindingKind,
    pub severity: Severity,
    pub since_unix_ms: u64,
    /// The job's label.
    pub job: String,
    /// Empty where it is not about one.
    pub communicator: String,
    /// The job's ranks whose doing it is.
    pub ranks: Vec<u32>,
    pub sequence: Option<u64>,
    /// What is wrong and what to do.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    #[default]
    LateRank,
    Hang,
    LatencySpike,
    ErrorBurst,
    Accuracy,
    FallbackStorm,
    DeadProcess,
    /// The job stopped doing what it had done step for step.
    RhythmBroken,
    /// A rank comes late for its own rhythm.
    LateCall,
    SlowerPace,
}

impl FindingKind {
    pub const ALL: [Self; 10] = [
        Self::LateRank,
        Self::Hang,
        Self::LatencySpike,
        Self::ErrorBurst,
        Self::Accuracy,
        Self::FallbackStorm,
        Self::DeadProcess,
        Self::RhythmBroken,
        Self::LateCall,
        Self::SlowerPace,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::LateRank => "late_rank",
            Self::Hang => "hang",
            Self::LatencySpike => "latency_spike",
            Self::ErrorBurst => "error_burst",
            Self::Accuracy => "accuracy",
            Self::FallbackStorm => "fallback_storm",
            Self::DeadProcess => "dead_process",
            Self::RhythmBroken => "rhythm_broken",
            Self::LateCall => "late_call",
            Self::SlowerPace => "slower_pace",
        }
    }
}
