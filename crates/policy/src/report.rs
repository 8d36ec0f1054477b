//! What a rank tells the leader's tuner about its calls. It comes from another machine: `decode` takes only
//! what `encode` can have written, and the tuner believes no number without a look at it.

use serde::{Deserialize, Serialize};

/// No report is longer.
pub const LONGEST_REPORT: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `Class::place`; for `Counters`, which are the communicator's, any.
    pub place: u8,
    pub kind: ReportKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReportKind {
    /// A call that was tried. `measured` is false where its times mean nothing (it shared its group with other
    /// calls, all measurement places were taken, or it could not be timed); the numbers are then ignored.
    Trial {
        index: u64,
        iteration: u8,
        variant: u8,
        count: u64,
        ours_us: f64,
        vendor_us: f64,
        squared_error: f64,
        signal: f64,
        measured: bool,
    },
    /// The time of an ordinary call.
    Watch { index: u64, compressed: bool, count: u64, us: f64 },
    /// Totals since the communicator began, from its compressed calls and just so many dry runs.
    Counters {
        squared_error: f64,
        signal: f64,
        saturated: u64,
        non_finite_blocks: u64,
        foreign: u64,
        dry_runs: u64,
    },
    /// A call of the class became part of a graph, which from now on repeats it.
    Captured { compressed: bool },
    /// The first eligible call of the class.
    Seen,
    /// This rank cannot cut the calls of the class in this way (too many steps).
    Unsuitable { variant: u8 },
    /// This rank knows the step that its calls repeat: the class has `calls` of them in it, the largest of `largest`
    /// elements, and this variant, of those that are tried only where they fit, cuts that one into overlapping chunks.
    Fits { variant: u8, calls: u32, largest: u64 },
}

impl Report {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > LONGEST_REPORT {
            return None;
        }
        let report: Self = postcard::from_bytes(bytes).ok()?;
        (report.encode() == bytes).then_some(report)
    }
}
