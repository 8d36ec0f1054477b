//! A process as the observer remembers it between looks.

use std::collections::BTreeMap;

use airamp_telemetry::snapshot::{Communicator, Snapshot};

use crate::first_calls::FirstCalls;
use crate::reading::{Now, Reading};
use crate::recent::Recent;
use crate::tally::Tally;
use crate::view::ProcessState;

pub(crate) struct Process {
    pub(crate) snapshot: Snapshot,
    pub(crate) state: ProcessState,
    pub(crate) user: String,
    /// The job's number, see `jobs`.
    pub(crate) job: u64,
    /// A communicator has shown with whom it belongs; only another one can show that it is more.
    pub(crate) settled: bool,
    pub(crate) rank: Option<u32>,
    /// What it grew by at this look.
    pub(crate) grown: Tally,
    /// Whether that happened since the last look, and not before it was first seen.
    pub(crate) grown_lately: bool,
    pub(crate) recent: Recent,
    /// When it was first seen to be gone; 0: it lives.
    pub(crate) gone_ns: u64,
    pub(crate) first_calls: FirstCalls,
    /// When it was last known to live.
    pub(crate) alive_ns: u64,
    /// When it was last seen, neither gone nor stopped; 0: never.
    present_ns: u64,
    before: Tally,
    read_ns: u64,
    in_flight: BTreeMap<u8, InFlight>,
}

/// The oldest event that was asked for and has not come.
#[derive(Clone, Copy)]
struct InFlight {
    generation: u64,
    sequence: u64,
    since_ns: u64,
}

impl Process {
    pub(crate) fn new(reading: &Reading) -> Self {
        Self {
            snapshot: reading.snapshot.clone(),
            state: reading.process,
            user: reading.user.clone(),
            job: 0,
            settled: false,
            rank: None,
            grown: Tally::default(),
            grown_lately: false,
            recent: Recent::default(),
            gone_ns: 0,
            first_calls: FirstCalls::default(),
            alive_ns: 0,
            present_ns: 0,
            before: Tally::default(),
            read_ns: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// `last_look_ns`: 0 at the observer's first look.
    pub(crate) fn take(&mut self, reading: &mut Reading, last_look_ns: u64, now: Now) {
        let first = self.read_ns == 0;
        let since = if first { reading.snapshot.started_ns } else { self.read_ns };
        self.grown = self.before.advance(&Tally::of(&reading.snapshot, reading.events_lost));
        self.grown_lately = !first || (last_look_ns > 0 && reading.snapshot.started_ns >= last_look_ns);
        self.recent.take(&self.grown, now.seconds_since(since));
        self.read_ns = now.ns.max(1);
        self.state = reading.process;
        self.gone_ns = if self.is_live() { 0 } else { now.ns };
        // A file that outlived its process by days tells of one that ended then.
        let alive_ns = if self.is_live() { now.ns } else { reading.snapshot.active_ns.min(now.ns) };
        self.alive_ns = self.alive_ns.max(alive_ns);
        if !self.is_absent() {
            self.present_ns = now.ns;
        } else if first {
            self.present_ns = last_sign_ns(&reading.snapshot);
        }
        std::mem::swap(&mut self.snapshot, &mut reading.snapshot);
        self.rank = rank(&self.snapshot);
        self.follow_events();
    }

    /// It is gone, or as good as gone, and nothing more is known of it.
    pub(crate) fn lose(&mut self, now: Now) {
        self.state = ProcessState::Gone;
        self.gone_ns = now.ns;
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state != ProcessState::Gone
    }

    /// Of one that is gone or stopped: when it was last seen to be neither.
    pub(crate) fn absent_since_ns(&self) -> Option<u64> {
        self.is_absent().then_some(self.present_ns)
    }

    fn is_absent(&self) -> bool {
        matches!(self.state, ProcessState::Gone | ProcessState::Stopped)
    }

    pub(crate) fn in_flight_since_ns(&self, communicator: &Communicator) -> Option<u64> {
        let in_flight = self.in_flight.get(&communicator.slot)?;
        (in_flight.generation == communicator.generation).then_some(in_flight.since_ns)
    }

    /// Once all that compares them is done, arrivals take room for nothing.
    pub(crate) fn forget_arrivals(&mut self) {
        for communicator in &mut self.snapshot.communicators {
            communicator.arrivals = Vec::new();
            communicator.milestones = Vec::new();
        }
    }

    /// Files show the newest pending event only; a hang is as old as the oldest.
    fn follow_events(&mut self) {
        for communicator in &self.snapshot.communicators {
            let waits = communicator.pending > communicator.completed && communicator.pending_ns > 0;
            if !waits || communicator.ended.is_some() {
                self.in_flight.remove(&communicator.slot);
                continue;
            }
            let generation = communicator.generation;
            let new =
                InFlight { generation, sequence: communicator.pending, since_ns: communicator.pending_ns };
            let known = self.in_flight.entry(communicator.slot).or_insert(new);
            if known.generation != generation || known.sequence <= communicator.completed {
                *known = new;
            }
        }
    }
}

/// Of a process that nobody saw alive: the last that its file says it did.
fn last_sign_ns(snapshot: &Snapshot) -> u64 {
    let signs = snapshot.communicators.iter().map(|it| it.issued_ns.max(it.inside_since_ns));
    signs.max().unwrap_or(0).max(snapshot.started_ns)
}

/// The job's rank: what the environment said, else the rank in the largest communicator.
fn rank(snapshot: &Snapshot) -> Option<u32> {
    let given = u32::try_from(snapshot.identity.world_rank).ok();
    let facts = snapshot.communicators.iter().map(|communicator| &communicator.facts);
    let largest = facts.max_by_key(|facts| (facts.ranks, std::cmp::Reverse(facts.rank)));
    given.or_else(|| largest.and_then(|facts| u32::try_from(facts.rank).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::{communicator, reading, snapshot};

    #[test]
    fn without_a_rank_in_the_environment_the_largest_communicator_gives_it() {
        let mut made_up = snapshot("j", -1, 7);
        made_up.communicators = vec![communicator(1, 0, 2), communicator(2, 5, 8), communicator(3, 1, 4)];
        assert_eq!(rank(&made_up), Some(5));
        made_up.identity.world_rank = 3;
        assert_eq!(rank(&made_up), Some(3));
        assert_eq!(rank(&snapshot("j", -1, 7)), None);
    }

    #[test]
    fn one_that_was_gone_when_it_was_first_seen_has_been_since_the_last_thing_that_it_did() {
        let mut made_up = snapshot("j", 0, 7);
        (made_up.started_ns, made_up.communicators) = (5, vec![communicator(1, 0, 2)]);
        made_up.communicators[0].issued_ns = 40;
        let mut gone = reading(1, made_up);
        gone.process = ProcessState::Gone;
        let mut process = Process::new(&gone);
        process.take(&mut gone, 0, Now { ns: 100, unix_ms: 0 });
        assert_eq!(process.absent_since_ns(), Some(40));
    }

    #[test]
    fn a_hang_is_as_old_as_the_oldest_event_even_when_newer_ones_were_enqueued() {
        let mut process = Process::new(&reading(1, snapshot("j", 0, 7)));
        let mut at = |completed, pending, pending_ns| {
            let mut made_up = snapshot("j", 0, 7);
            made_up.communicators =
                vec![Communicator { completed, pending, pending_ns, ..communicator(1, 0, 2) }];
            process.take(&mut reading(1, made_up), 0, Now { ns: 100, unix_ms: 0 });
            process.in_flight_since_ns(&process.snapshot.communicators[0])
        };
        assert_eq!(at(4, 5, 50), Some(50));
        assert_eq!(at(4, 9, 70), Some(50));
        assert_eq!(at(5, 9, 70), Some(70));
        assert_eq!(at(9, 9, 70), None);
    }
}
