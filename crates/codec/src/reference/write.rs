//! Writing a block: its scale, its codes, and under `auto` the choice between E4M3 and INT8.
//! The order of every sum and product here is part of the wire format.

use super::float8;
use super::read::code_value;
use crate::format::{Codes, Format, LEAST_SCALE};
use crate::packet::{BLOCK, BlockCodes, Values, Written};

pub(crate) fn block(values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
    let largest = values.iter().filter(|x| x.is_finite()).fold(0.0, |a: f32, x| a.max(x.abs()));
    let attempt = match format {
        Format::E4M3 => Attempt::new(values, largest, Codes::E4M3),
        Format::E5M2 => Attempt::new(values, largest, Codes::E5M2),
        Format::Int8 => Attempt::new(values, largest, Codes::Int8),
        Format::Auto => better(values, largest),
    };
    *codes = attempt.bytes;
    Written {
        scale_word: attempt.codes.word(attempt.scale),
        saturated: attempt.saturated,
        non_finite: values.iter().any(|x| !x.is_finite()),
    }
}

fn better(values: &Values, largest: f32) -> Attempt {
    let e4m3 = Attempt::new(values, largest, Codes::E4M3);
    if largest == 0.0 {
        return e4m3;
    }
    let int8 = Attempt::new(values, largest, Codes::Int8);
    let k = e4m3.scale / int8.scale;
    if int8.error(values) < e4m3.error(values) * (k * k) { int8 } else { e4m3 }
}

/// A block written with one kind of codes.
struct Attempt {
    codes: Codes,
    scale: f32,
    /// Infinite in a zero block, which has no use for it.
    reciprocal: f32,
    bytes: BlockCodes,
    saturated: u32,
}

impl Attempt {
    fn new(values: &Values, largest: f32, codes: Codes) -> Attempt {
        let scale = scale(largest, codes);
        let mut attempt = Attempt { codes, scale, reciprocal: 1.0 / scale, bytes: [0; BLOCK], saturated: 0 };
        for (byte, x) in attempt.bytes.iter_mut().zip(values) {
            if !x.is_finite() {
                *byte = codes.non_finite();
            } else if largest != 0.0 {
                let y = x * attempt.reciprocal;
                *byte = encode(y, codes);
                attempt.saturated += u32::from(y.abs() > codes.largest());
            }
        }
        attempt
    }

    /// The sum of squared errors under the scale 1, added up as 32 lanes of 4 elements would.
    fn error(&self, values: &Values) -> f32 {
        let square = |i: usize| {
            let x = values[i];
            if !x.is_finite() {
                return 0.0;
            }
            let w = code_value(self.bytes[i], self.codes) - x * self.reciprocal;
            w * w
        };
        let mut lanes: [f32; BLOCK / 4] = std::array::from_fn(|lane| {
            let i = 4 * lane;
            (square(i) + square(i + 1)) + (square(i + 2) + square(i + 3))
        });
        for offset in [16, 8, 4, 2, 1] {
            lanes = std::array::from_fn(|lane| lanes[lane] + lanes[lane ^ offset]);
        }
        lanes[0]
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

fn encode(y: f32, codes: Codes) -> u8 {
    match codes {
        Codes::E4M3 => float8::to_e4m3(y),
        Codes::E5M2 => float8::to_e5m2(y),
        Codes::Int8 => (y.round_ties_even().clamp(-127.0, 127.0) as i8) as u8,
    }
}
