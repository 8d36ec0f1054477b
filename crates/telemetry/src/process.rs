//! Which process this is: a forked child is another one, and must not write into its parent's file. Plain atomics, no
//! lock: a child is born while other threads hold whatever they hold.

use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

static EPOCH: AtomicU32 = AtomicU32::new(0);

#[inline]
pub(crate) fn epoch() -> Epoch {
    Epoch(EPOCH.load(Ordering::Relaxed))
}

/// In a forked child, from its fork handler: from now on every writer and slot made before drops what it is given.
pub fn abandon_in_child() {
    EPOCH.store(EPOCH.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
