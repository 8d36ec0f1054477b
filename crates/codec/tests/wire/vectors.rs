//! The test vectors of docs/wire-format.md, read from the document and held against both implementations.

use airamp_codec::{self as fast, BLOCK, Element, Format, Tag, packet_bytes, reference};

use crate::samples::{CODES, TAG, of_ranks, pack, slices};

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-format.md");
    std::fs::read_to_string(path).expect("docs/wire-format.md")
}

/// The text under a heading, up to the next one.
fn section<'text>(document: &'text str, heading: &str) -> &'text str {
    let start = document.find(heading).unwrap_or_else(|| panic!("no heading '{heading}'"));
    let text = &document[start + heading.len()..];
    &text[..text.find("\n#").unwrap_or(text.len())]
}

/// The rows of the table in a section, without its head.
fn rows(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Numbers of `size` bytes each, most significant digit first, as the bytes of a buffer.
fn elements(text: &str, size: usize) -> Vec<u8> {
    let number = |digits| u32::from_str_radix(digits, 16).expect("a hexadecimal number").to_le_bytes();
    text.split_whitespace().flat_map(|digits| number(digits).into_iter().take(size)).collect()
}

/// The packet of one block with these codes and this scale word.
fn packet(codes: &str, word: &str) -> Vec<u8> {
    let mut packet = [TAG.call.to_le_bytes(), TAG.part.to_le_bytes()].concat();
    packet.extend(elements(codes, 1));
    packet.resize(CODES + BLOCK, 0);
    packet.extend(elements(word, 2));
    packet.resize(packet_bytes(1), 0);
    packet
}

fn names(element: &str, format: &str) -> (Element, Format) {
    (Element::from_name(element).expect("an element type"), Format::from_name(format).expect("a format"))
}

type Quantise = fn(Element, &[u8], Format, Tag, &mut [u8]) -> fast::Stats;

fn quantised(quantise: Quantise, element: Element, input: &[u8], format: Format) -> Vec<u8> {
    let mut packet = vec![0xa5; packet_bytes(input.len() / element.size())];
    quantise(element, input, format, TAG, &mut packet);
    packet
}

#[test]
fn the_packets_of_the_document_are_those_of_the_code() {
    let document = document();
    let rows = rows(section(&document, "### Packets"));
    for element in Element::ALL {
        for format in Format::ALL {
            let there = rows.iter().any(|row| names(row[0], row[1]) == (element, format));
            assert!(there, "no vector of {element:?} as {format:?}");
        }
    }
    for row in rows {
        let [element, format, input, codes, word, back] = row[..] else { panic!("a row of {row:?}") };
        let (element, format) = names(element, format);
        let input = elements(input, element.size());
        for quantise in [reference::quantise, fast::quantise] {
            assert_eq!(quantised(quantise, element, &input, format), packet(codes, word), "{row:?}");
        }
        for dequantise in [reference::dequantise, fast::dequantise] {
            let mut output = vec![0; input.len()];
            dequantise(element, &packet(codes, word), input.len() / element.size(), format, TAG, &mut output);
            assert_eq!(output, elements(back, element.size()), "{row:?}");
        }
    }
}

#[test]
fn the_reductions_of_the_document_are_those_of_the_code() {
    let document = document();
    let rows = rows(section(&document, "### Reductions of three ranks"));
    assert!(rows.len() >= 24, "a row for every type, format and operation");
    for row in rows {
        let [element, format, operation, inputs, one_shot, codes, word] = row[..] else {
            panic!("a row of {row:?}")
        };
        let (element, format) = names(element, format);
        let average = operation == "avg";
        let inputs: Vec<Vec<u8>> = inputs.split('/').map(|input| elements(input, element.size())).collect();
        let count = inputs[0].len() / element.size();
        let packets: Vec<Vec<u8>> =
            inputs.iter().map(|input| quantised(reference::quantise, element, input, format)).collect();
        let packets = of_ranks(&slices(&packets));
        let packets = slices(&packets);
        for sum in [reference::dequantise_sum, fast::dequantise_sum] {
            let mut output = vec![0; count * element.size()];
            sum(element, &packets, count, format, average, TAG, &mut output);
            assert_eq!(output, elements(one_shot, element.size()), "{row:?}");
        }
        for reduce in [reference::reduce, fast::reduce] {
            let mut reduced = vec![0xa5; packet_bytes(count)];
            reduce(element, &packets, count, format, average, TAG, TAG, &mut reduced);
            assert_eq!(reduced, packet(codes, word), "{row:?}");
        }
    }
}

#[test]
fn the_whole_packet_of_the_document_is_that_of_the_code() {
    let document = document();
    let listing = section(&document, "### A whole packet")
        .split("```text\n")
        .nth(1)
        .and_then(|text| text.split("```").next())
        .expect("a listing");
    let mut numbers: Vec<f32> = (0..BLOCK).map(|i| ((37 * i % 101) as f32 - 50.0) / 8.0).collect();
    numbers.extend([1000.0, 3.0]);
    for quantise in [reference::quantise, fast::quantise] {
        let packet = quantised(quantise, Element::Bf16, &pack(Element::Bf16, &numbers), Format::Auto);
        assert_eq!(packet, elements(listing, 1));
        assert_eq!(
            [packet[CODES + 257] >> 7, packet[CODES + 259] >> 7],
            [1, 0],
            "the first block INT8, the second E4M3"
        );
    }
}

#[test]
fn neighbouring_vectors_show_auto_changing_its_mind() {
    let document = document();
    let words: Vec<u16> = rows(section(&document, "### Packets"))
        .iter()
        .filter(|row| row[1] == "auto")
        .map(|row| u16::from_str_radix(row[4], 16).expect("a scale word") & 0x8000)
        .collect();
    assert_ne!(words[words.len() - 2], words[words.len() - 1]);
}
