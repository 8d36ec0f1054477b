//! What processes tell of their rhythm, remembered for as long as it matters: calls that came late, changes of pace,
//! and since when a rhythm is broken. It names whose doing it is, and decides nothing about findings
//! (`conditions` does). Pure and bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use airamp_telemetry::snapshot::{Communicator, Event, Snapshot};
use airamp_telemetry::{EventKind, Grew, PatternState};

use crate::groups::Group;
use crate::name;
use crate::process::Process;
use crate::reading::Now;
use crate::tally::seconds;
use crate::view;

const LATE_FOR_NS: u64 = 10_000_000_000;
const LATE_KEPT: usize = 256;
const CHANGES_KEPT: usize = 16;
/// Ranks that are named with a change of pace.
const RANKS_OF_A_CHANGE: usize = 64;
/// Within this part of a step, calls of several ranks come at the same moment.
const SAME_MOMENT: u64 = 20;
/// What several ranks say of one change comes within this; a slow job's ranks may need some steps longer.
const SAME_CHANGE_NS: u64 = 5_000_000_000;

#[derive(Default)]
pub(crate) struct Rhythms {
    late: VecDeque<Late>,
    changes: VecDeque<Change>,
    /// By process and slot: the generation, and when it was first seen to drift.
    drifting: BTreeMap<(u64, u8), (u64, u64)>,
}

/// A call that came later than its rank's own rhythm foresaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) at_ns: u64,
    pub(crate) communicator: u64,
    pub(crate) rank: u32,
    pub(crate) by_ns: u64,
    pub(crate) step: u64,
    pub(crate) period_ns: u64,
}

/// A change of pace, as one or several ranks saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) at_ns: u64,
    pub(crate) communicator: u64,
    pub(crate) before_ns: u64,
    pub(crate) after_ns: u64,
    pub(crate) step: u64,
    pub(crate) grew: BTreeMap<Option<u32>, Grew>,
}

impl Rhythms {
    pub(crate) fn told(&mut self, event: &Event, process: &Process) {
        let communicators = &process.snapshot.communicators;
        let Some(own) = communicators.iter().find(|one| Some(one.slot) == event.slot) else { return };
        match event.kind {
            EventKind::CallLate => self.came_late(event, process, own),
            EventKind::PaceChanged => self.pace_changed(event, process, own),
            _ => {}
        }
    }

    fn came_late(&mut self, event: &Event, process: &Process, own: &Communicator) {
        let Some(rank) = process.rank else { return };
        if self.late.len() == LATE_KEPT {
            self.late.pop_front();
        }
        self.late.push_back(Late {
            at_ns: event.at_ns,
            communicator: own.facts.name,
            rank,
            by_ns: event.a,
            step: event.step,
            period_ns: own.pattern.period_ns,
        });
    }

    fn pace_changed(&mut self, event: &Event, process: &Process, own: &Communicator) {
        let grew = Grew::from_number(event.about).unwrap_or(Grew::Unknown);
        let communicator = own.facts.name;
        let slower = event.b > event.a;
        let reach = SAME_CHANGE_NS.max(event.b.saturating_mul(3));
        let same = self.changes.iter_mut().rev().find(|known| {
            known.communicator == communicator
                && known.is_slower() == slower
                && known.at_ns.abs_diff(event.at_ns) <= reach
                && !known.grew.contains_key(&process.rank)
        });
        if let Some(known) = same {
            if known.grew.len() < RANKS_OF_A_CHANGE {
                known.grew.insert(process.rank, grew);
            }
            return;
        }
        if self.changes.len() == CHANGES_KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(Change {
            at_ns: event.at_ns,
            communicator,
            before_ns: event.a,
            after_ns: event.b,
            step: event.step,
            grew: BTreeMap::from([(process.rank, grew)]),
        });
    }

    /// Once a look, when all events are taken.
    pub(crate) fn follow(&mut self, groups: &[Group<'_>], now_ns: u64) {
        self.late.retain(|late| now_ns.saturating_sub(late.at_ns) <= LATE_FOR_NS);
        let members = groups.iter().flat_map(|group| &group.members).filter(|member| member.is_open());
        let drifting = members.filter(|member| member.communicator.pattern.state == PatternState::Drifting);
        let mut now = BTreeMap::new();
        for member in drifting {
            let key = (member.id, member.communicator.slot);
            let known = self.drifting.get(&key).filter(|known| known.0 == member.communicator.generation);
            now.insert(key, known.copied().unwrap_or((member.communicator.generation, now_ns)));
        }
        self.drifting = now;
    }

    pub(crate) fn drifting_since_ns(&self, process: u64, slot: u8) -> Option<u64> {
        self.drifting.get(&(process, slot)).map(|(_, since_ns)| *since_ns)
    }

    /// Calls of the last ten seconds that were late by their own rank's doing: not because a peer was, and not
    /// together with all `ranks_here`, which is the job's own pause.
    pub(crate) fn late(&self, communicator: u64, ranks_here: usize) -> Vec<Late> {
        let own = || self.late.iter().filter(|late| late.communicator == communicator);
        let explained = |late: &Late| own().any(|other| explains(other, late));
        let paused = |late: &Late| {
            let ranks: BTreeSet<u32> = own().filter(|one| together(one, late)).map(|one| one.rank).collect();
            ranks_here > 1 && ranks.len() >= ranks_here
        };
        own().filter(|late| !explained(late) && !paused(late)).copied().collect()
    }

    /// The newest of that communicator.
    pub(crate) fn change(&self, communicator: u64) -> Option<&Change> {
        self.changes.iter().filter(|change| change.communicator == communicator).max_by_key(|one| one.at_ns)
    }

    /// Oldest first.
    pub(crate) fn view(&self, now: Now) -> Vec<view::PaceChange> {
        self.changes.iter().map(|change| change.view(now)).collect()
    }
}

/// Ranks that wait for a late one are late in their next call, by about as much.
fn explains(first: &Late, late: &Late) -> bool {
    let reach = late.period_ns.saturating_add(late.period_ns / 2);
    let after_ns = late.at_ns.saturating_sub(first.at_ns);
    first.rank != late.rank
        && after_ns > late.period_ns / SAME_MOMENT
        && after_ns <= reach
        && first.by_ns >= late.by_ns / 2
}

fn together(one: &Late, other: &Late) -> bool {
    one.at_ns.abs_diff(other.at_ns) <= other.period_ns / SAME_MOMENT
}

impl Change {
    pub(crate) fn is_slower(&self) -> bool {
        self.after_ns > self.before_ns
    }

    /// The ranks, where they are known, of which something grew.
    pub(crate) fn ranks(&self, what: Grew) -> Vec<u32> {
        self.grew.iter().filter(|(_, grew)| **grew == what).filter_map(|(rank, _)| *rank).collect()
    }

    fn view(&self, now: Now) -> view::PaceChange {
        let by_rank =
            |(rank, grew): (&Option<u32>, &Grew)| view::RankPace { rank: *rank, grew: grew.name().into() };
        view::PaceChange {
            time_unix_ms: now.unix_ms_of(self.at_ns),
            communicator: name::communicator(self.communicator),
            step: self.step,
            before_s: seconds(self.before_ns),
            after_s: seconds(self.after_ns),
            ranks: self.grew.iter().map(by_rank).collect(),
        }
    }
}

/// A process's step is that of its locked communicator with the longest period.
pub(crate) fn of_process(snapshot: &Snapshot) -> view::Rhythm {
    let open = || snapshot.communicators.iter().filter(|one| one.ended.is_none()).map(|one| &one.pattern);
    let is = |state: PatternState| open().any(|pattern| pattern.state == state);
    let locked = open().filter(|pattern| pattern.state == PatternState::Locked && pattern.period_ns > 0);
    if let Some(step) = locked.max_by_key(|pattern| pattern.period_ns) {
        return view::Rhythm {
            state: PatternState::Locked.name().into(),
            step: Some(step.step),
            step_s: Some(seconds(step.period_ns)),
            step_calls: (step.period_calls > 0).then_some(step.period_calls),
        };
    }
    let others = [PatternState::Drifting, PatternState::Learning];
    let state = others.into_iter().find(|state| is(*state)).unwrap_or(PatternState::Off);
    view::Rhythm { state: state.name().into(), ..view::Rhythm::default() }
}

/// Locked when all ranks that have a rhythm are; the step is that of the slowest.
pub(crate) fn of_job<'a>(ranks: impl Iterator<Item = &'a view::Rhythm> + Clone) -> view::Rhythm {
    let has = |state: &str| ranks.clone().any(|rhythm| rhythm.state == state);
    let state = ["drifting", "learning", "locked"].into_iter().find(|state| has(state)).unwrap_or("off");
    let slowest = ranks
        .filter(|rhythm| rhythm.step_s.is_some())
        .max_by(|a, b| a.step_s.unwrap_or(0.0).total_cmp(&b.step_s.unwrap_or(0.0)));
    view::Rhythm { state: state.into(), ..slowest.cloned().unwrap_or_default() }
}
