//! What is remembered of each communicator with a slot in the telemetry file: what its calls add, by their shape, and its
//! rhythm. Made when a communicator first gets the slot, and kept for the next one. Whoever has taken the place has both;
//! it is tried, never waited for. Two threads at once on one communicator are against the vendor's rules: then one of
//! the calls is not heard.

use super::effects;
use super::outlook::Shown;
use super::telling::{Limit, tell};
use crate::telemetry::tick_rate::{nanoseconds, span_ns, ticks};
use crate::telemetry::{Shapes, want_sample, writer};
use airamp_policy::rhythm::{Beat, Expected, Heard, Key, Rhythm, State};
use airamp_telemetry::{PatternState, Slot, Ticks};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// As many as the file has slots.
const PLACES: usize = 32;

/// `Place::holder` where there is no communicator, and where somebody has the place. No slot has these bits.
const NOBODY: u64 = 0;
const TAKEN: u64 = u64::MAX;

/// How often the opening of a place asks for its flag: its last holder is done within a call.
const MOST_TRIES: usize = 10_000;

pub(super) struct Place {
    /// The bits of the slot whose communicator is remembered here, while nobody has taken the place.
    holder: AtomicU64,
    /// Null without a rhythm, and until a communicator first has the place; then from a box that is never freed.
    learning: AtomicPtr<Learning>,
    shapes: UnsafeCell<Shapes>,
    shown: Shown,
    /// A step was learnt, and nobody has made chunks of it yet.
    has_news: AtomicBool,
}

// SAFETY: whoever has taken the place is alone with its shapes; all else is atomic.
unsafe impl Sync for Place {}

/// What is learnt of one communicator, for whoever has taken the place. What every call looks at stands first, up to what
/// the rhythm begins with: two cache lines.
#[repr(C, align(64))]
pub(super) struct Learning {
    /// When the last call came.
    last: Ticks,
    /// As `quiet_until`, where nobody wants to know what comes next; else never.
    unheeded_until: Ticks,
    pub(super) rhythm: Rhythm,
    /// Bytes of all calls of the learnt step.
    step_bytes: u64,
    /// Until then nothing is made of it that a step begins or ends: decoding may have thousands in a second.
    quiet_until: Ticks,
    pub(super) limit: Limit,
}

/// What every communicator begins with. Copied from here: it is too large for some programs' stacks.
static FRESH: Learning = Learning {
    last: Ticks(0),
    unheeded_until: Ticks(0),
    rhythm: Rhythm::new(),
    step_bytes: 0,
    quiet_until: Ticks(0),
    limit: Limit::new(),
};

const _: () = assert!(size_of::<Learning>() < 64 * 1024 && !std::mem::needs_drop::<Learning>());
const _: () = assert!(std::mem::offset_of!(Learning, rhythm) <= 16);

/// From one step of which something is made to the next, at least.
const QUIET_NS: u64 = 10_000_000;

static ALL: [Place; PLACES] = [const { Place::new() }; PLACES];

/// A communicator on that device got the slot. Allocates.
pub(crate) fn open(slot: Slot, device: i32) {
    let place = &ALL[usize::from(slot.index()) % PLACES];
    let wants_rhythm = effects().pattern();
    let opened = place.open(slot.bits(), wants_rhythm, || place.shown.reset(device));
    if opened && wants_rhythm {
        slot.pattern(PatternState::Learning, 0.0, 0, 0, 0);
    }
}

/// The communicator has ended.
pub(crate) fn close(slot: Slot) {
    ALL[usize::from(slot.index()) % PLACES].close(slot.bits());
}

/// Takes the place of the communicator with that slot. `None`: somebody else has it, or it is another one's.
#[inline(always)]
pub(crate) fn take(bits: u64) -> Option<Held<'static>> {
    // A communicator without a slot has no place; a vacant one is not its own.
    if bits == NOBODY {
        return None;
    }
    ALL[bits as usize % PLACES].take(bits)
}

/// A call of the communicator with that slot took effect. The number of the step that it is in, or 0.
pub(crate) fn hear(bits: u64, call: Key, at: Ticks) -> u32 {
    take(bits).map_or(0, |held| held.used(|held| held.hear(call, at)))
}

/// Whether a step of that communicator was learnt since this was last asked.
#[inline]
pub(crate) fn has_news(bits: u64) -> bool {
    let place = &ALL[bits as usize % PLACES];
    place.has_news.load(Ordering::Relaxed)
        && take(bits).is_some_and(|held| held.used(|held| held.place.has_news.swap(false, Ordering::AcqRel)))
}

/// Shows the calls of the learnt step, in its order. `show` must not come back here.
pub(crate) fn each_call_of_step(bits: u64, show: impl FnMut(Expected)) {
    with_learning(bits, |learning| learning.rhythm.calls_of_step().for_each(show));
}

/// The device took so long for a call of that communicator with so many bytes.
pub(crate) fn measured(bits: u64, ns: u64, bytes: f32) {
    with_learning(bits, |learning| {
        if learning.step_bytes != 0 && bytes >= 1.0 {
            let share = learning.step_bytes as f64 / f64::from(bytes);
            learning.rhythm.communicated((ns as f64 * share) as u64);
        }
    });
}

/// Nothing where somebody else has the place, or there is no rhythm.
fn with_learning(bits: u64, part: impl FnOnce(&mut Learning)) {
    if let Some(held) = take(bits) {
        held.used(|held| {
            if let Some(learning) = held.learning() {
                part(learning);
            }
        });
    }
}

pub(super) fn places() -> impl Iterator<Item = &'static Shown> {
    let open = |place: &&Place| place.holder.load(Ordering::Relaxed) != NOBODY;
    ALL.iter().filter(open).map(|place| &place.shown)
}

/// A forked child: its parent's communicators are not its own, and whoever had a place is not here. Only stores.
pub(crate) fn abandon() {
    for place in &ALL {
        place.holder.store(NOBODY, Ordering::Relaxed);
        place.shown.abandon();
    }
}

impl Place {
    const fn new() -> Self {
        Self {
            holder: AtomicU64::new(NOBODY),
            learning: AtomicPtr::new(std::ptr::null_mut()),
            shapes: UnsafeCell::new(Shapes::new()),
            shown: Shown::new(),
            has_news: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    fn take(&self, bits: u64) -> Option<Held<'_>> {
        self.holder.compare_exchange(bits, TAKEN, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Held { place: self, bits })
    }

    /// For the communicator with those bits from now on. False: somebody has the place, for long.
    fn open(&self, bits: u64, wants_rhythm: bool, prepare: impl FnOnce()) -> bool {
        let Some(mut held) = self.take_with_patience(|_| true) else { return false };
        held.shapes().clear();
        if wants_rhythm && self.learning.load(Ordering::Relaxed).is_null() {
            self.learning.store(Learning::allocate(), Ordering::Relaxed);
        }
        held.learning().into_iter().for_each(Learning::reset);
        prepare();
        self.has_news.store(false, Ordering::Relaxed);
        held.bits = bits;
        held.give_back();
        true
    }

    /// Where somebody has the place for long, it stays as it is until the slot's next communicator.
    fn close(&self, bits: u64) {
        if let Some(mut held) = self.take_with_patience(|holder| holder == bits) {
            self.shown.reset(-1);
            held.bits = NOBODY;
            held.give_back();
        }
    }

    /// Asks for the place for a while, and gives up where it is not one that is `wanted`.
    fn take_with_patience(&self, wanted: impl Fn(u64) -> bool) -> Option<Held<'_>> {
        for _ in 0..MOST_TRIES {
            match self.holder.load(Ordering::Relaxed) {
                TAKEN => std::hint::spin_loop(),
                holder if !wanted(holder) => return None,
                holder => {
                    if let Some(held) = self.take(holder) {
                        return Some(held);
                    }
                }
            }
        }
        None
    }
}

/// A place that this thread has taken, and gives back itself: one that is dropped on the path of a call costs more. Where
/// a panic keeps it from that, which makes the process inert, nobody has the place again.
#[must_use]
pub(crate) struct Held<'a> {
    place: &'a Place,
    bits: u64,
}

impl Held<'_> {
    #[inline(always)]
    pub(crate) fn give_back(self) {
        self.place.holder.store(self.bits, Ordering::Release);
    }

    /// Does something with the place, and gives it back.
    fn used<R>(self, part: impl FnOnce(&Self) -> R) -> R {
        let result = part(&self);
        self.give_back();
        result
    }

    /// At most one of these is used at a time. The rhythm is other memory, and may be told something meanwhile.
    #[allow(clippy::mut_from_ref, reason = "whoever has taken the place is alone with it")]
    #[inline(always)]
    pub(crate) fn shapes(&self) -> &mut Shapes {
        // SAFETY: this thread has taken the place, and callers keep to the rule above.
        unsafe { &mut *self.place.shapes.get() }
    }

    /// The same rule.
    #[allow(clippy::mut_from_ref, reason = "whoever has taken the place is alone with it")]
    #[inline(always)]
    fn learning(&self) -> Option<&mut Learning> {
        // SAFETY: null, or from a box that is never freed; this thread has taken the place.
        unsafe { self.place.learning.load(Ordering::Relaxed).as_mut() }
    }

    /// Tells the rhythm of a call; the step that it is in. Most calls are as expected and say nothing; for them it is a
    /// matter of few instructions.
    #[inline(always)]
    pub(crate) fn hear(&self, call: Key, at: Ticks) -> u32 {
        let Some(Learning { rhythm, last, unheeded_until, .. }) = self.learning() else { return 0 };
        let gap = at.0.wrapping_sub(last.0) as i64;
        let is_quiet = || at < *unheeded_until;
        if gap < 0 || !rhythm.hear_usual(call, span_ns(gap), is_quiet) {
            return hear_with_care(self.place, self.bits, call, at);
        }
        *last = at;
        rhythm.step() as u32
    }
}

/// What begins or ends something, or is not as expected, for whoever has taken the place: told by what it is made of,
/// since a `Held` that somebody has the address of would be in memory.
#[inline(never)]
fn hear_with_care(place: &Place, bits: u64, call: Key, at: Ticks) -> u32 {
    let held = Held { place, bits };
    let Some(learning) = held.learning() else { return 0 };
    let at_ns = nanoseconds(at);
    let beat = Beat { kind: call.kind(), datatype: call.datatype(), bytes: call.bytes(), at_ns };
    learning.rhythm.last_came_at(nanoseconds(learning.last));
    learning.last = learning.last.max(at);
    let heard = learning.rhythm.hear(beat);
    if learning.is_remarkable(&heard, at) {
        held.remark(learning, &heard, beat, at);
    }
    if effects().outlook() {
        place.shown.show(&learning.rhythm, &heard, at_ns);
    }
    learning.rhythm.step() as u32
}

impl Held<'_> {
    #[cold]
    #[inline(never)]
    fn remark(&self, learning: &mut Learning, heard: &Heard, beat: Beat, at: Ticks) {
        if heard.state_changed {
            learning.step_bytes = learning.rhythm.bursts().map(|burst| burst.bytes).sum();
            let rhythm = &learning.rhythm;
            let is_sure = rhythm.state() == State::Locked && !rhythm.is_provisional();
            let is_learnt = is_sure && effects().chunks();
            self.place.has_news.store(is_learnt, Ordering::Release);
        }
        let is_border = heard.step_began | heard.step_ends && at >= learning.quiet_until;
        if heard.step_ends && is_border && effects().samples() && learning.has_long_steps() {
            want_sample(self.bits as u8);
        }
        if let Some(writer) = writer()
            && let Some(slot) = writer.slot(self.bits)
        {
            tell(writer, slot, learning, heard, beat);
        }
        if heard.step_began && is_border {
            learning.quiet_until = Ticks(at.0.saturating_add(ticks(QUIET_NS)));
            learning.unheeded_until = if effects().outlook() { Ticks(0) } else { learning.quiet_until };
        }
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

    /// Whether each step can have a sample of its own. Of shorter ones some would have one, and any call does for that.
    fn has_long_steps(&self) -> bool {
        effects().outlook() || self.rhythm.period_ns() >= QUIET_NS
    }

    #[inline(always)]
    fn is_remarkable(&self, heard: &Heard, at: Ticks) -> bool {
        heard.state_changed
            || heard.deviation.is_some()
            || heard.change.is_some()
            || heard.step_began | heard.step_ends && at >= self.quiet_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_telemetry::Kind;

    const CALLS: u64 = 24;

    const BITS: u64 = 2 << 8 | 3;

    fn opened() -> Place {
        let place = Place::new();
        assert!(place.open(BITS, true, || ()));
        place
    }

    fn hear_one(place: &Place, number: u64, at: u64) -> u32 {
        let call = Key::new(Kind::AllReduce as u8, 7, 4096 << (number % 5));
        place.take(BITS).map_or(0, |held| held.used(|held| held.hear(call, Ticks(at))))
    }

    /// Steps of 24 calls and a pause; the step of the last call.
    fn hear_steps(place: &Place, steps: u64) -> u32 {
        hear_steps_of(50_000_000, place, steps)
    }

    fn hear_steps_of(ticks: u64, place: &Place, steps: u64) -> u32 {
        let mut last = 0;
        for number in 0..steps * CALLS {
            let at = 1 << 40 | (number / CALLS * ticks + number % CALLS * 20_000);
            last = hear_one(place, number % CALLS, at);
        }
        last
    }

    fn state_of(place: &Place, bits: u64) -> Option<State> {
        place.take(bits)?.used(|held| held.learning().map(|learning| learning.rhythm.state()))
    }

    fn state(place: &Place) -> Option<State> {
        state_of(place, BITS)
    }

    #[test]
    fn a_call_that_finds_the_rhythm_in_use_is_not_heard_and_does_not_wait() {
        let place = opened();
        assert!(hear_steps(&place, 20) > 0);
        let held = place.take(BITS);
        assert_eq!(hear_one(&place, 0, 1 << 50), 0);
        assert_eq!(state(&place), None);
        held.into_iter().for_each(Held::give_back);
        assert_eq!(state(&place), Some(State::Locked));
    }

    #[test]
    fn the_next_communicator_of_a_slot_begins_anew_and_the_one_before_is_not_heard_any_more() {
        let place = opened();
        hear_steps(&place, 20);
        assert_eq!(state(&place), Some(State::Locked));
        place.close(BITS);
        assert_eq!(state(&place), None);
        let next = BITS + (2 << 8);
        assert!(place.open(next, true, || ()));
        assert_eq!(state(&place), None);
        assert_eq!(state_of(&place, next), Some(State::Learning));
    }

    #[test]
    fn the_end_of_the_communicator_before_does_not_close_the_place_of_the_next() {
        let place = opened();
        place.close(BITS + (2 << 8));
        assert!(place.take(BITS).is_some());
    }

    #[test]
    fn a_communicator_without_a_slot_or_a_rhythm_is_in_no_step() {
        for bits in [1 << 8, 7] {
            assert_eq!(hear(bits, Key::new(0, 7, 64), Ticks(5)), 0);
        }
        let place = Place::new();
        assert!(place.open(BITS, false, || ()));
        assert_eq!(hear_one(&place, 0, 5), 0);
        assert!(place.take(BITS).is_some());
        assert!(!has_news(1 << 8) && !has_news(7));
    }

    #[test]
    fn a_call_that_came_before_the_last_one_is_heard_with_care() {
        let place = opened();
        hear_steps(&place, 20);
        assert!(hear_one(&place, 0, 1 << 39) > 0);
        let last = place.take(BITS).and_then(|held| held.learning().map(|learning| learning.last));
        assert!(last.is_some_and(|last| last.0 > 1 << 40));
    }

    #[test]
    fn steps_that_are_too_short_for_a_sample_each_want_none() {
        for (ns, expected) in [(5_000_000, false), (25_000_000, true)] {
            let place = opened();
            assert!(hear_steps_of(ticks(ns), &place, 20) > 0);
            let long = place.take(BITS).and_then(|held| held.learning().map(|it| it.has_long_steps()));
            assert_eq!(long, Some(expected), "{ns}");
        }
    }

    #[test]
    fn a_step_that_was_learnt_shows_its_calls() {
        let place = opened();
        hear_steps(&place, 20);
        let held = place.take(BITS);
        let calls = held.as_ref().and_then(Held::learning).map(|it| it.rhythm.calls_of_step().count());
        assert_eq!(calls, Some(CALLS as usize));
    }
}
