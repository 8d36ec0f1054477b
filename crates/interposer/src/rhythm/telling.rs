//! What a rhythm tells those who watch: where the communicator's pattern stands, each call that was not as foreseen,
//! and each change of pace. Every deviation is counted; of the events about them a few in a second are enough. They
//! hold numbers; whoever shows them makes the sentence.

use super::places::Learning;
use airamp_policy::rhythm::{Beat, Change, Deviation, Heard, Rhythm, State};
use airamp_telemetry::{EventKind, PatternState, Slot, Writer};

/// Events about deviations of one communicator within a second at most.
const MOST_EVENTS: u32 = 4;
const SECOND_NS: u64 = 1_000_000_000;

pub(super) fn tell(writer: &Writer, slot: Slot, learning: &mut Learning, heard: &Heard, beat: Beat) {
    let rhythm = &learning.rhythm;
    if heard.step_began || heard.state_changed {
        let (state, confidence) = (shown(rhythm), rhythm.confidence());
        slot.pattern(state, confidence, rhythm.period_calls(), rhythm.period_ns(), rhythm.step());
    }
    if heard.state_changed {
        tell_state(writer, slot, rhythm);
    }
    if let Some(deviation) = heard.deviation {
        slot.deviated(counted(deviation));
        if learning.limit.allows(beat.at_ns) {
            tell_deviation(writer, slot, learning.rhythm.step(), deviation, beat);
        }
    }
    if let Some(change) = heard.change {
        slot.pace_changed();
        tell_change(writer, slot, change);
    }
}

fn tell_state(writer: &Writer, slot: Slot, rhythm: &Rhythm) {
    let kind = match rhythm.state() {
        // Nothing is known any more, or not for sure yet, which the slot shows.
        State::Learning => return,
        State::Locked if rhythm.is_provisional() => return,
        State::Locked => EventKind::PatternLocked,
        State::Drifting => EventKind::PatternDrifting,
    };
    let words = [rhythm.period_calls().into(), rhythm.period_ns(), 0];
    writer.event_in_step(kind, Some(slot), rhythm.step(), words, "");
}

fn tell_deviation(writer: &Writer, slot: Slot, step: u64, deviation: Deviation, beat: Beat) {
    let (kind, bytes) = (u64::from(beat.kind), beat.bytes);
    let (event, words) = match deviation {
        Deviation::Late { by_ns } => (EventKind::CallLate, [by_ns, bytes, kind]),
        Deviation::Missing { kind, bytes } => (EventKind::CallMissing, [bytes, 0, kind.into()]),
        Deviation::Extra => (EventKind::CallExtra, [0, bytes, kind]),
        Deviation::Resized { expected_bytes } => (EventKind::CallResized, [expected_bytes, bytes, kind]),
    };
    writer.event_in_step(event, Some(slot), step, words, "");
}

fn tell_change(writer: &Writer, slot: Slot, change: Change) {
    let Change { began_at_step, before_ns, after_ns, grew } = change;
    let words = [before_ns, after_ns, grew as u64];
    writer.event_in_step(EventKind::PaceChanged, Some(slot), began_at_step, words, "");
}

/// Who watches is told of steps that are sure: of others the first call that does not fit would look like a break.
fn shown(rhythm: &Rhythm) -> PatternState {
    match rhythm.state() {
        State::Locked if rhythm.is_provisional() => PatternState::Learning,
        State::Learning => PatternState::Learning,
        State::Locked => PatternState::Locked,
        State::Drifting => PatternState::Drifting,
    }
}

fn counted(deviation: Deviation) -> airamp_telemetry::Deviation {
    match deviation {
        Deviation::Late { .. } => airamp_telemetry::Deviation::Late,
        Deviation::Missing { .. } => airamp_telemetry::Deviation::Missing,
        Deviation::Extra => airamp_telemetry::Deviation::Extra,
        Deviation::Resized { .. } => airamp_telemetry::Deviation::Resized,
    }
}

/// How many events about deviations may still be written.
pub(super) struct Limit {
    second_began_ns: u64,
    events: u32,
}

impl Limit {
    pub(super) const fn new() -> Self {
        Self { second_began_ns: 0, events: 0 }
    }

    fn allows(&mut self, at_ns: u64) -> bool {
        if at_ns.saturating_sub(self.second_began_ns) >= SECOND_NS {
            *self = Self { second_began_ns: at_ns, events: 0 };
        }
        self.events = self.events.saturating_add(1);
        self.events <= MOST_EVENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::rhythm::Grew;

    #[test]
    fn of_a_storm_of_deviations_a_few_in_a_second_are_told() {
        let mut limit = Limit::new();
        let told = (0..3000).filter(|ms| limit.allows(SECOND_NS + ms * 1_000_000)).count();
        assert_eq!(told, 3 * MOST_EVENTS as usize);
    }

    #[test]
    fn what_grew_has_the_same_number_in_the_file() {
        for grew in [Grew::Unknown, Grew::Communication, Grew::Compute, Grew::Both] {
            let told = airamp_telemetry::Grew::from_number(grew as u64).map(airamp_telemetry::Grew::name);
            assert_eq!(told.map(str::to_owned), Some(format!("{grew:?}").to_lowercase()));
        }
    }
}
