//! How long a tick of the telemetry clock is: measured once, before the first communicator is given to the
//! application, and then fixed, so that nanoseconds made of ticks never go back.

use airamp_telemetry::{Ticks, now};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds of a tick, times 2^32; right for 2 GHz until it is measured.
static SCALE: AtomicU64 = AtomicU64::new(1 << 31);
/// The same as the bits of an `f32`, for spans.
static RATE: AtomicU32 = AtomicU32::new(0.5f32.to_bits());
/// Null, or from a leaked box: a fork finds no lock here.
static BEGAN: AtomicPtr<(Ticks, Instant)> = AtomicPtr::new(std::ptr::null_mut());
static IS_SETTLED: AtomicBool = AtomicBool::new(false);

/// Over so long both clocks are read well enough: one part in some thousand.
const LONG_ENOUGH: Duration = Duration::from_millis(1);

/// Begins to measure.
pub(super) fn begin() {
    if BEGAN.load(Ordering::Relaxed).is_null() {
        BEGAN.store(Box::into_raw(Box::new((now(), Instant::now()))), Ordering::Release);
    }
}

/// Fixes the rate. Called where a communicator is made, which takes longer than this; where it does not, the rest of
/// a millisecond is waited for.
pub(super) fn settle() {
    // SAFETY: null, or from a leaked box that is never changed.
    let Some((ticks, instant)) = (unsafe { BEGAN.load(Ordering::Acquire).as_ref() }) else { return };
    if IS_SETTLED.load(Ordering::Acquire) {
        return;
    }
    while instant.elapsed() < LONG_ENOUGH {
        std::hint::spin_loop();
    }
    let (ticks, ns) = (now().since(*ticks).max(1), instant.elapsed().as_nanos());
    let scale = u64::try_from((ns << 32) / u128::from(ticks)).unwrap_or(u64::MAX).max(1);
    if !IS_SETTLED.swap(true, Ordering::AcqRel) {
        SCALE.store(scale, Ordering::Release);
        RATE.store((scale as f32 / (1u64 << 32) as f32).to_bits(), Ordering::Release);
    }
}

#[inline(always)]
pub(crate) fn nanoseconds(ticks: Ticks) -> u64 {
    ((u128::from(ticks.0) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// A span that is not negative, in nanoseconds.
#[inline(always)]
pub(crate) fn span_ns(ticks: i64) -> f32 {
    ticks as f32 * f32::from_bits(RATE.load(Ordering::Relaxed))
}

/// Ticks in that many nanoseconds.
#[inline(always)]
pub(crate) fn ticks(ns: u64) -> u64 {
    let ticks = (u128::from(ns) << 32) / u128::from(SCALE.load(Ordering::Relaxed).max(1));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_made_of_ticks_pass_as_those_of_the_systems_clock_do() {
        begin();
        settle();
        let (from, began) = (nanoseconds(now()), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (ours, theirs) = (nanoseconds(now()) - from, began.elapsed().as_nanos() as u64);
        // Wide: a thread may lose the processor between two readings.
        assert!(ours > theirs / 2 && ours < theirs * 2, "{ours} {theirs}");
    }

    #[test]
    fn ticks_and_nanoseconds_are_each_others_inverse() {
        let ns = 10_000_000;
        assert!(nanoseconds(Ticks(ticks(ns))).abs_diff(ns) < 10);
    }
}
