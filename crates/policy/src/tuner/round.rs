//! One round of trials of one class in one variant: what all ranks measured, put together. A time counts only if
//! every rank has measured it; the last rank to arrive has waited least, so the minimum over the ranks is the
//! collective's true cost.

use super::ranks::{RankSet, few};
use crate::believable::{power, time, vnmse};
use crate::cache::Figure;
use crate::ledger::TRIALS;

/// What a rank says about one call that was tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) index: u64,
    pub(super) iteration: u8,
    pub(super) variant: u8,
    pub(super) count: u64,
    /// `None`: not measured, or not to be believed.
    pub(super) measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    ours_us: f64,
    vendor_us: f64,
    squared_error: f64,
    signal: f64,
}

impl Measured {
    pub(super) fn new(ours_us: f64, vendor_us: f64, squared_error: f64, signal: f64) -> Option<Self> {
        Some(Self {
            ours_us: time(ours_us)?,
            vendor_us: time(vendor_us)?,
            squared_error: power(squared_error)?,
            signal: power(signal)?,
        })
    }
}

#[derive(Debug)]
pub(super) struct Round {
    pub(super) variant: u8,
    /// The index from which on the plan says so; before it is agreed on, nothing belongs to the round.
    pub(super) since: Option<u64>,
    /// When somebody was first seen waiting for the others, by the caller's clock.
    pub(super) stalled_us: Option<u64>,
    a_rank_is_done: bool,
    ranks: u32,
    iterations: [Iteration; TRIALS],
}

#[derive(Debug, Default)]
struct Iteration {
    /// The rank that reported it first, with the call's index and count; all others must say the same.
    call: Option<(u32, u64, u64)>,
    reported: RankSet,
    unmeasured: RankSet,
    best: Option<Measured>,
}

/// Ranks that tell different stories about the same call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    pub(super) ranks: [u32; 2],
    pub(super) what: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Incomplete,
    Unmeasured { who: Vec<u32> },
    Measured(Figure),
}

impl Round {
    pub(super) fn new(variant: u8, ranks: u32) -> Self {
        Self {
            variant,
            since: None,
            stalled_us: None,
            a_rank_is_done: false,
            ranks,
            iterations: Default::default(),
        }
    }

    pub(super) fn take(&mut self, rank: u32, trial: &Trial) -> Result<(), Disagreement> {
        if self.since.is_none_or(|since| trial.index < since) {
            return Ok(());
        }
        let Some(iteration) = self.iterations.get_mut(usize::from(trial.iteration)) else { return Ok(()) };
        let (first, index, count) = *iteration.call.get_or_insert((rank, trial.index, trial.count));
        if (index, count, self.variant) != (trial.index, trial.count, trial.variant) {
            let what = format!(
                "trial {} was call {index} with {count} elements in variant {} on one, and call {} with {} elements in \
                 variant {} on the other",
                trial.iteration, self.variant, trial.index, trial.count, trial.variant
            );
            return Err(Disagreement { ranks: [first, rank], what });
        }
        if iteration.reported.insert(rank) {
            iteration.add(rank, trial.measured);
            self.a_rank_is_done |= self.is_done(rank);
        }
        Ok(())
    }

    /// The rank that says it tried the call of this index.
    pub(super) fn tried(&self, index: u64) -> Option<u32> {
        self.iterations
            .iter()
            .filter_map(|iteration| iteration.call)
            .find(|call| call.1 == index)
            .map(|call| call.0)
    }

    pub(super) fn outcome(&self) -> Outcome {
        if !self.iterations.iter().all(|iteration| iteration.reported.holds_all(self.ranks)) {
            return Outcome::Incomplete;
        }
        let unmeasured =
            |rank: &u32| self.iterations.iter().any(|iteration| iteration.unmeasured.contains(*rank));
        match self.figure() {
            Some(figure) => Outcome::Measured(figure),
            None => Outcome::Unmeasured { who: few((0..self.ranks).filter(unmeasured)) },
        }
    }

    /// The best of the iterations, each path for itself. Calls of different size cannot be compared: then the last
    /// counts, which found everything warm.
    fn figure(&self) -> Option<Figure> {
        let all = self.iterations.iter().map(Iteration::figure).collect::<Option<Vec<_>>>()?;
        let last = *all.last()?;
        Some(all.iter().filter(|other| other.count == last.count).fold(last, |best, other| Figure {
            count: best.count,
            ours_us: best.ours_us.min(other.ours_us),
            vendor_us: best.vendor_us.min(other.vendor_us),
            vnmse: best.vnmse.max(other.vnmse),
        }))
    }

    /// The time that the dry runs of this round took, as far as it is known.
    pub(super) fn cost_us(&self) -> f64 {
        self.iterations.iter().filter_map(|iteration| iteration.best).map(|best| best.ours_us).sum()
    }

    /// Whether a rank has reported everything: from then on the others can be expected to.
    pub(super) fn is_stalled(&self) -> bool {
        self.a_rank_is_done
    }

    /// Ranks that have not reported everything.
    pub(super) fn missing(&self) -> Vec<u32> {
        few((0..self.ranks).filter(|rank| !self.is_done(*rank)))
    }

    fn is_done(&self, rank: u32) -> bool {
        self.iterations.iter().all(|iteration| iteration.reported.contains(rank))
    }
}

impl Iteration {
    fn add(&mut self, rank: u32, measured: Option<Measured>) {
        let Some(measured) = measured else {
            self.unmeasured.insert(rank);
            return;
        };
        self.best = Some(self.best.map_or(measured, |best| Measured {
            ours_us: best.ours_us.min(measured.ours_us),
            vendor_us: best.vendor_us.min(measured.vendor_us),
            squared_error: best.squared_error + measured.squared_error,
            signal: best.signal + measured.signal,
        }));
    }

    fn figure(&self) -> Option<Figure> {
        let (_, _, count) = self.call?;
        let best = self.best.filter(|_| self.unmeasured.is_empty())?;
        let vnmse = vnmse(power(best.squared_error)?, power(best.signal)?);
        Some(Figure { count, ours_us: best.ours_us, vendor_us: best.vendor_us, vnmse })
    }
}
