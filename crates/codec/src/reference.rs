//! The reference: docs/wire-format.md in safe, plain Rust, one element at a time. Every other
//! implementation is measured against it, so it favours being read over being fast.
//! Called by tests, by the choice in lib.rs where the processor lacks AVX2, and by whoever needs a judge.
#![forbid(unsafe_code)]

mod elements;
pub mod float8;
mod read;
mod write;

use crate::format::{Element, Format};
use crate::packet::{self, Arithmetic, BlockCodes, Values, Written};
use crate::stats::Stats;
use crate::tag::Tag;
#[cfg(target_arch = "x86_64")]
pub(crate) use write::scale;

/// As [`crate::quantise`].
pub fn quantise(element: Element, input: &[u8], format: Format, tag: Tag, packet: &mut [u8]) -> Stats {
    packet::quantise(Reference, element, input, format, tag, packet)
}

/// As [`crate::dequantise`].
pub fn dequantise(
    element: Element,
    packet: &[u8],
    count: usize,
    format: Format,
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    packet::dequantise(Reference, element, packet, count, format, tag, output)
}

/// As [`crate::dequantise_sum`].
pub fn dequantise_sum(
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    packet::dequantise_sum(Reference, element, packets, count, format, average, tag, output)
}

/// As [`crate::reduce`].
pub fn reduce(
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    tag: Tag,
    out_tag: Tag,
    out_packet: &mut [u8],
) -> Stats {
    packet::reduce(Reference, element, packets, count, format, average, tag, out_tag, out_packet)
}

#[derive(Clone, Copy)]
pub(crate) struct Reference;

impl Arithmetic for Reference {
    fn load(self, element: Element, input: &[u8], values: &mut Values) {
        elements::load(element, input, values);
    }

    fn write(self, values: &Values, format: Format, codes: &mut BlockCodes) -> Written {
        write::block(values, format, codes)
    }

    fn read(
        self,
        codes: &BlockCodes,
        scale_word: u16,
        format: Format,
        element: Element,
        values: &mut Values,
    ) {
        read::block(codes, scale_word, format, element, values);
    }

    fn multiply(self, values: &mut Values, factor: f32) {
        values.iter_mut().for_each(|value| *value *= factor);
    }

    fn add(self, sum: &mut Values, values: &Values) {
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    fn round(self, element: Element, values: &mut Values) {
        elements::round(element, values);
    }

    fn store(self, element: Element, values: &Values, output: &mut [u8]) {
        elements::store(element, values, output);
    }
}
