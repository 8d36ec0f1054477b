//! What a look found of one process, and the moment of the look. Plain values: `files` makes them from real
//! files, tests make them up.

use airamp_telemetry::snapshot::{Call, Decision, Event, Snapshot};

use crate::view::ProcessState;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// CLOCK_MONOTONIC, as all times in files.
    pub(crate) ns: u64,
    pub(crate) unix_ms: u64,
}

impl Now {
    pub(crate) fn unix_ms_of(self, ns: u64) -> u64 {
        if ns <= self.ns { self.unix_ms.saturating_sub((self.ns - ns) / 1_000_000) } else { self.unix_ms }
    }

    pub(crate) fn seconds_since(self, ns: u64) -> f64 {
        self.ns.saturating_sub(ns) as f64 / 1e9
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The same for the same file at every look.
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) snapshot: Snapshot,
    /// `Gone`: this is the last reading of it.
    pub(crate) process: ProcessState,
    /// Sampled calls whose device time became known since the last look.
    pub(crate) sampled: Vec<Call>,
    pub(crate) events: Vec<Event>,
    /// Overwritten before they were read, since the file was first seen.
    pub(crate) events_lost: u64,
    pub(crate) decisions: Vec<Decision>,
}
