//! The table of this process's communicators, by address.
//!
//! Static memory, bounded: a look-up takes no lock and probes at most [`PROBES`] entries. A
//! communicator that finds no place is not tracked, and its calls pass through. Entering and
//! forgetting take turns for a few stores. Addresses are recycled by the vendor, so every
//! entry has a generation. The table never calls the vendor.

pub(crate) use entry::{Entry, Facts, Origin};

use crate::call_index::Generation;
use crate::compression::Active;
use airamp_vendor_abi::nccl::NcclResult;
use entry::LIVE;
use std::sync::atomic::{AtomicBool, Ordering};

const CAPACITY: usize = 1024;
const PROBES: usize = 32;

/// `Entry::address` of a place that was never used, or was given up.
const NEVER: usize = 0;
const VACANT: usize = 1;

/// A communicator that was found: its entry, and which of the communicators at that address it is.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) entry: &'static Entry,
    pub(crate) generation: Generation,
}

impl PartialEq for Known {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.entry, other.entry) && self.generation == other.generation
    }
}

static TABLE: [Entry; CAPACITY] = [const { Entry::new() }; CAPACITY];

impl Known {
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.entry.generation.load(Ordering::SeqCst) == self.generation.0
    }

    /// Whether it is in the table still, for whoever has the turn. What one that is not gets, nobody takes away again, and the
    /// next communicator at its place would have it.
    fn is_listed(self) -> bool {
        self.is_current() && self.entry.address.load(Ordering::SeqCst) != VACANT
    }

    /// Holds the communicator for a vendor call of our own; `None` once its end has begun.
    pub(crate) fn pin(self) -> Option<Pin> {
        self.entry.pins.fetch_add(1, Ordering::SeqCst);
        let pin = Pin { entry: self.entry };
        let live = self.entry.state.load(Ordering::SeqCst) == LIVE && self.is_current();
        live.then_some(pin)
    }

    /// Whether calls on it may go on: nobody has begun to end it, and the ranks still do the same.
    pub(crate) fn is_usable(self) -> bool {
        self.is_current() && self.entry.state.load(Ordering::SeqCst) == LIVE && !self.entry.is_poisoned()
    }

    /// From here on its calls fail so: the ranks may no longer do the same. The first error stays.
    pub(crate) fn poison_as(self, result: NcclResult) {
        let _turn = Turn::take();
        if self.is_current() && !self.entry.is_poisoned() {
            self.entry.poison.store(result.0, Ordering::SeqCst);
        }
    }

    /// The vendor has ended what was under way on it, and will make others from it.
    pub(crate) fn interrupt(self) {
        let _turn = Turn::take();
        if self.is_current() {
            self.entry.is_interrupted.store(true, Ordering::SeqCst);
        }
    }

    /// Switches compression on, before the application has the communicator.
    /// Gives it back if the communicator is gone.
    pub(crate) fn activate(self, active: Box<Active>) -> Option<Box<Active>> {
        let _turn = Turn::take();
        if !self.is_listed() {
            return Some(active);
        }
        self.entry.active.store(Box::into_raw(active), Ordering::SeqCst);
        None
    }

    /// Forgets the communicator, unless its address has been given to another one since.
    pub(crate) fn forget(self) {
        let _turn = Turn::take();
        if self.is_current() {
            self.entry.address.store(VACANT, Ordering::SeqCst);
        }
    }

    /// Takes compression away from the communicator, or from the one that was entered there before.
    /// It may be freed when nobody holds a pin.
    pub(crate) fn deactivate(self) -> Option<*mut Active> {
        let _turn = Turn::take();
        if !self.is_current() {
            return None;
        }
        let active = self.entry.active.swap(std::ptr::null_mut(), Ordering::SeqCst);
        (!active.is_null()).then_some(active)
    }

    /// Stops counting its calls, for good: what cannot be counted exactly must not be counted. It
    /// stays in the table, so that it is not taken for a new one.
    pub(crate) fn stop_counting(self) {
        self.entry.index.retire(self.generation);
    }

    /// Its creation has not finished when it returned.
    pub(crate) fn does_not_block(self) {
        self.entry.is_blocking.store(false, Ordering::Relaxed);
    }

    pub(crate) fn learn_place(self, rank: i32, nranks: i32) {
        self.entry.rank.store(rank, Ordering::Relaxed);
        self.entry.nranks.store(nranks, Ordering::Relaxed);
    }
}

/// While it lives, Abort, Destroy, Revoke and an aborting Shrink wait for it.
pub(crate) struct Pin {
    entry: &'static Entry,
}

impl Pin {
    pub(crate) fn active(&self) -> Option<&Active> {
        // SAFETY: what was taken out of the entry is freed only when nobody holds a pin.
        unsafe { self.entry.active.load(Ordering::SeqCst).as_ref() }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.entry.pins.fetch_sub(1, Ordering::SeqCst);
    }
}

fn places(address: usize) -> impl Iterator<Item = &'static Entry> {
    // Vendors allocate communicators at multiples of 16 or more; the multiplier spreads the rest.
    let start = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..PROBES).map(move |step| &TABLE[(start + step) % CAPACITY])
}

/// The communicator at that address, if it is tracked.
pub(crate) fn find(address: usize) -> Option<Known> {
    if address <= VACANT {
        return None;
    }
    for entry in places(address) {
        match entry.address.load(Ordering::Acquire) {
            found if found == address => {
                let generation = Generation(entry.generation.load(Ordering::Acquire));
                return Some(Known { entry, generation });
            }
            NEVER => return None,
            _ => {}
        }
    }
    None
}

/// That rank of the communicator with that name, if it is one of this process.
pub(crate) fn find_rank(clique: u64, rank: u32) -> Option<Known> {
    let is_it = |entry: &&Entry| {
        entry.address.load(Ordering::Acquire) > VACANT
            && entry.clique().0 == clique
            && u32::try_from(entry.rank()) == Ok(rank)
    };
    let entry = TABLE.iter().find(is_it)?;
    Some(Known { entry, generation: Generation(entry.generation.load(Ordering::Acquire)) })
}

/// Enters a new communicator; one that is still listed at that address is gone.
pub(crate) fn insert(address: usize, facts: &Facts) -> Option<Known> {
    let _turn = Turn::take();
    match find(address) {
        Some(stale) => Some(Known { generation: stale.entry.fill(facts), ..stale }),
        None => place(address, facts),
    }
}

/// Enters a communicator unless another thread has just done so.
pub(crate) fn insert_if_absent(address: usize, facts: &Facts) -> Option<Known> {
    let _turn = Turn::take();
    find(address).or_else(|| place(address, facts))
}

fn place(address: usize, facts: &Facts) -> Option<Known> {
    if address <= VACANT {
        return None;
    }
    let free = |entry: &&Entry| entry.address.load(Ordering::Relaxed) <= VACANT;
    let entry = places(address).find(free)?;
    let generation = entry.fill(facts);
    entry.address.store(address, Ordering::SeqCst);
    Some(Known { entry, generation })
}

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The turn to change which communicators the table holds: a few stores long, never held across
/// a call of anybody's.
struct Turn;

impl Turn {
    fn take() -> Self {
        while TAKEN.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Forgets everything: a forked child owns none of its parent's communicators.
/// Called in the child's fork handler, so it only stores.
pub(crate) fn clear() {
    TAKEN.store(false, Ordering::Relaxed);
    for entry in &TABLE {
        entry.pins.store(0, Ordering::Relaxed);
        // The device that it is about is the parent's.
        entry.active.store(std::ptr::null_mut(), Ordering::Relaxed);
        // And so are those whom it agreed with.
        entry.seat.store(std::ptr::null_mut(), Ordering::Relaxed);
        entry.slot.store(0, Ordering::Relaxed);
        entry.address.store(NEVER, Ordering::Relaxed);
    }
}

mod ending;
mod entry;
mod seat;
#[cfg(test)]
mod tests;
