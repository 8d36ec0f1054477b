//! The part of `Rhythm` that follows a known step while calls come as expected: one comparison and a few additions.
//! Times are compared as pauses, so that a late call does not make the next ones late, too. What does not come as
//! expected goes to `misfits`.

use super::Rhythm;
use super::beat::{Beat, Change, Heard, State};
use super::learner::DEPTH;
use super::mark::Key;
use super::template::in_time;

/// Bytes of a place that varies are foreseen if they are not this factor away.
const SAME_SIZE: f32 = 2.0;

impl Rhythm {
    /// The call, if it is as most are: inside a burst, the one that is expected, and in time. False: nothing was changed,
    /// and `hear` is to be told. Apart from it, because it has nothing to say and so costs less.
    #[inline(always)]
    pub fn hear_usual(&mut self, beat: &Beat) -> bool {
        if self.state != State::Locked || self.listening != 0 {
            return false;
        }
        // What comes out of order is looked at by `hear`. As signed, because that takes one instruction.
        let gap_ns = (beat.at_ns as i64).wrapping_sub(self.last_ns as i64) as f32;
        let (margin_ns, weights) = (self.template.margin_ns, self.template.weights);
        let mark = &mut self.template.marks[self.place as usize % DEPTH];
        let off_ns = gap_ns - mark.gap_ns;
        if gap_ns < 0.0 || !in_time(off_ns, mark, margin_ns) || mark.key != Key::of(beat) {
            return false;
        }
        self.last_ns = beat.at_ns;
        mark.heed(off_ns, weights);
        self.place += 1;
        self.count_met();
        true
    }

    /// A call, while a step holds: most stand inside a burst and come in time.
    #[inline]
    pub(super) fn follow(&mut self, call: Key, gap_ns: f32) -> Heard {
        let (margin_ns, weights) = (self.template.margin_ns, self.template.weights);
        let mark = &mut self.template.marks[self.place as usize % DEPTH];
        let off_ns = gap_ns - mark.gap_ns;
        if !in_time(off_ns, mark, margin_ns) {
            return self.meet_with_care(call, gap_ns);
        }
        if mark.key != call {
            return self.follow_flagged(call, gap_ns, off_ns);
        }
        mark.heed(off_ns, weights);
        self.place += 1;
        self.count_met();
        Heard::default()
    }

    /// The place has flags, or the call is another one.
    fn follow_flagged(&mut self, call: Key, gap_ns: f32, off_ns: f32) -> Heard {
        let weights = self.template.weights;
        let mark = &mut self.template.marks[self.place as usize % DEPTH];
        if !mark.key.admits(call) || (self.place == 0 && self.template.by_pauses) {
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
            if !self.is_foreseen(key.bytes(), call.bytes()) {
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
        self.misfit -= self.misfit >> 5;
        self.calls = self.calls.wrapping_add(1);
    }

    /// Bytes that differ from step to step differ alike within one. Another size than that was not foreseen.
    #[inline]
    fn is_foreseen(&mut self, was: u64, is: u64) -> bool {
        let (expected, found) = if self.place == 0 { (1, 1) } else { self.scale };
        self.scale = (was, is);
        let foreseen = was as i64 as f32 * found as i64 as f32;
        let now = is as i64 as f32 * expected as i64 as f32;
        was == is || (now < foreseen * SAME_SIZE && foreseen < now * SAME_SIZE)
    }

    fn begin_step(&mut self) -> Option<Change> {
        self.step = self.step.wrapping_add(1);
        self.quiet_steps = self.quiet_steps.saturating_sub(1);
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
