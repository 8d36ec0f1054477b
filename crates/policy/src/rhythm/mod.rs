//! Pattern of Life: the rhythm of one communicator's calls on one rank. Calls in; the step that repeats, the call
//! that comes next, and what differed from it out. `interposer` feeds it on the path of a call: its memory is fixed,
//! and so is the work per call. It decides nothing about the wire and sees no data, no pointer and no stream.
//! A call runs through `following` while a step is known and holds, and through `learning` otherwise.

mod beat;
mod candidates;
mod contents;
mod following;
mod learner;
mod learning;
mod mark;
mod misfits;
mod pace;
mod pauses;
mod returning;
mod template;

#[cfg(test)]
mod tests;

pub use beat::{Beat, Burst, Change, Deviation, Forecast, Grew, Heard, State};
pub use contents::Expected;
pub use mark::Key;

use learner::Learner;
use returning::Return;
use template::Template;

/// The rhythm of one communicator. It allocates nothing, ever; it is large, so that its owner keeps it in a box. What a
/// call looks at that comes as expected stands first and close together, up to the first calls of the step: most calls find
/// none of it in the processor's cache.
#[repr(C)]
pub struct Rhythm {
    state: State,
    /// Nothing was amiss since `timed_since_ns`, for `timed_steps` steps: their length counts.
    timing: bool,
    /// The place of the step that comes next.
    place: u32,
    /// Calls for which the learner goes on listening while a step holds.
    listening: u32,
    /// Parts of `misfits::WHOLE` of the last calls that did not come as expected.
    misfit: u32,
    /// Calls that came as expected.
    calls: u32,
    timed_steps: u32,
    /// Until so many of them are counted, a step may begin without a word.
    plain_steps: u32,
    step: u64,
    /// The step that is followed, or was last.
    template: Template,
    /// The step that is followed came again too few times to be sure of it: nothing is told of it, and the first call that
    /// does not fit ends it.
    provisional: bool,
    began: bool,
    /// `calls` at the last lock and at the last misfit.
    locked_at: u32,
    misfit_at: u32,
    /// Calls since then for which the pause before a step did not come.
    waited: u32,
    /// Calls for which it may listen until something else is followed.
    patience: u32,
    /// Steps before a late call is told.
    quiet_steps: u32,
    /// Calls since the step was left.
    adrift: u32,
    /// How much more evidence is asked for, after steps that did not hold.
    doubt: u32,
    last_ns: u64,
    timed_since_ns: u64,
    /// Bytes expected and found at the last call whose bytes were not those of the step before, and the step it was in.
    scale: (u64, u64),
    scaled_step: u64,
    /// Where and in which step a call was late last.
    late_at: (u32, u64),
    /// Where a break was last, and in which step.
    broke_at: (u32, u64),
    /// Bytes expected and found at the last call that was resized.
    resized: (u64, u64),
    /// The step before; and how far each is on its way back.
    former: Template,
    back: Return,
    former_back: Return,
    learner: Learner,
}

const _: () = assert!(std::mem::offset_of!(Rhythm, template.marks) <= 64);

impl Rhythm {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Learning,
            timing: false,
            place: 0,
            listening: 0,
            misfit: 0,
            calls: 0,
            timed_steps: 0,
            plain_steps: 0,
            step: 0,
            template: Template::new(),
            provisional: false,
            began: false,
            locked_at: 0,
            misfit_at: 0,
            waited: 0,
            patience: 0,
            quiet_steps: 0,
            adrift: 0,
            doubt: 1,
            last_ns: 0,
            timed_since_ns: 0,
            scale: (1, 1),
            scaled_step: 0,
            late_at: (0, 0),
            broke_at: (u32::MAX, 0),
            resized: (0, 0),
            former: Template::new(),
            back: Return::NONE,
            former_back: Return::NONE,
            learner: Learner::new(),
        }
    }

    /// When the last call came that `hear_usual` took in, which is told no times.
    #[inline]
    pub fn last_came_at(&mut self, ns: u64) {
        self.last_ns = self.last_ns.max(ns);
    }

    /// Takes in the next call.
    #[inline]
    pub fn hear(&mut self, beat: Beat) -> Heard {
        if self.state != State::Locked || self.listening != 0 {
            return self.listen(&beat);
        }
        let gap_ns = self.arrived(&beat);
        self.follow(Key::of(&beat), gap_ns)
    }

    /// Device time that communication took in the step that runs, as far as it was measured: an estimate for the
    /// whole step. It tells a step that grew by its communication from one that grew by its computation.
    pub fn communicated(&mut self, ns: u64) {
        if self.state == State::Locked {
            self.template.pace.communicated(ns as f32);
        }
    }

    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The share of the last calls that came as forecast, from 0 to 1; 0 while nothing is, and half of it while the step is
    /// provisional.
    #[must_use]
    pub fn confidence(&self) -> f32 {
        let fit = 1.0 - self.misfit as f32 / misfits::WHOLE as f32;
        match self.state {
            State::Learning => 0.0,
            _ if self.provisional => fit / 2.0,
            _ => fit,
        }
    }

    /// Whether the step that is followed is so short, and came so few times, that it may be part of another one. It is
    /// forecast, but nobody is told of calls that do not follow it.
    #[must_use]
    pub fn is_provisional(&self) -> bool {
        self.provisional
    }

    /// Calls of one step; 0 while none is known.
    #[must_use]
    pub fn period_calls(&self) -> u32 {
        if self.state == State::Learning { 0 } else { self.template.calls }
    }

    /// The usual length of a step; 0 while none is known.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        if self.state == State::Learning { 0 } else { self.template.period_ns as u64 }
    }

    /// Steps that have begun while one was known.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The call that should come next; none unless the pattern is locked.
    #[must_use]
    pub fn next(&self) -> Option<Forecast> {
        if self.state != State::Locked {
            return None;
        }
        let template = &self.template;
        let mark = template.mark(self.place);
        let after = |ns: f32| self.last_ns.saturating_add(ns.max(0.0) as u64);
        Some(Forecast {
            kind: mark.key.kind(),
            datatype: mark.key.datatype(),
            bytes: self.expected_bytes(mark.key),
            at_ns: after(mark.gap_ns),
            earliest_ns: after(mark.gap_ns - Template::lead_ns(mark)),
            latest_ns: after(mark.gap_ns + template.slack_ns(mark)),
            first_of_burst: mark.key.has(Key::FIRST_OF_BURST),
            first_of_step: self.place == 0,
        })
    }

    /// The bursts of the learnt step, in its order; none while no step is known.
    pub fn bursts(&self) -> impl Iterator<Item = Burst> {
        let known = self.state != State::Learning;
        self.template.bursts().filter(move |_| known)
    }

    /// How long the next call is beyond its latest time, if it is.
    #[must_use]
    pub fn overdue(&self, now_ns: u64) -> Option<u64> {
        self.next().and_then(|next| now_ns.checked_sub(next.latest_ns)).filter(|late| *late > 0)
    }

    /// The pause before the call, which is over.
    #[inline]
    fn arrived(&mut self, beat: &Beat) -> f32 {
        let gap = beat.at_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(beat.at_ns);
        // As signed, because that takes one instruction.
        gap as i64 as f32
    }

    /// Where the bytes of this step's calls are not those of the last step, the others should differ alike.
    fn expected_bytes(&self, key: Key) -> u64 {
        let (expected, found) = self.scale_of_step();
        if !key.has(Key::VARIES) || expected == 0 {
            return key.bytes();
        }
        (u128::from(key.bytes()) * u128::from(found) / u128::from(expected)) as u64
    }
}

impl Default for Rhythm {
    fn default() -> Self {
        Self::new()
    }
}
