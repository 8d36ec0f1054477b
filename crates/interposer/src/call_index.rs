//! The call index of one communicator: how many calls that could be compressed it
//! has issued. All ranks count the same calls, so an index names the same call on
//! every rank; a change of plan is agreed for an index.
//!
//! Reserved at the call; committed when the call has taken effect; rolled back when
//! it has not. Where ranks agree on plans, a captured call takes no index: capturing puts nothing on the wire, and a
//! rank may throw a capture away and make another. It goes by the plan of the index that comes next. Each word carries the generation of the communicator, so that a
//! thread that comes late cannot count on a recycled address.

use std::sync::atomic::{AtomicU64, Ordering};

const COUNT_BITS: u32 = 48;
/// Turns a generation into one that no communicator at that address has.
const RETIRED: u16 = 1 << 15;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Tells one communicator from the next at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(pub(crate) u16);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Calls made, whether or not they have taken effect yet.
    pub(crate) reserved: u64,
    /// Calls that have taken effect.
    pub(crate) committed: u64,
}

pub(crate) struct CallIndex {
    reserved: AtomicU64,
    committed: AtomicU64,
    /// Above the last index whose plan a captured call went by.
    gone_by: AtomicU64,
}

impl CallIndex {
    pub(crate) const fn new() -> Self {
        Self { reserved: AtomicU64::new(0), committed: AtomicU64::new(0), gone_by: AtomicU64::new(0) }
    }

    /// Starts at zero for a new communicator.
    pub(crate) fn start(&self, generation: Generation) {
        let zero = u64::from(generation.0) << COUNT_BITS;
        self.gone_by.store(zero, Ordering::SeqCst);
        self.committed.store(zero, Ordering::SeqCst);
        self.reserved.store(zero, Ordering::SeqCst);
    }

    /// Takes the next index; `None` if the communicator is another one by now.
    #[inline(always)]
    pub(crate) fn reserve(&self, generation: Generation) -> Option<u64> {
        add_one(&self.reserved, generation)
    }

    /// One reserved call has taken effect.
    #[inline(always)]
    pub(crate) fn commit_one(&self, generation: Generation) {
        add_one(&self.committed, generation);
    }

    /// `calls` reserved calls have taken effect.
    pub(crate) fn commit(&self, generation: Generation, calls: u32) {
        add(&self.committed, generation, i64::from(calls));
    }

    /// `calls` reserved calls have had no effect.
    pub(crate) fn roll_back(&self, generation: Generation, calls: u32) {
        add(&self.reserved, generation, -i64::from(calls));
    }

    /// The index that comes next, for a captured call, which goes by its plan and does not take it. Nobody pledges that
    /// index from now on: a peer may capture the same call after the verdict.
    pub(crate) fn go_by_next(&self, generation: Generation) -> Option<u64> {
        let next = self.reserved_of(generation)?;
        raise(&self.gone_by, generation, next + 1)?;
        Some(next)
    }

    /// The lowest index that can be pledged: no call has taken it or gone by it.
    pub(crate) fn free_from(&self, generation: Generation) -> Option<u64> {
        let gone_by = count_of(&self.gone_by, generation)?;
        Some(gone_by.max(self.reserved_of(generation)?))
    }

    /// Counts nothing more of that generation.
    pub(crate) fn retire(&self, generation: Generation) {
        self.start(Generation(generation.0 ^ RETIRED));
    }

    /// Whether the calls of that generation are counted.
    pub(crate) fn is_counting(&self, generation: Generation) -> bool {
        self.reserved_of(generation).is_some()
    }

    /// How many calls of that generation were made; `None` if they are not counted, or no more.
    pub(crate) fn reserved_of(&self, generation: Generation) -> Option<u64> {
        count_of(&self.reserved, generation)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            reserved: self.reserved.load(Ordering::SeqCst) & COUNT_MASK,
            committed: self.committed.load(Ordering::SeqCst) & COUNT_MASK,
        }
    }
}

/// The same as `add` of one, which never reaches the generation: nobody makes 2 to the power of 48 calls.
#[inline(always)]
fn add_one(word: &AtomicU64, generation: Generation) -> Option<u64> {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        if seen >> COUNT_BITS != u64::from(generation.0) {
            return None;
        }
        match word.compare_exchange_weak(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Some(seen & COUNT_MASK),
            Err(now) => seen = now,
        }
    }
}

fn count_of(word: &AtomicU64, generation: Generation) -> Option<u64> {
    let seen = word.load(Ordering::SeqCst);
    (seen >> COUNT_BITS == u64::from(generation.0)).then_some(seen & COUNT_MASK)
}

/// Makes the count of that generation no less than `least`.
fn raise(word: &AtomicU64, generation: Generation, least: u64) -> Option<u64> {
    let raised = |seen: u64| {
        let is_of_it = seen >> COUNT_BITS == u64::from(generation.0);
        is_of_it.then_some(seen & !COUNT_MASK | (seen & COUNT_MASK).max(least))
    };
    word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, raised).ok()
}

/// Adds to the count of that generation and gives the count before.
fn add(word: &AtomicU64, generation: Generation, calls: i64) -> Option<u64> {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        if seen >> COUNT_BITS != u64::from(generation.0) {
            return None;
        }
        let count = seen & COUNT_MASK;
        let next = (seen & !COUNT_MASK) | (count.wrapping_add_signed(calls) & COUNT_MASK);
        match word.compare_exchange_weak(seen, next, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Some(count),
            Err(now) => seen = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> CallIndex {
        let index = CallIndex::new();
        index.start(Generation(7));
        index
    }

    #[test]
    fn indices_are_reserved_in_order_and_committed_later() {
        let index = started();
        assert_eq!(index.reserve(Generation(7)), Some(0));
        assert_eq!(index.reserve(Generation(7)), Some(1));
        assert_eq!(index.counts(), Counts { reserved: 2, committed: 0 });
        index.commit(Generation(7), 2);
        assert_eq!(index.counts(), Counts { reserved: 2, committed: 2 });
    }

    #[test]
    fn a_call_without_effect_gives_its_index_back() {
        let index = started();
        index.reserve(Generation(7));
        index.roll_back(Generation(7), 1);
        assert_eq!(index.reserve(Generation(7)), Some(0));
    }

    #[test]
    fn a_captured_call_takes_no_index_and_nobody_pledges_the_one_it_went_by() {
        let index = started();
        index.reserve(Generation(7));
        assert_eq!(index.free_from(Generation(7)), Some(1));
        let captured = [(); 2].map(|()| index.go_by_next(Generation(7)));
        assert_eq!(captured, [Some(1), Some(1)]);
        assert_eq!(index.free_from(Generation(7)), Some(2));
        assert_eq!(index.reserve(Generation(7)), Some(1));
        index.roll_back(Generation(7), 1);
        assert_eq!((index.reserved_of(Generation(7)), index.free_from(Generation(7))), (Some(1), Some(2)));
        index.start(Generation(8));
        assert_eq!((index.go_by_next(Generation(7)), index.free_from(Generation(7))), (None, None));
        assert_eq!(index.free_from(Generation(8)), Some(0));
    }

    #[test]
    fn a_late_thread_does_not_count_on_a_recycled_address() {
        let index = started();
        index.reserve(Generation(7));
        index.start(Generation(8));
        index.commit(Generation(7), 1);
        assert_eq!(index.reserve(Generation(7)), None);
        assert_eq!((index.reserved_of(Generation(7)), index.reserved_of(Generation(8))), (None, Some(0)));
        assert_eq!(index.counts(), Counts { reserved: 0, committed: 0 });
    }
}
