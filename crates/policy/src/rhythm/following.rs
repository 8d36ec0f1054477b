//! The part of `Rhythm` that follows a known step while calls come as expected: one comparison and a few additions.
//! Times are compared as pauses, so that a late call does not make the next ones late, too. What does not come as
//! expected goes to `misfits`.

use super::Rhythm;
use super::beat::{Change, Heard, State};
use super::learner::DEPTH;
use super::mark::Key;
use super::template::{Template, in_time};

/// Bytes of a place that varies are foreseen if they are not this factor away.
const SAME_SIZE: f32 = 2.0;

/// A call that was as expected: which of `Key::ENDS` its place has.
struct Passed {
    ends: u64,
    begins_step: bool,
}

impl Rhythm {
    /// The call, if it is as most are: the one that is expected, in time, and either inside a burst or, where the caller
    /// makes nothing of borders now, at one. False: nothing was changed, and `hear` is to be told. Apart from it, because
    /// it has nothing to say and so costs less; the time of the last such call is told before the next `hear`.
    #[inline(always)]
    pub fn hear_usual(&mut self, call: Key, gap_ns: f32, is_quiet: impl FnOnce() -> bool) -> bool {
        if self.state != State::Locked || self.listening != 0 {
            return false;
        }
        self.pass(call, gap_ns, is_quiet).is_some()
    }

    /// A call, while a step holds, for a caller who makes something of borders.
    #[inline]
    pub(super) fn follow(&mut self, call: Key, gap_ns: f32) -> Heard {
        let passed = self.pass(call, gap_ns, || true);
        let Some(Passed { ends, begins_step }) = passed.or_else(|| self.pass_varied(call, gap_ns)) else {
            return self.follow_with_care(call, gap_ns);
        };
        Heard {
            step_began: begins_step,
            burst_began: ends & Key::FIRST_OF_BURST != 0,
            step_ends: ends & Key::LAST_OF_STEP != 0,
            burst_ends: ends & Key::LAST_OF_BURST != 0,
            ..Heard::default()
        }
    }

    /// A call while a step holds, if it stands where it should, in time, and that is all there is to it. None: nothing was
    /// changed. Most stand inside a burst, and take the first way out.
    #[inline(always)]
    fn pass(&mut self, call: Key, gap_ns: f32, passes_borders: impl FnOnce() -> bool) -> Option<Passed> {
        let (margin_ns, weights) = (self.template.margin_ns, self.template.weights);
        let mark = &mut self.template.marks[self.place as usize % DEPTH];
        let off_ns = gap_ns - mark.gap_ns;
        if !in_time(off_ns, mark, margin_ns) {
            return None;
        }
        let flags = mark.key.beyond(call);
        if flags != 0 {
            return self.pass_border(flags, off_ns, passes_borders);
        }
        mark.heed(off_ns, weights);
        self.place += 1;
        self.count_met();
        Some(Passed { ends: 0, begins_step: false })
    }

    /// A place with which a step or a burst begins or ends, and no more than that.
    #[inline(always)]
    fn pass_border(
        &mut self,
        flags: u64,
        off_ns: f32,
        passes_borders: impl FnOnce() -> bool,
    ) -> Option<Passed> {
        if flags & !Key::ENDS != 0 || !passes_borders() {
            return None;
        }
        let (place, weights) = (self.place, self.template.weights);
        if place == 0 {
            let timed_steps = self.timed_steps + 1;
            if timed_steps >= self.plain_steps || !self.timing {
                return None;
            }
            self.timed_steps = timed_steps;
            self.step = self.step.wrapping_add(1);
        }
        let mark = &mut self.template.marks[place as usize % DEPTH];
        mark.heed(off_ns, weights);
        self.place = if flags & Key::LAST_OF_STEP != 0 { 0 } else { place + 1 };
        self.count_met();
        Some(Passed { ends: flags, begins_step: place == 0 })
    }

    /// A call with other bytes than the last at its place, where they vary: are they as foreseen?
    #[inline]
    fn pass_varied(&mut self, call: Key, gap_ns: f32) -> Option<Passed> {
        let (place, margin_ns, weights) = (self.place, self.template.margin_ns, self.template.weights);
        let mark = &self.template.marks[place as usize % DEPTH];
        let (key, off_ns) = (mark.key, gap_ns - mark.gap_ns);
        let bytes = (key.bytes(), call.bytes());
        let is_as_foreseen = key.has(Key::VARIES) && key.same_sort(call) && self.is_foreseen(bytes);
        // What was amiss since the last step that was timed shows in `timing`, and so do steps that are told apart by
        // pauses alone.
        let may_begin = place != 0 || (self.timing && self.timed_steps + 1 < self.plain_steps);
        if !(is_as_foreseen && may_begin && in_time(off_ns, mark, margin_ns)) {
            return None;
        }
        if place == 0 {
            self.timed_steps += 1;
            self.step = self.step.wrapping_add(1);
        }
        self.resized_to(bytes, self.step);
        let mark = &mut self.template.marks[place as usize % DEPTH];
        mark.key.resize(call);
        mark.heed(off_ns, weights);
        let ends = key.ends();
        self.place = if ends & Key::LAST_OF_STEP != 0 { 0 } else { place + 1 };
        self.count_met();
        Some(Passed { ends, begins_step: place == 0 })
    }

    /// A call about which something is to be done.
    #[cold]
    #[inline(never)]
    pub(super) fn follow_with_care(&mut self, call: Key, gap_ns: f32) -> Heard {
        let Template { margin_ns, weights, by_pauses, .. } = self.template;
        let mark = &mut self.template.marks[self.place as usize % DEPTH];
        let off_ns = gap_ns - mark.gap_ns;
        let is_first = self.place == 0;
        if !in_time(off_ns, mark, margin_ns) || !mark.key.admits(call) || (is_first && by_pauses) {
            return self.meet_with_care(call, gap_ns);
        }
        mark.heed(off_ns, weights);
        self.place_was_met(call)
    }

    /// The call stands where it was expected. The place's flags tell what begins and ends here.
    #[inline]
    pub(super) fn place_was_met(&mut self, call: Key) -> Heard {
        let place = self.place;
        let mark = &mut self.template.marks[place as usize % DEPTH];
        let key = mark.key;
        if key.has(Key::VARIES) {
            mark.key.resize(call);
            let bytes = (key.bytes(), call.bytes());
            let is_foreseen = self.is_foreseen(bytes);
            // The step that begins here has not been counted yet.
            self.resized_to(bytes, self.step.wrapping_add(u64::from(place == 0)));
            if !is_foreseen {
                return self.meet_unforeseen(place, key);
            }
        }
        self.go_on(place, key)
    }

    #[inline]
    fn go_on(&mut self, place: u32, key: Key) -> Heard {
        self.place = place + 1;
        self.count_met();
        if !key.has(Key::ENDS) {
            return Heard::default();
        }
        self.begin_and_end(place, key)
    }

    #[cold]
    #[inline(never)]
    fn meet_unforeseen(&mut self, place: u32, key: Key) -> Heard {
        self.raise_misfit();
        if self.state != State::Locked {
            return Heard { state_changed: true, ..Heard::default() };
        }
        self.go_on(place, key)
    }

    #[inline(never)]
    fn begin_and_end(&mut self, place: u32, key: Key) -> Heard {
        let mut heard = Heard {
            burst_began: key.has(Key::FIRST_OF_BURST),
            step_ends: key.has(Key::LAST_OF_STEP),
            burst_ends: key.has(Key::LAST_OF_BURST),
            ..Heard::default()
        };
        if heard.step_ends {
            self.place = 0;
        }
        if place == 0 {
            heard.step_began = true;
            heard.change = self.begin_step();
        }
        heard
    }

    #[inline]
    fn count_met(&mut self) {
        // Mostly there is nothing to be taken away.
        if self.misfit >= 1 << 5 {
            self.misfit -= self.misfit >> 5;
        }
        self.calls = self.calls.wrapping_add(1);
    }

    fn resized_to(&mut self, (was, is): (u64, u64), step: u64) {
        if was != is {
            (self.scale, self.scaled_step) = ((was, is), step);
        }
    }

    /// How the last call of this step whose bytes differed did so.
    #[inline]
    pub(super) fn scale_of_step(&self) -> (u64, u64) {
        if self.place == 0 || self.scaled_step != self.step { (1, 1) } else { self.scale }
    }

    /// Bytes that differ from step to step differ alike within one. Another size than that was not foreseen.
    #[inline]
    fn is_foreseen(&self, (was, is): (u64, u64)) -> bool {
        let (expected, found) = self.scale_of_step();
        let foreseen = was as i64 as f32 * found as i64 as f32;
        let now = is as i64 as f32 * expected as i64 as f32;
        was == is || (now < foreseen * SAME_SIZE && foreseen < now * SAME_SIZE)
    }

    fn begin_step(&mut self) -> Option<Change> {
        self.step = self.step.wrapping_add(1);
        self.quiet_steps = self.quiet_steps.saturating_sub(1);
        let is_plain = self.quiet_steps == 0 && !self.template.by_pauses;
        self.plain_steps = if is_plain { self.template.steps_at_a_time } else { 0 };
        if !std::mem::replace(&mut self.timing, true) {
            self.timed_since_ns = self.last_ns;
            self.timed_steps = 0;
            return None;
        }
        self.timed_steps += 1;
        if self.timed_steps < self.template.steps_at_a_time {
            return None;
        }
        self.time_steps()
    }

    // Apart, so that what comes before it every time needs few registers.
    #[inline(never)]
    fn time_steps(&mut self) -> Option<Change> {
        self.settle();
        let steps = std::mem::replace(&mut self.timed_steps, 0).max(1);
        let since_ns = std::mem::replace(&mut self.timed_since_ns, self.last_ns);
        let took_ns = self.last_ns.saturating_sub(since_ns) as i64 as f32 / steps as f32;
        self.template.took(took_ns, self.step.wrapping_sub(u64::from(steps)))
    }
}
