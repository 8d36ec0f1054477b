//! Finds the step that repeats in a sequence of calls. It looks at the calls in two ways, with their bytes and without,
//! and at how many come between two pauses. Distances at which calls came again become candidates; one that has held
//! long enough is found. Work per call is bounded. It keeps no step itself and knows nothing of what was found before,
//! but how often that turned out wrong: `Rhythm` says so, and then more evidence is asked for.

use super::candidates::{Candidate, Candidates};
use super::mark::Mark;
use super::pauses::{self, PAUSE, Pauses, SLOW_NS, VERY_FEW};

/// Calls that are remembered.
pub(super) const DEPTH: usize = 1024;
/// The longest step that can be found: its calls must be remembered, and a few of the one before.
pub(super) const LONGEST: usize = DEPTH - 8;

/// Calls that must have come again before anything is believed, where their times came again, too.
const LEAST_EVEN: u32 = 10;
/// And where they did not, or where bytes were not looked at.
const LEAST: u32 = 24;
/// A sequence that repeats faster than this is a layer of a model rather than a step.
pub(super) const SHORT_STEP_NS: f32 = 1e6;
const LEAST_SHORT: u32 = 512;
/// One call or two that repeat are the layers of a longer step more often than a step; with pauses between them, almost always.
/// But not where `SLOW_NS` lies between them: few layers take so long, and the steps of a captured graph show as one call each.
pub(super) const LAYER: u32 = 2;
const LEAST_LAYERS: u32 = 64;
/// Until then it is one for now: a step of one call or two has come five times.
const LEAST_TIMES: u32 = 4;
/// Fewer calls than this are no step if their bytes differ each time: almost any sequence has them.
const FEW: u32 = 8;

/// Passes of a step, as of micro-batches, whose calls are the same.
const MOST_PASSES: u32 = 16;

/// A step was found: the last `calls` calls are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) calls: u32,
    /// For how many calls it has held.
    pub(super) run: u32,
    /// Calls differ by the pauses between them alone.
    pub(super) by_pauses: bool,
    /// It has not held for as long as is needed, and nothing else has.
    pub(super) provisional: bool,
}

impl Found {
    pub(super) fn is_many_of(&self, calls: u32) -> bool {
        self.calls > calls && self.calls.is_multiple_of(calls.max(1))
    }
}

pub(super) struct Learner {
    ring: [Mark; DEPTH],
    heard: u32,
    /// What lies before is not the sequence that is heard now.
    since: u32,
    exact: Candidates,
    sorts: Candidates,
    pauses: Pauses,
}

impl Learner {
    pub(super) const fn new() -> Self {
        Self {
            ring: [Mark::NONE; DEPTH],
            heard: 0,
            since: 0,
            exact: Candidates::new(true),
            sorts: Candidates::new(false),
            pauses: Pauses::new(),
        }
    }

    /// Calls went by that it did not hear.
    pub(super) fn begin_anew(&mut self) {
        self.since = self.heard;
        self.exact.clear();
        self.sorts.clear();
        self.pauses.clear();
    }

    /// The pause before the last call does not belong to the call or two that repeat.
    pub(super) fn paused(&mut self) {
        self.exact.break_layers();
    }

    /// Takes in a call. `doubt` is 1, or more where steps were found that did not hold.
    pub(super) fn hear(&mut self, mark: Mark, doubt: u32) -> Option<Found> {
        if self.heard == u32::MAX {
            self.heard = 0;
            self.begin_anew();
        }
        self.ring[self.heard as usize % DEPTH] = mark;
        self.heard += 1;
        let known = self.known();
        self.exact.hear(&self.ring, self.heard, known);
        self.sorts.hear(&self.ring, self.heard, known);
        let burst = self.pauses.hear(mark.gap_ns);
        let exact = self.exact.best(|candidate| needed(candidate, doubt));
        let bursts = burst.and_then(|calls| self.equal_bursts(calls));
        match (exact, bursts) {
            // One call or two that repeat within bursts that repeat. A longer step is not divided by its pauses alone, and
            // two of them are not one because a pause was missed.
            (Some(layer), Some(step)) if layer.calls <= LAYER && step.is_many_of(layer.calls) => bursts,
            (Some(_), _) => exact,
            (None, Some(_)) => bursts,
            (None, None) => self
                .sorts
                .best(|candidate| needed_without_bytes(candidate, doubt))
                .or_else(|| self.for_now(doubt)),
        }
    }

    /// Slow calls that are all alike: perhaps a step, and perhaps the beginning of one.
    fn for_now(&self, doubt: u32) -> Option<Found> {
        let found = self.exact.best(|candidate| needed_for_now(candidate, doubt))?;
        Some(Found { provisional: true, ..found })
    }

    /// The call that was heard `ago` calls before the last one (0: the last one).
    pub(super) fn back(&self, ago: u32) -> Option<Mark> {
        (ago < self.known()).then(|| self.ring[(self.heard - 1 - ago) as usize % DEPTH])
    }

    pub(super) fn known(&self) -> u32 {
        (self.heard - self.since).min(DEPTH as u32)
    }

    /// Calls may repeat sooner than their times do: several passes of a step alike, and then a longer pause. The step is
    /// then so many times what repeats that its pauses come again, too.
    pub(super) fn with_its_pauses(&self, found: Found) -> Found {
        if found.by_pauses {
            return found;
        }
        let times = (2..=MOST_PASSES).find(|times| self.fits_better(found, *times)).unwrap_or(1);
        Found { calls: found.calls * times, ..found }
    }

    fn fits_better(&self, found: Found, times: u32) -> bool {
        let calls = found.calls * times;
        // Twice, so that one late call does not look like a pause that comes again.
        let window = calls * 2;
        if window + calls > self.known().min(found.run + found.calls) {
            return false;
        }
        let pause = |ago: u32| self.back(ago).map_or(0.0, |mark| mark.gap_ns);
        let apart = |calls: u32| (0..window).map(|ago| (pause(ago) - pause(ago + calls)).abs()).sum::<f32>();
        let (before, now) = (apart(found.calls), apart(calls));
        let whole: f32 = (0..window).map(pause).sum();
        before * 4.0 > whole && now * 3.0 < before
    }

    /// Bursts of `calls` calls followed each other, and the last call begins the next one. They are steps if they are of
    /// the same kinds; very few calls must all be of one.
    fn equal_bursts(&self, calls: u32) -> Option<Found> {
        let run = calls * 2;
        let alike = |ago: u32| {
            let (one, other) = (self.back(ago)?, self.back(ago + calls)?);
            let before = self.back(if calls < VERY_FEW { ago + 1 } else { ago })?;
            (one.key.same_sort(other.key) && one.key.same_sort(before.key)).then_some(())
        };
        let is_divided = calls >= pauses::FEW || self.is_divided(calls, run);
        let is_step = is_divided && (1..=run).all(|ago| alike(ago).is_some());
        is_step.then_some(Found { calls, run, by_pauses: true, provisional: false })
    }

    /// Whether the pauses between bursts are pauses beside those within the same bursts: what was usual before them may
    /// have been something else, and few calls tell little.
    fn is_divided(&self, calls: u32, run: u32) -> bool {
        let gap = |ago: u32| self.back(ago).map_or(0.0, |mark| mark.gap_ns);
        let shortest_ns = (0..=run).step_by(calls.max(1) as usize).map(gap).fold(f32::INFINITY, f32::min);
        let within = (0..=run).filter(|ago| !ago.is_multiple_of(calls.max(1)));
        let within_ns = within.clone().map(gap).sum::<f32>() / within.count().max(1) as f32;
        shortest_ns > within_ns * PAUSE
    }
}

fn needed(candidate: &Candidate, doubt: u32) -> u32 {
    let least = match candidate {
        short if short.period_ns() < SHORT_STEP_NS => LEAST_SHORT,
        layer if layer.lag <= LAYER && !layer.is_steady() => LEAST_SHORT,
        slow if is_slow(slow) => LEAST_EVEN,
        layer if layer.lag <= LAYER => LEAST_LAYERS,
        even if even.is_even() => LEAST_EVEN,
        _ => LEAST,
    };
    (candidate.lag + candidate.lag / 2).max(least * doubt)
}

fn needed_for_now(candidate: &Candidate, doubt: u32) -> u32 {
    let may_be_one = is_slow(candidate) && candidate.is_steady();
    if may_be_one { candidate.lag * LEAST_TIMES * doubt } else { u32::MAX }
}

/// One call or two at a time that no layer is as slow as.
fn is_slow(candidate: &Candidate) -> bool {
    candidate.lag <= LAYER && candidate.is_all_even() && candidate.pause_ns() >= SLOW_NS
}

fn needed_without_bytes(candidate: &Candidate, doubt: u32) -> u32 {
    if candidate.lag < FEW {
        return u32::MAX;
    }
    let least = if candidate.period_ns() < SHORT_STEP_NS { LEAST_SHORT } else { LEAST };
    (candidate.lag * 2).max(least * doubt)
}
