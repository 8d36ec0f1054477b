//! Time as ticks: the processor's invariant counter where there is one, else CLOCK_MONOTONIC's nanoseconds.
//! Reading it makes no system call. All processes of a node share the clock, so their ticks compare.

use std::sync::atomic::{AtomicU8, Ordering};

/// A moment on the node's clock. Zero means 'never'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks from `earlier` to here; 0 if it is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[inline]
pub fn now() -> Ticks {
    if KIND.load(Ordering::Relaxed) == ClockKind::Counter as u8 {
        return Ticks(counter());
    }
    slowly()
}

/// Whether `now` reads the processor's counter.
pub fn is_counter() -> bool {
    kind() == ClockKind::Counter
}

/// `now`, for whoever has asked `is_counter`.
#[inline(always)]
pub fn counter_now() -> Ticks {
    Ticks(counter())
}

#[cold]
fn slowly() -> Ticks {
    Ticks(read(kind()))
}

/// What a tick is. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ClockKind {
    Nanoseconds = 1,
    Counter = 2,
}

impl ClockKind {
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        [Self::Nanoseconds, Self::Counter].into_iter().find(|kind| *kind as u64 == number)
    }
}

static KIND: AtomicU8 = AtomicU8::new(0);

pub(crate) fn kind() -> ClockKind {
    match KIND.load(Ordering::Relaxed) {
        2 => ClockKind::Counter,
        1 => ClockKind::Nanoseconds,
        _ => find_out(),
    }
}

fn read(kind: ClockKind) -> u64 {
    match kind {
        ClockKind::Counter => counter(),
        ClockKind::Nanoseconds => monotonic_ns(),
    }
}

#[cold]
fn find_out() -> ClockKind {
    let kind = if has_invariant_counter() { ClockKind::Counter } else { ClockKind::Nanoseconds };
    KIND.store(kind as u8, Ordering::Relaxed);
    kind
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86_64 processor has the instruction; it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn has_invariant_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    // SAFETY: every x86_64 processor has the instruction; unknown leaves are not asked for.
    #[allow(unused_unsafe, reason = "newer compilers call the instruction safe")]
    unsafe {
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
}

/// False where this thread may not read the processor's counter: it would be killed for it, and also by the C library's
/// clocks.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_allowed() -> bool {
    let mut setting: libc::c_int = libc::PR_TSC_ENABLE;
    // SAFETY: fills the one integer it is given.
    unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut setting) };
    setting == libc::PR_TSC_ENABLE
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_allowed() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user space read the virtual counter; it touches no memory.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

#[cfg(target_arch = "aarch64")]
fn has_invariant_counter() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_invariant_counter() -> bool {
    false
}

/// The same moment by both clocks of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
}

impl Anchor {
    /// The tightest of a few tries: the thread may lose the processor between two readings.
    pub(crate) fn take(kind: ClockKind) -> Self {
        let tries = (0..8).map(|_| {
            let (before, ns, after) = (read(kind), monotonic_ns(), read(kind));
            (
                after.wrapping_sub(before),
                Self { ticks: before.wrapping_add(after.wrapping_sub(before) / 2), ns },
            )
        });
        let (_, anchor) = tries.min_by_key(|(width, _)| *width).unwrap_or((0, Self { ticks: 0, ns: 0 }));
        anchor
    }

    /// By a clock that is so far ahead of this one's.
    pub(crate) fn shifted(self, ahead_ns: i64) -> Self {
        Self { ns: self.ns.wrapping_add_signed(ahead_ns), ..self }
    }
}

/// Turns a writer's ticks into nanoseconds by the straight line between its anchor and the reader's. Whatever the
/// writer's words say: no overflow, and nothing lies in the future.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    from: Anchor,
    to: Anchor,
}

impl Line {
    pub(crate) fn new(from: Anchor, to: Anchor) -> Self {
        Self { from, to }
    }

    /// `from`: the writer's ticks, with the moment by the reader's clock. Nanoseconds as ticks are those of the writer's time
    /// namespace, in which it is another time now than in the reader's.
    pub(crate) fn until_now(from: Anchor, kind: ClockKind) -> Self {
        let now = Anchor::take(kind);
        let to = match kind {
            ClockKind::Counter => now,
            ClockKind::Nanoseconds => {
                Anchor { ticks: from.ticks.wrapping_sub(from.ns).wrapping_add(now.ns), ..now }
            }
        };
        Self::new(from, to)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.to.ns
    }

    /// 0 stays 0: 'never'.
    pub(crate) fn moment_ns(&self, ticks: u64) -> u64 {
        if ticks == 0 {
            return 0;
        }
        let ago = self.span_ns(self.to.ticks.saturating_sub(ticks));
        self.to.ns.saturating_sub(ago).max(1)
    }

    pub(crate) fn span_ns(&self, ticks: u64) -> u64 {
        let ns = self.to.ns.saturating_sub(self.from.ns);
        let per = self.to.ticks.saturating_sub(self.from.ticks);
        if ns == 0 || per == 0 {
            return ticks;
        }
        u64::try_from(u128::from(ticks) * u128::from(ns) / u128::from(per)).unwrap_or(u64::MAX)
    }
}

pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

pub(crate) fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// By the C library, which reads both clocks without a system call wherever that is possible.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the one structure it is given; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_keeps_its_place_between_two_readings_of_the_other_clock() {
        let from = Anchor::take(kind());
        for _ in 0..1000 {
            let (before, at, after) = (monotonic_ns(), now(), monotonic_ns());
            let line = Line::new(from, Anchor::take(kind()));
            let found = line.moment_ns(at.0);
            // The anchors themselves are some hundred nanoseconds wide, more where a thread lost the processor.
            assert!(found + 1_000_000 > before && found < after + 1_000_000, "{before} {found} {after}");
        }
    }

    #[test]
    fn nanoseconds_of_another_time_namespace_are_as_long_ago_as_they_are_there() {
        const AHEAD: i64 = 100_000_000_000_000;
        for ahead in [AHEAD, 0, -5_000_000_000] {
            let here = Anchor::take(ClockKind::Nanoseconds);
            let there = Anchor { ticks: here.ticks.wrapping_add_signed(ahead), ..here };
            let line = Line::until_now(there, ClockKind::Nanoseconds);
            let (from, later) = (line.moment_ns(there.ticks), line.moment_ns(there.ticks + 100));
            assert!(
                from.abs_diff(here.ns) < 1000 && later >= from && later <= monotonic_ns(),
                "{here:?} {from} {later}"
            );
        }
    }

    #[test]
    fn never_stays_never() {
        let anchor = Anchor { ticks: 5, ns: 7 };
        assert_eq!(Line::new(anchor, anchor).moment_ns(0), 0);
    }

    proptest! {
        #[test]
        fn no_words_of_a_hostile_file_overflow_or_lie_in_the_future(
            words in any::<[u64; 4]>(), ticks in any::<u64>()
        ) {
            let from = Anchor { ticks: words[0], ns: words[1] };
            let to = Anchor { ticks: words[2], ns: words[3].max(1) };
            let line = Line::new(from, to);
            prop_assert!(line.moment_ns(ticks) <= to.ns);
            line.span_ns(ticks);
        }
    }
}
