//! What the learnt step consists of, for whoever prepares for its calls.

use super::{Rhythm, State};

/// A call of the learnt step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub kind: u8,
    pub datatype: u8,
    /// As they were last.
    pub bytes: u64,
}

impl Rhythm {
    /// The calls of the learnt step, in its order; none while no step is known, or only a provisional one: what is
    /// proposed to other ranks is made of them.
    pub fn calls_of_step(&self) -> impl Iterator<Item = Expected> {
        let is_known = self.state != State::Learning && !self.provisional;
        let marks = if is_known { self.template.step() } else { &[] };
        marks.iter().map(|mark| Expected {
            kind: mark.key.kind(),
            datatype: mark.key.datatype(),
            bytes: mark.key.bytes(),
        })
    }
}
