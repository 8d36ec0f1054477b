//! Tables from the opaque handles that an application holds to what they stand for.
//!
//! A handle is never given out twice, so that one which was destroyed stays invalid
//! instead of meaning something else.

use std::collections::HashMap;
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

pub(super) struct Handles<T> {
    entries: OnceLock<RwLock<HashMap<usize, Arc<T>>>>,
}

impl<T> Handles<T> {
    pub(super) const fn new() -> Self {
        Self { entries: OnceLock::new() }
    }

    fn entries(&self) -> &RwLock<HashMap<usize, Arc<T>>> {
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
        let entries = self.entries().read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&handle).cloned().ok_or(CudaError::INVALID_HANDLE)
    }

    pub(super) fn remove(&self, handle: usize) -> Answer<Arc<T>> {
        let mut entries = self.entries().write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&handle).ok_or(CudaError::INVALID_HANDLE)
    }
}
