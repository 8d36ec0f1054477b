//! A telemetry file that is held open: what is new in it since the last look. Used by `files`.

use std::collections::BTreeSet;

use airamp_telemetry::snapshot::{Call, Since};
use airamp_telemetry::{Reader, Unreadable};

use crate::proc;
use crate::reading::Reading;
use crate::view::ProcessState;

/// A call's device time becomes known after the call: so many calls are looked at again.
const LOOKED_AT_AGAIN: u64 = 256;
/// Looks without a new call after which no late device time is waited for any more.
const LATE_TIMES_LOOKS: u32 = 5;
/// Calls read in one look; of more, the newest.
const MOST_CALLS: u64 = 1024;

pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) uid: u32,
    pub(crate) reader: Reader,
    events: u64,
    events_lost: u64,
    decisions: u64,
    calls: u64,
    /// Sampled calls among those looked at again that were handed on.
    told: BTreeSet<u64>,
    /// Looks since the last new call.
    quiet: u32,
    blocked_before: bool,
}

impl Open {
    pub(crate) fn new(id: u64, uid: u32, reader: Reader) -> Self {
        let told = BTreeSet::new();
        Self {
            id,
            uid,
            reader,
            events: 0,
            events_lost: 0,
            decisions: 0,
            calls: 0,
            told,
            quiet: 0,
            blocked_before: false,
        }
    }

    pub(crate) fn read(&mut self, gone: bool) -> Result<Reading, Unreadable> {
        let snapshot = self.reader.snapshot()?;
        let mut events = Vec::new();
        if snapshot.events_written > self.events {
            let since = self.reader.events_since(self.events)?;
            self.events = since.next;
            self.events_lost = self.events_lost.saturating_add(since.lost);
            events = since.items;
        }
        let mut decisions = Vec::new();
        if snapshot.decisions_written > self.decisions {
            let since = self.reader.decisions_since(self.decisions)?;
            self.decisions = since.next;
            decisions = since.items;
        }
        let sampled = self.sampled(snapshot.calls_written)?;
        let process = if gone {
            ProcessState::Gone
        } else if snapshot.pid_is_ours {
            self.running(proc::state(snapshot.pid))
        } else {
            ProcessState::Foreign
        };
        let (id, user, events_lost) = (self.id, String::new(), self.events_lost);
        Ok(Reading { id, user, snapshot, process, sampled, events, events_lost, decisions })
    }

    /// The newest calls that it holds.
    pub(crate) fn last_calls(&self, most: u64) -> Option<Since<Call>> {
        self.reader.calls_since(self.calls.saturating_sub(most)).ok()
    }

    fn sampled(&mut self, written: u64) -> Result<Vec<Call>, Unreadable> {
        self.quiet = if written == self.calls { self.quiet.saturating_add(1) } else { 0 };
        if self.quiet > LATE_TIMES_LOOKS {
            return Ok(Vec::new());
        }
        let oldest = written.saturating_sub(MOST_CALLS);
        let from = self.calls.saturating_sub(LOOKED_AT_AGAIN).max(oldest);
        let since = self.reader.calls_since(from)?;
        self.calls = since.next;
        let new = |call: &Call| call.device_ns > 0 && !self.told.contains(&call.number);
        let sampled: Vec<Call> = since.items.into_iter().filter(new).collect();
        self.told.extend(sampled.iter().map(|call| call.number));
        self.told = self.told.split_off(&self.calls.saturating_sub(LOOKED_AT_AGAIN));
        Ok(sampled)
    }

    /// A process is blocked if it is at two looks: everyone who reads a disk is for a moment.
    fn running(&mut self, state: Option<char>) -> ProcessState {
        let blocked = state == Some('D');
        let before = std::mem::replace(&mut self.blocked_before, blocked);
        match state {
            Some('T' | 't') => ProcessState::Stopped,
            Some('D') if before => ProcessState::Blocked,
            _ => ProcessState::Running,
        }
    }
}

#[cfg(test)]
mod tests;
