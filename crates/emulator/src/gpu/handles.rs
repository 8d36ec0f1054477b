//! Tables from the opaque handles that an application holds to what they stand for.
//!
//! A handle is never given out twice, so that one which was destroyed stays invalid
//! instead of meaning something else. A look-up costs what one costs in a driver: the
//! handles are our own numbers, and nobody can choose them to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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
}

impl<T> Handles<T> {
    pub(super) const fn new() -> Self {
        Self { entries: OnceLock::new() }
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

    /// The same where a look is enough, under the table's lock.
    pub(super) fn look_at<R>(&self, handle: usize, look: impl FnOnce(&Arc<T>) -> R) -> Answer<R> {
        let entries = self.entries().read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&handle).map(look).ok_or(CudaError::INVALID_HANDLE)
    }

    pub(super) fn remove(&self, handle: usize) -> Answer<Arc<T>> {
        let mut entries = self.entries().write().unwrap_or_else(PoisonError::into_inner);
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
    fn handles_spread_over_a_table_and_over_its_marks() {
        for stride in [1, STEP as u64, 8 * STEP as u64, 1 << 12, 1 << 21] {
            let (places, marks) = places_and_marks(stride);
            // By chance it would be 647 places.
            assert!(places > 500 && marks > 100, "{stride}: {places} places, {marks} marks");
        }
    }
}
