//! The table of this process's communicators, by address.
//!
//! Static memory, bounded: a look-up takes no lock and probes at most [`PROBES`] entries. A
//! communicator that finds no place is not tracked, and its calls pass through. Entering and
//! forgetting take turns for a few stores. Addresses are recycled by the vendor, so every
//! entry has a generation. The table never calls the vendor.

use crate::call_index::{CallIndex, Generation};
use crate::calls::Derivation;
use crate::clique::{self, Clique};
use crate::compression::{Active, Seated};
use airamp_telemetry::Reason;
use airamp_vendor_abi::nccl::NcclResult;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::{Duration, Instant};

const CAPACITY: usize = 1024;
const PROBES: usize = 32;

/// `Entry::address` of a place that was never used, or was given up.
const NEVER: usize = 0;
const VACANT: usize = 1;

/// How long the end of a communicator waits for our own use of it.
const PIN_PATIENCE: Duration = Duration::from_secs(2);

/// How a communicator came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Origin {
    Created,
    CreatedAll,
    Split,
    Shrink,
    Grow,
    /// First seen in a successful call: its creation was not seen, or had not finished when it returned.
    Adopted,
}

/// What is known of a communicator from its creation. Negative: not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) origin: Origin,
    pub(crate) vendor: u8,
    pub(crate) rank: i32,
    pub(crate) nranks: i32,
    pub(crate) blocking: bool,
    pub(crate) clique: Clique,
    /// What it was made from.
    pub(crate) parent: Clique,
    /// Whether what is made from it may share its resources, and would be aborted together with it.
    pub(crate) lends: bool,
}

const LIVE: u8 = 0;
const ENDING: u8 = 1;
/// Its creation failed, and the call that made it ends it.
const TAKEN_BACK: u8 = 2;

pub(crate) struct Entry {
    address: AtomicUsize,
    generation: AtomicU16,
    state: AtomicU8,
    vendor: AtomicU8,
    pins: AtomicU32,
    rank: AtomicI32,
    nranks: AtomicI32,
    is_blocking: AtomicBool,
    lends: AtomicBool,
    clique: AtomicU64,
    parent: AtomicU64,
    origin: AtomicU8,
    /// Its slot in the telemetry file; 0: none.
    slot: AtomicU64,
    /// Why its calls are never compressed, in mode `on`: a `Reason` and one; 0: they may be.
    why_off: AtomicU8,
    /// Children made so far, by kind; shrinks are counted apart.
    children: [AtomicU32; 3],
    shrunk: [Shrunk; SHRINKS],
    /// Compression, where all ranks have agreed on it. Read under a pin.
    active: AtomicPtr<Active>,
    /// Its seat in the agreement, from an `Arc`; null: none. Changed and read in turns.
    seat: AtomicPtr<Seated>,
    /// What its calls return since the ranks may no longer do the same, or success.
    poison: AtomicI32,
    /// The vendor has ended what was under way on it.
    is_interrupted: AtomicBool,
    pub(crate) index: CallIndex,
}

/// So many sets of ranks can be left out of one communicator by shrinks; what is shrunk without further ones is left to
/// the vendor.
const SHRINKS: usize = 8;

/// How often a communicator was shrunk without the same ranks.
struct Shrunk {
    /// Which ranks; 0: the place is free.
    without: AtomicU64,
    times: AtomicU32,
}

impl Shrunk {
    const fn new() -> Self {
        Self { without: AtomicU64::new(0), times: AtomicU32::new(0) }
    }

    fn clear(&self) {
        self.without.store(0, Ordering::Relaxed);
        self.times.store(0, Ordering::Relaxed);
    }
}

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
static NEXT_GENERATION: AtomicU16 = AtomicU16::new(1);

impl Entry {
    const fn new() -> Self {
        Self {
            address: AtomicUsize::new(NEVER),
            generation: AtomicU16::new(0),
            state: AtomicU8::new(LIVE),
            vendor: AtomicU8::new(0),
            pins: AtomicU32::new(0),
            rank: AtomicI32::new(-1),
            nranks: AtomicI32::new(-1),
            is_blocking: AtomicBool::new(true),
            lends: AtomicBool::new(false),
            clique: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            origin: AtomicU8::new(0),
            slot: AtomicU64::new(0),
            why_off: AtomicU8::new(0),
            children: [const { AtomicU32::new(0) }; 3],
            shrunk: [const { Shrunk::new() }; SHRINKS],
            active: AtomicPtr::new(std::ptr::null_mut()),
            seat: AtomicPtr::new(std::ptr::null_mut()),
            poison: AtomicI32::new(NcclResult::SUCCESS.0),
            is_interrupted: AtomicBool::new(false),
            index: CallIndex::new(),
        }
    }

    fn fill(&self, facts: &Facts) -> Generation {
        let generation = Generation(NEXT_GENERATION.fetch_add(1, Ordering::Relaxed));
        self.generation.store(generation.0, Ordering::Relaxed);
        self.state.store(LIVE, Ordering::Relaxed);
        self.vendor.store(facts.vendor, Ordering::Relaxed);
        self.rank.store(facts.rank, Ordering::Relaxed);
        self.nranks.store(facts.nranks, Ordering::Relaxed);
        self.is_blocking.store(facts.blocking, Ordering::Relaxed);
        self.lends.store(facts.lends, Ordering::Relaxed);
        self.clique.store(facts.clique.0, Ordering::Relaxed);
        self.parent.store(facts.parent.0, Ordering::Relaxed);
        self.origin.store(facts.origin as u8, Ordering::Relaxed);
        self.why_off.store(0, Ordering::Relaxed);
        self.children.iter().for_each(|children| children.store(0, Ordering::Relaxed));
        self.shrunk.iter().for_each(Shrunk::clear);
        self.poison.store(NcclResult::SUCCESS.0, Ordering::Relaxed);
        self.is_interrupted.store(false, Ordering::Relaxed);
        self.index.start(generation);
        generation
    }

    pub(crate) fn vendor(&self) -> u8 {
        self.vendor.load(Ordering::Relaxed)
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.is_blocking.load(Ordering::Relaxed)
    }

    pub(crate) fn lends(&self) -> bool {
        self.lends.load(Ordering::Relaxed)
    }

    pub(crate) fn rank(&self) -> i32 {
        self.rank.load(Ordering::Relaxed)
    }

    pub(crate) fn nranks(&self) -> i32 {
        self.nranks.load(Ordering::Relaxed)
    }

    pub(crate) fn clique(&self) -> Clique {
        Clique(self.clique.load(Ordering::Relaxed))
    }

    pub(crate) fn parent(&self) -> Clique {
        Clique(self.parent.load(Ordering::Relaxed))
    }

    pub(crate) fn origin(&self) -> u8 {
        self.origin.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn slot(&self) -> u64 {
        self.slot.load(Ordering::Relaxed)
    }

    /// Gives it a slot. False: it has one.
    pub(crate) fn claim_slot(&self, bits: u64) -> bool {
        self.slot.compare_exchange(0, bits, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn set_slot(&self, bits: u64) {
        self.slot.store(bits, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn why_off(&self) -> Option<Reason> {
        let stored = self.why_off.load(Ordering::Relaxed);
        if stored == 0 { None } else { stored_reason(stored) }
    }

    pub(crate) fn set_why_off(&self, reason: Reason) {
        self.why_off.store(reason as u8 + 1, Ordering::Relaxed);
    }

    /// The name of the next child, counted apart by kind. Who is left out of a shrink does not call it, so that shrinks
    /// are counted apart by whom they leave out, too.
    pub(crate) fn next_child(&self, how: Derivation, colour: i32, left_out: &[i32]) -> Clique {
        let without = clique::set_of_ranks(left_out);
        let number = match how {
            Derivation::Shrink => self.next_shrink(without),
            _ => Some(self.children[how as usize].fetch_add(1, Ordering::Relaxed)),
        };
        number.map_or(Clique::UNKNOWN, |number| self.clique().of_child(how, number, colour, without))
    }

    /// How many shrinks have left out these ranks so far. `None`: there were too many others.
    fn next_shrink(&self, without: u64) -> Option<u32> {
        let _turn = Turn::take();
        let is_its = |shrunk: &&Shrunk| [0, without].contains(&shrunk.without.load(Ordering::Relaxed));
        let shrunk = self.shrunk.iter().find(is_its)?;
        shrunk.without.store(without, Ordering::Relaxed);
        Some(shrunk.times.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether all ranks have agreed that calls are compressed.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.active.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison().is_some()
    }

    /// The error that calls on it return.
    pub(crate) fn poison(&self) -> Option<NcclResult> {
        let result = NcclResult(self.poison.load(Ordering::SeqCst));
        (result != NcclResult::SUCCESS).then_some(result)
    }

    /// The error of one that has failed and was not revoked. Others cannot be made from it: the vendor would wait for peers
    /// that may wait for this rank elsewhere. It must have been revoked first, so that nobody waits on it any more.
    pub(crate) fn own_failure(&self) -> Option<NcclResult> {
        self.poison().filter(|_| !self.is_interrupted.load(Ordering::SeqCst))
    }
}

#[cold]
fn stored_reason(stored: u8) -> Option<Reason> {
    Reason::from_number(u64::from(stored) - 1)
}

impl Known {
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.entry.generation.load(Ordering::SeqCst) == self.generation.0
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
        if !self.is_current() {
            return Some(active);
        }
        self.entry.active.store(Box::into_raw(active), Ordering::SeqCst);
        None
    }

    /// Lets a call of ours that is under way on another thread end soon, or takes that back.
    fn stop_calls(self, stopped: bool) {
        if let Some(active) = self.pin().as_ref().and_then(Pin::active) {
            active.lane().stop(stopped);
        }
        if let Some(seated) = self.seat().filter(|_| stopped) {
            seated.wake();
        }
    }

    /// Refuses new pins and waits, bounded, for those that are held. False: one is still held.
    pub(crate) fn begin_end(self) -> bool {
        self.stop_calls(true);
        let _ = self.change(LIVE, ENDING);
        self.await_pins()
    }

    /// For the call that made it and now ends it: only one thread ends a communicator. `None`: another one does already, or
    /// has. False: a pin is still held.
    pub(crate) fn begin_to_take_back(self) -> Option<bool> {
        self.stop_calls(true);
        self.change(LIVE, TAKEN_BACK).then(|| self.await_pins())
    }

    /// The call that made it is ending it: for everybody else it has ended.
    pub(crate) fn is_taken_back(self) -> bool {
        self.is_current() && self.entry.state.load(Ordering::SeqCst) == TAKEN_BACK
    }

    /// In turn with those who enter and forget, so that a later communicator at that address is left alone.
    fn change(self, from: u8, to: u8) -> bool {
        let _turn = Turn::take();
        self.is_current()
            && self.entry.address.load(Ordering::SeqCst) != VACANT
            && self.entry.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn await_pins(self) -> bool {
        let deadline = Instant::now() + PIN_PATIENCE;
        while self.entry.pins.load(Ordering::SeqCst) != 0 {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// The vendor refused to end it, or only revoked it: it lives on, unless the call that made it is ending it.
    pub(crate) fn cancel_end(self) {
        if self.change(ENDING, LIVE) {
            self.stop_calls(false);
        }
    }

    /// It cannot be taken back: it stays with the application.
    pub(crate) fn cancel_take_back(self) {
        if self.change(TAKEN_BACK, LIVE) {
            self.stop_calls(false);
        }
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

mod seat;
#[cfg(test)]
mod tests;
