//! The pairs of events with which one communicator's calls are timed: who may touch them, and what becomes of them
//! when the communicator ends while one is under way. When a pair is used is not decided here.

use super::interval_ticks;
use crate::rhythm;
use crate::telemetry::device::is_captured;
use crate::telemetry::writer;
use airamp_telemetry::{Kind, Path, Shape, Slot, Ticks, now, size_class};
use airamp_vendor::gpu::{Context, Event, Gpu, GpuError};
use airamp_vendor_abi::nccl::Stream;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Samples of one communicator that can be under way at once.
pub(super) const PAIRS: usize = 4;
/// Intervals after which a health check no longer asks the driver: two seconds.
pub(super) const PATIENCE: u64 = 200;

/// What a sample is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::telemetry) struct About {
    pub(in crate::telemetry) kind: Kind,
    pub(in crate::telemetry) path: Path,
    pub(in crate::telemetry) class: u8,
    /// Rounded: it only scales an estimate, and threads keep these in little memory.
    pub(in crate::telemetry) bytes: f32,
    /// Of the last collective behind which it lies; 0: none.
    pub(in crate::telemetry) sequence: u64,
    /// Of the call's record.
    pub(in crate::telemetry) number: u64,
    /// Whether it is the time of one call.
    pub(in crate::telemetry) alone: bool,
}

impl About {
    pub(in crate::telemetry) fn of(shape: Shape, sequence: u64, number: u64) -> Self {
        let Shape { kind, path, logical, .. } = shape;
        Self { kind, path, class: size_class(logical), bytes: logical as f32, sequence, number, alone: true }
    }
}

struct Events {
    begin: Event,
    end: Event,
    context: Context,
    /// By which the context is told from another one at its place.
    context_id: Option<u64>,
}

impl Events {
    /// Whether their context is gone, and they with it: nobody may touch them. Not known of every driver.
    fn are_lost(&self, gpu: &Gpu) -> bool {
        self.context_id.is_some() && gpu.context_id(self.context) != self.context_id
    }
}

/// There are no events.
const EMPTY: u8 = 0;
const FREE: u8 = 1;
/// One thread has it.
const TAKEN: u8 = 2;
/// Both events are enqueued.
const ENQUEUED: u8 = 3;

struct Pair {
    state: AtomicU8,
    /// Touched only by whoever has taken the pair.
    events: AtomicPtr<Events>,
    slot: AtomicU64,
    about: AtomicU32,
    /// As the bits of an `f32`.
    bytes: AtomicU32,
    sequence: AtomicU64,
    number: AtomicU64,
    /// When it was first asked for in vain; 0: not yet.
    unreached_since: AtomicU64,
}

/// The pairs of one communicator.
pub(super) struct Place {
    /// The slot whose communicator is timed here; 0: none.
    open_for: AtomicU64,
    /// For whoever decides which calls are timed: ticks of the host that the sample which began last has taken so far, what
    /// samples usually take, and when the next one may come.
    pub(super) begun_in: AtomicU64,
    pub(super) usual_cost: AtomicU64,
    pub(super) earliest: AtomicU64,
    pairs: [Pair; PAIRS],
}

impl Place {
    pub(super) const fn new() -> Self {
        Self {
            open_for: AtomicU64::new(0),
            begun_in: AtomicU64::new(0),
            usual_cost: AtomicU64::new(0),
            earliest: AtomicU64::new(0),
            pairs: [const { Pair::new() }; PAIRS],
        }
    }

    /// A sample took so many ticks of the host. One that lost the processor in the middle tells little of the next one.
    pub(super) fn took(&self, ticks: u64) {
        let usual = self.usual_cost.load(Ordering::Relaxed);
        let now = if ticks < usual { ticks } else { usual + (ticks - usual) / 8 };
        self.usual_cost.store(now, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_for.load(Ordering::Relaxed) != 0
    }

    /// Makes the events, in the current context, which is this one.
    pub(super) fn open(&self, gpu: &Gpu, context: Context, slot: Slot) {
        self.pairs.iter().for_each(|pair| pair.fill(gpu, context));
        self.open_for.store(slot.bits(), Ordering::SeqCst);
    }

    /// Gives the events back.
    pub(super) fn close(&self, gpu: &Gpu) {
        self.pairs.iter().for_each(|pair| _ = pair.finish(gpu, self));
        self.open_for.store(0, Ordering::SeqCst);
        self.pairs.iter().for_each(|pair| pair.empty(gpu));
    }

    /// Leaves the events to their context.
    pub(super) fn forget(&self) {
        self.open_for.store(0, Ordering::SeqCst);
        self.pairs.iter().for_each(Pair::forget);
    }

    /// Enqueues the first event of a pair; which pair it is.
    pub(super) fn begin(&self, gpu: &Gpu, slot: Slot, stream: Stream) -> Option<u8> {
        let at = self.pairs.iter().position(|pair| pair.change(FREE, TAKEN))?;
        let pair = &self.pairs[at];
        pair.slot.store(slot.bits(), Ordering::Relaxed);
        if !pair.record(gpu, self, stream, |events| &events.begin) {
            pair.hand_back(FREE, self);
            return None;
        }
        Some(at as u8)
    }

    /// Enqueues its second event. False: it could not be.
    pub(super) fn end(&self, gpu: &Gpu, pair: u8, stream: Stream, about: About) -> bool {
        let Some(pair) = self.pairs.get(usize::from(pair)) else { return false };
        if !pair.record(gpu, self, stream, |events| &events.end) {
            pair.hand_back(FREE, self);
            return false;
        }
        pair.describe(about);
        pair.unreached_since.store(0, Ordering::Relaxed);
        if let Some(slot) = pair.slot().filter(|_| about.sequence > 0) {
            slot.pending(about.sequence, now());
        }
        pair.hand_back(ENQUEUED, self);
        true
    }

    pub(super) fn give_back(&self, pair: u8) {
        self.pairs.get(usize::from(pair)).into_iter().for_each(|pair| pair.hand_back(FREE, self));
    }

    /// Whether the device has not passed something for long; that it was not is told.
    pub(super) fn is_overdue(&self, at: Ticks) -> bool {
        let overdue = self.pairs.iter().filter(|pair| pair.is_overdue(at));
        let slots = overdue.map(|pair| pair.slot().into_iter().for_each(|slot| slot.polled(at)));
        slots.count() > 0
    }

    /// Tells of what the device has passed. False: something is left.
    pub(super) fn finish(&self, gpu: &Gpu) -> bool {
        self.pairs.iter().filter(|pair| !pair.finish(gpu, self)).count() == 0
    }

    /// Whether the pair is about the communicator that is timed here now.
    fn is_open_for(&self, pair: &Pair) -> bool {
        self.open_for.load(Ordering::SeqCst) == pair.slot.load(Ordering::Relaxed)
    }

    /// A forked child: the events are its parent's. Only stores.
    pub(super) fn abandon(&self) {
        self.open_for.store(0, Ordering::Relaxed);
        for pair in &self.pairs {
            pair.events.store(std::ptr::null_mut(), Ordering::Relaxed);
            pair.state.store(EMPTY, Ordering::Relaxed);
        }
    }
}

impl Pair {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            events: AtomicPtr::new(std::ptr::null_mut()),
            slot: AtomicU64::new(0),
            about: AtomicU32::new(0),
            bytes: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            number: AtomicU64::new(0),
            unreached_since: AtomicU64::new(0),
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// By whoever has taken the pair for a communicator. One that has ended meanwhile did not see it.
    fn hand_back(&self, state: u8, place: &Place) {
        self.change(TAKEN, state);
        if !place.is_open_for(self) {
            self.forget();
        }
    }

    /// Leaves the pair's events to their context.
    fn forget(&self) {
        if self.change(FREE, TAKEN) || self.change(ENQUEUED, TAKEN) {
            self.events.store(std::ptr::null_mut(), Ordering::Release);
            self.change(TAKEN, EMPTY);
        }
    }

    fn is_overdue(&self, at: Ticks) -> bool {
        let since = self.unreached_since.load(Ordering::Relaxed);
        self.state.load(Ordering::Acquire) == ENQUEUED
            && since != 0
            && at.0.saturating_sub(since) >= interval_ticks().saturating_mul(PATIENCE)
    }

    /// Enqueues one of the events, for whoever has taken the pair.
    fn record(&self, gpu: &Gpu, place: &Place, stream: Stream, which: fn(&Events) -> &Event) -> bool {
        place.is_open_for(self)
            && self.events().filter(|events| !events.are_lost(gpu)).is_some_and(|events| {
                let _entered = gpu.enter(events.context);
                !is_captured(stream) && which(events).record(&gpu.borrow_stream(stream)).is_ok()
            })
    }

    /// For whoever has taken the pair.
    fn events(&self) -> Option<&Events> {
        // SAFETY: null, or from a box that only who has taken the pair frees.
        unsafe { self.events.load(Ordering::Acquire).as_ref() }
    }

    fn slot(&self) -> Option<Slot> {
        writer()?.slot(self.slot.load(Ordering::Relaxed))
    }

    /// Makes the pair's events, in the current context.
    fn fill(&self, gpu: &Gpu, context: Context) {
        if self.change(FREE, TAKEN) {
            if self.events().is_some_and(|events| events.context == context && !events.are_lost(gpu)) {
                self.change(TAKEN, FREE);
                return;
            }
            self.drop_events(gpu);
        } else if !self.change(EMPTY, TAKEN) {
            return;
        }
        match make_events(gpu, context) {
            Ok(events) => {
                self.events.store(Box::into_raw(Box::new(events)), Ordering::Release);
                self.change(TAKEN, FREE);
            }
            Err(_) => _ = self.change(TAKEN, EMPTY),
        }
    }

    /// Gives a free pair's events back.
    fn empty(&self, gpu: &Gpu) {
        if self.change(FREE, TAKEN) {
            self.drop_events(gpu);
            self.change(TAKEN, EMPTY);
        }
    }

    /// Leaves them where they are if their context is gone.
    fn drop_events(&self, gpu: &Gpu) {
        let are_lost = self.events().is_some_and(|events| events.are_lost(gpu));
        let events = self.events.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !events.is_null() && !are_lost {
            // SAFETY: it came from a box, and this thread has taken the pair.
            drop(unsafe { Box::from_raw(events) });
        }
    }

    fn describe(&self, about: About) {
        let About { kind, path, class, bytes, sequence, number, alone } = about;
        let packed = u32::from_le_bytes([kind as u8, path as u8, class, u8::from(alone)]);
        self.about.store(packed, Ordering::Relaxed);
        self.bytes.store(bytes.to_bits(), Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }

    /// Tells of the sample if the device has passed it. False: it has not.
    fn finish(&self, gpu: &Gpu, place: &Place) -> bool {
        if !self.change(ENQUEUED, TAKEN) {
            return true;
        }
        let Some(events) = self.events().filter(|_| place.is_open_for(self)) else {
            self.hand_back(FREE, place);
            return true;
        };
        if events.are_lost(gpu) {
            self.hand_back(FREE, place);
            self.forget();
            return true;
        }
        let reached = gpu.enter(events.context).and_then(|_entered| elapsed_ns(events));
        match reached {
            Ok(None) => {
                let at = now();
                if let Some(slot) = self.slot() {
                    slot.polled(at);
                }
                if self.unreached_since.load(Ordering::Relaxed) == 0 {
                    self.unreached_since.store(at.0, Ordering::Relaxed);
                }
                self.hand_back(ENQUEUED, place);
                return false;
            }
            Ok(Some(ns)) => self.tell(ns),
            // A device that has failed, or is gone.
            Err(_) => {}
        }
        self.hand_back(FREE, place);
        true
    }

    fn tell(&self, ns: u64) {
        let Some(writer) = writer() else { return };
        let [kind, path, class, alone] = self.about.load(Ordering::Relaxed).to_le_bytes();
        let (Some(kind), Some(path)) = (Kind::from_number(kind.into()), Path::from_number(path.into()))
        else {
            return;
        };
        if alone != 0 {
            writer.duration(kind, path, class, ns);
            writer.device_time(self.number.load(Ordering::Relaxed), ns);
            let bytes = f32::from_bits(self.bytes.load(Ordering::Relaxed));
            rhythm::measured(self.slot.load(Ordering::Relaxed), ns, bytes);
        }
        let sequence = self.sequence.load(Ordering::Relaxed);
        if let Some(slot) = self.slot().filter(|_| sequence > 0) {
            slot.completed(sequence, now());
        }
    }
}

fn make_events(gpu: &Gpu, context: Context) -> Result<Events, GpuError> {
    Ok(Events { begin: gpu.event()?, end: gpu.event()?, context, context_id: gpu.context_id(context) })
}

/// `None`: the device has not passed them.
fn elapsed_ns(events: &Events) -> Result<Option<u64>, GpuError> {
    if !events.end.is_reached()? {
        return Ok(None);
    }
    let milliseconds = events.end.elapsed_ms(&events.begin)?;
    Ok(Some((f64::from(milliseconds) * 1e6) as u64))
}

#[cfg(test)]
mod tests;
