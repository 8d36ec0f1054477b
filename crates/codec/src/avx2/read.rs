//! Reading a block. An 8-bit float is a half-precision number with fewer mantissa bits (and for E4M3
//! another bias), so F16C widens both; unlike a multiplication it takes subnormals at full speed.

use std::arch::x86_64::*;

use super::memory::{load_16, store_f32};
use crate::format::{Codes, Element, Format, scale};
use crate::packet::{BlockCodes, Values};

#[target_feature(enable = "avx2,f16c")]
pub(super) fn block(
    codes: &BlockCodes,
    scale_word: u16,
    format: Format,
    element: Element,
    values: &mut Values,
) {
    let range = Range { scale: scale(scale_word), limit: element.largest() };
    match format.codes(scale_word) {
        Codes::E4M3 => each_16(codes, range, values, |codes| e4m3(codes)),
        Codes::E5M2 => each_16(codes, range, values, |codes| e5m2(codes)),
        Codes::Int8 => each_16(codes, range, values, |codes| int8(codes)),
    }
}

#[derive(Clone, Copy)]
struct Range {
    scale: f32,
    limit: f32,
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn each_16(codes: &BlockCodes, range: Range, values: &mut Values, value_of: impl Fn(__m128i) -> [__m256; 2]) {
    for (codes, values) in codes.as_chunks().0.iter().zip(values.as_chunks_mut::<16>().0) {
        for (values, unscaled) in values.as_chunks_mut().0.iter_mut().zip(value_of(load_16(codes))) {
            let value = _mm256_mul_ps(unscaled, _mm256_set1_ps(range.scale));
            // Minimum and maximum give their second operand where one is NaN.
            let value = _mm256_min_ps(_mm256_set1_ps(range.limit), value);
            store_f32(values, _mm256_max_ps(_mm256_set1_ps(-range.limit), value));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn e4m3(codes: __m128i) -> [__m256; 2] {
    let wide = _mm256_cvtepu8_epi16(codes);
    let magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    let nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    let sign = _mm256_slli_epi16::<8>(_mm256_xor_si256(wide, magnitude));
    let bits = _mm256_or_si256(sign, _mm256_slli_epi16::<7>(magnitude));
    let bits = _mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    // The biases differ by 8.
    half_precision(bits).map(|value| _mm256_mul_ps(value, _mm256_set1_ps(256.0)))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn e5m2(codes: __m128i) -> [__m256; 2] {
    let wide = _mm256_cvtepu8_epi16(codes);
    let magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    let nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7b));
    let bits = _mm256_slli_epi16::<8>(wide);
    half_precision(_mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00))))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn int8(codes: __m128i) -> [__m256; 2] {
    [codes, _mm_srli_si128::<8>(codes)].map(|codes| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn half_precision(bits: __m256i) -> [__m256; 2] {
    [_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits)].map(|bits| _mm256_cvtph_ps(bits))
}
