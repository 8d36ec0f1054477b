//! How fast each function is on one core: `cargo run --release -p airamp-codec --example speed`.
//! GB/s count the bytes of the elements, not of the packets; of several rounds the fastest is shown.

use std::hint::black_box;
use std::time::{Duration, Instant};

use airamp_codec::{self as fast, Element, Format, Tag, packet_bytes, reference};

const COUNT: usize = 4 << 20;
const RANKS: usize = 4;
const TAG: Tag = Tag { call: 0, part: 0 };

fn main() {
    println!("{COUNT} elements, {RANKS} ranks, GB/s: reference, {}", fast::arithmetic());
    for element in Element::ALL {
        for format in Format::ALL {
            compare(element, format);
        }
    }
}

fn compare(element: Element, format: Format) {
    let input = bell_shaped(element);
    let mut packet = vec![0; packet_bytes(COUNT)];
    let mut other = packet.clone();
    let mut output = vec![0; input.len()];
    let line = |what: &str, bytes: usize, slow: Duration, quick: Duration| {
        let [slow, quick] = [slow, quick].map(|time| bytes as f64 / time.as_secs_f64() / 1e9);
        println!("{:<5}{:<5} {what:<15} {slow:6.2} {quick:6.2}", element.name(), format.name());
    };
    line(
        "quantise",
        input.len(),
        fastest(1, || reference::quantise(element, &input, format, TAG, &mut packet)),
        fastest(5, || fast::quantise(element, &input, format, TAG, &mut packet)),
    );
    line(
        "dequantise",
        input.len(),
        fastest(1, || reference::dequantise(element, &packet, COUNT, format, TAG, &mut output)),
        fastest(5, || fast::dequantise(element, &packet, COUNT, format, TAG, &mut output)),
    );
    let packets: Vec<Vec<u8>> = (0..RANKS)
        .map(|rank| {
            fast::quantise(element, &input, format, TAG.of_rank(rank), &mut packet);
            packet.clone()
        })
        .collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    line(
        "dequantise_sum",
        input.len() * RANKS,
        fastest(1, || reference::dequantise_sum(element, &packets, COUNT, format, true, TAG, &mut output)),
        fastest(5, || fast::dequantise_sum(element, &packets, COUNT, format, true, TAG, &mut output)),
    );
    line(
        "reduce",
        input.len() * RANKS,
        fastest(1, || reference::reduce(element, &packets, COUNT, format, true, TAG, TAG, &mut other)),
        fastest(5, || fast::reduce(element, &packets, COUNT, format, true, TAG, TAG, &mut other)),
    );
}

fn fastest<T>(rounds: usize, mut work: impl FnMut() -> T) -> Duration {
    let mut time = || {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    (0..rounds).map(|_| time()).min().unwrap_or_default()
}

/// Sums of four bytes from a multiplicative generator, about zero.
fn bell_shaped(element: Element) -> Vec<u8> {
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 32).to_le_bytes()[..4].iter().map(|byte| f32::from(*byte)).sum::<f32>() / 64.0 - 8.0
    };
    let numbers: Vec<f32> = (0..COUNT).map(|_| number()).collect();
    match element {
        Element::F16 => numbers.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        Element::Bf16 => numbers.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
        Element::F32 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
