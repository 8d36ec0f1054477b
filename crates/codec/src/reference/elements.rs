//! Elements as they lie in the user's buffers, to and from binary32. Every NaN is written with the same
//! bits, since what processors make of one differs and all ranks are to end with the same bits.

use half::{bf16, f16};

use crate::format::Element;
use crate::packet::Values;

pub(crate) fn load(element: Element, input: &[u8], values: &mut Values) {
    values.fill(0.0);
    match element {
        Element::F16 => widen(input, values, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Element::Bf16 => widen(input, values, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        Element::F32 => widen(input, values, f32::from_le_bytes),
    }
}

pub(crate) fn store(element: Element, values: &Values, output: &mut [u8]) {
    match element {
        Element::F16 => narrow(values, output, |value| to_f16(value).to_le_bytes()),
        Element::Bf16 => narrow(values, output, |value| to_bf16(value).to_le_bytes()),
        Element::F32 => narrow(values, output, |value| to_f32(value).to_le_bytes()),
    }
}

pub(crate) fn round(element: Element, values: &mut Values) {
    for value in values {
        *value = match element {
            Element::F16 => to_f16(*value).to_f32(),
            Element::Bf16 => to_bf16(*value).to_f32(),
            Element::F32 => to_f32(*value),
        };
    }
}

fn widen<const SIZE: usize>(input: &[u8], values: &mut Values, to_f32: impl Fn([u8; SIZE]) -> f32) {
    for (bytes, value) in input.as_chunks().0.iter().zip(values) {
        *value = to_f32(*bytes);
    }
}

fn narrow<const SIZE: usize>(values: &Values, output: &mut [u8], to_bytes: impl Fn(f32) -> [u8; SIZE]) {
    for (value, bytes) in values.iter().zip(output.as_chunks_mut().0) {
        *bytes = to_bytes(*value);
    }
}

fn to_f16(value: f32) -> f16 {
    if value.is_nan() { f16::from_bits(0x7fff) } else { f16::from_f32(value) }
}

fn to_bf16(value: f32) -> bf16 {
    if value.is_nan() { bf16::from_bits(0x7fff) } else { bf16::from_f32(value) }
}

fn to_f32(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fff_ffff) } else { value }
}
