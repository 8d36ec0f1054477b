//! The block arithmetic with AVX2, F16C and FMA instructions: the same bits as the reference, some ten times
//! as fast. Only what the reference does, eight elements at a time; no choice of its own.
//! Called through `Avx2::detect` alone, which is what makes the instructions safe to run.

mod elements;
mod encode;
mod memory;
mod read;
mod write;

use crate::format::{Element, Format};
use crate::packet::{Arithmetic, BlockCodes, Values, Written};

/// Proof that this processor has the instructions: `detect` is the only way to one.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("fma"))
        .then_some(Avx2(()))
    }
}

impl Arithmetic for Avx2 {
    fn load(self, element: Element, input: &[u8], values: &mut Values) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { elements::load(element, input, values) }
    }

    fn write(self, values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { write::block(values, format, codes) }
    }

    fn read(
        self,
        codes: &BlockCodes,
        scale_word: u16,
        format: Format,
        element: Element,
        values: &mut Values,
    ) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { read::block(codes, scale_word, format, element, values) }
    }

    fn multiply(self, values: &mut Values, factor: f32) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { elements::multiply(values, factor) }
    }

    fn add(self, sum: &mut Values, values: &Values) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { elements::add(sum, values) }
    }

    fn round(self, element: Element, values: &mut Values) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { elements::round(element, values) }
    }

    fn store(self, element: Element, values: &Values, output: &mut [u8]) {
        // SAFETY: `self` proves that the processor has AVX2, F16C and FMA.
        unsafe { elements::store(element, values, output) }
    }
}
