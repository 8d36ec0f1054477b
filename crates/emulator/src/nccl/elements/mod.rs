//! Arithmetic on buffers of each NCCL datatype: combining, scaling, dividing.
//!
//! Every step works in the datatype itself, as NCCL's ring does: 16-bit and 8-bit floats are
//! widened to `f32`, combined, and rounded back (8-bit ones saturate) at each ring step, so that
//! a sum over ranks has the rounding of a chain of adds. Called by the ring engine on bytes
//! that it owns; knows nothing of ranks or memory.

mod eight_bit;
mod narrow;
mod native;

use airamp_vendor_abi::nccl::DataType;

use eight_bit::{E4M3, E5M2};
use narrow::{Bf16, F16};

/// How two contributions become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Sum,
    Prod,
    Max,
    Min,
}

impl Combine {
    #[inline(always)]
    fn apply(self, left: f32, right: f32) -> f32 {
        match self {
            Self::Sum => left + right,
            Self::Prod => left * right,
            Self::Max if left > right || right.is_nan() => left,
            Self::Min if left < right || right.is_nan() => left,
            Self::Max | Self::Min => right,
        }
    }
}

/// `partial = combine(partial, local)` over whole elements.
pub(crate) fn combine(how: Combine, datatype: DataType, partial: &mut [u8], local: &[u8]) {
    match datatype {
        DataType::INT8 => native::fold::<i8, 1>(how, partial, local),
        DataType::UINT8 => native::fold::<u8, 1>(how, partial, local),
        DataType::INT32 => native::fold::<i32, 4>(how, partial, local),
        DataType::UINT32 => native::fold::<u32, 4>(how, partial, local),
        DataType::INT64 => native::fold::<i64, 8>(how, partial, local),
        DataType::UINT64 => native::fold::<u64, 8>(how, partial, local),
        DataType::FLOAT32 => native::fold::<f32, 4>(how, partial, local),
        DataType::FLOAT64 => native::fold::<f64, 8>(how, partial, local),
        DataType::FLOAT16 => narrow::fold::<F16>(how, partial, local),
        DataType::BFLOAT16 => narrow::fold::<Bf16>(how, partial, local),
        DataType::FLOAT8_E4M3 => E4M3.fold(how, partial, local),
        DataType::FLOAT8_E5M2 => E5M2.fold(how, partial, local),
        _ => unreachable!("the datatype was checked when the call came in"),
    }
}

/// `data *= scalar`, the scalar being one element of the same datatype.
pub(crate) fn scale(datatype: DataType, data: &mut [u8], scalar: &[u8]) {
    match datatype {
        DataType::INT8 => native::scale::<i8, 1>(data, scalar),
        DataType::UINT8 => native::scale::<u8, 1>(data, scalar),
        DataType::INT32 => native::scale::<i32, 4>(data, scalar),
        DataType::UINT32 => native::scale::<u32, 4>(data, scalar),
        DataType::INT64 => native::scale::<i64, 8>(data, scalar),
        DataType::UINT64 => native::scale::<u64, 8>(data, scalar),
        DataType::FLOAT32 => native::scale::<f32, 4>(data, scalar),
        DataType::FLOAT64 => native::scale::<f64, 8>(data, scalar),
        DataType::FLOAT16 => narrow::scale::<F16>(data, scalar),
        DataType::BFLOAT16 => narrow::scale::<Bf16>(data, scalar),
        DataType::FLOAT8_E4M3 => E4M3.scale(data, scalar[0]),
        DataType::FLOAT8_E5M2 => E5M2.scale(data, scalar[0]),
        _ => unreachable!("the datatype was checked when the call came in"),
    }
}

/// `data /= ranks` for the integer types, truncating: the last step of an integer average.
pub(crate) fn divide(datatype: DataType, data: &mut [u8], ranks: usize) {
    match datatype {
        DataType::INT8 => native::map::<i8, 1>(data, |v| (v as i64 / ranks as i64) as i8),
        DataType::UINT8 => native::map::<u8, 1>(data, |v| (v as u64 / ranks as u64) as u8),
        DataType::INT32 => native::map::<i32, 4>(data, |v| (v as i64 / ranks as i64) as i32),
        DataType::UINT32 => native::map::<u32, 4>(data, |v| (v as u64 / ranks as u64) as u32),
        DataType::INT64 => native::map::<i64, 8>(data, |v| v / ranks as i64),
        DataType::UINT64 => native::map::<u64, 8>(data, |v| v / ranks as u64),
        _ => unreachable!("floats are averaged by scaling the inputs"),
    }
}

pub(crate) fn is_float(datatype: DataType) -> bool {
    datatype.0 >= DataType::FLOAT16.0
}

/// `1 / ranks` as one element of a float datatype.
pub(crate) fn reciprocal(datatype: DataType, ranks: usize) -> Vec<u8> {
    let value = 1.0 / ranks as f64;
    match datatype {
        DataType::FLOAT64 => value.to_ne_bytes().to_vec(),
        DataType::FLOAT32 => (value as f32).to_ne_bytes().to_vec(),
        DataType::FLOAT16 => narrow::encode::<F16>(value as f32),
        DataType::BFLOAT16 => narrow::encode::<Bf16>(value as f32),
        DataType::FLOAT8_E4M3 => vec![E4M3.encode(value as f32)],
        DataType::FLOAT8_E5M2 => vec![E5M2.encode(value as f32)],
        _ => unreachable!("integers are averaged by dividing the sum"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_sum_rounds_at_every_step() {
        let one = half::f16::from_f32(2048.0).to_ne_bytes();
        let small = half::f16::from_f32(1.0).to_ne_bytes();
        let mut partial = one.to_vec();
        combine(Combine::Sum, DataType::FLOAT16, &mut partial, &small);
        combine(Combine::Sum, DataType::FLOAT16, &mut partial, &small);
        assert_eq!(partial, one, "2048 + 1 rounds to even twice, it does not become 2050");
    }

    #[test]
    fn integer_sums_wrap_and_their_average_truncates() {
        let mut bytes = vec![200u8, 3];
        combine(Combine::Sum, DataType::UINT8, &mut bytes, &[100, 4]);
        assert_eq!(bytes, [44, 7]);
        divide(DataType::UINT8, &mut bytes, 2);
        assert_eq!(bytes, [22, 3]);
        let mut signed = (-7i32).to_ne_bytes().to_vec();
        divide(DataType::INT32, &mut signed, 2);
        assert_eq!(signed, (-3i32).to_ne_bytes());
    }

    #[test]
    fn a_maximum_prefers_the_number_over_nan() {
        let mut partial = f32::NAN.to_ne_bytes().to_vec();
        combine(Combine::Max, DataType::FLOAT32, &mut partial, &2f32.to_ne_bytes());
        assert_eq!(partial, 2f32.to_ne_bytes());
    }

    #[test]
    fn a_long_buffer_gives_the_same_as_its_elements_alone() {
        let left: Vec<u8> =
            (0..2000u16).flat_map(|i| half::bf16::from_f32(i as f32 * 0.37).to_ne_bytes()).collect();
        let right: Vec<u8> = left.iter().rev().copied().collect();
        let mut whole = left.clone();
        combine(Combine::Sum, DataType::BFLOAT16, &mut whole, &right);
        for (index, pair) in left.chunks_exact(2).enumerate() {
            let mut one = pair.to_vec();
            combine(Combine::Sum, DataType::BFLOAT16, &mut one, &right[2 * index..2 * index + 2]);
            assert_eq!(one, whole[2 * index..2 * index + 2], "element {index}");
        }
    }
}
