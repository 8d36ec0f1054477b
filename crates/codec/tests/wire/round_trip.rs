//! How far an element may be from what comes back, for every format, element type and size of block.

use airamp_codec::{BLOCK, Element, Format};
use proptest::prelude::*;

use crate::samples::{
    CODES, Random, any_block_sizes, every_pattern, pack, packet, pattern_bytes, round_trip,
};
use crate::samples::{scale, scale_word, unpack};

/// The largest error that the codes themselves may make: relative to the element, and to the scale.
fn bounds(format: Format, word: u16) -> (f64, f64) {
    match format {
        Format::E5M2 => (2f64.powi(-3), 2f64.powi(-17)),
        Format::E4M3 => (2f64.powi(-4), 2f64.powi(-10)),
        Format::Int8 | Format::Auto if word & 0x8000 == 0 => (2f64.powi(-4), 2f64.powi(-10)),
        // The product with the rounded reciprocal may be off a little near a tie.
        Format::Int8 | Format::Auto => (2f64.powi(-22), 0.5),
    }
}

/// What rounding to the element type may add.
fn rounding(element: Element, value: f64) -> f64 {
    match element {
        Element::F16 => (value * 2f64.powi(-11)).max(2f64.powi(-25)),
        Element::Bf16 => (value * 2f64.powi(-8)).max(2f64.powi(-134)),
        Element::F32 => 0.0,
    }
}

fn check(element: Element, input: &[u8], format: Format) {
    let (packet, _) = packet(element, input, format);
    let numbers = unpack(element, input);
    let output = unpack(element, &round_trip(element, input, format));
    for (i, (x, back)) in numbers.iter().zip(output).enumerate() {
        if !x.is_finite() {
            assert!(!back.is_finite(), "{element:?} {format:?} {i}: {x:e} came back as {back:e}");
            continue;
        }
        let word = scale_word(&packet, numbers.len(), i / BLOCK);
        let (relative, of_scale) = bounds(format, word);
        let magnitude = f64::from(x.abs());
        let of_codes = (magnitude * relative).max(f64::from(scale(word)) * of_scale) * 1.000_001;
        let bound = of_codes + magnitude * 2f64.powi(-22) + rounding(element, magnitude + of_codes);
        let error = (f64::from(back) - f64::from(*x)).abs();
        assert!(error <= bound, "{element:?} {format:?} {i}: {x:e} came back as {back:e}");
    }
}

fn check_all_formats(element: Element, input: &[u8]) {
    for format in Format::ALL {
        check(element, input, format);
    }
}

#[test]
fn every_16_bit_pattern_among_its_neighbours_comes_back_within_bounds() {
    for element in [Element::F16, Element::Bf16] {
        check_all_formats(element, &pattern_bytes(&every_pattern()));
    }
}

#[test]
fn every_16_bit_pattern_among_far_ones_comes_back_within_bounds() {
    // 40503 is odd: a permutation that puts all sizes and signs into each block.
    let shuffled: Vec<u16> = every_pattern().iter().map(|bits| bits.wrapping_mul(40_503)).collect();
    for element in [Element::F16, Element::Bf16] {
        check_all_formats(element, &pattern_bytes(&shuffled));
    }
}

#[test]
fn every_16_bit_pattern_alone_comes_back_within_bounds() {
    // One pattern and 127 zeros: the pattern alone sets the scale.
    let lonely: Vec<u16> =
        every_pattern().iter().flat_map(|bits| [*bits].into_iter().chain([0; 127])).collect();
    for element in [Element::F16, Element::Bf16] {
        for piece in lonely.chunks(BLOCK * 4096) {
            check_all_formats(element, &pattern_bytes(piece));
        }
    }
}

#[test]
fn numbers_of_every_size_come_back_within_bounds() {
    let numbers = any_block_sizes(&mut Random(2), BLOCK * 3000, false);
    for element in Element::ALL {
        check_all_formats(element, &pack(element, &numbers));
    }
}

#[test]
fn both_ends_of_the_scale_come_back_within_bounds() {
    let ends =
        [f32::MAX, f32::MAX / 2.0, 3.3895e38, 1e36, 1e-31, 1e-33, 1e-38, f32::MIN_POSITIVE, 1e-40, 1e-45];
    for end in ends {
        let numbers: Vec<f32> = (0..BLOCK).map(|i| end * (1.0 - i as f32 / 64.0)).collect();
        check_all_formats(Element::F32, &pack(Element::F32, &numbers));
        check_all_formats(Element::Bf16, &pack(Element::Bf16, &numbers));
    }
}

#[test]
fn the_scale_stays_within_its_range() {
    for (a, e4m3, e5m2, int8) in [
        (f32::MAX, 0x7b12, 0x7792, 0xfc01),
        (f32::from_bits(1), 0x0880, 0x0880, 0x8880),
        (f32::MIN_POSITIVE, 0x0880, 0x0880, 0x8880),
        (0.0, 0, 0, 0x8000),
        (-0.0, 0, 0, 0x8000),
        (f32::INFINITY, 0, 0, 0),
    ] {
        let input = pack(Element::F32, &[a, 0.0]);
        for (format, word) in [(Format::E4M3, e4m3), (Format::E5M2, e5m2), (Format::Int8, int8)] {
            assert_eq!(scale_word(&packet(Element::F32, &input, format).0, 2, 0), word, "{a:e} {format:?}");
        }
    }
}

#[test]
fn a_zero_block_is_exact_beside_any_other() {
    for element in Element::ALL {
        for format in Format::ALL {
            let mut numbers = vec![3.0; 3 * BLOCK];
            numbers[BLOCK..2 * BLOCK].fill(0.0);
            numbers[BLOCK + 5] = -0.0;
            let back = unpack(element, &round_trip(element, &pack(element, &numbers), format));
            assert!(back[BLOCK..2 * BLOCK].iter().all(|x| x.to_bits() == 0), "{element:?} {format:?}");
            assert!(back[..BLOCK].iter().all(|x| *x != 0.0));
        }
    }
}

#[test]
fn a_ragged_packet_is_the_packet_of_the_input_with_zeros_behind() {
    let numbers = any_block_sizes(&mut Random(3), 4 * BLOCK, true);
    for count in [0, 1, 2, 7, 127, 128, 129, 200, 255, 256, 257, 511] {
        for format in Format::ALL {
            let mut padded = numbers[..count].to_vec();
            padded.resize(count.next_multiple_of(BLOCK), 0.0);
            let ragged = packet(Element::F32, &pack(Element::F32, &numbers[..count]), format).0;
            assert_eq!(
                ragged,
                packet(Element::F32, &pack(Element::F32, &padded), format).0,
                "{count} {format:?}"
            );
            let padding = if count == 0 { 0 } else { CODES + count.div_ceil(BLOCK) * 130 };
            assert!(ragged[padding..].iter().all(|byte| *byte == 0));
        }
    }
}

proptest! {
    #[test]
    fn any_block_of_any_bits_comes_back_within_bounds(
        bits in prop::collection::vec(any::<u32>(), 0..300),
        narrow in any::<bool>(),
    ) {
        // Of all numbers or, more like gradients, of about one size.
        let size = |bits: u32| if narrow { (bits & 0x81ff_ffff) | 0x3000_0000 } else { bits };
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| size(*bits).to_le_bytes()).collect();
        for element in Element::ALL {
            check_all_formats(element, &bytes);
        }
    }
}
