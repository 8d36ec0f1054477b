//! Elements to try kernels with: plain ones, and every kind that is hard on a format.

use airamp_codec::Element;

/// A small generator of the same numbers everywhere.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) % limit
    }

    /// About normal, by the sum of twelve.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.below(1 << 20) as f32 / (1 << 20) as f32).sum::<f32>() - 6.0
    }
}

/// What fills a block of 128 elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    /// One in a hundred a hundred times as large.
    Spikes,
    /// Every bit pattern of the type, non-finite ones included.
    AnyBits,
    /// Signed zeros alone.
    Zeros,
    /// Zeros and non-finite elements, nothing else.
    NonFinite,
    /// The smallest magnitudes of the type, subnormal ones included.
    Tiny,
    /// The largest magnitudes of the type.
    Huge,
    /// Powers of two and halves between integers: ties, and quotients that are exact.
    Ties,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Normal,
    Kind::Spikes,
    Kind::AnyBits,
    Kind::Zeros,
    Kind::NonFinite,
    Kind::Tiny,
    Kind::Huge,
    Kind::Ties,
];

/// `count` elements, raw, of one kind.
pub(crate) fn of_kind(kind: Kind, element: Element, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    (0..count).flat_map(|_| one(kind, element, numbers)).collect()
}

/// `count` elements, raw, each block of a kind of its own.
pub(crate) fn mixed(element: Element, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * element.size());
    while bytes.len() < count * element.size() {
        let kind = KINDS[numbers.below(KINDS.len() as u64) as usize];
        bytes.extend(of_kind(kind, element, 128, numbers));
    }
    bytes.truncate(count * element.size());
    bytes
}

fn one(kind: Kind, element: Element, numbers: &mut Numbers) -> Vec<u8> {
    let bits = numbers.next() as u32;
    let sign = bits & 1 << 31;
    match kind {
        Kind::Normal => narrowed(element, numbers.normal()),
        Kind::Spikes if numbers.below(100) == 0 => narrowed(element, 100.0 * numbers.normal()),
        Kind::Spikes => narrowed(element, numbers.normal()),
        Kind::AnyBits => raw(element, bits),
        Kind::Zeros => raw(element, sign),
        Kind::NonFinite if numbers.below(20) == 0 => raw(element, bits | 0x7f80_0000),
        Kind::NonFinite => raw(element, sign),
        Kind::Tiny => raw(element, sign | bits & 0x00ff_ffff),
        Kind::Huge => raw(element, (sign | 0x7f7f_ffff) - (bits & 0x00ff_ffff)),
        Kind::Ties => narrowed(element, (numbers.below(509) as f32 - 254.0) / 2.0),
    }
}

/// Bits of binary32 moved to the type's own fields, so that the exponent keeps its place in its range.
fn raw(element: Element, bits: u32) -> Vec<u8> {
    match element {
        Element::F32 => bits.to_le_bytes().to_vec(),
        Element::Bf16 => ((bits >> 16) as u16).to_le_bytes().to_vec(),
        Element::F16 => {
            let exponent = (bits >> 23 & 0xff) as i32;
            let exponent =
                if exponent >= 0x80 { (exponent - 0xff + 0x1f).max(1) } else { exponent.min(0x1e) };
            let mantissa = bits >> 13 & 0x3ff;
            ((bits >> 16 & 0x8000 | (exponent as u32) << 10 | mantissa) as u16).to_le_bytes().to_vec()
        }
    }
}

fn narrowed(element: Element, value: f32) -> Vec<u8> {
    match element {
        Element::F32 => value.to_le_bytes().to_vec(),
        Element::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        Element::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
    }
}
