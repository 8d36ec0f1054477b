//! Sampled times of ordinary calls, while a class is compressed or left to the vendor: have its conditions changed?

use std::collections::VecDeque;

use super::ranks::RankSet;
use crate::believable::time;

/// The best of so many samples is judged.
pub(super) const WINDOW: usize = 8;

/// Samples that wait for reports of some ranks; the oldest goes when there are more.
const OPEN: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Watch {
    open: VecDeque<Sample>,
    window: VecDeque<(u64, f64)>,
    complete: u64,
}

#[derive(Debug)]
struct Sample {
    index: u64,
    count: u64,
    least_us: f64,
    ranks: RankSet,
}

/// The best of the window, brought to the size of another call. A larger call takes longer but not in proportion, so
/// a sample of another size is given the benefit of the doubt in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    /// It was at least as slow as this.
    pub(super) at_least_us: f64,
    /// It was at least as fast as this.
    pub(super) at_most_us: f64,
}

impl Watch {
    /// The sample of a rank; true when with it the sample is complete.
    pub(super) fn take(&mut self, rank: u32, ranks: u32, index: u64, count: u64, us: f64) -> bool {
        let Some(us) = time(us) else { return false };
        let place = self.open.iter().position(|sample| sample.index == index).unwrap_or_else(|| {
            if self.open.len() == OPEN {
                self.open.pop_front();
            }
            self.open.push_back(Sample { index, count, least_us: us, ranks: RankSet::default() });
            self.open.len() - 1
        });
        let Some(sample) = self.open.get_mut(place).filter(|sample| sample.count == count) else {
            return false;
        };
        sample.ranks.insert(rank);
        sample.least_us = sample.least_us.min(us);
        if !sample.ranks.holds_all(ranks) {
            return false;
        }
        let least_us = sample.least_us;
        self.open.remove(place);
        self.keep(count, least_us);
        true
    }

    fn keep(&mut self, count: u64, us: f64) {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back((count, us));
        self.complete = self.complete.saturating_add(1);
    }

    /// Samples that all ranks have reported, in all.
    pub(super) fn complete(&self) -> u64 {
        self.complete
    }

    /// `None` until the window is full.
    pub(super) fn best(&self, count: u64) -> Option<Best> {
        if self.window.len() < WINDOW {
            return None;
        }
        let least = |bring: fn(f64, f64) -> f64| {
            let brought = |(of, us): &(u64, f64)| us * bring(1.0, count as f64 / *of as f64);
            self.window.iter().map(brought).fold(f64::INFINITY, f64::min)
        };
        Some(Best { at_least_us: least(f64::min), at_most_us: least(f64::max) })
    }

    /// What the window says, taken for itself, of the sample that was quickest for its size.
    pub(super) fn quickest(&self) -> Option<(u64, f64)> {
        let rate = |(count, us): &(u64, f64)| us / *count as f64;
        self.window.iter().copied().min_by(|one, other| rate(one).total_cmp(&rate(other)))
    }
}
