//! Writing a block: the reference's steps over 32 elements at a time. The scale is the reference's own;
//! under `auto` both attempts are made in full, and the sums of their errors follow the same tree.

use std::arch::x86_64::*;

use super::encode::{E4M3, E5M2, Encoded, float8, int8, is_finite, magnitude};
use super::memory::{load_f32, store_32};
use crate::format::{Codes, Format};
use crate::packet::{BLOCK, BlockCodes, Values, Written};
use crate::reference::scale;

#[target_feature(enable = "avx2,f16c")]
pub(super) fn block(values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
    let survey = survey(values);
    let (kind, attempt) = match format {
        Format::E4M3 => (Codes::E4M3, attempt(values, &survey, Codes::E4M3, codes)),
        Format::E5M2 => (Codes::E5M2, attempt(values, &survey, Codes::E5M2, codes)),
        Format::Int8 => (Codes::Int8, attempt(values, &survey, Codes::Int8, codes)),
        Format::Auto => better(values, &survey, codes),
    };
    Written {
        scale_word: kind.word(attempt.scale),
        saturated: attempt.saturated,
        non_finite: survey.non_finite,
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn better(values: &Values, survey: &Survey, codes: &mut BlockCodes) -> (Codes, Attempt) {
    let e4m3 = attempt(values, survey, Codes::E4M3, codes);
    if survey.largest == 0.0 {
        return (Codes::E4M3, e4m3);
    }
    let mut int8_codes = [0; BLOCK];
    let int8 = attempt(values, survey, Codes::Int8, &mut int8_codes);
    let k = e4m3.scale / int8.scale;
    if int8.error < e4m3.error * (k * k) {
        *codes = int8_codes;
        return (Codes::Int8, int8);
    }
    (Codes::E4M3, e4m3)
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
    /// The sum of squared errors under the scale 1.
    error: f32,
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn attempt(values: &Values, survey: &Survey, codes: Codes, bytes: &mut BlockCodes) -> Attempt {
    match codes {
        Codes::E4M3 => attempt_with(values, survey, codes, bytes, |y| float8(y, &E4M3)),
        Codes::E5M2 => attempt_with(values, survey, codes, bytes, |y| float8(y, &E5M2)),
        Codes::Int8 => attempt_with(values, survey, codes, bytes, |y| int8(y)),
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn attempt_with(
    values: &Values,
    survey: &Survey,
    codes: Codes,
    bytes: &mut BlockCodes,
    encode: impl Fn(__m256) -> Encoded,
) -> Attempt {
    let scale = scale(survey.largest, codes);
    // A zero block has no reciprocal, and not even its signs are kept.
    let (keep, reciprocal) = if scale == 0.0 { (0, 0.0) } else { (-1, 1.0 / scale) };
    let (keep, reciprocal) = (_mm256_set1_epi32(keep), _mm256_set1_ps(reciprocal));
    let non_finite_code = _mm256_set1_epi32(i32::from(codes.non_finite()));
    let mut saturated = _mm256_setzero_si256();
    let mut lanes = [_mm256_setzero_ps(); 4];
    let quarters = values.as_chunks::<32>().0.iter().zip(bytes.as_chunks_mut().0);
    for ((values, bytes), lanes) in quarters.zip(&mut lanes) {
        let mut quarter = [_mm256_setzero_si256(); 4];
        let mut squares = [_mm256_setzero_ps(); 4];
        for ((x, codes_of_8), square) in values.as_chunks().0.iter().zip(&mut quarter).zip(&mut squares) {
            let x = load_f32(x);
            let finite = is_finite(magnitude(x));
            let kept = _mm256_castsi256_ps(_mm256_and_si256(finite, keep));
            let y = _mm256_mul_ps(_mm256_and_ps(x, kept), reciprocal);
            let y_magnitude = _mm256_castsi256_ps(magnitude(y));
            let over = _mm256_cmp_ps::<_CMP_GT_OQ>(y_magnitude, _mm256_set1_ps(codes.largest()));
            saturated = _mm256_sub_epi32(saturated, _mm256_castps_si256(over));
            let encoded = encode(y);
            *codes_of_8 = _mm256_blendv_epi8(non_finite_code, encoded.codes, finite);
            let w = _mm256_sub_ps(encoded.magnitudes, y_magnitude);
            *square = _mm256_mul_ps(w, w);
        }
        *lanes = sums_of_4(squares);
        store_32(bytes, bytes_of(quarter));
    }
    Attempt { scale, saturated: sum_of_8(saturated), error: tree_sum(lanes) }
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

/// The sums of four neighbours each, of the reference's lanes 0, 2, 4, 6 and then 1, 3, 5, 7.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_4(squares: [__m256; 4]) -> __m256 {
    let low = _mm256_hadd_ps(squares[0], squares[1]);
    let high = _mm256_hadd_ps(squares[2], squares[3]);
    _mm256_hadd_ps(low, high)
}

/// The reference's tree over its 32 lanes, `sums_of_4` of each quarter.
#[inline]
#[target_feature(enable = "avx2")]
fn tree_sum(lanes: [__m256; 4]) -> f32 {
    let by_16 = [_mm256_add_ps(lanes[0], lanes[2]), _mm256_add_ps(lanes[1], lanes[3])];
    let by_8 = _mm256_add_ps(by_16[0], by_16[1]);
    let by_4 = _mm256_add_ps(by_8, _mm256_permute_ps::<0b01_00_11_10>(by_8));
    let by_2 = _mm256_add_ps(by_4, _mm256_permute_ps::<0b10_11_00_01>(by_4));
    let [even, odd] = [_mm256_castps256_ps128(by_2), _mm256_extractf128_ps::<1>(by_2)];
    _mm_cvtss_f32(_mm_add_ss(even, odd))
}
