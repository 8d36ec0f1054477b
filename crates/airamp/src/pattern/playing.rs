//! Plays the calls of a trace to rhythms, one for each communicator, and notes what each call told.

use airamp_policy::rhythm::{Beat, Deviation, Rhythm, State};
use airamp_trace::{Call, Trace};

/// A size that was forecast is right if it is not this factor away.
const SAME_SIZE: u64 = 2;

/// Another call of the same kind and datatype is the same one with another batch, unless its bytes are this factor away.
const SAME_CALL: u64 = 16;

/// What the call was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    kind: u8,
    datatype: u8,
    bytes: u64,
}

impl Made {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (least, most) = (self.bytes.min(other.bytes), self.bytes.max(other.bytes));
        (self.kind, self.datatype) == (other.kind, other.datatype) && most <= least.saturating_mul(SAME_CALL)
    }
}

/// What one call told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) communicator: usize,
    pub(super) at_ns: u64,
    pub(super) made: Made,
    /// After it.
    pub(super) state: State,
    /// Whether a step was followed before and after it that was not provisional.
    pub(super) was_sure: bool,
    pub(super) is_sure: bool,
    pub(super) period_calls: u32,
    pub(super) period_ns: u64,
    /// Whether the trace itself has a delay before it.
    pub(super) held_up: bool,
    /// Whether it came as forecast in kind, datatype and size; false where there was no forecast.
    pub(super) predicted: bool,
    pub(super) deviation: Option<Deviation>,
}

impl Note {
    pub(super) fn is_late(&self) -> bool {
        matches!(self.deviation, Some(Deviation::Late { .. }))
    }
}

/// Calls that are carried out, in order: those in a graph run when it is replayed, which no trace shows.
pub(super) fn play(trace: &Trace, shifted: impl Fn(&Call) -> u64) -> Vec<Note> {
    let communicators = trace.communicators.len();
    let mut rhythms: Vec<Box<Rhythm>> = (0..communicators).map(|_| Box::new(Rhythm::new())).collect();
    let mut notes = Vec::with_capacity(trace.calls.len());
    for call in trace.calls.iter().filter(|call| !call.captured) {
        let communicator = usize::from(call.communicator);
        if let Some(rhythm) = rhythms.get_mut(communicator) {
            notes.push(hear(rhythm, communicator, call, shifted(call)));
        }
    }
    notes
}

fn hear(rhythm: &mut Rhythm, communicator: usize, made: &Call, at_ns: u64) -> Note {
    let forecast = rhythm.next();
    let is_sure = |rhythm: &Rhythm| rhythm.state() == State::Locked && !rhythm.is_provisional();
    let was_sure = is_sure(rhythm);
    let heard = rhythm.hear(Beat { kind: made.kind, datatype: made.datatype, bytes: made.bytes, at_ns });
    let same_size = |bytes: u64| {
        bytes == made.bytes
            || (bytes < made.bytes.saturating_mul(SAME_SIZE) && made.bytes < bytes.saturating_mul(SAME_SIZE))
    };
    Note {
        communicator,
        at_ns,
        made: Made { kind: made.kind, datatype: made.datatype, bytes: made.bytes },
        was_sure,
        is_sure: is_sure(rhythm),
        state: rhythm.state(),
        period_calls: rhythm.period_calls(),
        period_ns: rhythm.period_ns(),
        held_up: false,
        predicted: forecast.is_some_and(|next| {
            next.kind == made.kind && next.datatype == made.datatype && same_size(next.bytes)
        }),
        deviation: heard.deviation,
    }
}
