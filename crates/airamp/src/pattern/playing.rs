//! Plays the calls of a trace to rhythms, one for each communicator, and notes what each call told.

use airamp_policy::rhythm::{Beat, Deviation, Rhythm, State};
use airamp_trace::{Call, Trace};

/// A size that was forecast is right if it is not this factor away.
const SAME_SIZE: u64 = 2;

/// What one call told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) communicator: usize,
    pub(super) at_ns: u64,
    /// Before and after it.
    pub(super) was: State,
    pub(super) state: State,
    pub(super) period_calls: u32,
    pub(super) period_ns: u64,
    /// Whether it came as forecast in kind, datatype and size; false where there was no forecast.
    pub(super) predicted: bool,
    pub(super) deviation: Option<Deviation>,
}

impl Note {
    pub(super) fn is_late(&self) -> bool {
        self.late_by_ns() > 0
    }

    pub(super) fn late_by_ns(&self) -> u64 {
        if let Some(Deviation::Late { by_ns }) = self.deviation { by_ns } else { 0 }
    }

    /// By this part of the step, or more.
    pub(super) fn is_late_by(&self, part: f64) -> bool {
        self.late_by_ns() as f64 >= self.period_ns as f64 * part
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
    let (was, forecast) = (rhythm.state(), rhythm.next());
    let heard = rhythm.hear(Beat { kind: made.kind, datatype: made.datatype, bytes: made.bytes, at_ns });
    let same_size = |bytes: u64| {
        bytes == made.bytes
            || (bytes < made.bytes.saturating_mul(SAME_SIZE) && made.bytes < bytes.saturating_mul(SAME_SIZE))
    };
    Note {
        communicator,
        at_ns,
        was,
        state: rhythm.state(),
        period_calls: rhythm.period_calls(),
        period_ns: rhythm.period_ns(),
        predicted: forecast.is_some_and(|next| {
            next.kind == made.kind && next.datatype == made.datatype && same_size(next.bytes)
        }),
        deviation: heard.deviation,
    }
}
