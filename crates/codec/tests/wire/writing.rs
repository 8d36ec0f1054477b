//! Scale, codes and choice of a block, each held against its definition by other means than the
//! reference uses.

use airamp_codec::reference::float8::from_e4m3;
use airamp_codec::{BLOCK, Element, Format};

use crate::samples::{
    Random, any_block_sizes, knife_edges, pack, packet, round_trip, scale, scale_word, unpack,
};

fn largest_code_value(format: Format) -> f64 {
    match format {
        Format::E4M3 => 448.0,
        Format::E5M2 => 57344.0,
        Format::Int8 | Format::Auto => 127.0,
    }
}

fn squared_error(numbers: &[f32], format: Format) -> f64 {
    let back = unpack(Element::F32, &round_trip(Element::F32, &pack(Element::F32, numbers), format));
    numbers.iter().zip(back).map(|(x, back)| (f64::from(back) - f64::from(*x)).powi(2)).sum()
}

#[test]
fn the_scale_is_the_least_that_holds_the_largest_element() {
    let mut random = Random(4);
    for _ in 0..20_000 {
        // Far from both ends of the range, so that neither limit of the scale plays a part.
        let exponent = 40 + random.below(160) as u32;
        let a = f32::from_bits((exponent << 23) | (random.bits() as u32 >> 9));
        for format in [Format::E4M3, Format::E5M2, Format::Int8] {
            let word = scale_word(&packet(Element::F32, &pack(Element::F32, &[a]), format).0, 1, 0);
            let exact = f64::from(a) / largest_code_value(format);
            // The quotient is rounded to binary32 before the scale is rounded up.
            assert!(f64::from(scale(word)) >= exact * (1.0 - 2f64.powi(-23)), "{a:e} {format:?}");
            assert!(f64::from(scale(word - 1)) < exact * (1.0 + 2f64.powi(-23)), "{a:e} {format:?}");
        }
    }
}

#[test]
fn int8_codes_are_the_nearest_integers() {
    let mut numbers: Vec<f32> = (-127..=127).map(|i| i as f32 / 2.0).collect();
    numbers.push(127.0);
    for (piece, extreme) in numbers.chunks(BLOCK - 1).map(|piece| (piece, 127.0f32)) {
        let input: Vec<f32> = piece.iter().copied().chain([extreme]).collect();
        let (packet, _) = packet(Element::F32, &pack(Element::F32, &input), Format::Int8);
        assert_eq!(scale(scale_word(&packet, input.len(), 0)), 1.0);
        for (x, code) in input.iter().zip(&packet) {
            let code = f32::from(*code as i8);
            assert!((code - x).abs() <= 0.5, "{x} became {code}");
            assert!((code - x).abs() < 0.5 || code % 2.0 == 0.0, "the tie {x} became {code}");
        }
    }
}

#[test]
fn auto_is_as_good_as_the_better_of_e4m3_and_int8_in_every_block() {
    let mut random = Random(5);
    let mut taken = [0, 0];
    for round in 0..4000 {
        let tail = 1.0 + (round % 40) as f64 / 8.0;
        let numbers: Vec<f32> =
            (0..BLOCK).map(|_| (random.normal() * 10f64.powf(tail * (random.unit() - 1.0))) as f32).collect();
        let e4m3 = squared_error(&numbers, Format::E4M3);
        let int8 = squared_error(&numbers, Format::Int8);
        assert!(squared_error(&numbers, Format::Auto) <= e4m3.min(int8) * 1.000_01);
        let word = scale_word(&packet(Element::F32, &pack(Element::F32, &numbers), Format::Auto).0, BLOCK, 0);
        taken[usize::from(word >> 15)] += 1;
    }
    assert!(taken.iter().all(|taken| *taken > 100), "the samples led to one choice only: {taken:?}");
}

#[test]
fn auto_compares_errors_added_up_in_the_order_of_the_document() {
    for block in knife_edges(&mut Random(19), 300).concat() {
        let [e4m3, int8, auto] = [Format::E4M3, Format::Int8, Format::Auto]
            .map(|format| packet(Element::F32, &pack(Element::F32, &block), format).0);
        let [e4m3_scale, int8_scale] = [&e4m3, &int8].map(|packet| scale(scale_word(packet, BLOCK, 0)));
        let error = |value: &dyn Fn(usize) -> f32, scale: f32| {
            let reciprocal = 1.0 / scale;
            let square = |i: usize| (value(i) - block[i] * reciprocal) * (value(i) - block[i] * reciprocal);
            let four =
                |l: usize| (square(4 * l) + square(4 * l + 1)) + (square(4 * l + 2) + square(4 * l + 3));
            lane_sum(&four, 1, 0)
        };
        let e4m3_error = error(&|i| from_e4m3(e4m3[i]), e4m3_scale);
        let int8_error = error(&|i| f32::from(int8[i] as i8), int8_scale);
        let k = e4m3_scale / int8_scale;
        let takes_int8 = int8_error < e4m3_error * (k * k);
        assert_eq!(scale_word(&auto, BLOCK, 0) & 0x8000 != 0, takes_int8);
    }
}

/// What lane `lane` holds after the step with this offset, 32 meaning before all of them.
fn lane_sum(first: &dyn Fn(usize) -> f32, offset: usize, lane: usize) -> f32 {
    if offset == 32 {
        return first(lane);
    }
    lane_sum(first, 2 * offset, lane) + lane_sum(first, 2 * offset, lane ^ offset)
}

#[test]
fn an_auto_block_has_the_codes_and_scale_of_the_format_it_took() {
    let numbers = any_block_sizes(&mut Random(6), BLOCK * 500, false);
    let input = pack(Element::F32, &numbers);
    let [e4m3, int8, auto] =
        [Format::E4M3, Format::Int8, Format::Auto].map(|format| packet(Element::F32, &input, format).0);
    for block in 0..500 {
        let word = scale_word(&auto, numbers.len(), block);
        let taken = if word & 0x8000 != 0 { &int8 } else { &e4m3 };
        assert_eq!(word, scale_word(taken, numbers.len(), block));
        assert_eq!(auto[block * BLOCK..][..BLOCK], taken[block * BLOCK..][..BLOCK]);
    }
}

#[test]
fn saturated_elements_are_counted_and_become_the_end_of_the_range() {
    // The largest scale is a little too small for FLT_MAX in every format.
    let mut numbers = vec![1e30; BLOCK + 10];
    numbers[3] = f32::MAX;
    numbers[77] = -f32::MAX;
    numbers[BLOCK + 9] = f32::MAX;
    for format in [Format::E4M3, Format::E5M2, Format::Int8] {
        let (packet, stats) = packet(Element::F32, &pack(Element::F32, &numbers), format);
        assert_eq!(stats.saturated, 3, "{format:?}");
        assert_eq!(stats.non_finite_blocks, 0);
        let (top, bottom) = match format {
            Format::E4M3 => (0x7e, 0xfe),
            Format::E5M2 => (0x7b, 0xfb),
            Format::Int8 | Format::Auto => (127, -127i8 as u8),
        };
        assert_eq!([packet[3], packet[77], packet[BLOCK + 9]], [top, bottom, top]);
    }
}

#[test]
fn ordinary_blocks_do_not_saturate() {
    let mut random = Random(7);
    let numbers: Vec<f32> = (0..BLOCK * 1000).map(|_| random.normal() as f32).collect();
    for format in Format::ALL {
        let (_, stats) = packet(Element::F32, &pack(Element::F32, &numbers), format);
        assert!(stats.saturated <= 2, "{format:?}: {}", stats.saturated);
    }
}

#[test]
fn sampled_error_and_signal_are_those_of_every_64th_block() {
    let mut random = Random(8);
    let numbers: Vec<f32> = (0..BLOCK * 130).map(|_| random.normal() as f32).collect();
    for format in Format::ALL {
        let (_, stats) = packet(Element::F32, &pack(Element::F32, &numbers), format);
        let sampled = [0, 64, 128].map(|block| &numbers[block * BLOCK..][..BLOCK]);
        let error: f64 = sampled.iter().map(|block| squared_error(block, format)).sum();
        let signal: f64 = sampled.iter().flat_map(|block| *block).map(|x| f64::from(*x).powi(2)).sum();
        assert!((stats.squared_error / error - 1.0).abs() < 1e-9, "{format:?}");
        assert!((stats.signal / signal - 1.0).abs() < 1e-9, "{format:?}");
    }
}
