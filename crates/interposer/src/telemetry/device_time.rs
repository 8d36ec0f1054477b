//! How long calls take on the device, by pairs of events around a few of them: at most one of a communicator in
//! 10 ms, and every 64th. The host asks later, on a thread of the application's and at a call of its own, whether
//! the device has passed them, and never waits. Everything is acquired when the communicator is made.

use super::writer;
use crate::{compression, startup};
use airamp_telemetry::{Kind, Path, Shape, Slot, Ticks, now, size_class};
use airamp_vendor::gpu::{CaptureQuestion, Context, Event, Gpu, GpuError};
use airamp_vendor_abi::cuda::{CudaError, STREAM_LEGACY};
use airamp_vendor_abi::nccl::Stream;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// As many as the file has slots.
const PLACES: usize = 32;
/// Samples of one communicator that can be under way at once.
const PAIRS: usize = 4;
/// Of so many calls one is timed, however fast they follow each other.
const ONE_OF: u32 = 64;
const INTERVAL_NS: u64 = 10_000_000;
/// Intervals after which a health check no longer asks the driver: two seconds.
const PATIENCE: u64 = 200;

/// A call that is being timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    place: u8,
    pair: u8,
}

/// What a sample is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) kind: Kind,
    pub(super) path: Path,
    pub(super) class: u8,
    /// Of the last collective behind which it lies; 0: none.
    pub(super) sequence: u64,
    /// Of the call's record.
    pub(super) number: u64,
    /// Whether it is the time of one call.
    pub(super) alone: bool,
}

impl About {
    pub(super) fn of(shape: Shape, sequence: u64, number: u64) -> Self {
        let Shape { kind, path, logical, .. } = shape;
        Self { kind, path, class: size_class(logical), sequence, number, alone: true }
    }
}

struct Events {
    begin: Event,
    end: Event,
    context: Context,
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
    sequence: AtomicU64,
    number: AtomicU64,
    /// When it was first asked for in vain; 0: not yet.
    unreached_since: AtomicU64,
}

struct Place {
    /// The slot whose communicator is timed here; 0: none.
    open_for: AtomicU64,
    last: AtomicU64,
    calls: AtomicU32,
    pairs: [Pair; PAIRS],
}

static ALL: [Place; PLACES] = [const { Place::new() }; PLACES];
/// The places with samples under way, one bit for each.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);
static IS_POLLED: AtomicBool = AtomicBool::new(false);
static GPU: AtomicPtr<Gpu> = AtomicPtr::new(std::ptr::null_mut());
/// The driver's function by which a stream is asked; where there is none, ours, which knows of no capture.
static QUESTION: AtomicPtr<()> = AtomicPtr::new(none_is_captured as *mut ());

unsafe extern "C" fn none_is_captured(_stream: Stream, _status: *mut c_int) -> CudaError {
    CudaError::SUCCESS
}

static IS_WANTED: AtomicBool = AtomicBool::new(false);

const _: () = assert!(PLACES <= u32::BITS as usize);

/// Looks for the application's GPU library. Called once, before the first communicator is made.
pub(super) fn find_gpu(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
    if let Some(gpu) = startup::gpu_kind().and_then(|kind| Gpu::attach(kind).ok()) {
        if let Some(question) = gpu.capture_question() {
            QUESTION.store(question.address(), Ordering::Release);
        }
        GPU.store(Box::into_raw(Box::new(gpu)), Ordering::Release);
    }
    interval::begin();
}

pub(super) fn gpu() -> Option<&'static Gpu> {
    // SAFETY: null, or from a leaked box that is never changed.
    unsafe { GPU.load(Ordering::Acquire).as_ref() }
}

/// Whether what is enqueued on that stream goes into a graph. The default stream cannot be captured.
#[inline(always)]
pub(super) fn is_captured(stream: Stream) -> bool {
    if stream as usize <= STREAM_LEGACY {
        return false;
    }
    let question = QUESTION.load(Ordering::Relaxed);
    // SAFETY: the address of such a function, from the start or by `find_gpu`; the stream is the application's own, with which it calls the vendor.
    unsafe { CaptureQuestion::at(question).is_capturing(stream) }
}

/// Acquires what a communicator on that device needs to be timed.
pub(super) fn acquire(slot: Slot, device: i32) {
    let (Some(gpu), Some(place)) = (gpu(), place_of(slot)) else { return };
    if !IS_WANTED.load(Ordering::Relaxed) || device < 0 {
        return;
    }
    let Ok(context) = compression::context_of(gpu, device) else { return };
    let (Ok(_relaxed), Ok(_entered)) = (gpu.relax_captures(), gpu.enter(context)) else { return };
    for pair in &place.pairs {
        pair.fill(gpu, context);
    }
    place.open_for.store(slot.bits(), Ordering::SeqCst);
}

/// Gives back what a communicator that was destroyed was timed with. What the device has not passed is forgotten:
/// its context may be gone when somebody asks the next time.
pub(super) fn release(slot: Slot) {
    let Some(place) = place_of(slot) else { return };
    if let Some(gpu) = gpu()
        && let Ok(_relaxed) = gpu.relax_captures()
    {
        place.pairs.iter().for_each(|pair| _ = pair.finish(gpu, place));
        place.open_for.store(0, Ordering::SeqCst);
        place.pairs.iter().for_each(Pair::empty);
    }
    forget(slot);
}

/// The same for one that was aborted, without any GPU call: whoever aborts must not wait for the driver. The context
/// still owns the events.
pub(super) fn forget(slot: Slot) {
    place_of(slot).into_iter().for_each(Place::forget);
}

/// Whether a call of that communicator is to be timed.
#[inline(always)]
pub(super) fn is_due(slot: u8, at: Ticks) -> bool {
    let place = &ALL[usize::from(slot) % PLACES];
    if place.open_for.load(Ordering::Relaxed) == 0 {
        return false;
    }
    // Two threads at once may take one call for another, which does no harm.
    let calls = place.calls.load(Ordering::Relaxed).wrapping_add(1);
    place.calls.store(calls, Ordering::Relaxed);
    let due = calls.is_multiple_of(ONE_OF)
        || at.0.wrapping_sub(place.last.load(Ordering::Relaxed)) >= interval::ticks();
    if due {
        place.last.store(at.0, Ordering::Relaxed);
    }
    due
}

/// Before a call that is to be timed; `None` if it cannot be.
#[cold]
pub(super) fn begin(bits: u64, stream: Stream) -> Option<Sample> {
    let slot = writer()?.slot(bits)?;
    poll();
    interval::adjust();
    let (gpu, place) = (gpu()?, place_of(slot)?);
    let at = place.pairs.iter().position(|pair| pair.change(FREE, TAKEN))?;
    let pair = &place.pairs[at];
    pair.slot.store(slot.bits(), Ordering::Relaxed);
    let begun = place.is_open_for(pair)
        && pair.events().is_some_and(|events| {
            let _entered = gpu.enter(events.context);
            !is_captured(stream) && events.begin.record(&gpu.borrow_stream(stream)).is_ok()
        });
    if !begun {
        pair.hand_back(FREE, place);
        return None;
    }
    Some(Sample { place: slot.index(), pair: at as u8 })
}

/// Behind the call, on the same stream.
#[cold]
pub(super) fn end(sample: Sample, stream: Stream, about: About) {
    let (Some(gpu), Some((place, pair))) = (gpu(), pair_of(sample)) else { return };
    let ended = place.is_open_for(pair)
        && pair.events().is_some_and(|events| {
            let _entered = gpu.enter(events.context);
            !is_captured(stream) && events.end.record(&gpu.borrow_stream(stream)).is_ok()
        });
    if !ended {
        pair.hand_back(FREE, place);
        return;
    }
    pair.describe(about);
    pair.unreached_since.store(0, Ordering::Relaxed);
    if let Some(slot) = pair.slot().filter(|_| about.sequence > 0) {
        slot.pending(about.sequence, now());
    }
    pair.hand_back(ENQUEUED, place);
    UNDER_WAY.fetch_or(1 << sample.place, Ordering::AcqRel);
}

/// The call was refused.
#[cold]
pub(super) fn give_back(sample: Sample) {
    if let Some((place, pair)) = pair_of(sample) {
        pair.hand_back(FREE, place);
    }
}

/// At a health check, which whoever makes it may follow with Abort, so that it must not block on the driver: where the
/// device has not passed something for long it is not asked again.
pub(crate) fn poll_gently() {
    let under_way = UNDER_WAY.load(Ordering::Acquire);
    if under_way == 0 {
        return;
    }
    let (at, mut is_overdue) = (now(), false);
    for (_, place) in ALL.iter().enumerate().filter(|(number, _)| under_way & (1 << number) != 0) {
        for pair in place.pairs.iter().filter(|pair| pair.is_overdue(at)) {
            is_overdue = true;
            pair.slot().into_iter().for_each(|slot| slot.polled(at));
        }
    }
    if !is_overdue {
        poll();
    }
}

/// Asks whether the device has passed what is under way, and tells of it. Never waits.
fn poll() {
    let under_way = UNDER_WAY.load(Ordering::Acquire);
    if under_way == 0 || IS_POLLED.swap(true, Ordering::Acquire) {
        return;
    }
    ask(under_way);
    IS_POLLED.store(false, Ordering::Release);
}

#[cold]
fn ask(under_way: u32) {
    let Some(gpu) = gpu() else { return };
    let Ok(_relaxed) = gpu.relax_captures() else { return };
    for (number, place) in ALL.iter().enumerate().filter(|(number, _)| under_way & (1 << number) != 0) {
        // Before it is looked at, so that what is enqueued meanwhile is looked at the next time.
        UNDER_WAY.fetch_and(!(1 << number), Ordering::AcqRel);
        let left = place.pairs.iter().filter(|pair| !pair.finish(gpu, place)).count();
        if left > 0 {
            UNDER_WAY.fetch_or(1 << number, Ordering::AcqRel);
        }
    }
}

impl Place {
    const fn new() -> Self {
        Self {
            open_for: AtomicU64::new(0),
            last: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            pairs: [const { Pair::new() }; PAIRS],
        }
    }

    fn forget(&self) {
        self.open_for.store(0, Ordering::SeqCst);
        self.pairs.iter().for_each(Pair::forget);
    }

    /// Whether the pair is about the communicator that is timed here now.
    fn is_open_for(&self, pair: &Pair) -> bool {
        self.open_for.load(Ordering::SeqCst) == pair.slot.load(Ordering::Relaxed)
    }
}

impl Pair {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            events: AtomicPtr::new(std::ptr::null_mut()),
            slot: AtomicU64::new(0),
            about: AtomicU32::new(0),
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
            && at.0.saturating_sub(since) >= interval::ticks().saturating_mul(PATIENCE)
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
            if self.events().is_some_and(|events| events.context == context) {
                self.change(TAKEN, FREE);
                return;
            }
            self.drop_events();
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
    fn empty(&self) {
        if self.change(FREE, TAKEN) {
            self.drop_events();
            self.change(TAKEN, EMPTY);
        }
    }

    fn drop_events(&self) {
        let events = self.events.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !events.is_null() {
            // SAFETY: it came from a box, and this thread has taken the pair.
            drop(unsafe { Box::from_raw(events) });
        }
    }

    fn describe(&self, about: About) {
        let About { kind, path, class, sequence, number, alone } = about;
        let packed = u32::from_le_bytes([kind as u8, path as u8, class, u8::from(alone)]);
        self.about.store(packed, Ordering::Relaxed);
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
        }
        let sequence = self.sequence.load(Ordering::Relaxed);
        if let Some(slot) = self.slot().filter(|_| sequence > 0) {
            slot.completed(sequence, now());
        }
    }
}

fn make_events(gpu: &Gpu, context: Context) -> Result<Events, GpuError> {
    Ok(Events { begin: gpu.event()?, end: gpu.event()?, context })
}

/// `None`: the device has not passed them.
fn elapsed_ns(events: &Events) -> Result<Option<u64>, GpuError> {
    if !events.end.is_reached()? {
        return Ok(None);
    }
    let milliseconds = events.end.elapsed_ms(&events.begin)?;
    Ok(Some((f64::from(milliseconds) * 1e6) as u64))
}

#[inline]
fn place_of(slot: Slot) -> Option<&'static Place> {
    ALL.get(usize::from(slot.index()))
}

fn pair_of(sample: Sample) -> Option<(&'static Place, &'static Pair)> {
    let place = ALL.get(usize::from(sample.place))?;
    Some((place, place.pairs.get(usize::from(sample.pair))?))
}

/// A forked child: events and device are its parent's. Only stores.
pub(super) fn abandon() {
    UNDER_WAY.store(0, Ordering::Relaxed);
    IS_POLLED.store(false, Ordering::Relaxed);
    GPU.store(std::ptr::null_mut(), Ordering::Relaxed);
    for place in &ALL {
        place.open_for.store(0, Ordering::Relaxed);
        for pair in &place.pairs {
            pair.events.store(std::ptr::null_mut(), Ordering::Relaxed);
            pair.state.store(EMPTY, Ordering::Relaxed);
        }
    }
}

/// The interval between samples, in ticks of a clock whose rate is found out by the way.
mod interval {
    use super::INTERVAL_NS;
    use airamp_telemetry::now;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    use std::time::Instant;

    /// Right for 2 GHz, and soon put right for others.
    static TICKS: AtomicU64 = AtomicU64::new(2 * INTERVAL_NS);
    /// Null, or from a leaked box: a fork finds no lock here.
    static BEGAN: AtomicPtr<(u64, Instant)> = AtomicPtr::new(std::ptr::null_mut());

    pub(super) fn begin() {
        if BEGAN.load(Ordering::Relaxed).is_null() {
            BEGAN.store(Box::into_raw(Box::new((now().0, Instant::now()))), Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn ticks() -> u64 {
        TICKS.load(Ordering::Relaxed)
    }

    pub(super) fn adjust() {
        // SAFETY: null, or from a leaked box that is never changed.
        let Some((ticks, instant)) = (unsafe { BEGAN.load(Ordering::Acquire).as_ref() }) else { return };
        let ns = instant.elapsed().as_nanos();
        if ns > u128::from(INTERVAL_NS) {
            let rated = u128::from(now().0.saturating_sub(*ticks)) * u128::from(INTERVAL_NS) / ns;
            TICKS.store(u64::try_from(rated).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
