//! The way back to a step that is known: after an evaluation or a checkpoint its calls come again, and once they have
//! come for a whole step it holds again, without being learnt anew.

use super::mark::Mark;
use super::template::Template;

/// Calls in their order that bring a step back: all of it, within these limits.
const FEWEST: u32 = 8;
const MOST: u32 = 256;
/// Calls that are enough where the sequence was not left, only its time.
const AFTER_A_PAUSE: u32 = 3;

#[derive(Clone, Copy)]
pub(super) struct Return {
    place: u32,
    /// Calls in a row that stood where they should.
    held: u32,
}

impl Return {
    pub(super) const NONE: Self = Self { place: 0, held: 0 };

    /// Only time passed: the next call should stand at `place`.
    pub(super) fn after_a_pause(template: &Template, place: u32) -> Self {
        Self { place, held: needed(template) - AFTER_A_PAUSE }
    }

    /// The place that comes next, if with this call the step is back.
    pub(super) fn hear(&mut self, template: &Template, call: &Mark) -> Option<u32> {
        if template.calls == 0 {
            return None;
        }
        if self.held > 0 && template.mark(self.place).key.admits(call.key) {
            self.held += 1;
            self.place = template.after(self.place);
        } else if template.begins_with(call) {
            *self = Self { place: template.after(0), held: 1 };
        } else {
            *self = Self::NONE;
        }
        (self.held >= needed(template)).then_some(self.place)
    }
}

fn needed(template: &Template) -> u32 {
    template.calls.clamp(FEWEST, MOST)
}
