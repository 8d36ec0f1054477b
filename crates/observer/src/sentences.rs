//! The sentence of an event of the rhythm whose process gave it none: formatting has no place on the path of a call.

use airamp_telemetry::snapshot::Event;
use airamp_telemetry::{EventKind, Grew, Kind};

use crate::rhythm_conditions::span;

/// Its own text, where it has one.
pub(crate) fn sentence(event: Event) -> String {
    if event.text.is_empty() { composed(&event) } else { event.text }
}

fn composed(event: &Event) -> String {
    let call = Kind::from_number(event.about).map_or("call", Kind::name);
    let Event { a, b, .. } = *event;
    match event.kind {
        EventKind::PatternLocked => format!("a step is {a} calls and takes {}", span(b)),
        EventKind::PatternDrifting => {
            format!("the calls no longer follow the step of {a} calls in {}", span(b))
        }
        EventKind::CallLate => format!("{call} of {b} bytes came {} later than foreseen", span(a)),
        EventKind::CallMissing => format!("{call} of {a} bytes did not come"),
        EventKind::CallExtra => format!("{call} of {b} bytes was not foreseen"),
        EventKind::CallResized => format!("{call} has {b} bytes where {a} were foreseen"),
        EventKind::PaceChanged => {
            format!("steps take {} where they took {}{}", span(b), span(a), grew(event))
        }
        _ => String::new(),
    }
}

fn grew(event: &Event) -> String {
    let verb = if event.b > event.a { "grew" } else { "shrank" };
    match Grew::from_number(event.about) {
        Some(Grew::Both) => format!("; communication and compute {verb}"),
        Some(Grew::Unknown) | None => String::new(),
        Some(one) => format!("; {} {verb}", one.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: EventKind, a: u64, b: u64, about: u64, text: &str) -> String {
        sentence(Event { number: 0, kind, slot: None, at_ns: 1, a, b, step: 7, about, text: text.to_owned() })
    }

    #[test]
    fn an_event_without_a_text_says_its_numbers() {
        assert_eq!(
            told(EventKind::CallLate, 41_000_000, 8, 0, ""),
            "all_reduce of 8 bytes came 41.0 ms later than foreseen"
        );
        assert_eq!(told(EventKind::CallResized, 8, 4, 4, ""), "all_gather has 4 bytes where 8 were foreseen");
        let slower = told(EventKind::PaceChanged, 500_000_000, 1_250_000_000, 1, "");
        assert_eq!(slower, "steps take 1.25 s where they took 500.0 ms; communication grew");
        assert_eq!(told(EventKind::CallExtra, 0, 9, u64::MAX, ""), "call of 9 bytes was not foreseen");
        assert_eq!(told(EventKind::Note, 1, 2, 3, ""), "");
        assert_eq!(told(EventKind::CallLate, 1, 0, 0, "own words"), "own words");
    }
}
