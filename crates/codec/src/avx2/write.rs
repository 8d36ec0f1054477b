//! Writing a block: the reference's steps over 32 elements at a time. The scale is the reference's own.

use std::arch::x86_64::*;

use super::encode::{E4M3, E5M2, float8, int8, is_finite, magnitude};
use super::memory::{load_32, load_f32, store_32};
use crate::format::{Codes, Format, LEAST_SQUARES, NON_FINITE, SQUARES_PER_CODE};
use crate::packet::{BLOCK, BlockCodes, Values, Written};
use crate::reference::scale;

#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn block(values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
    let survey = survey(values);
    let mut attempt = |kind| (kind, attempt(values, &survey, kind, codes));
    let (kind, attempt) = match format {
        Format::E4M3 => attempt(Codes::E4M3),
        Format::E5M2 => attempt(Codes::E5M2),
        Format::Int8 if !survey.non_finite => attempt(Codes::Int8),
        Format::Auto if !survey.non_finite => better(values, &survey, codes),
        Format::Int8 | Format::Auto => attempt(Codes::E4M3),
    };
    Written {
        scale_word: kind.word(attempt.scale),
        saturated: attempt.saturated,
        non_finite: survey.non_finite,
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
fn better(values: &Values, survey: &Survey, codes: &mut BlockCodes) -> (Codes, Attempt) {
    let int8 = attempt(values, survey, Codes::Int8, codes);
    if suits(codes) {
        return (Codes::Int8, int8);
    }
    (Codes::E4M3, attempt(values, survey, Codes::E4M3, codes))
}

/// As the reference's.
#[inline]
#[target_feature(enable = "avx2")]
fn suits(codes: &BlockCodes) -> bool {
    let (mut squares, mut zeros) = (_mm256_setzero_si256(), 0);
    for codes in codes.as_chunks().0 {
        let codes = load_32(codes);
        for half in [_mm256_castsi256_si128(codes), _mm256_extracti128_si256::<1>(codes)] {
            let wide = _mm256_cvtepi8_epi16(half);
            squares = _mm256_add_epi32(squares, _mm256_madd_epi16(wide, wide));
        }
        let zero = _mm256_cmpeq_epi8(codes, _mm256_setzero_si256());
        zeros += _mm256_movemask_epi8(zero).count_ones() as i32;
    }
    sum_of_8(squares) as i32 >= LEAST_SQUARES + SQUARES_PER_CODE * (BLOCK as i32 - zeros)
}

struct Survey {
    /// The largest finite magnitude.
    largest: f32,
    non_finite: bool,
}

#[inline]
#[target_feature(enable = "avx2")]
fn survey(values: &Values) -> Survey {
    let mut largest = _mm256_setzero_si256();
    let mut finite = _mm256_set1_epi32(-1);
    for values in values.as_chunks().0 {
        let bits = magnitude(load_f32(values));
        let here = is_finite(bits);
        // Magnitudes order as their bits do.
        largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, here));
        finite = _mm256_and_si256(finite, here);
    }
    let half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
    let quarter = _mm_max_epi32(half, _mm_shuffle_epi32::<0b00_00_11_10>(half));
    let one = _mm_max_epi32(quarter, _mm_shuffle_epi32::<0b00_00_00_01>(quarter));
    Survey {
        largest: f32::from_bits(_mm_cvtsi128_si32(one) as u32),
        non_finite: _mm256_movemask_epi8(finite) != -1,
    }
}

/// A block written with one kind of codes.
struct Attempt {
    scale: f32,
    saturated: u32,
}

#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
fn attempt(values: &Values, survey: &Survey, codes: Codes, bytes: &mut BlockCodes) -> Attempt {
    match codes {
        Codes::E4M3 => attempt_with(values, survey, codes, bytes, |x, r| float8(_mm256_mul_ps(x, r), &E4M3)),
        Codes::E5M2 => attempt_with(values, survey, codes, bytes, |x, r| float8(_mm256_mul_ps(x, r), &E5M2)),
        Codes::Int8 => attempt_with(values, survey, codes, bytes, |x, r| int8(x, r)),
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
fn attempt_with(
    values: &Values,
    survey: &Survey,
    codes: Codes,
    bytes: &mut BlockCodes,
    encode: impl Fn(__m256, __m256) -> __m256i,
) -> Attempt {
    let scale = scale(survey.largest, codes);
    // A zero block has no reciprocal, and not even its signs are kept.
    let (keep, reciprocal) = if scale == 0.0 { (0, 0.0) } else { (-1, 1.0 / scale) };
    let (keep, reciprocal) = (_mm256_set1_epi32(keep), _mm256_set1_ps(reciprocal));
    let non_finite_code = _mm256_set1_epi32(i32::from(NON_FINITE));
    let mut saturated = _mm256_setzero_si256();
    for (values, bytes) in values.as_chunks::<32>().0.iter().zip(bytes.as_chunks_mut().0) {
        let mut quarter = [_mm256_setzero_si256(); 4];
        for (x, codes_of_8) in values.as_chunks().0.iter().zip(&mut quarter) {
            let x = load_f32(x);
            let finite = is_finite(magnitude(x));
            let x = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_and_si256(finite, keep)));
            let y = _mm256_castsi256_ps(magnitude(_mm256_mul_ps(x, reciprocal)));
            let over = _mm256_cmp_ps::<_CMP_GT_OQ>(y, _mm256_set1_ps(codes.largest()));
            saturated = _mm256_sub_epi32(saturated, _mm256_castps_si256(over));
            *codes_of_8 = _mm256_blendv_epi8(non_finite_code, encode(x, reciprocal), finite);
        }
        store_32(bytes, bytes_of(quarter));
    }
    Attempt { scale, saturated: sum_of_8(saturated) }
}

/// The low bytes of 32 lanes in order.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(quarter: [__m256i; 4]) -> __m256i {
    let low = _mm256_packus_epi32(quarter[0], quarter[1]);
    let high = _mm256_packus_epi32(quarter[2], quarter[3]);
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_8(counts: __m256i) -> u32 {
    let half = _mm_add_epi32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
    let quarter = _mm_add_epi32(half, _mm_shuffle_epi32::<0b00_00_11_10>(half));
    _mm_cvtsi128_si32(_mm_add_epi32(quarter, _mm_shuffle_epi32::<0b00_00_00_01>(quarter))) as u32
}
