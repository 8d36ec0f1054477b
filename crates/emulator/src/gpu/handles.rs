//! Tables from the opaque handles that an application holds to what they stand for.
//!
//! A handle is never given out twice, so that one which was destroyed stays invalid
//! instead of meaning something else. A look-up costs what one costs in a driver: the
//! handles are our own numbers, and nobody can choose them to collide.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread::LocalKey;

use airamp_vendor_abi::cuda::CudaError;

use super::Answer;

/// Lies above the handles that CUDA reserves (1 and 2) and looks like an address.
const FIRST: usize = 0x10_0000;
const STEP: usize = 0x40;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// A handle that no table has used.
pub(super) fn fresh() -> usize {
    NEXT.fetch_add(STEP, Ordering::Relaxed)
}

/// A table by handles, or by other numbers that we give out.
pub(super) type ByNumber<K, T> = HashMap<K, T, BuildHasherDefault<Spread>>;

/// Spreads numbers with a common stride over both ends of a word: tables take the place from the low bits and a mark
/// from the high ones.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio of a word: close numbers end up far apart.
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) struct Handles<T> {
    entries: OnceLock<RwLock<ByNumber<usize, Arc<T>>>>,
    /// How many were removed.
    removed: AtomicUsize,
}

/// The handle that a thread saw last in one table, and how many had been removed from it by then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    handle: usize,
    removed: usize,
}

impl Seen {
    /// So many are never removed.
    pub(super) const NOTHING: Self = Self { handle: 0, removed: usize::MAX };
}

impl<T> Handles<T> {
    pub(super) const fn new() -> Self {
        Self { entries: OnceLock::new(), removed: AtomicUsize::new(0) }
    }

    fn entries(&self) -> &RwLock<ByNumber<usize, Arc<T>>> {
        self.entries.get_or_init(RwLock::default)
    }

    pub(super) fn insert(&self, value: T) -> usize {
        let handle = fresh();
        self.insert_as(handle, Arc::new(value));
        handle
    }

    pub(super) fn insert_as(&self, handle: usize, value: Arc<T>) {
        let mut entries = self.entries().write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(handle, value);
    }

    pub(super) fn get(&self, handle: usize) -> Answer<Arc<T>> {
        self.look_at(handle, Arc::clone)
    }

    /// Refuses a handle that is not in the table. Whoever asks again for the one it saw last takes no lock while nothing
    /// is removed: a handle never comes back.
    #[inline]
    pub(super) fn require(&self, handle: usize, seen: &'static LocalKey<Cell<Seen>>) -> Answer<()> {
        // Before the look: what is removed behind it is noticed the next time.
        let now = Seen { handle, removed: self.removed.load(Ordering::Acquire) };
        if seen.get() == now {
            return Ok(());
        }
        self.look_at(handle, |_| ())?;
        seen.set(now);
        Ok(())
    }

    /// What a look is enough for, under the table's lock.
    pub(super) fn look_at<R>(&self, handle: usize, look: impl FnOnce(&Arc<T>) -> R) -> Answer<R> {
        let entries = self.entries().read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&handle).map(look).ok_or(CudaError::INVALID_HANDLE)
    }

    pub(super) fn remove(&self, handle: usize) -> Answer<Arc<T>> {
        let mut entries = self.entries().write().unwrap_or_else(PoisonError::into_inner);
        self.removed.fetch_add(1, Ordering::Release);
        entries.remove(&handle).ok_or(CudaError::INVALID_HANDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Of a hash, hashbrown takes the place from the low bits and seven high ones as the mark.
    fn places_and_marks(stride: u64) -> (usize, usize) {
        let hash = |number: u64| {
            let mut spread = Spread::default();
            spread.write_u64(FIRST as u64 + number * stride);
            spread.finish()
        };
        let hashes: Vec<u64> = (0..1024).map(hash).collect();
        let different = |of: &dyn Fn(u64) -> u64| hashes.iter().map(|hash| of(*hash)).collect::<HashSet<_>>();
        (different(&|hash| hash % 1024).len(), different(&|hash| hash >> 57).len())
    }

    #[test]
    fn a_handle_that_a_thread_has_seen_is_refused_once_another_has_removed_it() {
        thread_local! {
            static SEEN: Cell<Seen> = const { Cell::new(Seen::NOTHING) };
        }
        static TABLE: Handles<u8> = Handles::new();
        let (handle, other) = (TABLE.insert(1), TABLE.insert(2));
        let refused = Err(CudaError::INVALID_HANDLE);
        assert_eq!(TABLE.require(0, &SEEN), refused);
        assert_eq!([handle, handle, other, handle].map(|it| TABLE.require(it, &SEEN)), [Ok(()); 4]);
        std::thread::scope(|scope| _ = scope.spawn(|| TABLE.remove(handle)));
        assert_eq!([handle, other].map(|it| TABLE.require(it, &SEEN)), [refused, Ok(())]);
    }

    #[test]
    fn handles_spread_over_a_table_and_over_its_marks() {
        for stride in [1, STEP as u64, 8 * STEP as u64, 1 << 12, 1 << 21] {
            let (places, marks) = places_and_marks(stride);
            // By chance it would be 647 places.
            assert!(places > 500 && marks > 100, "{stride}: {places} places, {marks} marks");
        }
    }
}
