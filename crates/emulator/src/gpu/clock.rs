//! Vector clocks over the timelines of the process: one per stream or graph lane, and
//! the host as the one that joins what it has waited for.
//!
//! All host threads share one clock: how they synchronise with each other cannot be
//! seen from here, and a race that may not be one is not reported.

use std::sync::{Mutex, PoisonError};

use super::completion::lock;

/// For each timeline the number of its last operation that is known to be over.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Counts one more operation on `timeline` and returns its number.
    pub(super) fn tick(&mut self, timeline: &Timeline) -> u64 {
        if self.0.len() <= timeline.index {
            self.0.resize(timeline.index + 1, 0);
        }
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.last[timeline.index] += 1;
        self.0[timeline.index] = numbers.last[timeline.index];
        self.0[timeline.index]
    }

    /// Whether operation `number` of the timeline comes before this point.
    pub(super) fn is_after(&self, timeline: usize, number: u64) -> bool {
        self.0.get(timeline).is_some_and(|seen| *seen >= number)
    }
}

struct Numbers {
    last: Vec<u64>,
    /// Indices without an owner.
    left: Vec<usize>,
}

impl Numbers {
    /// An index that can have a new owner: its next operation is after all old ones only
    /// where everybody knows these to be over, which is what the host knows.
    fn take_left(&mut self) -> Option<usize> {
        let host = lock(&HOST);
        let known = |index: &usize| self.last[*index] == 0 || host.is_after(*index, self.last[*index]);
        let at = self.left.iter().position(known)?;
        Some(self.left.swap_remove(at))
    }
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { last: Vec::new(), left: Vec::new() });

/// A place in every clock. Left when dropped; its next owner goes on counting, so that the
/// old operations stay known.
pub(super) struct Timeline {
    pub(super) index: usize,
}

impl Timeline {
    pub(super) fn new() -> Self {
        let mut numbers = lock(&NUMBERS);
        let index = numbers.take_left().unwrap_or_else(|| {
            numbers.last.push(0);
            numbers.last.len() - 1
        });
        Self { index }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        lock(&NUMBERS).left.push(self.index);
    }
}

static HOST: Mutex<Clock> = Mutex::new(Clock(Vec::new()));

/// What the host has waited for.
pub(super) fn host() -> Clock {
    lock(&HOST).clone()
}

/// The host has learnt that everything before `clock` is over.
pub(super) fn host_learns(clock: &Clock) {
    lock(&HOST).join(clock);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_only_when_the_host_knows_its_operations() {
        let (mut clock, first) = (Clock::default(), Timeline::new());
        let index = first.index;
        let number = clock.tick(&first);
        drop(first);
        let others: Vec<Timeline> = (0..100).map(|_| Timeline::new()).collect();
        assert!(others.iter().all(|other| other.index != index));
        host_learns(&clock);
        let more: Vec<Timeline> = (0..100).map(|_| Timeline::new()).collect();
        let again = more.iter().find(|other| other.index == index).expect("it is free now");
        assert!(clock.tick(again) > number);
    }

    #[test]
    fn an_operation_is_ordered_only_after_a_join() {
        let (first, second) = (Timeline::new(), Timeline::new());
        let (mut a, mut b) = (Clock::default(), Clock::default());
        let number = a.tick(&first);
        b.tick(&second);
        assert!(!b.is_after(first.index, number));
        b.join(&a);
        assert!(b.is_after(first.index, number));
    }
}
