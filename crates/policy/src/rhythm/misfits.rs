//! The part of `Rhythm` that says what it means when a call does not come as expected: late, missing, extra or resized;
//! and when so many do not that the step does not hold any more.

use super::Rhythm;
use super::beat::{Deviation, Heard, State};
use super::learner::DEPTH;
use super::mark::{Key, Mark};

pub(super) const WHOLE: u32 = 1 << 16;
/// What is expected of a step that was just found.
pub(super) const AT_FIRST: u32 = WHOLE / 20;
/// Late calls are told from the third step on: the first times are taken from few calls.
pub(super) const QUIET_STEPS: u32 = 2;
/// Of the last calls, about 32, so many did not fit: the step does not hold any more.
const TOO_MANY: u32 = WHOLE * 3 / 20;
/// A pause of so many steps is no late call but a break: an evaluation, a checkpoint.
const BREAK_STEPS: f32 = 5.0;
const LEAST_BREAK_NS: f32 = 5e7;
/// Calls that were left out in a row count as no more than this many.
const MOST_MISSING: u32 = 4;
/// A call of the same sort with bytes up to this factor away is that call, resized.
const RESIZED: u64 = 4;
/// At the first call of a step, what is less than this part of its pause is none.
const NO_PAUSE: f32 = 0.25;
/// Calls for which a pause is waited for: so many steps of them, and no fewer than this.
const WAITED_STEPS: u32 = 2;
const WAITED_CALLS: u32 = 32;

impl Rhythm {
    #[cold]
    #[inline(never)]
    pub(super) fn meet_with_care(&mut self, call: Key, gap_ns: f32) -> Heard {
        let call = Mark { key: call, gap_ns, spread_ns: 0.0 };
        let mark = *self.template.mark(self.place);
        if !mark.key.admits(call.key) {
            return self.meet_another(&call, mark);
        }
        if self.template.by_pauses && self.place == 0 && gap_ns < mark.gap_ns * NO_PAUSE {
            return self.wait_for_the_pause();
        }
        let off_ns = gap_ns - mark.gap_ns;
        if self.template.by_pauses && self.pauses_elsewhere(&call, off_ns > self.template.slack_ns(&mark)) {
            return self.go_on_at(0, &call, missing(&mark));
        }
        self.meet_in_time(&call, off_ns)
    }

    /// The step is over, but the pause before the next one does not come. Told once: there may be many such calls. Of too
    /// many it is not the pause that is late: it has become so short that it is none beside the one that was learnt.
    fn wait_for_the_pause(&mut self) -> Heard {
        if self.misfit_at != self.calls {
            return self.misfit(Deviation::Extra);
        }
        self.waited += 1;
        if self.waited >= (self.template.calls * WAITED_STEPS).max(WAITED_CALLS) {
            self.drift();
        }
        Heard { state_changed: self.state != State::Locked, ..Heard::default() }
    }

    /// A pause where there is none: the first time the call is late, and when it comes again the step begins there.
    fn pauses_elsewhere(&self, call: &Mark, late: bool) -> bool {
        late && self.place != 0 && self.template.begins_with(call) && self.late_at.1 + 1 >= self.step
    }

    /// The right call; is it late?
    fn meet_in_time(&mut self, call: &Mark, off_ns: f32) -> Heard {
        let slack_ns = self.template.slack_ns(self.template.mark(self.place));
        if call.gap_ns > (self.template.period_ns * BREAK_STEPS).max(LEAST_BREAK_NS) {
            return self.meet_after_a_break(call);
        }
        let (place, late) = (self.place, off_ns > slack_ns);
        let again =
            late && std::mem::replace(&mut self.late_at, (place, self.step)) == self.a_step_ago(place);
        let weights = self.template.weights;
        let mark = &mut self.template.marks[place as usize % DEPTH];
        match late {
            false if off_ns < -slack_ns => mark.heed_early(off_ns),
            false => mark.heed(off_ns, weights),
            true if again => mark.gap_ns += off_ns / 4.0,
            true => mark.heed_late(slack_ns),
        }
        let mut heard = self.place_was_met(call.key);
        if late && !again && self.quiet_steps == 0 {
            heard.deviation = Some(Deviation::Late { by_ns: off_ns as u64 });
        }
        heard
    }

    /// Two steps in a row with a break at the same place: that is how long the pause is from now on.
    fn meet_after_a_break(&mut self, call: &Mark) -> Heard {
        self.timing = false;
        let place = self.place;
        let again = self.broke_at.0 == place && self.step.wrapping_sub(self.broke_at.1) <= 1;
        let mut heard = self.place_was_met(call.key);
        self.broke_at = (place, self.step);
        // Its bytes were one misfit too many: there is no step to come back to.
        if self.state != State::Locked {
            return heard;
        }
        if again {
            self.template.pause_is_now(place, call.gap_ns);
        } else {
            self.pause();
            heard.state_changed = true;
        }
        heard
    }

    /// A call that is late in one step after the other is told once: from then on it comes later, and `Pace` says so.
    fn a_step_ago(&self, place: u32) -> (u32, u64) {
        (place, self.step.wrapping_sub(1))
    }

    /// Another call than the one expected: one was left out, or it is resized, or it has no place here.
    fn meet_another(&mut self, call: &Mark, expected: Mark) -> Heard {
        if let Some(place) = self.template.ahead(self.place, call) {
            let end = if place > self.place { place } else { self.template.calls + place };
            let more = end.saturating_sub(self.place).clamp(1, MOST_MISSING) - 1;
            (0..more).for_each(|_| self.raise_misfit());
            return self.go_on_at(place, call, missing(&expected));
        }
        let (was, is) = (expected.key.bytes(), call.key.bytes());
        let near = was <= is.saturating_mul(RESIZED) && is <= was.saturating_mul(RESIZED);
        if !expected.key.same_sort(call.key) || !near {
            return self.misfit(Deviation::Extra);
        }
        self.meet_resized(call, was, is)
    }

    /// Calls that are resized one after the other by the same factor are those of another batch: no deviation, and
    /// from now on none there.
    fn meet_resized(&mut self, call: &Mark, was: u64, is: u64) -> Heard {
        let factor = |(was, is): (u64, u64)| is as f32 / was.max(1) as f32;
        let before = std::mem::replace(&mut self.resized, (was, is));
        let alike = before.0 != 0 && (factor(before) / factor((was, is)) - 1.0).abs() < 0.02;
        let place = self.place as usize % DEPTH;
        let key = &mut self.template.marks[place].key;
        if alike || key.has(Key::RESIZED) {
            key.set(Key::VARIES);
        }
        key.set(Key::RESIZED);
        if alike {
            return self.place_was_met(call.key);
        }
        self.go_on_at(self.place, call, Deviation::Resized { expected_bytes: was })
    }

    fn go_on_at(&mut self, place: u32, call: &Mark, deviation: Deviation) -> Heard {
        let misfit = self.misfit(deviation);
        if self.state != State::Locked {
            return misfit;
        }
        self.place = place;
        Heard { deviation: Some(deviation), ..self.place_was_met(call.key) }
    }

    fn misfit(&mut self, deviation: Deviation) -> Heard {
        self.misfit_at = self.calls;
        self.waited = 0;
        self.timing = false;
        self.listen_again();
        self.raise_misfit();
        Heard { deviation: Some(deviation), state_changed: self.state != State::Locked, ..Heard::default() }
    }

    /// The more calls do not fit, the less is the step believed.
    #[cold]
    #[inline(never)]
    pub(super) fn raise_misfit(&mut self) {
        self.misfit += (WHOLE - self.misfit) >> 5;
        if self.misfit > TOO_MANY && self.state == State::Locked {
            self.drift();
        }
    }
}

fn missing(mark: &Mark) -> Deviation {
    Deviation::Missing { kind: mark.key.kind(), bytes: mark.key.bytes() }
}
