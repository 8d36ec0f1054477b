//! What is known of one communicator: plain atomics in static memory, which any thread may read. Who changes what
//! belongs together takes turns ([`super::Turn`]).

use super::{NEVER, Turn};
use crate::call_index::{CallIndex, Generation};
use crate::calls::Derivation;
use crate::clique::{self, Clique};
use crate::compression::{Active, Seated};
use airamp_telemetry::Reason;
use airamp_vendor_abi::nccl::NcclResult;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

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

/// `Entry::state`.
pub(super) const LIVE: u8 = 0;
pub(super) const ENDING: u8 = 1;
/// Its creation failed, and the call that made it ends it.
pub(super) const TAKEN_BACK: u8 = 2;

pub(crate) struct Entry {
    pub(super) address: AtomicUsize,
    pub(super) generation: AtomicU16,
    pub(super) state: AtomicU8,
    vendor: AtomicU8,
    pub(super) pins: AtomicU32,
    pub(super) rank: AtomicI32,
    pub(super) nranks: AtomicI32,
    pub(super) is_blocking: AtomicBool,
    lends: AtomicBool,
    clique: AtomicU64,
    parent: AtomicU64,
    origin: AtomicU8,
    /// Its slot in the telemetry file; 0: none.
    pub(super) slot: AtomicU64,
    /// Why its calls are never compressed, in mode `on`: a `Reason` and one; 0: they may be.
    why_off: AtomicU8,
    /// Children made so far, by kind; shrinks are counted apart.
    children: [AtomicU32; 3],
    shrunk: [Shrunk; SHRINKS],
    /// Compression, where all ranks have agreed on it. Read under a pin.
    pub(super) active: AtomicPtr<Active>,
    /// Its seat in the agreement, from an `Arc`; null: none. Changed and read in turns.
    pub(super) seat: AtomicPtr<Seated>,
    /// What its calls return since the ranks may no longer do the same, or success.
    pub(super) poison: AtomicI32,
    /// The vendor has ended what was under way on it.
    pub(super) is_interrupted: AtomicBool,
    pub(crate) index: CallIndex,
}

/// So many sets of ranks can be left out of one communicator by shrinks; what is shrunk without further ones is left to
/// the vendor.
pub(super) const SHRINKS: usize = 8;

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

static NEXT_GENERATION: AtomicU16 = AtomicU16::new(1);

impl Entry {
    pub(super) const fn new() -> Self {
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

    pub(super) fn fill(&self, facts: &Facts) -> Generation {
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
