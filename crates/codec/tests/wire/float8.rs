//! The conversions to 8-bit floats against another method: the nearest of all values, found by search.

use airamp_codec::reference::float8::{from_e4m3, from_e5m2, to_e4m3, to_e5m2};
use half::{bf16, f16};

use crate::samples::{Random, every_pattern};

struct Format {
    mantissa_bits: u32,
    bias: i32,
    finite_codes: u8,
    to: fn(f32) -> u8,
    from: fn(u8) -> f32,
}

const FORMATS: [Format; 2] = [
    Format { mantissa_bits: 3, bias: 7, finite_codes: 0x7f, to: to_e4m3, from: from_e4m3 },
    Format { mantissa_bits: 2, bias: 15, finite_codes: 0x7c, to: to_e5m2, from: from_e5m2 },
];

impl Format {
    /// The values of the non-negative codes by the definition of the format.
    fn values(&self) -> Vec<f64> {
        let steps = f64::from(1 << self.mantissa_bits);
        let value = |code: u8| {
            let mantissa = f64::from(u32::from(code) & ((1 << self.mantissa_bits) - 1)) / steps;
            match i32::from(code) >> self.mantissa_bits {
                0 => mantissa * 2f64.powi(1 - self.bias),
                exponent => (1.0 + mantissa) * 2f64.powi(exponent - self.bias),
            }
        };
        (0..self.finite_codes).map(value).collect()
    }
}

/// The code of the nearest value; of two equally near the even one.
fn nearest(values: &[f64], x: f32) -> u8 {
    // Far beyond the largest value all distances would round to the same number.
    let magnitude = f64::from(x).abs().min(values[values.len() - 1]);
    let distance = |code: &u8| (values[usize::from(*code)] - magnitude).abs();
    let best = (0..values.len() as u8)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))))
        .expect("a format has values");
    best | if x.is_sign_negative() { 0x80 } else { 0 }
}

fn check(inputs: impl Iterator<Item = f32> + Clone) {
    for format in FORMATS {
        let values = format.values();
        for x in inputs.clone().filter(|x| x.is_finite()) {
            assert_eq!((format.to)(x), nearest(&values, x), "{x:e} ({:#010x})", x.to_bits());
        }
    }
}

#[test]
fn every_code_has_the_value_its_definition_gives() {
    for format in FORMATS {
        let values = format.values();
        for code in 0..=u8::MAX {
            let value = (format.from)(code);
            match values.get(usize::from(code & 0x7f)) {
                Some(expected) => {
                    assert_eq!(f64::from(value.abs()), *expected);
                    assert_eq!(value.is_sign_negative(), code & 0x80 != 0);
                    assert_eq!((format.to)(value), code);
                }
                None => assert!(value.is_nan(), "{code:#04x}"),
            }
        }
    }
}

#[test]
fn every_fp16_and_bf16_number_becomes_the_nearest_code() {
    check(every_pattern().into_iter().map(|bits| f16::from_bits(bits).to_f32()));
    check(every_pattern().into_iter().map(|bits| bf16::from_bits(bits).to_f32()));
}

#[test]
fn numbers_on_and_beside_the_middle_of_two_codes_become_the_nearest_code() {
    for format in FORMATS {
        let values = format.values();
        for pair in values.windows(2) {
            let middle = ((pair[0] + pair[1]) / 2.0) as f32;
            for bits in middle.to_bits() - 2..=middle.to_bits() + 2 {
                let x = f32::from_bits(bits);
                assert_eq!((format.to)(x), nearest(&values, x), "{x:e}");
                assert_eq!((format.to)(-x), nearest(&values, -x), "{x:e}");
            }
        }
    }
}

#[test]
fn numbers_of_every_binade_become_the_nearest_code() {
    let mut random = Random(1);
    let numbers: Vec<f32> = (0..200_000).map(|_| f32::from_bits(random.bits() as u32)).collect();
    check(numbers.into_iter());
    check((0..=u32::MAX / 65_521).map(|i| f32::from_bits(i * 65_521)));
}

#[test]
fn beyond_the_largest_value_is_the_largest_value() {
    for x in [448.1, 464.0, 480.0, 1e30, f32::MAX] {
        assert_eq!(from_e4m3(to_e4m3(x)), 448.0);
        assert_eq!(from_e4m3(to_e4m3(-x)), -448.0);
    }
    for x in [57344.1, 61440.0, 65536.0, f32::MAX] {
        assert_eq!(from_e5m2(to_e5m2(x)), 57344.0);
        assert_eq!(from_e5m2(to_e5m2(-x)), -57344.0);
    }
}
