//! Scale, codes and choice of a block, each held against its definition by other means than the
//! reference uses.

use airamp_codec::{BLOCK, Element, Format, SAMPLED_EVERY};

use crate::samples::{
    CODES, Random, any_block_sizes, knife_edges, pack, packet, round_trip, scale, scale_word, unpack,
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
        for (x, code) in input.iter().zip(&packet[CODES..]) {
            let code = f32::from(*code as i8);
            assert!((code - x).abs() <= 0.5, "{x} became {code}");
            assert!((code - x).abs() < 0.5 || code % 2.0 == 0.0, "the tie {x} became {code}");
        }
    }
}

#[test]
fn auto_is_nearly_as_good_as_the_better_of_e4m3_and_int8_for_each_block() {
    let mut random = Random(5);
    // Of these, one in so many elements is so many times as large.
    for (one_in, times) in [(1, 1.0), (100, 10.0), (100, 100.0), (20, 30.0), (12, 1e4)] {
        let (mut auto, mut better) = (0.0, 0.0);
        for _ in 0..1000 {
            let draw =
                |random: &mut Random| random.normal() * if random.below(one_in) == 0 { times } else { 1.0 };
            let numbers: Vec<f32> = (0..BLOCK).map(|_| draw(&mut random) as f32).collect();
            auto += squared_error(&numbers, Format::Auto);
            better += squared_error(&numbers, Format::E4M3).min(squared_error(&numbers, Format::Int8));
        }
        assert!(auto <= 1.4 * better, "one in {one_in} times {times}: {}", auto / better);
    }
}

#[test]
fn auto_takes_int8_where_its_codes_squared_are_as_many_as_the_document_says() {
    let mut taken = [0, 0];
    for block in knife_edges(&mut Random(19), 300).concat() {
        let [int8, auto] = [Format::Int8, Format::Auto]
            .map(|format| packet(Element::F32, &pack(Element::F32, &block), format).0);
        let codes: Vec<i32> = int8[CODES..][..BLOCK].iter().map(|code| i32::from(*code as i8)).collect();
        let squares: i32 = codes.iter().map(|code| code * code).sum();
        let others = codes.iter().filter(|code| **code != 0).count() as i32;
        let takes_int8 = scale_word(&auto, BLOCK, 0) & 0x8000 != 0;
        assert_eq!(takes_int8, squares >= 17000 + 128 * others);
        taken[usize::from(takes_int8)] += 1;
    }
    assert_eq!(taken, [300, 300]);
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
        let at = CODES + block * BLOCK;
        assert_eq!(auto[at..][..BLOCK], taken[at..][..BLOCK]);
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
        assert_eq!([packet[CODES + 3], packet[CODES + 77], packet[CODES + BLOCK + 9]], [top, bottom, top]);
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
fn sampled_error_and_signal_are_those_of_the_blocks_that_are_sampled() {
    let mut random = Random(8);
    let numbers: Vec<f32> = (0..BLOCK * (2 * SAMPLED_EVERY + 2)).map(|_| random.normal() as f32).collect();
    for format in Format::ALL {
        let (_, stats) = packet(Element::F32, &pack(Element::F32, &numbers), format);
        let sampled = [0, SAMPLED_EVERY, 2 * SAMPLED_EVERY].map(|block| &numbers[block * BLOCK..][..BLOCK]);
        let error: f64 = sampled.iter().map(|block| squared_error(block, format)).sum();
        let signal: f64 = sampled.iter().flat_map(|block| *block).map(|x| f64::from(*x).powi(2)).sum();
        assert!((stats.squared_error / error - 1.0).abs() < 1e-9, "{format:?}");
        assert!((stats.signal / signal - 1.0).abs() < 1e-9, "{format:?}");
    }
}
