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
    /// The calls of the learnt step, in its order; none while no step is known.
    pub fn calls_of_step(&self) -> impl Iterator<Item = Expected> {
        let marks = if self.state == State::Learning { &[] } else { self.template.step() };
        marks.iter().map(|mark| Expected {
            kind: mark.key.kind(),
            datatype: mark.key.datatype(),
            bytes: mark.key.bytes(),
        })
    }
}
