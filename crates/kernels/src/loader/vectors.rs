//! The elements that the self-test feeds to the kernels: one block for each kind of
//! trouble, made from bits, the same on every machine.

use airamp_codec::{BLOCK, Element};

/// Elements of one vector: 26 whole blocks and a ragged one.
pub(super) const COUNT: usize = 27 * BLOCK - 37;

/// How a type lays out its bits.
struct Layout {
    exponent_bits: u32,
    fraction_bits: u32,
}

impl Layout {
    const fn of(element: Element) -> Self {
        match element {
            Element::F16 => Self { exponent_bits: 5, fraction_bits: 10 },
            Element::Bf16 => Self { exponent_bits: 8, fraction_bits: 7 },
            Element::F32 => Self { exponent_bits: 8, fraction_bits: 23 },
        }
    }

    /// The element with a biased exponent; sign and fraction are taken from `random`.
    fn assemble(&self, exponent: u32, random: u32) -> u32 {
        let fraction = random & ((1 << self.fraction_bits) - 1);
        let sign = (random >> 31) << (self.exponent_bits + self.fraction_bits);
        sign | exponent << self.fraction_bits | fraction
    }

    /// The exponent that is all ones.
    fn non_finite(&self) -> u32 {
        (1 << self.exponent_bits) - 1
    }
}

/// `COUNT` elements, raw and little-endian.
pub(super) fn elements(element: Element) -> Vec<u8> {
    let layout = Layout::of(element);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let bits = (0..COUNT).map(|index| one(&layout, index / BLOCK, next(&mut state)));
    bits.flat_map(|bits| bits.to_le_bytes().into_iter().take(element.size())).collect()
}

/// Kinds of blocks, one after the other.
const KINDS: usize = 6;

fn one(layout: &Layout, block: usize, random: u64) -> u32 {
    let (random, choice) = (random as u32, (random >> 32) as u32);
    let one = layout.non_finite() / 2;
    match block % KINDS {
        // Numbers around 1, as gradients are around their mean.
        0 => layout.assemble(one - 4 + choice % 8, random),
        // Any bits at all: all magnitudes, infinities, NaNs.
        1 => layout.assemble(choice % (layout.non_finite() + 1), random),
        // Zeros of both signs.
        2 => layout.assemble(0, random & 1 << 31),
        // Subnormal and the least normal numbers.
        3 => layout.assemble(choice % 2, random),
        // Numbers of one size.
        4 => layout.assemble(one, random),
        // The largest numbers among ordinary ones: sums overflow, and the very largest saturates.
        _ if choice.is_multiple_of(32) => layout.assemble(layout.non_finite() - 1, random | 0x7f_ffff),
        _ if choice.is_multiple_of(4) => layout.assemble(layout.non_finite() - 1, random),
        _ => layout.assemble(one + choice % 4, random),
    }
}

/// Xorshift: enough for test data.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_trouble_is_in_the_elements() {
        let bytes = elements(Element::F32);
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert_eq!(values.len(), COUNT);
        assert!(values.iter().any(|value| value.is_nan() || value.is_infinite()));
        assert!(values.iter().any(|value| value.is_subnormal()));
        assert!(values[2 * BLOCK..3 * BLOCK].iter().all(|value| *value == 0.0));
        assert!(values.iter().any(|value| value.is_finite() && value.abs() > f32::MAX / 2.0));
        assert!(values[..BLOCK].iter().all(|value| value.is_normal()));
        assert_eq!(elements(Element::F16).len(), COUNT * 2);
    }
}
