//! Records of decisions in a log.

use airamp_policy::explain::{ClassName, Decision, Record, parse_line};
use airamp_policy::{Class, Element};

fn record() -> Record {
    Record {
        communicator: "00000000000000ff".to_owned(),
        rank: 0,
        ranks: 4,
        index: Some(12),
        class: Some(Class::of(Element::Bf16, 1 << 20).into()),
        decision: Decision::WouldNot,
        reason: "a rank said \"no\"".to_owned(),
        speedup: Some(0.93),
        ours_us: Some(107.5),
        vendor_us: Some(100.0),
        vnmse: Some(1.2e-4),
        who: vec![3],
    }
}

#[test]
fn a_record_is_found_in_a_line_of_the_log() {
    let line = format!("airamp info pid=17 rank=0: {}", record().to_line());
    assert_eq!(parse_line(&line), Some(record()));
    assert_eq!(parse_line(&format!("{line}\n")), Some(record()));
    assert!(line.contains("decision {\"communicator\":\"00000000000000ff\""), "{line}");
    assert!(line.contains("\"decision\":\"would-not\""), "{line}");
}

#[test]
fn what_is_not_known_is_left_out() {
    let bare = Record {
        index: None,
        class: None,
        speedup: None,
        ours_us: None,
        vendor_us: None,
        vnmse: None,
        who: Vec::new(),
        ..record()
    };
    let line = bare.to_line();
    for name in ["index", "class", "speedup", "_us", "vnmse", "who"] {
        assert!(!line.contains(name), "{name} in {line}");
    }
    assert_eq!(parse_line(&line), Some(bare));
}

#[test]
fn other_lines_and_damaged_ones_hold_no_record() {
    let line = record().to_line();
    for end in 0..line.len() {
        assert_eq!(parse_line(&line[..end]), None, "cut at {end}");
    }
    for other in ["", "decision ", "a decision was made", "decision {}", "decision []"] {
        assert_eq!(parse_line(other), None, "{other}");
    }
    assert_eq!(parse_line(&line.replace("\"rank\":0", "\"rank\":-1")), None);
    assert_eq!(parse_line(&line.replace("\"rank\":0", "\"rank\":0,\"mood\":1")), None);
}

#[test]
fn a_line_whose_texts_have_control_characters_holds_no_record() {
    let line = record().to_line();
    for text in ["00000000000000ff", "a rank said", "AllReduce", "bfloat16"] {
        for control in ["\\u001b[2J", "\\n", "\u{7f}", "\u{9b}"] {
            assert_eq!(parse_line(&line.replace(text, control)), None, "{control:?} for {text}");
        }
    }
}

#[test]
fn a_class_is_named_by_what_people_know_of_it() {
    let name = ClassName::from(Class::of(Element::F16, 0));
    assert_eq!((name.collective.as_str(), name.datatype.as_str()), ("AllReduce", "float16"));
    assert_eq!((name.from_bytes, name.below_bytes), (0, Some(4096)));
}
