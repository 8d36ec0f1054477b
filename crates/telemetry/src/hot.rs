//! The path of one call, in as few instructions as it takes: what calls of one shape add is found once, and added in
//! one pass. The same words as `writer` and `slot` have, and the same rules: wait-free, no system
//! call, no allocation, no panic. Called by the interposer alone.

use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::guarded;
use crate::layout::{
    ARRIVALS, Arrival, CALLS, CallCell, Communicator, Count, Issuing, MILESTONE, PATHS, Region, SLOTS,
};
use crate::sizes::{HOOK_BUCKETS, SIZE_CLASSES, hook_bucket, size_class};
use crate::writer::Writer;
use crate::{CallRecord, Datatype, Kind, Path, Ticks, now};

/// What a call of some shape on some communicator adds, found once for all calls like it.
#[derive(Clone, Copy)]
pub struct Recipe {
    region: &'static Region,
    /// Nothing where the communicator has no slot.
    place: Option<&'static Communicator>,
    generation: u64,
    is_collective: bool,
    cell: &'static Count,
    class: &'static AtomicU64,
    /// The first word of the call's record.
    about: u64,
    shape: Shape,
}

/// A call, but for when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    pub path: Path,
    pub datatype: Datatype,
    /// Elements.
    pub count: u64,
    pub logical: u64,
    pub wire: u64,
    pub would_wire: u64,
}

/// The same for calls that the vendor carries out on a communicator with a slot, as most are: less to look at.
#[derive(Clone, Copy)]
pub struct Usual {
    region: &'static Region,
    place: &'static Communicator,
    cell: &'static Count,
    class: &'static AtomicU64,
    about: u64,
    count: u64,
    logical: u64,
    wire: u64,
}

impl Usual {
    /// Nothing where the call has no slot, or another path than the vendor's.
    pub fn of(recipe: &Recipe) -> Option<Self> {
        let Recipe { region, place, cell, class, about, shape, .. } = *recipe;
        let Shape { path, count, logical, wire, would_wire, .. } = shape;
        let is_usual = path == Path::Vendor && wire == would_wire;
        let place = place.filter(|_| is_usual)?;
        Some(Self { region, place, cell, class, about, count, logical, wire })
    }

    /// Of a call of that kind.
    pub fn shape(&self, kind: Kind) -> Shape {
        let Self { about, count, logical, wire, .. } = *self;
        let (path, datatype) = (Path::Vendor, Datatype((about >> 24) as u8));
        Shape { kind, path, datatype, count, logical, wire, would_wire: wire }
    }

    /// The same call as one that need not be usual: on the slot with those bits, and of that kind.
    #[inline]
    pub fn recipe(&self, bits: u64, kind: Kind) -> Recipe {
        let Self { region, place, cell, class, about, .. } = *self;
        let shape = self.shape(kind);
        let is_collective = (kind as u8) < Kind::Send as u8;
        Recipe { region, place: Some(place), generation: bits >> 8, is_collective, cell, class, about, shape }
    }

    /// As `Recipe::took_effect_in`, for whoever knows that the slot is still the communicator's, and whether the call is
    /// a collective.
    #[inline(always)]
    pub fn took_effect(
        &self,
        is_collective: bool,
        step: u32,
        entered: Ticks,
        times: impl FnOnce() -> Times,
    ) -> (u64, u64) {
        let Self { region, place, cell, class, about, count, logical, wire } = self;
        add(cell, class, *logical, *wire, *wire);
        place.issuing.inside.store(0, Relaxed);
        let mut sequence = 0;
        if is_collective {
            sequence = issue(place, entered);
        } else {
            place.issuing.is_not_for_a_message();
        }
        (sequence, record(region, [*about, *count, sequence, entered.0, u64::from(step), times().0]))
    }
}

/// What is known of a call's times: ticks inside the vendor's function, and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(u64);

impl Times {
    pub const UNKNOWN: Self = Self(0);

    pub fn new(vendor: u64, hook: u64) -> Self {
        const MOST: u64 = u32::MAX as u64;
        Self(vendor.min(MOST) | hook.min(MOST) << 32)
    }
}

impl Writer {
    /// `bits` are a slot's, or 0. Not for a forked child: whoever forks forgets writer and recipes.
    pub fn recipe(&self, bits: u64, shape: Shape) -> Recipe {
        let region = self.region_of_this_process();
        let Shape { kind, path, datatype, .. } = shape;
        let bit = 1u64 << (kind as usize * PATHS + path as usize);
        if region.process.used.load(Relaxed) & bit == 0 {
            region.process.used.fetch_or(bit, Relaxed);
        }
        let by_path = &region.by_kind[kind as usize][path as usize];
        let slot = if bits == 0 { CallRecord::NO_SLOT } else { bits as u8 };
        let about = u64::from(slot) | (kind as u64) << 8 | (path as u64) << 16 | u64::from(datatype.0) << 24;
        Recipe {
            region,
            place: (bits != 0).then(|| &region.communicators[usize::from(slot) % SLOTS]),
            generation: bits >> 8,
            is_collective: (kind as u8) < Kind::Send as u8,
            cell: &by_path.counts[datatype.place()],
            class: &by_path.sizes[usize::from(size_class(shape.logical)) % SIZE_CLASSES],
            about,
            shape,
        }
    }

    /// Times of one call that stands for `weight` of them: ours, and inside the vendor's function.
    pub fn spent(&self, hook_ticks: u64, vendor_ticks: u64, weight: u64) {
        let process = &self.region_of_this_process().process;
        // Of so many calls one: often enough to tell whether the process lives.
        process.active.store(now().0, Relaxed);
        process.hook.ticks.fetch_add(hook_ticks.wrapping_mul(weight), Relaxed);
        process.hook.buckets[hook_bucket(hook_ticks) % HOOK_BUCKETS].fetch_add(weight, Relaxed);
        if vendor_ticks > 0 {
            process.in_vendor.ticks.fetch_add(vendor_ticks.wrapping_mul(weight), Relaxed);
            process.in_vendor.calls.fetch_add(weight, Relaxed);
        }
    }
}

impl Issuing {
    /// One that is in no file.
    #[must_use]
    pub const fn in_no_file() -> Self {
        Self {
            issued: AtomicU64::new(0),
            issued_at: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            inside_since: AtomicU64::new(0),
            all_reduces: AtomicU64::new(0),
            arena: AtomicU64::new(0),
            vnmse: AtomicU64::new(0),
            inside_other: AtomicU64::new(0),
        }
    }

    /// A thread goes into a vendor call on the communicator, for whoever knows that the place is still the
    /// communicator's. Two at once are against the vendor's rules; then the later one counts.
    #[inline(always)]
    pub fn enter(&self, at: Ticks) {
        self.inside_since.store(at.0, Relaxed);
        self.inside.store(1, Relaxed);
    }

    /// What it has just gone into is no collective.
    #[inline(always)]
    pub fn is_for_a_message(&self) {
        self.inside_other.store(1, Relaxed);
    }

    /// A thread goes into the end of a group with such calls on the communicator. A collective among them is what the
    /// others wait for, wherever it stands.
    #[inline(always)]
    pub fn enter_group(&self, has_collectives: bool, at: Ticks) {
        if has_collectives {
            self.enter(at);
            self.inside_other.store(0, Relaxed);
        } else if self.inside.load(Relaxed) == 0 {
            self.enter(at);
            self.is_for_a_message();
        }
    }

    /// Messages have taken effect.
    #[inline(always)]
    fn is_not_for_a_message(&self) {
        self.inside_other.store(0, Relaxed);
    }
}

impl Recipe {
    pub fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    pub fn is_collective(&self) -> bool {
        self.is_collective
    }

    /// Counts one such call, and gives the sequence of a collective (else 0) and the number of the call's record.
    /// The host is not inside the vendor any more.
    #[inline(always)]
    pub fn took_effect(&self, flags: u8, entered: Ticks, times: Times) -> (u64, u64) {
        self.took_effect_in(0, flags, entered, times)
    }

    /// The same, in a step of the communicator's rhythm.
    #[inline(always)]
    pub fn took_effect_in(&self, step: u32, flags: u8, entered: Ticks, times: Times) -> (u64, u64) {
        let Shape { logical, wire, would_wire, count, .. } = self.shape;
        add(self.cell, self.class, logical, wire, would_wire);
        let mut sequence = 0;
        if let Some(place) = self.place
            && place.generation.load(Relaxed) == self.generation
        {
            place.issuing.inside.store(0, Relaxed);
            if self.is_collective {
                sequence = issue(place, entered);
            } else {
                place.issuing.is_not_for_a_message();
            }
        }
        let about = self.about | u64::from(flags) << 32;
        (sequence, record(self.region, [about, count, sequence, entered.0, u64::from(step), times.0]))
    }
}

#[inline(always)]
fn add(cell: &Count, class: &AtomicU64, logical: u64, wire: u64, would_wire: u64) {
    cell.calls.fetch_add(1, Relaxed);
    cell.logical.fetch_add(logical, Relaxed);
    cell.wire.fetch_add(wire, Relaxed);
    cell.would_wire.fetch_add(would_wire, Relaxed);
    class.fetch_add(1, Relaxed);
}

/// Writes a call's record; its number.
#[inline(always)]
fn record(region: &Region, words: [u64; 6]) -> u64 {
    let process = &region.process;
    let position = process.calls.written.fetch_add(1, Relaxed);
    let cell = &region.calls[position as usize % CALLS];
    if !guarded::put_in_turn(&cell.version, position, CALLS as u64, &cell.words, &words) {
        process.dropped.fetch_add(1, Relaxed);
    }
    fetch_ahead(std::ptr::from_ref(cell).wrapping_add(1));
    position
}

/// The next record goes where nobody was for a whole lap of the ring: whoever writes it would wait for the memory. Behind
/// the last cell is something else, which does no harm.
#[inline(always)]
fn fetch_ahead(next: *const CallCell) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint to the processor, which reads and writes nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(next.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = next;
}

#[inline(always)]
fn issue(place: &Communicator, at: Ticks) -> u64 {
    let last = place.issuing.issued.fetch_add(1, Relaxed).wrapping_add(1);
    place.issuing.issued_at.store(at.0, Relaxed);
    arrive(&place.arrivals, last, last, at);
    if last.is_multiple_of(MILESTONE) {
        arrive(&place.milestones, last / MILESTONE, last, at);
    }
    last
}

#[inline(always)]
fn arrive(ring: &[Arrival; ARRIVALS], place: u64, sequence: u64, at: Ticks) {
    let cell = &ring[place as usize % ARRIVALS];
    cell.mixed.store(sequence ^ at.0, Relaxed);
    cell.at.store(at.0, Relaxed);
}
