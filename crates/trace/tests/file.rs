//! What is written is read again, and what is no trace is refused with its line and the reason.

use airamp_trace::{Call, Communicator, Trace, TraceError, VERSION, bytes_of, read, write};
use proptest::prelude::*;

fn written(trace: &Trace) -> String {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn example() -> Trace {
    let communicators = vec![
        Communicator { ranks: 4, rank: 1, name: 0xfeed },
        Communicator { ranks: 2, rank: 0, name: u64::MAX },
    ];
    let call = |at_ns, communicator, kind, datatype, count| {
        let bytes = bytes_of(datatype, count);
        Call { at_ns, communicator, kind, datatype, count, bytes, ..Call::default() }
    };
    let calls = vec![
        call(7, 0, 0, 7, 100),
        Call { group: true, ..call(7, 1, 10, 9, 5) },
        Call { group: true, captured: true, device_ns: Some(12), ..call(90, 1, 11, 9, 5) },
        Call { device_ns: Some(u32::MAX), ..call(1 << 40, 0, 4, 12, 0) },
    ];
    Trace { version: VERSION, source: "recorded: a \"test\", ünï".into(), communicators, calls, lost: 3 }
}

fn call() -> impl Strategy<Value = (u64, u16, u8, u8, u64, (bool, bool), Option<u32>)> {
    let device = prop_oneof![Just(None), (1..u32::MAX).prop_map(Some)];
    (0..1_u64 << 30, 0..2_u16, 0..12_u8, 0..13_u8, 0..1_u64 << 44, any::<(bool, bool)>(), device)
}

proptest! {
    #[test]
    fn every_trace_is_read_as_it_was_written(cells in prop::collection::vec(call(), 0..50)) {
        let mut trace = example();
        trace.calls.clear();
        let mut at_ns = 0;
        for (after, communicator, kind, datatype, count, (group, captured), device_ns) in cells {
            at_ns += after;
            let bytes = bytes_of(datatype, count);
            trace.calls.push(Call { at_ns, communicator, kind, datatype, count, bytes, group, captured, device_ns });
        }
        prop_assert_eq!(read(written(&trace).as_bytes()).unwrap(), trace);
    }

    #[test]
    fn no_input_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), place in 0..400_usize) {
        let _ = read(bytes.as_slice());
        let mut damaged = written(&example()).into_bytes();
        let place = place.min(damaged.len());
        let end = (place + bytes.len()).min(damaged.len());
        damaged.splice(place..end, bytes);
        let _ = read(damaged.as_slice());
    }
}

#[test]
fn a_trace_is_read_as_it_was_written() {
    assert_eq!(read(written(&example()).as_bytes()).unwrap(), example());
}

#[test]
fn a_file_of_synthesised_calls_is_small() {
    let trace = airamp_trace::synthesise::synthesise("ddp").unwrap();
    assert!(written(&trace).len() / trace.calls.len() < 60);
}

/// `from` replaced by `to` in the example; the line and the reason.
fn refusal(from: &str, to: &str) -> (usize, String) {
    let text = written(&example());
    assert!(text.contains(from), "{from} is not in {text}");
    match read(text.replacen(from, to, 1).as_bytes()) {
        Err(TraceError::Line { line, reason }) => (line, reason),
        other => panic!("{to}: {other:?}"),
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_line_and_the_reason() {
    for (from, to, line, reason) in [
        ("\"airamp_trace\":1", "\"airamp_trace\":2", 1, "version 2"),
        ("{\"airamp_trace\"", "{\"trace\"", 1, "no trace"),
        ("\"lost\":3", "\"lost\":-3", 1, "invalid value"),
        ("\"lost\":3", "\"lost\":3,\"extra\":1", 1, "unknown field"),
        ("a \\\"test\\\"", "\\u001b[2J", 1, "control characters"),
        ("000000000000feed", "00000000000+feed", 1, "16 hexadecimal digits"),
        ("\"rank\":1", "\"rank\":4", 1, "rank 4 of 4"),
        ("\"ranks\":4", "\"ranks\":0", 1, "rank 1 of 0"),
        ("\"after_ns\"", "\"before_ns\"", 1, "columns"),
        ("[7,0,\"all_reduce\"", "[7,2,\"all_reduce\"", 2, "communicator 2 of 2"),
        ("all_reduce", "all_reduse", 2, "kind"),
        ("float32", "float31", 2, "datatype"),
        ("[7,", "[-7,", 2, "cells"),
        ("[7,", "[7.5,", 2, "cells"),
        ("[7,", "[1e3,", 2, "cells"),
        ("[7,", "[18446744073709551615,", 2, "too long after"),
        (",100]", ",100,\"\",1,2]", 2, "cells"),
        (",100]", ",99999999999999999]", 2, "elements"),
        ("[7,0", "\n[7,0", 2, "cells"),
        (",\"g\"]", ",\"x\"]", 3, "flags"),
        ("\"send\"", "\"all_reduce\\u0000\"", 3, "cells"),
    ] {
        let (at, why) = refusal(from, to);
        assert!(at == line && why.contains(reason), "{to}: line {at}: {why}");
    }
}

#[test]
fn a_file_that_was_cut_off_is_not_taken_for_a_shorter_one() {
    let text = written(&example());
    let lines = text.match_indices('\n').map(|(place, _)| place + 1);
    let whole: Vec<usize> = lines.collect();
    for length in 0..text.len() {
        let cut = read(&text.as_bytes()[..length]);
        assert_eq!(cut.is_ok(), whole.contains(&length), "{length}");
    }
}

#[test]
fn a_long_word_is_not_repeated_in_the_reason() {
    let long = "a".repeat(5000);
    let unknown = format!("{{\"airamp_trace\":1,\"{long}\":0}}\n");
    for head in [format!("\"{long}\"\n"), unknown] {
        let error = read(head.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 300 && error.ends_with('…'), "{error}");
    }
}

#[test]
fn endless_input_is_refused_before_it_fills_the_memory() {
    let endless = std::io::BufReader::new(std::io::Read::take(std::io::repeat(b'['), u64::MAX));
    assert!(matches!(read(endless), Err(TraceError::Line { line: 1, .. })));
    let head = written(&Trace { calls: Vec::new(), ..example() });
    let lines =
        std::io::Read::chain(head.as_bytes(), Repeated { line: b"[0,0,\"send\",\"int8\",1]\n", place: 0 });
    assert!(matches!(read(std::io::BufReader::new(lines)), Err(TraceError::TooManyCalls)));
}

/// The same line for ever.
struct Repeated {
    line: &'static [u8],
    place: usize,
}

impl std::io::Read for Repeated {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        for byte in to.iter_mut() {
            *byte = self.line[self.place];
            self.place = (self.place + 1) % self.line.len();
        }
        Ok(to.len())
    }
}
