//! Where the rhythms lie: one for each slot of the telemetry file, made when a communicator first gets the slot and
//! kept for the next one. Whoever has the place's flag has the rhythm; the flag is tried, never waited for. Two
//! threads at once on one communicator are against the vendor's rules: then one of the calls is not heard.

use super::effects;
use super::outlook::Shown;
use super::telling::{Limit, tell};
use crate::telemetry::tick_rate::nanoseconds;
use crate::telemetry::{want_sample, writer};
use airamp_policy::rhythm::{Beat, Expected, Heard, Rhythm, State};
use airamp_telemetry::{Datatype, Kind, PatternState, Slot, Ticks};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// As many as the file has slots.
const PLACES: usize = 32;

/// `Place::open_for` where there is no communicator. No slot has these bits, and nor has a communicator without one.
const NOBODY: u64 = u64::MAX;

/// How often the opening of a place asks for its flag: its last holder is done within a call.
const MOST_TRIES: usize = 10_000;

struct Place {
    open_for: AtomicU64,
    is_taken: AtomicBool,
    /// Null until a communicator first has the place; then from a box that is never freed.
    learning: AtomicPtr<Learning>,
    shown: Shown,
    /// A step was learnt, and nobody has made chunks of it yet.
    has_news: AtomicBool,
}

/// What is learnt of one communicator, for whoever has the flag.
pub(super) struct Learning {
    pub(super) rhythm: Rhythm,
    /// Bytes of all calls of the learnt step.
    step_bytes: u64,
    /// Until then nothing is made of it that a step begins or ends: decoding may have thousands in a second.
    quiet_until_ns: u64,
    pub(super) limit: Limit,
}

/// What every communicator begins with. Copied from here: it is too large for some programs' stacks.
static FRESH: Learning =
    Learning { rhythm: Rhythm::new(), step_bytes: 0, quiet_until_ns: 0, limit: Limit::new() };

const _: () = assert!(size_of::<Learning>() < 64 * 1024 && !std::mem::needs_drop::<Learning>());

/// From one step of which something is made to the next, at least.
const QUIET_NS: u64 = 10_000_000;

static ALL: [Place; PLACES] = [const { Place::new() }; PLACES];

/// A communicator on that device got the slot. Allocates.
pub(crate) fn open(slot: Slot, device: i32) {
    let Some(place) = ALL.get(usize::from(slot.index())).filter(|_| effects().pattern()) else { return };
    let opened = place.with_patience(|learning| {
        learning.reset();
        place.shown.reset(device);
        place.has_news.store(false, Ordering::Relaxed);
        place.open_for.store(slot.bits(), Ordering::Release);
    });
    if opened.is_some() {
        slot.pattern(PatternState::Learning, 0.0, 0, 0, 0);
    }
}

/// The communicator has ended.
pub(crate) fn close(slot: Slot) {
    let Some(place) = ALL.get(usize::from(slot.index())) else { return };
    let (mine, nobody) = (slot.bits(), NOBODY);
    if place.open_for.compare_exchange(mine, nobody, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        place.with_patience(|_| place.shown.reset(-1));
    }
}

/// A call of the communicator with that slot took effect; its kind and datatype are numbers as in the telemetry file.
/// The number of the step that it is in, or 0.
#[inline(always)]
pub(crate) fn hear(bits: u64, kind: Kind, datatype: Datatype, bytes: u64, at: Ticks) -> u32 {
    if !effects().any() {
        return 0;
    }
    let place = &ALL[bits as usize % PLACES];
    if place.open_for.load(Ordering::Acquire) != bits {
        return 0;
    }
    place.hear(kind as u8, datatype.0, bytes, at)
}

/// Whether a step of that communicator was learnt since this was last asked.
#[inline]
pub(crate) fn has_news(bits: u64) -> bool {
    let place = &ALL[bits as usize % PLACES];
    place.has_news.load(Ordering::Relaxed)
        && place.open_for.load(Ordering::Acquire) == bits
        && place.has_news.swap(false, Ordering::AcqRel)
}

/// Shows the calls of the learnt step, in its order. `show` must not come back here.
pub(crate) fn each_call_of_step(bits: u64, show: impl FnMut(Expected)) {
    let place = &ALL[bits as usize % PLACES];
    if place.open_for.load(Ordering::Acquire) == bits {
        place.with(|learning| learning.rhythm.calls_of_step().for_each(show));
    }
}

/// The device took so long for a call of that communicator with so many bytes.
pub(crate) fn measured(bits: u64, ns: u64, bytes: f32) {
    let place = &ALL[bits as usize % PLACES];
    if place.open_for.load(Ordering::Acquire) != bits || bytes < 1.0 {
        return;
    }
    place.with(|learning| {
        if learning.step_bytes != 0 {
            let share = learning.step_bytes as f64 / f64::from(bytes);
            learning.rhythm.communicated((ns as f64 * share) as u64);
        }
    });
}

pub(super) fn places() -> impl Iterator<Item = &'static Shown> {
    let open = |place: &&Place| place.open_for.load(Ordering::Relaxed) != NOBODY;
    ALL.iter().filter(open).map(|place| &place.shown)
}

/// A forked child: its parent's communicators are not its own, and whoever had a flag is not here. Only stores.
pub(crate) fn abandon() {
    for place in &ALL {
        place.open_for.store(NOBODY, Ordering::Relaxed);
        place.is_taken.store(false, Ordering::Relaxed);
        place.shown.abandon();
    }
}

impl Place {
    const fn new() -> Self {
        Self {
            open_for: AtomicU64::new(NOBODY),
            is_taken: AtomicBool::new(false),
            learning: AtomicPtr::new(std::ptr::null_mut()),
            shown: Shown::new(),
            has_news: AtomicBool::new(false),
        }
    }

    /// Most calls are as expected and say nothing; for them it is a matter of few instructions.
    #[inline(always)]
    fn hear(&self, kind: u8, datatype: u8, bytes: u64, at: Ticks) -> u32 {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return 0;
        }
        let at_ns = nanoseconds(at);
        // SAFETY: null, or from a box that is never freed; this thread has the flag.
        let Some(learning) = (unsafe { self.learning.load(Ordering::Relaxed).as_mut() }) else {
            self.is_taken.store(false, Ordering::Release);
            return 0;
        };
        if !learning.rhythm.hear_usual(&Beat { kind, datatype, bytes, at_ns }) {
            return self.hear_with_care(learning, kind, datatype, bytes, at_ns);
        }
        let step = learning.rhythm.step() as u32;
        self.is_taken.store(false, Ordering::Release);
        step
    }

    /// What begins or ends something, or is not as expected. Gives the flag back.
    #[inline(never)]
    fn hear_with_care(&self, learning: *mut Learning, kind: u8, datatype: u8, bytes: u64, at_ns: u64) -> u32 {
        // SAFETY: from `hear`, which has the flag and uses it no more. A pointer, since the reference ends with the flag.
        let learning = unsafe { &mut *learning };
        let beat = Beat { kind, datatype, bytes, at_ns };
        let heard = learning.rhythm.hear(beat);
        if learning.is_remarkable(&heard, at_ns) {
            self.remark(learning, &heard, beat);
        }
        if effects().outlook() {
            self.shown.show(&learning.rhythm, &heard, at_ns);
        }
        let step = learning.rhythm.step() as u32;
        self.is_taken.store(false, Ordering::Release);
        step
    }

    #[cold]
    #[inline(never)]
    fn remark(&self, learning: &mut Learning, heard: &Heard, beat: Beat) {
        let bits = self.open_for.load(Ordering::Relaxed);
        if bits == NOBODY {
            // It has just ended.
            return;
        }
        if heard.state_changed {
            learning.step_bytes = learning.rhythm.bursts().map(|burst| burst.bytes).sum();
            let is_learnt = learning.rhythm.state() == State::Locked && effects().chunks();
            self.has_news.store(is_learnt, Ordering::Release);
        }
        let is_border = heard.step_began | heard.step_ends && beat.at_ns >= learning.quiet_until_ns;
        if heard.step_ends && is_border && effects().samples() {
            want_sample(bits as u8);
        }
        if let Some(writer) = writer()
            && let Some(slot) = writer.slot(bits)
        {
            tell(writer, slot, learning, heard, beat);
        }
        if heard.step_began && is_border {
            learning.quiet_until_ns = beat.at_ns.saturating_add(QUIET_NS);
        }
    }

    /// Nothing where somebody else has the rhythm, or there is none.
    #[inline(always)]
    fn with<R>(&self, part: impl FnOnce(&mut Learning) -> R) -> Option<R> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        self.use_taken(part)
    }

    /// For whoever has taken the flag, and gives it back by this.
    #[inline(always)]
    fn use_taken<R>(&self, part: impl FnOnce(&mut Learning) -> R) -> Option<R> {
        // SAFETY: null, or from a box that is never freed; who has the flag is alone with it.
        let result = unsafe { self.learning.load(Ordering::Relaxed).as_mut() }.map(part);
        self.is_taken.store(false, Ordering::Release);
        result
    }

    /// The same where a communicator is made or ended: makes the rhythm, and asks again for a while.
    fn with_patience<R>(&self, part: impl FnOnce(&mut Learning) -> R) -> Option<R> {
        (0..MOST_TRIES).find(|_| {
            let is_mine = !self.is_taken.swap(true, Ordering::Acquire);
            if !is_mine {
                std::hint::spin_loop();
            }
            is_mine
        })?;
        if self.learning.load(Ordering::Relaxed).is_null() {
            self.learning.store(Learning::allocate(), Ordering::Relaxed);
        }
        self.use_taken(part)
    }
}

impl Learning {
    fn allocate() -> *mut Self {
        let mut place = Box::new_uninit();
        // SAFETY: one into the other, of the same type, and nothing in it has a destructor.
        unsafe {
            std::ptr::copy_nonoverlapping(&raw const FRESH, place.as_mut_ptr(), 1);
            Box::into_raw(place.assume_init())
        }
    }

    fn reset(&mut self) {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(&raw const FRESH, self, 1) };
    }

    #[inline(always)]
    fn is_remarkable(&self, heard: &Heard, at_ns: u64) -> bool {
        heard.state_changed
            || heard.deviation.is_some()
            || heard.change.is_some()
            || heard.step_began | heard.step_ends && at_ns >= self.quiet_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: u64 = 24;

    fn opened() -> Place {
        let place = Place::new();
        place.with_patience(Learning::reset);
        place
    }

    fn hear_one(place: &Place, number: u64, at: u64) -> u32 {
        place.hear(Kind::AllReduce as u8, 7, 4096 << (number % 5), Ticks(at))
    }

    /// Steps of 24 calls and a pause; the step of the last call.
    fn hear_steps(place: &Place, steps: u64) -> u32 {
        let mut last = 0;
        for number in 0..steps * CALLS {
            let at = 1 << 40 | (number / CALLS * 50_000_000 + number % CALLS * 20_000);
            last = hear_one(place, number % CALLS, at);
        }
        last
    }

    fn state(place: &Place) -> Option<State> {
        place.with(|learning| learning.rhythm.state())
    }

    #[test]
    fn a_call_that_finds_the_rhythm_in_use_is_not_heard_and_does_not_wait() {
        let place = opened();
        assert!(hear_steps(&place, 20) > 0);
        place.is_taken.store(true, Ordering::Relaxed);
        assert_eq!(hear_one(&place, 0, 1 << 50), 0);
        assert_eq!(state(&place), None);
        place.is_taken.store(false, Ordering::Relaxed);
        assert_eq!(state(&place), Some(State::Locked));
    }

    #[test]
    fn the_next_communicator_of_a_slot_begins_anew() {
        let place = opened();
        hear_steps(&place, 20);
        assert_eq!(state(&place), Some(State::Locked));
        place.with_patience(Learning::reset);
        assert_eq!(state(&place), Some(State::Learning));
        assert_eq!(hear_one(&place, 0, 1 << 50), 0);
    }

    #[test]
    fn a_communicator_without_a_slot_or_a_rhythm_is_in_no_step() {
        for bits in [0, 7] {
            assert_eq!(hear(bits, Kind::AllReduce, Datatype(7), 64, Ticks(5)), 0);
        }
        let place = Place::new();
        assert_eq!(hear_one(&place, 0, 5), 0);
        assert!(!place.is_taken.load(Ordering::Relaxed));
        assert!(!has_news(0) && !has_news(7));
    }

    #[test]
    fn a_step_that_was_learnt_shows_its_calls() {
        let place = opened();
        hear_steps(&place, 20);
        let calls = place.with(|learning| learning.rhythm.calls_of_step().count() as u64);
        assert_eq!(calls, Some(CALLS));
    }
}
