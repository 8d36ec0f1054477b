//! What goes into a rhythm and what comes out of it: plain values, no behaviour.

/// One call of the communicator, as it took effect on this rank. `kind` and `datatype` are the numbers of
/// `airamp_telemetry::{Kind, Datatype}`; nothing here depends on what they mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub kind: u8,
    pub datatype: u8,
    pub bytes: u64,
    /// Nanoseconds of a clock that never goes back.
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No step is known: nothing is forecast.
    #[default]
    Learning,
    /// Calls follow the learnt step.
    Locked,
    /// A step is known, but the calls do not follow it now: an evaluation, a checkpoint, or a new step.
    Drifting,
}

/// The call that should come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub kind: u8,
    pub datatype: u8,
    pub bytes: u64,
    pub at_ns: u64,
    pub earliest_ns: u64,
    pub latest_ns: u64,
    pub first_of_burst: bool,
    pub first_of_step: bool,
}

/// How a call differed from the one that was forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// It came after its latest time, this long after the time at which it should have come.
    Late { by_ns: u64 },
    /// Calls were left out before it; this is the first of them.
    Missing { kind: u8, bytes: u64 },
    /// It has no place in the step.
    Extra,
    /// It is the call that was expected, with a number of bytes that is not.
    Resized { expected_bytes: u64 },
}

/// What one call told us.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heard {
    /// It is the first call of a step, of a pattern that is locked.
    pub step_began: bool,
    /// It is the first call after one of the step's pauses.
    pub burst_began: bool,
    /// The next call that is expected is the first of a step.
    pub step_ends: bool,
    /// A pause is expected now: the next call is the first of a burst.
    pub burst_ends: bool,
    pub state_changed: bool,
    pub deviation: Option<Deviation>,
    pub change: Option<Change>,
}

/// Calls of the learnt step that follow each other closely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    pub calls: u32,
    pub bytes: u64,
    /// The bytes of its largest call.
    pub largest: u64,
    pub idle_before_ns: u64,
}

/// The step has become slower, or faster, and stayed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub began_at_step: u64,
    pub before_ns: u64,
    pub after_ns: u64,
    pub grew: Grew,
}

/// Which part of the step it was that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Grew {
    /// Nobody measured the communication before and after it.
    #[default]
    Unknown,
    Communication,
    Compute,
    Both,
}
