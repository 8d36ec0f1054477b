//! The 16-bit floats, computed in `f32` and rounded back to nearest even, a block at a time.

use half::slice::HalfFloatSliceExt;

use super::Combine;

/// Elements converted at a time: small enough to stay in the nearest cache.
const BLOCK: usize = 512;
const SIZE: usize = 2;

pub(super) trait Narrow {
    /// Widens `bytes` (at most a block) into the front of `values`.
    fn widen(bytes: &[u8], values: &mut [f32]);
    fn narrow(values: &[f32], bytes: &mut [u8]);
}

pub(super) struct F16;
pub(super) struct Bf16;

impl Narrow for F16 {
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

pub(super) fn fold<T: Narrow>(how: Combine, partial: &mut [u8], local: &[u8]) {
    match how {
        Combine::Sum => each::<T>(partial, local, |a, b| Combine::Sum.apply(a, b)),
        Combine::Prod => each::<T>(partial, local, |a, b| Combine::Prod.apply(a, b)),
        Combine::Max => each::<T>(partial, local, |a, b| Combine::Max.apply(a, b)),
        Combine::Min => each::<T>(partial, local, |a, b| Combine::Min.apply(a, b)),
    }
}

pub(super) fn scale<T: Narrow>(data: &mut [u8], scalar: &[u8]) {
    let mut factor = [0f32; 1];
    T::widen(&scalar[..SIZE], &mut factor);
    let mut values = [0f32; BLOCK];
    for bytes in data.chunks_mut(BLOCK * SIZE) {
        let values = &mut values[..bytes.len() / SIZE];
        T::widen(bytes, values);
        values.iter_mut().for_each(|value| *value *= factor[0]);
        T::narrow(values, bytes);
    }
}

pub(super) fn encode<T: Narrow>(value: f32) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    T::narrow(&[value], &mut bytes);
    bytes
}

#[inline(always)]
fn each<T: Narrow>(partial: &mut [u8], local: &[u8], apply: impl Fn(f32, f32) -> f32) {
    let (mut left, mut right) = ([0f32; BLOCK], [0f32; BLOCK]);
    for (target, own) in partial.chunks_mut(BLOCK * SIZE).zip(local.chunks(BLOCK * SIZE)) {
        let count = target.len() / SIZE;
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
