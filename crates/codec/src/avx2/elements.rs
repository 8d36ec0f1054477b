//! Elements to and from binary32, and the two steps of a sum. A ragged piece goes through a block of
//! zeros, so that the loops below see whole vectors only.

use std::arch::x86_64::*;

use super::memory::{load_16, load_32, load_f32, store_16, store_32, store_f32};
use crate::format::Element;
use crate::packet::{BLOCK, Values};

#[target_feature(enable = "avx2,f16c")]
pub(super) fn load(element: Element, input: &[u8], values: &mut Values) {
    let whole = BLOCK * element.size();
    if input.len() == whole {
        return load_block(element, input, values);
    }
    let mut padded = [0; BLOCK * 4];
    padded[..input.len()].copy_from_slice(input);
    load_block(element, &padded[..whole], values);
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_block(element: Element, input: &[u8], values: &mut Values) {
    let values = values.as_chunks_mut::<8>().0.iter_mut();
    match element {
        Element::F16 => {
            for (bytes, values) in input.as_chunks().0.iter().zip(values) {
                store_f32(values, _mm256_cvtph_ps(load_16(bytes)));
            }
        }
        Element::Bf16 => {
            for (bytes, values) in input.as_chunks().0.iter().zip(values) {
                let wide = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_16(bytes)));
                store_f32(values, _mm256_castsi256_ps(wide));
            }
        }
        Element::F32 => {
            for (bytes, values) in input.as_chunks().0.iter().zip(values) {
                store_f32(values, _mm256_castsi256_ps(load_32(bytes)));
            }
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
pub(super) fn store(element: Element, values: &Values, output: &mut [u8]) {
    let whole = BLOCK * element.size();
    if output.len() == whole {
        return store_block(element, values, output);
    }
    let mut padded = [0; BLOCK * 4];
    store_block(element, values, &mut padded[..whole]);
    output.copy_from_slice(&padded[..output.len()]);
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn store_block(element: Element, values: &Values, output: &mut [u8]) {
    let values = values.as_chunks().0.iter();
    match element {
        Element::F16 => {
            for (values, bytes) in values.zip(output.as_chunks_mut().0) {
                store_16(bytes, to_f16(load_f32(values)));
            }
        }
        Element::Bf16 => {
            for (values, bytes) in values.zip(output.as_chunks_mut().0) {
                let narrow = _mm256_srli_epi32::<16>(to_bf16(load_f32(values)));
                let packed = _mm256_packus_epi32(narrow, narrow);
                store_16(bytes, _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed)));
            }
        }
        Element::F32 => {
            for (values, bytes) in values.zip(output.as_chunks_mut().0) {
                store_32(bytes, _mm256_castps_si256(with_one_nan(load_f32(values))));
            }
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
pub(super) fn round(element: Element, values: &mut Values) {
    for values in values.as_chunks_mut().0 {
        let exact = load_f32(values);
        let rounded = match element {
            Element::F16 => _mm256_cvtph_ps(to_f16(exact)),
            Element::Bf16 => _mm256_castsi256_ps(to_bf16(exact)),
            Element::F32 => with_one_nan(exact),
        };
        store_f32(values, rounded);
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn multiply(values: &mut Values, factor: f32) {
    for values in values.as_chunks_mut().0 {
        store_f32(values, _mm256_mul_ps(load_f32(values), _mm256_set1_ps(factor)));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn add(sum: &mut Values, values: &Values) {
    for (sum, values) in sum.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0) {
        store_f32(sum, _mm256_add_ps(load_f32(sum), load_f32(values)));
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn to_f16(values: __m256) -> __m128i {
    // The conversion keeps the upper bits of a NaN's payload.
    _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(with_one_nan(values))
}

/// Rounded to nearest even, the lower half of each lane zero.
#[inline]
#[target_feature(enable = "avx2")]
fn to_bf16(values: __m256) -> __m256i {
    let bits = _mm256_castps_si256(values);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    let not_a_number = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    let rounded = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fff_ffff), not_a_number);
    _mm256_and_si256(rounded, _mm256_set1_epi32(0xffff_0000_u32 as i32))
}

#[inline]
#[target_feature(enable = "avx2")]
fn with_one_nan(values: __m256) -> __m256 {
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
    _mm256_blendv_ps(values, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values))
}
