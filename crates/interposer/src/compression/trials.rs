//! Which calls of a communicator are tried: the same on every rank. Behind a lock that nobody waits for,
//! since two threads at once on one communicator are against the vendor's rules.

use airamp_policy::{Class, TrialLedger};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Trials {
    ledger: Mutex<TrialLedger>,
    /// No trial in the ledger has this index or a later one: as a rule one load tells that there is
    /// nothing to forget.
    end: AtomicU64,
    count: AtomicU64,
}

impl Trials {
    pub(super) fn new() -> Self {
        Self { ledger: Mutex::new(TrialLedger::new()), end: AtomicU64::new(0), count: AtomicU64::new(0) }
    }

    /// A call has this index: what was tried at it or later was rolled back.
    pub(super) fn forget_from(&self, index: u64) {
        if index < self.end.load(Ordering::Relaxed) {
            self.ledger().forget_from(index);
            self.end.store(index, Ordering::Relaxed);
        }
    }

    /// Whether the call is a trial, and which of its round.
    pub(super) fn take(&self, class: Class, round: u8, index: u64) -> Option<u8> {
        let iteration = self.ledger().take(class, round, index)?;
        self.end.fetch_max(index.saturating_add(1), Ordering::Relaxed);
        Some(iteration)
    }

    pub(super) fn count_one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Trials that were carried out.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn ledger(&self) -> MutexGuard<'_, TrialLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::Element;

    fn classes() -> [Class; 2] {
        [Class::of(Element::F16, 1 << 20), Class::of(Element::F32, 1 << 24)]
    }

    #[test]
    fn a_rank_that_rolled_a_trial_back_makes_the_same_choices_as_one_that_did_not() {
        let [tried, other] = classes();
        let (simulated, plain) = (Trials::new(), Trials::new());
        // A group that is only simulated holds a call of the class; its index then goes to another call.
        simulated.forget_from(5);
        assert_eq!(simulated.take(tried, 0, 5), Some(0));
        for trials in [&simulated, &plain] {
            // Of a class that is not tried, or none at all.
            trials.forget_from(5);
            trials.forget_from(6);
            assert_eq!(trials.take(tried, 0, 6), Some(0));
            trials.forget_from(7);
            assert_eq!(trials.take(other, 0, 7), Some(0));
            trials.forget_from(8);
            assert_eq!(trials.take(tried, 0, 8), Some(1));
            trials.forget_from(9);
            assert_eq!(trials.take(tried, 0, 9), None);
        }
    }

    #[test]
    fn a_whole_group_that_is_rolled_back_is_tried_again() {
        let [tried, _] = classes();
        let trials = Trials::new();
        for index in 0..2 {
            trials.forget_from(index);
            assert_eq!(trials.take(tried, 3, index), Some(index as u8));
        }
        for index in 0..2 {
            trials.forget_from(index);
            assert_eq!(trials.take(tried, 3, index), Some(index as u8));
        }
        trials.forget_from(2);
        assert_eq!(trials.take(tried, 3, 2), None);
    }
}
