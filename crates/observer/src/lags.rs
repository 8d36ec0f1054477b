//! How late a rank is: what this look showed, and what the last half minute showed, fading. Pure.

use crate::arrivals::Lag;

const HALF_LIFE_S: f64 = 10.0;
/// A rank that is late by little and always: last in so many of at least so many, the others waiting for it so
/// much of the wall time, and by at least so many seconds each time.
const ALWAYS: f64 = 0.8;
const ENOUGH: f64 = 24.0;
const WAITED_SHARE: f64 = 0.10;
const LEAST_S: f64 = 0.001;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lags {
    look: Look,
    compared: f64,
    last: f64,
    lag_s: f64,
    wall_s: f64,
}

#[derive(Clone, Debug, Default)]
struct Look {
    compared: u64,
    last: u64,
    lag_ns: u64,
    worst: Option<Worst>,
    behind: Option<Worst>,
    stopped: bool,
}

/// The longest that the others waited for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Worst {
    pub(crate) ns: u64,
    pub(crate) sequence: u64,
    pub(crate) communicator: String,
}

impl Lags {
    pub(crate) fn begin_look(&mut self, elapsed_s: f64) {
        let rest = 0.5_f64.powf(elapsed_s.max(0.0) / HALF_LIFE_S);
        self.compared = (self.compared + self.look.compared as f64) * rest;
        self.last = (self.last + self.look.last as f64) * rest;
        self.lag_s = (self.lag_s + self.look.lag_ns as f64 / 1e9) * rest;
        self.wall_s = self.wall_s * rest + elapsed_s;
        self.look = Look::default();
    }

    pub(crate) fn arrived(&mut self, lag: &Lag, sequences: u64, communicator: &str) {
        self.look.compared += sequences;
        self.look.last += lag.last;
        self.look.lag_ns = self.look.lag_ns.saturating_add(lag.sum_ns);
        let worst = Worst { ns: lag.most_ns, sequence: lag.most_at, communicator: communicator.to_owned() };
        keep_longer(&mut self.look.worst, worst);
    }

    /// It has not come to the sequence, and the others wait.
    pub(crate) fn is_behind(&mut self, ns: u64, sequence: u64, communicator: &str, stopped: bool) {
        self.look.stopped |= stopped;
        keep_longer(&mut self.look.behind, Worst { ns, sequence, communicator: communicator.to_owned() });
    }

    pub(crate) fn behind(&self) -> Option<&Worst> {
        self.look.behind.as_ref()
    }

    /// Mean arrival behind the first in this look; for a rank that keeps the others waiting, how long by now.
    pub(crate) fn lag_s(&self) -> Option<f64> {
        let arrived =
            (self.look.compared > 0).then(|| self.look.lag_ns as f64 / 1e9 / self.look.compared as f64);
        let behind = self.look.behind.as_ref().map(|behind| behind.ns as f64 / 1e9);
        match (arrived, behind) {
            (Some(arrived), Some(behind)) => Some(arrived.max(behind)),
            (arrived, behind) => arrived.or(behind),
        }
    }

    pub(crate) fn last_share(&self) -> Option<f64> {
        let compared = self.compared + self.look.compared as f64;
        let last = self.last + self.look.last as f64;
        (compared >= 1.0).then(|| (last / compared).clamp(0.0, 1.0))
    }

    pub(crate) fn mean_lag_s(&self) -> f64 {
        let compared = self.compared + self.look.compared as f64;
        (self.lag_s + self.look.lag_ns as f64 / 1e9) / compared.max(1.0)
    }

    /// One arrival that was late by more than the limit, now or in this look. A process that is stopped is known
    /// to come later still, so half of it is enough.
    pub(crate) fn once_late(&self, late_after_ns: u64) -> Option<&Worst> {
        let limit = if self.look.stopped { late_after_ns / 2 } else { late_after_ns };
        let behind = self.look.behind.as_ref().filter(|behind| behind.ns > limit);
        behind.or(self.look.worst.as_ref().filter(|worst| worst.ns > late_after_ns))
    }

    /// Late by less, and nearly always.
    pub(crate) fn always_late(&self) -> bool {
        let compared = self.compared + self.look.compared as f64;
        let waited = (self.lag_s + self.look.lag_ns as f64 / 1e9) / self.wall_s.max(1e-3);
        compared >= ENOUGH
            && self.last_share().is_some_and(|share| share >= ALWAYS)
            && waited >= WAITED_SHARE
            && self.mean_lag_s() >= LEAST_S
    }

    pub(crate) fn worst(&self) -> Option<&Worst> {
        self.look.behind.as_ref().or(self.look.worst.as_ref())
    }
}

fn keep_longer(kept: &mut Option<Worst>, other: Worst) {
    if kept.as_ref().is_none_or(|kept| other.ns > kept.ns) {
        *kept = Some(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn after(looks: u64, per_look: u64, last: u64, lag_ns: u64) -> Lags {
        let mut lags = Lags::default();
        for _ in 0..looks {
            lags.begin_look(1.0);
            let lag = Lag { sum_ns: per_look * lag_ns, most_ns: lag_ns, most_at: 9, last };
            lags.arrived(&lag, per_look, "c");
        }
        lags
    }

    #[test]
    fn one_arrival_later_than_the_limit_is_late() {
        let lags = after(1, 1, 1, 1500 * MS);
        assert_eq!(lags.once_late(1000 * MS).map(|worst| worst.sequence), Some(9));
        assert!(lags.once_late(2000 * MS).is_none());
    }

    #[test]
    fn a_little_late_and_nearly_always_is_late_when_the_others_wait_for_it() {
        assert!(after(10, 10, 9, 20 * MS).always_late(), "20% of the time is spent waiting for it");
        assert!(!after(10, 10, 9, MS / 2).always_late(), "too little to matter");
        assert!(!after(10, 10, 5, 20 * MS).always_late(), "as often last as another");
        assert!(!after(2, 2, 2, 200 * MS).always_late(), "too few to tell");
    }

    #[test]
    fn a_rank_that_is_behind_now_lags_by_that_much() {
        let mut lags = after(3, 10, 0, 0);
        lags.begin_look(1.0);
        assert_eq!(lags.lag_s(), None);
        lags.is_behind(1400 * MS, 31, "c", false);
        assert_eq!(lags.lag_s(), Some(1.4));
        assert_eq!(lags.once_late(1000 * MS).map(|worst| worst.ns), Some(1400 * MS));
    }

    #[test]
    fn a_stopped_process_is_late_in_half_the_time() {
        let mut lags = Lags::default();
        lags.is_behind(700 * MS, 31, "c", false);
        assert_eq!(lags.once_late(1000 * MS), None);
        lags.is_behind(700 * MS, 31, "c", true);
        assert!(lags.once_late(1000 * MS).is_some());
    }

    #[test]
    fn lateness_is_forgotten() {
        let mut lags = after(10, 10, 9, 20 * MS);
        (0..120).for_each(|_| lags.begin_look(1.0));
        assert!(!lags.always_late() && lags.lag_s().is_none() && lags.last_share().is_none());
    }
}
