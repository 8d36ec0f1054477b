//! What comes next in this process, for whoever uses the time until then. Written by whoever has a place's rhythm;
//! read without a lock, from any thread. Kept only where somebody wants it.

use super::places::places;
use crate::telemetry::tick_rate::nanoseconds;
use airamp_policy::rhythm::{Heard, Rhythm};
use airamp_telemetry::now;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

/// When the process communicated last and when it is expected to again, in nanoseconds of `now_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// The device of the communicator that comes next; negative: not known.
    pub(crate) device: i32,
    pub(crate) last_call_ns: u64,
    pub(crate) next_ns: u64,
    pub(crate) earliest_ns: u64,
    /// What `calls` said before this was looked at.
    pub(crate) calls: u64,
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Nothing unless a communicator of the process is locked onto its rhythm. Of several the one that comes first.
pub(crate) fn outlook() -> Option<Outlook> {
    let calls = calls();
    next_of(places().filter_map(|shown| shown.look()), calls, now_ns())
}

fn next_of(all: impl Iterator<Item = Seen>, calls: u64, now_ns: u64) -> Option<Outlook> {
    let (mut last_call_ns, mut first) = (0, None::<Seen>);
    for seen in all {
        last_call_ns = last_call_ns.max(seen.last_ns);
        if seen.is_expected(now_ns) && first.is_none_or(|first| seen.next_ns < first.next_ns) {
            first = Some(seen);
        }
    }
    let Seen { device, next_ns, earliest_ns, .. } = first?;
    Some(Outlook { device, last_call_ns, next_ns, earliest_ns, calls })
}

/// Raised by every call that comes to us, before the vendor has it. Wraps.
#[inline(always)]
pub(crate) fn calls() -> u64 {
    CALLS.load(Ordering::Acquire)
}

pub(crate) fn call_came() {
    CALLS.fetch_add(1, Ordering::AcqRel);
}

/// The clock of these times: monotonic, read without a system call.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(now())
}

/// What one communicator shows.
pub(super) struct Shown {
    /// Odd while it is written.
    version: AtomicU32,
    device: AtomicI32,
    last_ns: AtomicU64,
    /// 0: nobody knows.
    next_ns: AtomicU64,
    earliest_ns: AtomicU64,
}

#[derive(Clone, Copy)]
struct Seen {
    device: i32,
    last_ns: u64,
    next_ns: u64,
    earliest_ns: u64,
}

impl Seen {
    /// Whether a call is foretold that can still come in its time. One that is late by as long as its whole pause, and
    /// by more than it ever varies, says nothing any more: others would wait for a communicator that has fallen silent.
    fn is_expected(&self, now_ns: u64) -> bool {
        let pause_ns = self.next_ns.saturating_sub(self.last_ns.min(self.earliest_ns));
        self.next_ns != 0 && now_ns.saturating_sub(self.next_ns) <= pause_ns.max(LEAST_PATIENCE_NS)
    }
}

/// A forecast is not past before so long: hosts are held up now and then.
const LEAST_PATIENCE_NS: u64 = 10_000_000;

/// Whoever writes is done within a few stores.
const LOOKS: usize = 8;

impl Shown {
    pub(super) const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            device: AtomicI32::new(-1),
            last_ns: AtomicU64::new(0),
            next_ns: AtomicU64::new(0),
            earliest_ns: AtomicU64::new(0),
        }
    }

    /// For whoever has the place's rhythm. Inside a burst nothing is shown: the next call is about to come.
    pub(super) fn show(&self, rhythm: &Rhythm, heard: &Heard, at_ns: u64) {
        let next = rhythm.next().filter(|_| heard.burst_ends);
        let (next_ns, earliest_ns) = next.map_or((0, 0), |next| (next.at_ns, next.earliest_ns));
        self.write(self.device.load(Ordering::Relaxed), at_ns, next_ns, earliest_ns);
    }

    /// The same: a communicator has come, or has gone.
    pub(super) fn reset(&self, device: i32) {
        self.write(device, 0, 0, 0);
    }

    fn write(&self, device: i32, last_ns: u64, next_ns: u64, earliest_ns: u64) {
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        self.device.store(device, Ordering::Relaxed);
        self.last_ns.store(last_ns, Ordering::Relaxed);
        self.next_ns.store(next_ns, Ordering::Relaxed);
        self.earliest_ns.store(earliest_ns, Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }

    fn look(&self) -> Option<Seen> {
        (0..LOOKS).find_map(|_| {
            let before = self.version.load(Ordering::Acquire);
            let seen = Seen {
                device: self.device.load(Ordering::Relaxed),
                last_ns: self.last_ns.load(Ordering::Relaxed),
                next_ns: self.next_ns.load(Ordering::Relaxed),
                earliest_ns: self.earliest_ns.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            let is_whole = before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before;
            is_whole.then_some(seen)
        })
    }

    /// A forked child: nobody has the rhythm. Only stores.
    pub(super) fn abandon(&self) {
        self.version.store(0, Ordering::Relaxed);
        self.next_ns.store(0, Ordering::Relaxed);
        self.last_ns.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_half_written_is_not_seen() {
        let shown = Shown::new();
        shown.write(3, 10, 20, 15);
        assert!(shown.look().is_some_and(|seen| (seen.device, seen.next_ns) == (3, 20)));
        shown.version.fetch_add(1, Ordering::Relaxed);
        assert!(shown.look().is_none());
        shown.write(3, 11, 21, 16);
        assert!(shown.look().is_some_and(|seen| seen.last_ns == 11));
    }

    const MS: u64 = 1_000_000;

    fn seen(device: i32, last_ms: u64, next_ms: u64) -> Seen {
        let (last_ns, next_ns) = (last_ms * MS, next_ms * MS);
        Seen { device, last_ns, next_ns, earliest_ns: next_ns.saturating_sub(MS) }
    }

    #[test]
    fn of_several_the_one_that_comes_first_counts_and_the_last_call_of_any() {
        let all = [seen(0, 100, 300), seen(1, 150, 200), seen(2, 190, 0)];
        let outlook = next_of(all.into_iter(), 7, 195 * MS).expect("two are known");
        assert_eq!(
            (outlook.device, outlook.last_call_ns, outlook.next_ns, outlook.calls),
            (1, 190 * MS, 200 * MS, 7)
        );
    }

    #[test]
    fn one_that_has_fallen_silent_stops_counting() {
        let all = || [seen(0, 100, 200), seen(1, 950, 1000)].into_iter();
        // Late by less than its pause of 100 ms it may still come.
        assert!(next_of(all(), 0, 290 * MS).is_some_and(|outlook| outlook.device == 0));
        assert!(next_of(all(), 0, 960 * MS).is_some_and(|outlook| outlook.device == 1));
        assert!(next_of(all(), 0, 2000 * MS).is_none());
    }
}
