//! Since when the host is inside the vendor's function, communicator by communicator: told before each call, so that a
//! call that never comes back is seen. Two loads and two stores.

use airamp_telemetry::{Issuing, Slot};
use std::sync::atomic::{AtomicPtr, Ordering};

/// As many as the file has slots.
const PLACES: usize = 32;

/// Where each slot's communicator tells it: the same place for all that have the slot. Never null, so that nobody asks.
static ALL: [AtomicPtr<Issuing>; PLACES] =
    [const { AtomicPtr::new((&raw const NOBODY_READS).cast_mut()) }; PLACES];

/// For slots that no communicator had yet.
static NOBODY_READS: Issuing = Issuing::in_no_file();

/// A communicator got the slot.
pub(super) fn open(slot: Slot) {
    let place = &ALL[usize::from(slot.index()) % PLACES];
    place.store(std::ptr::from_ref(slot.issuing()).cast_mut(), Ordering::Release);
}

/// Where the communicator with that slot tells it.
#[inline(always)]
pub(super) fn of(bits: u64) -> &'static Issuing {
    // SAFETY: a part of this process's file, which stays mapped, or the static; both are only stored to by atomics.
    unsafe { &*ALL[bits as usize % PLACES].load(Ordering::Acquire) }
}

/// A forked child: the file is its parent's. Only stores.
pub(super) fn abandon() {
    ALL.iter().for_each(|place| place.store((&raw const NOBODY_READS).cast_mut(), Ordering::Relaxed));
}
