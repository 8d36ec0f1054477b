//! Writing a block: its scale, its codes, and under `auto` the choice between E4M3 and INT8.
//! Where products are rounded is part of the wire format.

use super::float8;
use crate::format::{Codes, Format, LEAST_SCALE, LEAST_SQUARES, NON_FINITE, SQUARES_PER_CODE};
use crate::packet::{BLOCK, BlockCodes, Values, Written};

pub(crate) fn block(values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
    let largest = values.iter().filter(|x| x.is_finite()).fold(0.0, |a: f32, x| a.max(x.abs()));
    let non_finite = values.iter().any(|x| !x.is_finite());
    let attempt = match format {
        Format::E4M3 => Attempt::new(values, largest, Codes::E4M3),
        Format::E5M2 => Attempt::new(values, largest, Codes::E5M2),
        Format::Int8 if !non_finite => Attempt::new(values, largest, Codes::Int8),
        Format::Auto if !non_finite => better(values, largest),
        Format::Int8 | Format::Auto => Attempt::new(values, largest, Codes::E4M3),
    };
    *codes = attempt.bytes;
    Written { scale_word: attempt.codes.word(attempt.scale), saturated: attempt.saturated, non_finite }
}

fn better(values: &Values, largest: f32) -> Attempt {
    let int8 = Attempt::new(values, largest, Codes::Int8);
    if suits(&int8.bytes) { int8 } else { Attempt::new(values, largest, Codes::E4M3) }
}

/// Whether a block with these INT8 codes is better off with them than with E4M3. The error of INT8 is about a
/// twelfth of a step, squared, for every code other than zero; that of E4M3 is in proportion to the
/// elements, but for the largest, which both have exactly.
fn suits(codes: &BlockCodes) -> bool {
    let squares: i32 = codes.iter().map(|code| i32::from(*code as i8).pow(2)).sum();
    let others = codes.iter().filter(|code| **code != 0).count() as i32;
    squares >= LEAST_SQUARES + SQUARES_PER_CODE * others
}

/// A block written with one kind of codes.
struct Attempt {
    codes: Codes,
    scale: f32,
    bytes: BlockCodes,
    saturated: u32,
}

impl Attempt {
    fn new(values: &Values, largest: f32, codes: Codes) -> Attempt {
        let scale = scale(largest, codes);
        // Infinite in a zero block, which has no use for it.
        let reciprocal = 1.0 / scale;
        let mut attempt = Attempt { codes, scale, bytes: [0; BLOCK], saturated: 0 };
        for (byte, x) in attempt.bytes.iter_mut().zip(values) {
            if !x.is_finite() {
                *byte = NON_FINITE;
            } else if largest != 0.0 {
                *byte = encode(*x, reciprocal, codes);
                attempt.saturated += u32::from((x * reciprocal).abs() > codes.largest());
            }
        }
        attempt
    }
}

/// The scale of a block whose largest finite magnitude is `largest`.
pub(crate) fn scale(largest: f32, codes: Codes) -> f32 {
    if largest == 0.0 {
        return 0.0;
    }
    let quotient = largest / codes.largest();
    let rounded_up = f32::from_bits((quotient.to_bits() + 0xffff) & 0xffff_0000);
    rounded_up.clamp(LEAST_SCALE, codes.largest_scale())
}

fn encode(x: f32, reciprocal: f32, codes: Codes) -> u8 {
    match codes {
        Codes::E4M3 => float8::to_e4m3(x * reciprocal),
        Codes::E5M2 => float8::to_e5m2(x * reciprocal),
        Codes::Int8 => nearest_integer(x, reciprocal) as u8,
    }
}

/// The product is exact in binary64: it is rounded once.
fn nearest_integer(x: f32, reciprocal: f32) -> i8 {
    (f64::from(x) * f64::from(reciprocal)).round_ties_even().clamp(-127.0, 127.0) as i8
}
