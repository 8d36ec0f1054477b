//! Prints the section 'Test vectors' of docs/wire-format.md, made by the reference:
//! `cargo run -p airamp-codec --example vectors`. The test `wire` checks what the document says.

use airamp_codec::{BLOCK, Element, Format, Tag, packet_bytes, reference};

const ALL: [Format; 4] = Format::ALL;
/// The tag of every packet here, of a reduction's ranks 0 and out.
const TAG: Tag = Tag { call: 0x0123_4567_89ab_cdef, part: 0x77 };
const CODES: usize = 16;

fn main() {
    println!("## Test vectors");
    println!(
        "Numbers are hexadecimal. Elements, results and scale words are written as numbers (most significant"
    );
    println!("digit first), codes as bytes in order; codes beyond the count and the padding are zero.");
    println!(
        "`cargo run -p airamp-codec --example vectors` prints this section, and a test checks it; `python3 tests/wire/vectors.py`"
    );
    println!("holds the text above against it.");
    packets();
    reductions();
    whole_packet();
}

fn packets() {
    println!("\n### Packets\n| T | format | elements | codes | scale word | read back |");
    println!("|---|---|---|---|---|---|");
    let ordinary = [1.0, -0.5, 0.3, -0.0, 0.001, -0.7, 0.11, 1e-5];
    for element in Element::ALL {
        each(element, &ALL, &bits(element, &ordinary));
    }
    // Non-finite elements beside finite ones, and beside nothing but zeros.
    each(Element::F32, &ALL, &[0x7fc0_0000, 0xff80_0000, 0x7f80_0001, 0x3f80_0000, 0xc020_0000]);
    each(Element::F16, &[Format::Auto], &[0x7c00, 0xfe01, 0x3c00, 0xc100]);
    each(Element::Bf16, &[Format::Auto], &[0xff80, 0x7fc1, 0x3f80, 0xc020]);
    each(Element::F32, &ALL, &[0x8000_0000, 0x7f80_0000, 0]);
    // Both ends of the range.
    each(Element::F32, &ALL, &[0x7f7f_ffff, 0xff7f_ffff, 0x7e96_7699, 0x3f80_0000]);
    each(Element::F16, &ALL, &[0x7bff, 0xfbff, 0x6400, 1]);
    each(Element::Bf16, &ALL, &[0x7f7f, 0xff7f, 0x7e96, 1]);
    each(Element::F32, &ALL, &bits(Element::F32, &[1e-45, -1e-40, 1.2e-38, -1e-33]));
    // Ties, under a scale of one.
    let last_place = 2f32.powi(-9);
    let e4m3 =
        [448.0, 17.0, 19.0, -25.0, 0.5 * last_place, 1.5 * last_place, 2.5 * last_place, -0.5 * last_place];
    each(Element::F32, &[Format::E4M3], &bits(Element::F32, &e4m3));
    let last_place = 2f32.powi(-16);
    let e5m2 =
        [57344.0, 9.0, 11.0, -13.0, 0.5 * last_place, 1.5 * last_place, 2.5 * last_place, -0.5 * last_place];
    each(Element::F32, &[Format::E5M2], &bits(Element::F32, &e5m2));
    each(Element::F32, &[Format::Int8], &bits(Element::F32, &[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5]));
    // Neighbours between which `auto` changes its mind.
    for second in edge() {
        each(Element::F32, &[Format::Auto], &on_the_edge(second));
    }
}

/// Bits of the second element with which the block is still E4M3, and those with which it is INT8.
fn edge() -> [u32; 2] {
    let takes_int8 = |second: u32| {
        let packet = packet(Element::F32, Format::Auto, TAG, &on_the_edge(second));
        packet[CODES + BLOCK + 1] & 0x80 != 0
    };
    let (mut low, mut high) = (1f32.to_bits(), 12f32.to_bits());
    while high - low > 1 {
        let middle = low.midpoint(high);
        if takes_int8(middle) { high = middle } else { low = middle }
    }
    [low, high]
}

fn on_the_edge(second: u32) -> Vec<u32> {
    let mut elements = bits(Element::F32, &[12.0, 0.0, -1.34, -0.26, -0.63, 0.83, -1.93, 0.62]);
    elements[1] = second;
    elements
}

fn each(element: Element, formats: &[Format], elements: &[u32]) {
    for format in formats {
        let packet = packet(element, *format, TAG, elements);
        let back = results(element, elements.len(), |output| {
            reference::dequantise(element, &packet, elements.len(), *format, TAG, output);
        });
        let (codes, word) = codes_and_word(&packet, elements.len());
        let elements = numbers(element, elements);
        println!("| {} | {} | {elements} | {codes} | {word} | {back} |", element.name(), format.name());
    }
}

fn reductions() {
    println!("\n### Reductions of three ranks\nThe ranks' elements are parted by `/`.\n");
    println!("| T | format | operation | elements | one-shot | two-shot: codes | scale word |");
    println!("|---|---|---|---|---|---|---|");
    let ranks = [[1.0, -0.25, 3.0, 0.1], [0.7, 0.5, -1.0, 0.02], [-0.3, 0.125, 2.2, 0.003]];
    for element in Element::ALL {
        for format in ALL {
            reduction(element, format, "sum", ranks.map(|numbers| bits(element, &numbers)));
            reduction(element, format, "avg", ranks.map(|numbers| bits(element, &numbers)));
        }
    }
    // Beyond the range as a sum, within it as an average; and a non-finite element of one rank.
    let huge = || [vec![0x7bff, 0x3c00, 0x7c00], vec![0x7bff, 0x3c00, 0], vec![0x7bff, 0x4000, 0]];
    reduction(Element::F16, Format::Auto, "sum", huge());
    reduction(Element::F16, Format::Auto, "avg", huge());
}

fn reduction(element: Element, format: Format, operation: &str, ranks: [Vec<u32>; 3]) {
    let count = ranks[0].len();
    let average = operation == "avg";
    let packets: [Vec<u8>; 3] =
        std::array::from_fn(|rank| packet(element, format, TAG.of_rank(rank), &ranks[rank]));
    let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    let one_shot = results(element, count, |output| {
        reference::dequantise_sum(element, &packets, count, format, average, TAG, output);
    });
    let mut reduced = vec![0; packet_bytes(count)];
    reference::reduce(element, &packets, count, format, average, TAG, TAG, &mut reduced);
    let (codes, word) = codes_and_word(&reduced, count);
    let elements = ranks.map(|elements| numbers(element, &elements)).join(" / ");
    let (element, format) = (element.name(), format.name());
    println!("| {element} | {format} | {operation} | {elements} | {one_shot} | {codes} | {word} |");
}

fn whole_packet() {
    println!("\n### A whole packet");
    println!(
        "130 elements of bf16 as `auto`: element i is ((37 · i) mod 101 − 50) / 8, but for i = 128 and 129 the"
    );
    println!(
        "numbers 1000 and 3. The first block is INT8, the second E4M3. The tag is call 0x123456789abcdef, part 0x77.\n```text"
    );
    let mut elements: Vec<f32> = (0..BLOCK).map(|i| ((37 * i % 101) as f32 - 50.0) / 8.0).collect();
    elements.extend([1000.0, 3.0]);
    let packet = packet(Element::Bf16, Format::Auto, TAG, &bits(Element::Bf16, &elements));
    for line in packet.chunks(32) {
        println!("{}", bytes(line));
    }
    println!("```");
}

fn packet(element: Element, format: Format, tag: Tag, elements: &[u32]) -> Vec<u8> {
    let input: Vec<u8> =
        elements.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(element.size())).collect();
    let mut packet = vec![0; packet_bytes(elements.len())];
    reference::quantise(element, &input, format, tag, &mut packet);
    packet
}

fn codes_and_word(packet: &[u8], count: usize) -> (String, String) {
    let word = u16::from_le_bytes([packet[CODES + BLOCK], packet[CODES + BLOCK + 1]]);
    (bytes(&packet[CODES..][..count]), format!("{word:04x}"))
}

fn results(element: Element, count: usize, fill: impl FnOnce(&mut [u8])) -> String {
    let mut output = vec![0; count * element.size()];
    fill(&mut output);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    numbers(element, &output.chunks(element.size()).map(number).collect::<Vec<u32>>())
}

fn bits(element: Element, numbers: &[f32]) -> Vec<u32> {
    let bits = |x: &f32| match element {
        Element::F16 => u32::from(half::f16::from_f32(*x).to_bits()),
        Element::Bf16 => u32::from(half::bf16::from_f32(*x).to_bits()),
        Element::F32 => x.to_bits(),
    };
    numbers.iter().map(bits).collect()
}

fn numbers(element: Element, bits: &[u32]) -> String {
    let digits = 2 * element.size();
    bits.iter().map(|bits| format!("{bits:0digits$x}")).collect::<Vec<String>>().join(" ")
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<String>>().join(" ")
}
