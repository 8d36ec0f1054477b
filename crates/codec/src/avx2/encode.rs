//! Eight scaled elements to their codes. E4M3 and E5M2 are rounded within binary32: normal numbers in
//! their bits, subnormal ones by adding a number whose last place is the least subnormal.

use std::arch::x86_64::*;

use crate::format::Codes;

/// The codes of eight elements, one in each lane, and the magnitude of the value each stands for.
pub(super) struct Encoded {
    pub(super) codes: __m256i,
    pub(super) magnitudes: __m256,
}

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
    largest: f32,
}

pub(super) const E4M3: Float8 = Float8 {
    shift: 20,
    rebias: 120 << 3,
    least_normal: 1.0 / 64.0,
    rounder: 16384.0,
    largest_code: 0x7e,
    largest: Codes::E4M3.largest(),
};

pub(super) const E5M2: Float8 = Float8 {
    shift: 21,
    rebias: 112 << 2,
    least_normal: 1.0 / 16384.0,
    rounder: 128.0,
    largest_code: 0x7b,
    largest: Codes::E5M2.largest(),
};

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn float8(y: __m256, format: &Float8) -> Encoded {
    let shift = _mm_cvtsi32_si128(format.shift);
    let bits = magnitude(y);
    let odd = _mm256_and_si256(_mm256_srl_epi32(bits, shift), _mm256_set1_epi32(1));
    let half = _mm256_set1_epi32((1 << (format.shift - 1)) - 1);
    let normal = _mm256_srl_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, half), odd), shift);
    let normal_value = _mm256_castsi256_ps(_mm256_sll_epi32(normal, shift));
    let normal_code = _mm256_sub_epi32(normal, _mm256_set1_epi32(format.rebias));

    let rounder = _mm256_set1_ps(format.rounder);
    let rounded = _mm256_add_ps(_mm256_castsi256_ps(bits), rounder);
    let small_value = _mm256_sub_ps(rounded, rounder);
    let small_code = _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_castps_si256(rounder));

    let least_normal = _mm256_set1_ps(format.least_normal);
    let small = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_castsi256_ps(bits), least_normal);
    let value = _mm256_blendv_ps(normal_value, small_value, small);
    let code = _mm256_blendv_epi8(normal_code, small_code, _mm256_castps_si256(small));
    let sign = _mm256_and_si256(_mm256_srli_epi32::<24>(_mm256_castps_si256(y)), _mm256_set1_epi32(0x80));
    Encoded {
        codes: _mm256_or_si256(_mm256_min_epi32(code, _mm256_set1_epi32(format.largest_code)), sign),
        magnitudes: _mm256_min_ps(value, _mm256_set1_ps(format.largest)),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn int8(y: __m256) -> Encoded {
    let nearest = _mm256_cvtps_epi32(y);
    let kept = _mm256_min_epi32(nearest, _mm256_set1_epi32(127));
    let kept = _mm256_max_epi32(kept, _mm256_set1_epi32(-127));
    Encoded {
        codes: _mm256_and_si256(kept, _mm256_set1_epi32(0xff)),
        magnitudes: _mm256_cvtepi32_ps(_mm256_abs_epi32(kept)),
    }
}
