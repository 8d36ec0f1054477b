//! The part of `Rhythm` that looks for a step: before one is known, while a new one has to prove itself, and while the
//! calls do not follow the one that is known. It decides which state holds.

use super::beat::{Beat, Deviation, Heard, State};
use super::learner::{Found, LAYER, LONGEST};
use super::mark::{Key, Mark, Weights};
use super::pauses::PAUSE;
use super::returning::Return;
use super::template::Template;
use super::{Rhythm, misfits};

/// A step that held for so many times its calls, and for so many calls, is worth keeping.
const SETTLED_STEPS: u32 = 4;
const SETTLED_CALLS: u32 = 128;
/// Steps from which its usual times are taken quickly.
const FIRST_STEPS: u32 = 8;
/// Calls after a misfit in which a longer step may show itself.
const LISTEN: u32 = LONGEST as u32 + 64;
const PATIENCE: u32 = 16 * LONGEST as u32;
const MOST_DOUBT: u32 = 8;
/// A longer step is one that holds so many shorter ones at most: an evaluation every thirty steps makes no step of thirty.
const MOST_LONGER: u32 = 16;
/// A step that was left is not the state any more after so many times its calls, and so many calls.
const ADRIFT_STEPS: u32 = 4;
const ADRIFT_CALLS: u32 = 256;

impl Rhythm {
    /// A call, while the learner listens.
    #[cold]
    pub(super) fn listen(&mut self, beat: &Beat) -> Heard {
        if !self.began {
            self.began = true;
            self.last_ns = beat.at_ns;
        }
        let call = Mark { key: Key::of(beat), gap_ns: self.arrived(beat), spread_ns: 0.0 };
        let found = self.learner.hear(call, self.doubt);
        if self.state == State::Locked { self.prove(&call, found) } else { self.seek(&call, found) }
    }

    /// A step holds that may not be the whole step yet.
    fn prove(&mut self, call: &Mark, found: Option<Found>) -> Heard {
        self.listening = self.listening.saturating_sub(1);
        self.patience = self.patience.saturating_sub(1);
        let is_pause = call.gap_ns > self.template.mark(self.place).gap_ns * PAUSE;
        let is_unsure = self.provisional || self.may_be_a_layer();
        let mut heard = self.follow(call.key, call.gap_ns);
        let is_late = matches!(heard.deviation, Some(Deviation::Late { .. }));
        if is_unsure {
            heard = self.keep_to_itself(heard, is_pause);
        }
        if self.state != State::Locked {
            return heard;
        }
        if let Some(found) = found.filter(|found| self.is_longer_step(found) || self.is_proven_by(found)) {
            self.lock_on(found);
            heard.state_changed = true;
        } else if is_late
            && !self.provisional
            && let Some(found) = self.longer_step_by_pauses()
        {
            self.lock_on(found);
            heard = Heard { state_changed: true, deviation: None, ..heard };
        }
        heard
    }

    /// One call or two that repeat, and have not done so for long.
    fn may_be_a_layer(&self) -> bool {
        let Template { calls, by_pauses, settled, .. } = self.template;
        calls <= LAYER && !by_pauses && !settled
    }

    /// A call that does not follow what may be a layer says more about that than about the call: nobody is told. Where the
    /// step is provisional, that was all of it.
    fn keep_to_itself(&mut self, heard: Heard, is_pause: bool) -> Heard {
        let is_late = matches!(heard.deviation, Some(Deviation::Late { .. }));
        let is_told = is_late && !is_pause && !self.provisional;
        let misfits = self.state != State::Locked || is_pause || (heard.deviation.is_some() && !is_late);
        let heard = Heard { deviation: heard.deviation.filter(|_| is_told), ..heard };
        if !self.provisional {
            return heard;
        }
        let is_sure = !misfits && self.listening == 0;
        if is_pause {
            self.learner.paused();
        }
        if misfits {
            self.give_up();
        } else if is_sure {
            self.provisional = false;
        }
        Heard { state_changed: misfits || is_sure, change: None, ..heard }
    }

    /// What was followed for now is forgotten, as if it had never been. Learning, of which there are no events: a step that
    /// was known before comes back from there, too.
    fn give_up(&mut self) {
        self.provisional = false;
        self.template.forget();
        self.state = State::Learning;
        if self.former.settled {
            self.change_templates();
        }
    }

    /// The step that was followed for now has come often enough.
    fn is_proven_by(&self, found: &Found) -> bool {
        self.provisional && !found.provisional && found.calls == self.template.calls
    }

    /// Perhaps the call was not late, but the first after the pause of a longer step.
    fn longer_step_by_pauses(&self) -> Option<Found> {
        let Template { calls, by_pauses, .. } = self.template;
        let run = self.calls.wrapping_sub(self.misfit_at);
        let found = self.learner.with_its_pauses(Found { calls, run, by_pauses, provisional: false });
        (found.calls > calls).then_some(found)
    }

    /// A longer step that held where the one that is followed did not; or one that tells steps apart, by their pauses,
    /// where so far all calls were one.
    fn is_longer_step(&self, found: &Found) -> bool {
        let template = &self.template;
        let longer = found.calls > template.calls;
        let layers = template.calls <= LAYER && !template.by_pauses;
        let finer = found.by_pauses && layers && found.is_many_of(template.calls);
        let near = found.calls <= template.calls.saturating_mul(MOST_LONGER);
        longer
            && !found.provisional
            && (finer || (near && found.run > self.calls.wrapping_sub(self.misfit_at)))
    }

    fn seek(&mut self, call: &Mark, found: Option<Found>) -> Heard {
        let before = self.state;
        self.adrift = self.adrift.saturating_add(1);
        let (back, former_back) =
            (self.back.hear(&self.template, call), self.former_back.hear(&self.former, call));
        if let Some(place) = back {
            self.return_to(place);
        } else if let Some(place) = former_back {
            self.change_templates();
            self.return_to(place);
        } else if let Some(found) = found.filter(|found| self.has_room_for(found)) {
            if self.template.settled {
                self.change_templates();
            }
            self.lock_on(found);
        } else if self.adrift > self.template.calls * ADRIFT_STEPS + ADRIFT_CALLS {
            self.state = State::Learning;
        }
        Heard { state_changed: self.state != before, ..Heard::default() }
    }

    /// Nothing that is known is forgotten for what is provisional.
    fn has_room_for(&self, found: &Found) -> bool {
        !(found.provisional && self.template.settled && self.former.settled)
    }

    fn return_to(&mut self, place: u32) {
        self.lock_at(place);
        self.listening = 0;
    }

    fn change_templates(&mut self) {
        std::mem::swap(&mut self.template, &mut self.former);
        self.leave_alone();
    }

    /// Neither step is on its way back.
    fn leave_alone(&mut self) {
        self.back = Return::NONE;
        self.former_back = Return::NONE;
    }

    fn lock_on(&mut self, found: Found) {
        let found = self.learner.with_its_pauses(found);
        let place = self.template.learn(&self.learner, found);
        self.lock_at(place);
        self.provisional = found.provisional;
        self.listening = found.calls * SETTLED_STEPS + LISTEN;
    }

    fn lock_at(&mut self, place: u32) {
        self.state = State::Locked;
        self.provisional = false;
        self.place = place;
        self.misfit = misfits::AT_FIRST;
        self.locked_at = self.calls;
        self.misfit_at = self.calls;
        self.waited = 0;
        self.quiet_steps = misfits::QUIET_STEPS;
        self.patience = PATIENCE;
        self.timing = false;
        self.scale = (1, 1);
        self.resized = (0, 0);
        self.late_at = (0, 0);
    }

    /// At the begin of a step: has it held for long enough?
    pub(super) fn settle(&mut self) {
        let followed = self.calls.wrapping_sub(self.locked_at);
        let template = &mut self.template;
        if followed >= template.calls.saturating_mul(FIRST_STEPS) {
            template.weights = Weights::LATER;
        }
        let enough = (template.calls * SETTLED_STEPS).max(SETTLED_CALLS);
        if !template.settled && template.calls > 0 && followed >= enough {
            template.settled = true;
            self.doubt = 1;
        }
    }

    /// A call did not fit: perhaps the step is longer than it seemed.
    pub(super) fn listen_again(&mut self) {
        if self.patience == 0 {
            return;
        }
        if self.listening == 0 {
            self.learner.begin_anew();
        }
        self.listening = self.listening.max(LISTEN);
    }

    /// The calls do not follow the step any more.
    pub(super) fn drift(&mut self) {
        self.adrift = 0;
        self.leave_alone();
        if self.listening == 0 {
            self.learner.begin_anew();
        }
        if self.template.settled {
            self.state = State::Drifting;
            return;
        }
        self.template.forget();
        if !self.provisional {
            self.doubt = (self.doubt * 2).min(MOST_DOUBT);
        }
        self.state = State::Learning;
    }

    /// The step was left in time only: it comes back soon, if it comes back.
    pub(super) fn pause(&mut self) {
        self.adrift = 0;
        self.leave_alone();
        self.back = Return::after_a_pause(&self.template, self.place);
        self.learner.begin_anew();
        self.state = State::Drifting;
    }
}
