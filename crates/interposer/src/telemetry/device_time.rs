//! Which calls are timed on the device, and when the host asks for it: one of a communicator in 30 ms, or in 10 ms where
//! somebody wants it sooner, and so few that the host spends a small part of its time with it, however slow the driver
//! is (whoever uses the gaps between bursts wants all that there are). The host asks later, on a thread of the application's and at a call of its own, whether the device has passed
//! them, and never waits. Everything is acquired when the communicator is made.

mod pairs;

pub(super) use pairs::About;

use super::device::gpu;
use super::{tick_rate, writer};
use crate::compression;
use crate::dispatch::{GAPS_ARE_USED, attends_to};
use airamp_telemetry::{Slot, Ticks, now};
use airamp_vendor_abi::nccl::Stream;
use pairs::Place;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// As many as the file has slots.
const PLACES: usize = 32;
/// The shortest interval.
const INTERVAL_NS: u64 = 10_000_000;
/// So many of them lie between two samples that nobody wants sooner. A sample takes more than the host sees: threads of
/// the driver's and the device work for it, too.
const USUALLY: u64 = 3;
/// The host's time between two samples is at least so many times what one takes of it.
const REST: u64 = 1024;
const LONGEST_REST_NS: u64 = 1_000_000_000;

/// A call that is being timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    place: u8,
    pair: u8,
}

static ALL: [Place; PLACES] = [const { Place::new() }; PLACES];
/// From when on a call of that slot's communicator is to be timed; `NEVER` where none is.
static DUE: [AtomicU64; PLACES] = [const { AtomicU64::new(NEVER) }; PLACES];
const NEVER: u64 = u64::MAX;
/// The places with samples under way, one bit for each.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);
static IS_POLLED: AtomicBool = AtomicBool::new(false);
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// The shortest interval.
static INTERVAL_TICKS: AtomicU64 = AtomicU64::new(2 * INTERVAL_NS);

const _: () = assert!(PLACES <= u32::BITS as usize);

/// Called once, before the first communicator is made.
pub(super) fn begin_timing(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
}

#[inline]
fn interval_ticks() -> u64 {
    INTERVAL_TICKS.load(Ordering::Relaxed)
}

/// Acquires what a communicator on that device needs to be timed.
pub(super) fn acquire(slot: Slot, device: i32) {
    INTERVAL_TICKS.store(tick_rate::ticks(INTERVAL_NS), Ordering::Relaxed);
    let (Some(gpu), Some(place)) = (gpu(), place_of(slot)) else { return };
    if !IS_WANTED.load(Ordering::Relaxed) || device < 0 {
        return;
    }
    let Ok(context) = compression::context_of(gpu, device) else { return };
    let (Ok(_relaxed), Ok(_entered)) = (gpu.relax_captures(), gpu.enter(context)) else { return };
    place.open(gpu, context, slot);
    due(slot.index()).store(0, Ordering::Relaxed);
}

/// Gives back what a communicator that was destroyed was timed with. What the device has not passed is forgotten:
/// its context may be gone when somebody asks the next time.
pub(super) fn release(slot: Slot) {
    let Some(place) = place_of(slot) else { return };
    due(slot.index()).store(NEVER, Ordering::Relaxed);
    if let Some(gpu) = gpu()
        && let Ok(_relaxed) = gpu.relax_captures()
    {
        place.close(gpu);
    }
    forget(slot);
}

/// The same for one that was aborted, without any GPU call: whoever aborts must not wait for the driver. The context
/// still owns the events.
pub(super) fn forget(slot: Slot) {
    due(slot.index()).store(NEVER, Ordering::Relaxed);
    place_of(slot).into_iter().for_each(Place::forget);
}

/// Whether a call of that communicator is to be timed.
#[inline(always)]
pub(super) fn is_due(slot: u8, at: Ticks) -> bool {
    at.0 >= due(slot).load(Ordering::Relaxed)
}

#[inline(always)]
fn due(slot: u8) -> &'static AtomicU64 {
    &DUE[usize::from(slot) % PLACES]
}

/// The next call of that communicator is to be timed, whenever the last one was, unless the host has just spent too
/// much on another. Nothing where its calls are not timed.
pub(crate) fn want_sample(slot: u8) {
    let place = &ALL[usize::from(slot) % PLACES];
    if place.is_open() {
        due(slot).fetch_min(place.earliest.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Before a call that is to be timed; `None` if it cannot be.
#[cold]
pub(super) fn begin(bits: u64, stream: Stream) -> Option<Sample> {
    let slot = writer()?.slot(bits)?;
    let (place, began) = (place_of(slot)?, now());
    due(slot.index()).store(began.0.saturating_add(interval_ticks()), Ordering::Relaxed);
    poll();
    let pair = place.begin(gpu()?, slot, stream)?;
    place.begun_in.store(now().since(began), Ordering::Relaxed);
    Some(Sample { place: slot.index(), pair })
}

/// Behind the call, on the same stream.
#[cold]
pub(super) fn end(sample: Sample, stream: Stream, about: About) {
    let (Some(gpu), Some(place)) = (gpu(), ALL.get(usize::from(sample.place))) else { return };
    let began = now();
    if place.end(gpu, sample.pair, stream, about) {
        UNDER_WAY.fetch_or(1 << sample.place, Ordering::AcqRel);
    }
    let ended = now();
    place.took(place.begun_in.load(Ordering::Relaxed).saturating_add(ended.since(began)));
    rest(sample.place, place, ended);
}

/// Decides when the next call is timed.
fn rest(slot: u8, place: &Place, ended: Ticks) {
    let cost = place.usual_cost.load(Ordering::Relaxed);
    let rest = Rest::after(cost, tick_rate::ticks(LONGEST_REST_NS), attends_to(GAPS_ARE_USED));
    place.earliest.store(ended.0.saturating_add(rest.least), Ordering::Relaxed);
    if place.is_open() {
        due(slot).store(ended.0.saturating_add(rest.usual), Ordering::Relaxed);
    }
}

/// Ticks from one sample to the next: where somebody wants one, and where nobody does.
#[derive(Debug, PartialEq, Eq)]
struct Rest {
    least: u64,
    usual: u64,
}

impl Rest {
    fn after(cost: u64, longest: u64, gaps_are_used: bool) -> Self {
        // Who uses the gaps knows a device at work by the calls that are timed.
        if gaps_are_used {
            return Self { least: 0, usual: interval_ticks() };
        }
        let least = cost.saturating_mul(REST).min(longest);
        Self { least, usual: least.max(interval_ticks().saturating_mul(USUALLY)) }
    }
}

/// The call was refused.
#[cold]
pub(super) fn give_back(sample: Sample) {
    ALL.get(usize::from(sample.place)).into_iter().for_each(|place| place.give_back(sample.pair));
}

/// At a health check, which whoever makes it may follow with Abort, so that it must not block on the driver: where the
/// device has not passed something for long it is not asked again.
pub(crate) fn poll_gently() {
    let under_way = UNDER_WAY.load(Ordering::Acquire);
    if under_way == 0 {
        return;
    }
    let at = now();
    let is_overdue = places_in(under_way).filter(|(_, place)| place.is_overdue(at)).count() > 0;
    if !is_overdue {
        poll();
    }
}

/// Whether the device has not passed a call that is timed, as far as the driver can say at once. For the thread of ghost
/// kernels, which looks between calls; a communicator that ends waits for it (`ghosts::step_aside`).
pub(crate) fn is_call_under_way() -> bool {
    poll_gently();
    UNDER_WAY.load(Ordering::Acquire) != 0
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
    for (number, place) in places_in(under_way) {
        // Before it is looked at, so that what is enqueued meanwhile is looked at the next time.
        UNDER_WAY.fetch_and(!(1 << number), Ordering::AcqRel);
        if !place.finish(gpu) {
            UNDER_WAY.fetch_or(1 << number, Ordering::AcqRel);
        }
    }
}

fn places_in(under_way: u32) -> impl Iterator<Item = (usize, &'static Place)> {
    ALL.iter().enumerate().filter(move |(number, _)| under_way & (1 << number) != 0)
}

#[inline]
fn place_of(slot: Slot) -> Option<&'static Place> {
    ALL.get(usize::from(slot.index()))
}

/// A forked child: events are its parent's. Only stores.
pub(super) fn abandon() {
    UNDER_WAY.store(0, Ordering::Relaxed);
    IS_POLLED.store(false, Ordering::Relaxed);
    DUE.iter().for_each(|due| due.store(NEVER, Ordering::Relaxed));
    ALL.iter().for_each(Place::abandon);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_nobody_wants_sooner_comes_after_three_intervals_and_one_that_costs_much_later() {
        let (interval, longest) = (interval_ticks(), 100 * interval_ticks());
        assert_eq!(Rest::after(1, longest, false), Rest { least: REST, usual: 3 * interval });
        let dear = interval / 100;
        assert_eq!(Rest::after(dear, longest, false), Rest { least: dear * REST, usual: dear * REST });
        assert_eq!(Rest::after(u64::MAX, longest, false), Rest { least: longest, usual: longest });
    }

    #[test]
    fn who_uses_the_gaps_has_a_sample_in_each_interval_whatever_it_costs() {
        let expected = Rest { least: 0, usual: interval_ticks() };
        assert_eq!(Rest::after(interval_ticks(), u64::MAX, true), expected);
    }

    #[test]
    fn where_nothing_is_timed_a_step_cannot_make_a_call_due() {
        let slot = PLACES as u8 - 1;
        want_sample(slot);
        assert!(!is_due(slot, Ticks(NEVER - 1)));
    }
}
