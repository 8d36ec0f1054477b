//! Reading a block: every code times the scale, kept within the range of the element type.

use super::float8;
use crate::format::{Codes, Element, Format, scale};
use crate::packet::{BlockCodes, Values};

pub(crate) fn block(
    codes: &BlockCodes,
    scale_word: u16,
    format: Format,
    element: Element,
    values: &mut Values,
) {
    let kind = format.codes(scale_word);
    let scale = scale(scale_word);
    let limit = element.largest();
    for (value, code) in values.iter_mut().zip(codes) {
        // `clamp` lets a NaN through.
        *value = (code_value(*code, kind) * scale).clamp(-limit, limit);
    }
}

/// What a code stands for under the scale 1; NaN for a non-finite element.
fn code_value(code: u8, codes: Codes) -> f32 {
    match codes {
        Codes::E4M3 => float8::from_e4m3(code),
        Codes::E5M2 => float8::from_e5m2(code),
        Codes::Int8 => f32::from(code as i8),
    }
}
