//! Eight elements to their codes. E4M3 and E5M2 are rounded within binary32: normal numbers in
//! their bits, subnormal ones by adding a number whose last place is the least subnormal.

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn magnitude(values: __m256) -> __m256i {
    _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7fff_ffff))
}

/// Lanes of all ones where the magnitude is that of a finite number.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn is_finite(magnitude: __m256i) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f80_0000), magnitude)
}

/// The bit patterns of E4M3 and E5M2, as the encoder needs them.
pub(super) struct Float8 {
    /// How far the mantissa lies above its place in binary32.
    shift: i32,
    /// The difference of the biases, in units of the code.
    rebias: i32,
    least_normal: f32,
    /// A power of two whose last place is the least subnormal: adding it rounds to that place.
    rounder: f32,
    largest_code: i32,
}

pub(super) const E4M3: Float8 =
    Float8 { shift: 20, rebias: 120 << 3, least_normal: 1.0 / 64.0, rounder: 16384.0, largest_code: 0x7e };

pub(super) const E5M2: Float8 =
    Float8 { shift: 21, rebias: 112 << 2, least_normal: 1.0 / 16384.0, rounder: 128.0, largest_code: 0x7b };

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn float8(y: __m256, format: &Float8) -> __m256i {
    let shift = _mm_cvtsi32_si128(format.shift);
    let bits = magnitude(y);
    let odd = _mm256_and_si256(_mm256_srl_epi32(bits, shift), _mm256_set1_epi32(1));
    let half = _mm256_set1_epi32((1 << (format.shift - 1)) - 1);
    let normal = _mm256_srl_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, half), odd), shift);
    let normal_code = _mm256_sub_epi32(normal, _mm256_set1_epi32(format.rebias));

    let rounder = _mm256_set1_ps(format.rounder);
    let rounded = _mm256_add_ps(_mm256_castsi256_ps(bits), rounder);
    let small_code = _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_castps_si256(rounder));

    let least_normal = _mm256_set1_ps(format.least_normal);
    let small = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_castsi256_ps(bits), least_normal);
    let code = _mm256_blendv_epi8(normal_code, small_code, _mm256_castps_si256(small));
    let sign = _mm256_and_si256(_mm256_srli_epi32::<24>(_mm256_castps_si256(y)), _mm256_set1_epi32(0x80));
    _mm256_or_si256(_mm256_min_epi32(code, _mm256_set1_epi32(format.largest_code)), sign)
}

/// Next to 1.5 · 2^23 the last place is 1: the adder rounds the product, which is exact, to an integer.
/// No element exceeds the largest code by half: a scale is never that much too small.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn int8(x: __m256, reciprocal: __m256) -> __m256i {
    let sum = _mm256_fmadd_ps(x, reciprocal, _mm256_set1_ps(12_582_912.0));
    _mm256_and_si256(_mm256_castps_si256(sum), _mm256_set1_epi32(0xff))
}
