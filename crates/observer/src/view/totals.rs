//! Counters that never go backwards, and rates between two looks.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// One row per combination that occurred.
    pub calls: Vec<Calls>,
    pub fallbacks: Vec<Fallbacks>,
    pub errors: Vec<Errors>,
    /// Host time that the library itself took.
    pub hook_s: f64,
    pub hook_calls: u64,
    /// Host time inside the vendor's functions.
    pub vendor_host_s: f64,
    /// Device time of quantising and dequantising, an estimate; 0 until a call was compressed or tried.
    pub codec_s: f64,
    /// Logical bytes that went through it.
    pub codec_bytes: u64,
    /// Elements that became the largest code.
    pub saturated: u64,
    /// Blocks with an element that is not finite.
    pub nonfinite: u64,
    pub compressed_calls: u64,
    pub trial_calls: u64,
    pub ghosts: u64,
    /// Calls that were not as the rhythm had foreseen them; one row per kind that occurred.
    #[serde(default)]
    pub deviations: Vec<Deviations>,
    #[serde(default)]
    pub pace_changes: u64,
    /// Events that the process overwrote before anybody read them.
    pub events_lost: u64,
    /// Communicators that found no slot.
    pub untracked: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    pub kind: Word,
    pub path: Word,
    pub datatype: Word,
    pub calls: u64,
    pub logical_bytes: u64,
    pub wire_bytes: u64,
    pub saved_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fallbacks {
    pub reason: Word,
    pub calls: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deviations {
    /// late, missing, extra or resized.
    pub kind: Word,
    pub calls: u64,
}

impl Deviations {
    /// All there are.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        airamp_telemetry::Deviation::ALL.iter().map(|kind| kind.name())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// The vendor's result, such as 2 for a system error.
    pub result: i32,
    pub calls: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Over which the rates are taken; 0 at the first look, and then all rates are 0.
    pub seconds: f64,
    pub logical_bytes_per_s: f64,
    pub wire_bytes_per_s: f64,
    pub saved_bytes_per_s: f64,
    pub calls_per_s: f64,
    /// Logical bits per second of device time, over the sampled calls.
    pub effective_gbit_per_s: Option<f64>,
    /// Of the calls sampled in this look.
    pub mean_latency_s: Option<f64>,
}
