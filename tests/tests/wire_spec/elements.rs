//! Elements to try the wire format with, made of their fields, so that no conversion is asked: plain ones,
//! and every kind that is hard on a format. The same in every run.

use airamp_codec::{BLOCK, Element, Format};

/// SplitMix64.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 32) % limit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// About evenly between -2 and 2.
    Plain,
    /// One in a hundred a hundred times as large.
    Spikes,
    /// Every bit pattern of the type, non-finite ones included.
    AnyBits,
    /// Signed zeros alone.
    Zeros,
    /// Signed zeros and non-finite elements.
    NonFinite,
    /// Subnormal elements and the least normal ones.
    Tiny,
    /// Around the least scale, where the type has such.
    LeastScale,
    /// The largest magnitudes.
    Huge,
    /// The largest alone: what they are in the format is decided by the largest scale.
    Largest,
    /// Few digits under a scale of one: ties.
    Ties,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::Plain,
    Kind::Spikes,
    Kind::AnyBits,
    Kind::Zeros,
    Kind::NonFinite,
    Kind::Tiny,
    Kind::LeastScale,
    Kind::Huge,
    Kind::Largest,
    Kind::Ties,
];

/// Width of the exponent and of the mantissa.
fn widths(element: Element) -> (u32, u32) {
    match element {
        Element::F16 => (5, 10),
        Element::Bf16 => (8, 7),
        Element::F32 => (8, 23),
    }
}

fn bias(element: Element) -> i64 {
    (1 << (widths(element).0 - 1)) - 1
}

fn raw(element: Element, sign: u64, exponent: i64, mantissa: u64) -> Vec<u8> {
    let (exponents, digits) = widths(element);
    let exponent = u64::try_from(exponent).unwrap_or(0).min((1 << exponents) - 1);
    let bits = (sign & 1) << (exponents + digits) | exponent << digits | mantissa & ((1 << digits) - 1);
    bits.to_le_bytes()[..element.size()].to_vec()
}

/// A positive integer as an element.
pub(crate) fn integer(element: Element, number: u64) -> Vec<u8> {
    let exponent = number.ilog2();
    raw(element, 0, bias(element) + i64::from(exponent), number << widths(element).1 >> exponent)
}

/// The largest value of the format's codes, or of those that matter for ties under `auto`.
fn largest_code(format: Format) -> u64 {
    match format {
        Format::E4M3 => 448,
        Format::E5M2 => 57344,
        Format::Int8 | Format::Auto => 127,
    }
}

/// `count` elements of one kind, raw.
pub(crate) fn of_kind(
    kind: Kind,
    element: Element,
    format: Format,
    count: usize,
    numbers: &mut Numbers,
) -> Vec<u8> {
    (0..count)
        .flat_map(|at| match kind {
            Kind::Ties if at % BLOCK == 0 => integer(element, largest_code(format)),
            _ => one(kind, element, format, numbers),
        })
        .collect()
}

/// `count` elements, raw, each block of a kind of its own.
pub(crate) fn mixed(element: Element, format: Format, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count * element.size() {
        let kind = KINDS[numbers.below(KINDS.len() as u64) as usize];
        bytes.extend(of_kind(kind, element, format, BLOCK, numbers));
    }
    bytes.truncate(count * element.size());
    bytes
}

fn one(kind: Kind, element: Element, format: Format, numbers: &mut Numbers) -> Vec<u8> {
    let (exponents, digits) = widths(element);
    let (bias, infinite) = (bias(element), (1i64 << exponents) - 1);
    let (sign, mantissa) = (numbers.bits(), numbers.bits());
    let halvings = i64::from(numbers.bits().trailing_zeros());
    let (exponent, mantissa) = match kind {
        Kind::Plain => (bias - halvings, mantissa),
        Kind::Spikes => (bias - halvings + if numbers.below(100) == 0 { 7 } else { 0 }, mantissa),
        Kind::AnyBits => (numbers.below(1 << exponents) as i64, mantissa),
        Kind::Zeros => (0, 0),
        Kind::NonFinite if numbers.below(20) == 0 => (infinite, if sign & 2 == 0 { mantissa } else { 0 }),
        Kind::NonFinite => (0, 0),
        Kind::Tiny => (numbers.below(2) as i64, mantissa),
        Kind::LeastScale => (bias - 110 + numbers.below(20) as i64 - 6, mantissa),
        Kind::Huge => (infinite - 1, mantissa),
        Kind::Largest => (infinite - 1, !0),
        Kind::Ties => {
            let exponent = i64::from(largest_code(format).ilog2()) - 1 - numbers.below(20) as i64;
            (bias + exponent, mantissa << (digits - 5))
        }
    };
    raw(element, sign, exponent, mantissa)
}
