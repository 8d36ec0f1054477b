//! What of the control plane belongs to the process: its hub, and what becomes of it in a forked child. Plain
//! atomics, no lock: a child is born while other threads hold whatever they hold.

use crate::descriptors;
use crate::hub::Hub;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static HUB: AtomicPtr<Hub> = AtomicPtr::new(std::ptr::null_mut());
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Grows with each fork, in the child.
pub(crate) fn epoch() -> u64 {
    EPOCH.load(Ordering::Acquire)
}

pub(crate) fn hub() -> Option<&'static Hub> {
    // SAFETY: a hub is published once and never freed.
    unsafe { HUB.load(Ordering::Acquire).as_ref() }
}

/// The first hub that is published is the process's own; another is handed back.
pub(crate) fn publish(hub: Box<Hub>) -> Result<&'static Hub, Box<Hub>> {
    let new = Box::into_raw(hub);
    match HUB.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just published, and never freed.
        Ok(_) => Ok(unsafe { &*new }),
        // SAFETY: made by `Box::into_raw` above and seen by nobody else.
        Err(_) => Err(unsafe { Box::from_raw(new) }),
    }
}

/// For a forked child: forgets the hub and closes what it inherited. Async-signal-safe.
pub fn abandon_in_child() {
    HUB.store(std::ptr::null_mut(), Ordering::Release);
    EPOCH.fetch_add(1, Ordering::AcqRel);
    descriptors::close_in_child();
}
