//! The 16-bit and 8-bit floats, computed in `f32` and rounded back to nearest even.
//!
//! The 8-bit ones follow OCP: E4M3 has no infinity and one NaN per sign, E5M2 is a short IEEE
//! type. What overflows saturates to the largest finite value, as NCCL's conversions ask for.

use std::sync::LazyLock;

use half::slice::HalfFloatSliceExt;

use super::Combine;

/// Elements converted at a time: small enough to stay in the nearest cache.
const BLOCK: usize = 512;

pub(super) trait Narrow {
    const SIZE: usize;
    /// Widens `bytes` (at most a block) into the front of `values`.
    fn widen(bytes: &[u8], values: &mut [f32]);
    fn narrow(values: &[f32], bytes: &mut [u8]);
}

pub(super) struct F16;
pub(super) struct Bf16;
pub(super) struct E4m3;
pub(super) struct E5m2;

impl Narrow for F16 {
    const SIZE: usize = 2;

    fn widen(bytes: &[u8], values: &mut [f32]) {
        let mut halves = [half::f16::ZERO; BLOCK];
        for (half, pair) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *half = half::f16::from_ne_bytes(*pair);
        }
        halves[..bytes.len() / 2].convert_to_f32_slice(&mut values[..bytes.len() / 2]);
    }

    fn narrow(values: &[f32], bytes: &mut [u8]) {
        let mut halves = [half::f16::ZERO; BLOCK];
        halves[..values.len()].convert_from_f32_slice(values);
        for (half, pair) in halves.iter().zip(bytes.as_chunks_mut::<2>().0) {
            *pair = half.to_ne_bytes();
        }
    }
}

impl Narrow for Bf16 {
    const SIZE: usize = 2;

    fn widen(bytes: &[u8], values: &mut [f32]) {
        for (value, pair) in values.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *value = f32::from_bits(u32::from(u16::from_ne_bytes(*pair)) << 16);
        }
    }

    fn narrow(values: &[f32], bytes: &mut [u8]) {
        for (value, pair) in values.iter().zip(bytes.as_chunks_mut::<2>().0) {
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            let quiet = (bits >> 16) | 0x40;
            *pair = (if value.is_nan() { quiet } else { rounded } as u16).to_ne_bytes();
        }
    }
}

impl Narrow for E4m3 {
    const SIZE: usize = 1;

    fn widen(bytes: &[u8], values: &mut [f32]) {
        widen_8(&E4M3_VALUES, bytes, values);
    }

    fn narrow(values: &[f32], bytes: &mut [u8]) {
        narrow_8(&E4M3, values, bytes);
    }
}

impl Narrow for E5m2 {
    const SIZE: usize = 1;

    fn widen(bytes: &[u8], values: &mut [f32]) {
        widen_8(&E5M2_VALUES, bytes, values);
    }

    fn narrow(values: &[f32], bytes: &mut [u8]) {
        narrow_8(&E5M2, values, bytes);
    }
}

/// An 8-bit float: mantissa bits, exponent bias, largest finite pattern, NaN pattern.
struct Format {
    mantissa: u32,
    bias: i32,
    largest: u8,
    nan: u8,
}

const E4M3: Format = Format { mantissa: 3, bias: 7, largest: 0x7e, nan: 0x7f };
const E5M2: Format = Format { mantissa: 2, bias: 15, largest: 0x7b, nan: 0x7f };

static E4M3_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|bits| E4M3.decode(bits as u8)));
static E5M2_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|bits| E5M2.decode(bits as u8)));

impl Format {
    fn decode(&self, bits: u8) -> f32 {
        let magnitude = bits & 0x7f;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        if magnitude > self.largest {
            // Beyond the largest finite value E5M2 has one infinity, then NaNs.
            return if self.mantissa == 2 && magnitude == 0x7c { sign * f32::INFINITY } else { f32::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa);
        let fraction = f32::from(magnitude & ((1 << self.mantissa) - 1)) / (1u32 << self.mantissa) as f32;
        match exponent {
            0 => sign * fraction * 2f32.powi(1 - self.bias),
            _ => sign * (1.0 + fraction) * 2f32.powi(exponent - self.bias),
        }
    }

    fn encode(&self, value: f32) -> u8 {
        let sign = (value.to_bits() >> 24) as u8 & 0x80;
        if value.is_nan() {
            return sign | self.nan;
        }
        sign | self.encode_magnitude(value.abs())
    }

    fn encode_magnitude(&self, value: f32) -> u8 {
        let exponent = ((value.to_bits() >> 23) as i32 - 127).max(1 - self.bias);
        // In units of the last place of this binade; ties go to even. A carry into the next
        // binade has the right pattern by itself.
        let units = (value * 2f32.powi(self.mantissa as i32 - exponent)).round_ties_even();
        if !units.is_finite() || exponent > self.bias + 1 {
            return self.largest;
        }
        let pattern = (((exponent + self.bias - 1) as u32) << self.mantissa) + units as u32;
        pattern.min(u32::from(self.largest)) as u8
    }
}

fn widen_8(table: &[f32; 256], bytes: &[u8], values: &mut [f32]) {
    for (value, byte) in values.iter_mut().zip(bytes) {
        *value = table[usize::from(*byte)];
    }
}

fn narrow_8(format: &Format, values: &[f32], bytes: &mut [u8]) {
    for (value, byte) in values.iter().zip(bytes) {
        *byte = format.encode(*value);
    }
}

pub(super) fn fold<T: Narrow>(how: Combine, partial: &mut [u8], local: &[u8]) {
    match how {
        Combine::Sum => each::<T>(partial, local, |a, b| a + b),
        Combine::Prod => each::<T>(partial, local, |a, b| a * b),
        Combine::Max => each::<T>(partial, local, |a, b| if a > b || b.is_nan() { a } else { b }),
        Combine::Min => each::<T>(partial, local, |a, b| if a < b || b.is_nan() { a } else { b }),
    }
}

pub(super) fn scale<T: Narrow>(data: &mut [u8], scalar: &[u8]) {
    let mut factor = [0f32; 1];
    T::widen(&scalar[..T::SIZE], &mut factor);
    let mut values = [0f32; BLOCK];
    for bytes in data.chunks_mut(BLOCK * T::SIZE) {
        let values = &mut values[..bytes.len() / T::SIZE];
        T::widen(bytes, values);
        values.iter_mut().for_each(|value| *value *= factor[0]);
        T::narrow(values, bytes);
    }
}

pub(super) fn encode<T: Narrow>(value: f32) -> Vec<u8> {
    let mut bytes = vec![0; T::SIZE];
    T::narrow(&[value], &mut bytes);
    bytes
}

#[inline(always)]
fn each<T: Narrow>(partial: &mut [u8], local: &[u8], apply: impl Fn(f32, f32) -> f32) {
    let (mut left, mut right) = ([0f32; BLOCK], [0f32; BLOCK]);
    for (target, own) in partial.chunks_mut(BLOCK * T::SIZE).zip(local.chunks(BLOCK * T::SIZE)) {
        let count = target.len() / T::SIZE;
        T::widen(target, &mut left);
        T::widen(own, &mut right);
        for (a, b) in left[..count].iter_mut().zip(&right[..count]) {
            *a = apply(*a, *b);
        }
        T::narrow(&left[..count], target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_8_bit_pattern_survives_the_round_trip() {
        for format in [&E4M3, &E5M2] {
            for bits in 0..=255u8 {
                let value = format.decode(bits);
                if value.is_finite() {
                    assert_eq!(format.encode(value), bits, "{value}");
                }
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_overflow_saturates() {
        assert_eq!(E4M3.encode(17.0), E4M3.encode(16.0), "17 lies between 16 and 18");
        assert_eq!(E4M3.encode(19.0), E4M3.encode(20.0));
        assert_eq!(E4M3.encode(1e9), 0x7e);
        assert_eq!(E4M3.encode(-465.0), 0xfe);
        assert_eq!(E5M2.encode(f32::INFINITY), 0x7b);
        assert!(E5M2.decode(E5M2.encode(f32::NAN)).is_nan());
    }

    #[test]
    fn the_smallest_subnormals_are_kept() {
        assert_eq!(E4M3.encode(2f32.powi(-9)), 1);
        assert_eq!(E5M2.encode(2f32.powi(-16)), 1);
        assert_eq!(E4M3.encode(2f32.powi(-10)), 0, "a tie with zero goes to even");
        assert_eq!(E4M3.encode(f32::from_bits(1)), 0);
    }

    #[test]
    fn bfloat16_rounds_to_nearest_even_like_the_reference() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let value = f32::from_bits(bits);
            let mut bytes = [0u8; 2];
            Bf16::narrow(&[value], &mut bytes);
            let expected = half::bf16::from_f32(value);
            if !value.is_nan() {
                assert_eq!(u16::from_ne_bytes(bytes), expected.to_bits(), "{value}");
            }
        }
    }
}
