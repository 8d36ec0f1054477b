//! docs/wire-format.md is precise enough to implement again from it: `tests/wire/spec.py`, written from its
//! text alone, gives the bits of its test vectors and of the codec. Elements are in `wire_spec/elements.rs`.

#[path = "wire_spec/elements.rs"]
mod elements;

use std::path::PathBuf;
use std::process::Command;

use airamp_codec::{Element, Format, Tag, packet_bytes, reference};
use airamp_tests::{Run, package_dir, skip_outside_ci};
use elements::{KINDS, Kind, Numbers};
use serde_json::{Value, json};

/// The part of rank 1's packet is 0 again.
const TAG: Tag = Tag { call: 0x8899_aabb_ccdd_eeff, part: u64::MAX };
const OUT_TAG: Tag = Tag { call: u64::MAX, part: 0x1_0000_0001 };

/// A question to the implementation in Python, and the codec's answer: bytes, and elements saturated or
/// packets foreign.
struct Question {
    ask: Value,
    bytes: Vec<u8>,
    number: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn python(program: &str) -> Option<Run> {
    if Command::new("python3").arg("--version").output().is_err() {
        skip_outside_ci("python3 is not installed: the text of the wire format is not tried");
        return None;
    }
    let program: PathBuf = package_dir().join("wire").join(program);
    Some(Run::new("python3").arg(program).env("PYTHONDONTWRITEBYTECODE", "1"))
}

#[track_caller]
fn answered_as_by_the_codec(questions: &[Question]) {
    let Some(run) = python("answers.py") else { return };
    let lines: Vec<String> = questions.iter().map(|question| format!("{}\n", question.ask)).collect();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), lines.concat()).expect("room for the questions");
    let outcome = run.arg(file.path()).run();
    let answers = outcome.assert_success().stdout_text();
    assert_eq!(answers.lines().count(), questions.len());
    for (Question { ask, bytes, number }, found) in questions.iter().zip(answers.lines()) {
        assert_eq!(found, format!("{} {number}", hex(bytes)), "the text's answer and the codec's to {ask}");
    }
}

fn common(what: &str, element: Element, format: Format) -> Value {
    json!({"do": what, "type": element.name(), "format": format.name(), "tag": [TAG.call, TAG.part]})
}

fn with<const N: usize>(mut ask: Value, fields: [(&str, Value); N]) -> Value {
    for (name, value) in fields {
        ask[name] = value;
    }
    ask
}

fn packet_of(element: Element, input: &[u8], format: Format, tag: Tag) -> (Vec<u8>, u64) {
    let mut packet = vec![0xa5; packet_bytes(input.len() / element.size())];
    let saturated = reference::quantise(element, input, format, tag, &mut packet).saturated;
    (packet, saturated)
}

fn write(element: Element, input: &[u8], format: Format) -> Question {
    let (bytes, number) = packet_of(element, input, format, TAG);
    let ask = with(common("write", element, format), [("elements", json!(hex(input)))]);
    Question { ask, bytes, number }
}

fn read(element: Element, packet: &[u8], count: usize, format: Format) -> Question {
    let mut bytes = vec![0xa5; count * element.size()];
    let number = reference::dequantise(element, packet, count, format, TAG, &mut bytes).foreign;
    let fields = [("packets", json!([hex(packet)])), ("count", json!(count))];
    Question { ask: with(common("read", element, format), fields), bytes, number }
}

/// The sum of ranks' packets as elements and as a packet.
fn sums(
    element: Element,
    packets: &[Vec<u8>],
    count: usize,
    format: Format,
    average: bool,
    out: Tag,
) -> [Question; 2] {
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let hexes: Vec<String> = packets.iter().map(|packet| hex(packet)).collect();
    let ask = |what| {
        let operands = [("packets", json!(hexes)), ("count", json!(count)), ("average", json!(average))];
        with(common(what, element, format), operands)
    };
    let mut bytes = vec![0xa5; count * element.size()];
    let stats = reference::dequantise_sum(element, &slices, count, format, average, TAG, &mut bytes);
    let sum = Question { ask: ask("sum"), bytes, number: stats.foreign };
    let mut bytes = vec![0xa5; packet_bytes(count)];
    let stats = reference::reduce(element, &slices, count, format, average, TAG, out, &mut bytes);
    let ask = with(ask("reduce"), [("out_tag", json!([out.call, out.part]))]);
    [sum, Question { ask, bytes, number: stats.foreign }]
}

fn each_type_and_format(mut test: impl FnMut(Element, Format)) {
    for element in Element::ALL {
        for format in Format::ALL {
            test(element, format);
        }
    }
}

#[test]
fn the_documents_vectors_are_those_of_its_text() {
    let Some(run) = python("vectors.py") else { return };
    let outcome = run.run();
    let text = outcome.assert_success().stdout_text();
    assert_eq!(text, "packets 43, reductions 26, whole packets 1: none differs\n");
}

#[test]
fn what_the_text_writes_is_what_the_codec_writes() {
    let (mut numbers, mut questions) = (Numbers::new(1), Vec::new());
    each_type_and_format(|element, format| {
        for kind in KINDS {
            let input = elements::of_kind(kind, element, format, 300, &mut numbers);
            questions.push(write(element, &input, format));
        }
        for count in [0, 1, 2, 127, 128, 129, 1000] {
            let input = elements::mixed(element, format, count, &mut numbers);
            questions.push(write(element, &input, format));
        }
    });
    let saturated: u64 = questions.iter().map(|question| question.number).sum();
    assert!(saturated > 0, "no element saturated, so nothing was tested of it");
    answered_as_by_the_codec(&questions);
}

#[test]
fn the_choice_of_the_text_changes_where_the_codecs_does() {
    // Under a scale of one, codes are the elements: the sum is at the bound, and 23 below it.
    let mut questions = Vec::new();
    for element in Element::ALL {
        for (twelves, mark) in [(18, 0x80), (17, 0)] {
            let codes = [(1, 127), (3, 20), (twelves, 12), (33 - twelves, 11)];
            let block: Vec<u8> = codes
                .iter()
                .flat_map(|(times, code)| elements::integer(element, *code).repeat(*times))
                .collect();
            let question = write(element, &block, Format::Auto);
            assert_eq!(question.bytes[16 + 129] & 0x80, mark, "where the edge should be");
            questions.push(question);
        }
    }
    answered_as_by_the_codec(&questions);
}

#[test]
fn what_the_text_reads_is_what_the_codec_reads() {
    let (mut numbers, mut questions) = (Numbers::new(2), Vec::new());
    each_type_and_format(|element, format| {
        for kind in KINDS {
            let input = elements::of_kind(kind, element, format, 290, &mut numbers);
            let (mut packet, _) = packet_of(element, &input, format, TAG);
            questions.push(read(element, &packet, 290, format));
            packet[numbers.below(16) as usize] ^= 1 << numbers.below(8);
            questions.push(read(element, &packet, 290, format));
        }
        questions.push(read(element, &[], 0, format));
    });
    answered_as_by_the_codec(&questions);
}

/// Packets of ranks, of one kind of elements or of all; one in forty is foreign, and behind the count there
/// is what no reader may take for elements.
fn of_ranks(
    element: Element,
    format: Format,
    ranks: usize,
    count: usize,
    kind: Option<Kind>,
    numbers: &mut Numbers,
) -> Vec<Vec<u8>> {
    let one = |rank| {
        let input = match kind {
            Some(kind) => elements::of_kind(kind, element, format, count, numbers),
            None => elements::mixed(element, format, count, numbers),
        };
        let (mut packet, _) = packet_of(element, &input, format, TAG.of_rank(rank));
        packet[numbers.below(16) as usize] ^= u8::from(numbers.below(40) == 0);
        packet[16 + count..16 + count.next_multiple_of(128)].fill(0x33);
        packet
    };
    (0..ranks).map(one).collect()
}

#[test]
fn the_texts_sums_of_two_to_eight_ranks_are_the_codecs() {
    let (mut numbers, mut questions) = (Numbers::new(3), Vec::new());
    each_type_and_format(|element, format| {
        for ranks in 2..=8 {
            let count = 1 + numbers.below(300) as usize;
            let packets = of_ranks(element, format, ranks, count, None, &mut numbers);
            questions.extend(sums(element, &packets, count, format, ranks % 2 == 0, OUT_TAG));
            questions.extend(sums(element, &packets, count, format, ranks % 2 == 1, OUT_TAG));
        }
        for kind in KINDS {
            let packets = of_ranks(element, format, 3, 128, Some(kind), &mut numbers);
            questions.extend(sums(element, &packets, 128, format, kind == Kind::Spikes, OUT_TAG));
        }
    });
    let foreign: u64 = questions.iter().map(|question| question.number).sum();
    assert!(foreign > 0, "no packet was foreign, so nothing was tested of it");
    answered_as_by_the_codec(&questions);
}

#[test]
fn the_texts_three_shot_is_the_codecs() {
    let (mut numbers, mut questions) = (Numbers::new(4), Vec::new());
    each_type_and_format(|element, format| {
        // Two nodes of three ranks; what becomes of a node is asked of both sides, so each works on the same.
        let average = element == Element::Bf16;
        let node = |node: usize| {
            let packets = of_ranks(element, format, 3, 200, None, &mut numbers);
            sums(element, &packets, 200, format, average, TAG.of_rank(node))
        };
        let [[_, first], [_, second]] = [0, 1].map(node);
        let nodes = [first.bytes.clone(), second.bytes.clone()];
        questions.extend(sums(element, &nodes, 200, format, average, OUT_TAG));
        questions.extend([first, second]);
    });
    answered_as_by_the_codec(&questions);
}
