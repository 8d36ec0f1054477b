//! Vectors to and from arrays of their size: the only places of this implementation that touch memory
//! by pointer. None of them asks for an alignment.

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_f32(values: &[f32; 8]) -> __m256 {
    // SAFETY: the array has the 32 bytes that are read.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_f32(values: &mut [f32; 8], vector: __m256) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_16(bytes: &mut [u8; 16], vector: __m128i) {
    // SAFETY: the array has the 16 bytes that are written.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the array has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_32(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}
