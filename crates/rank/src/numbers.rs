//! The datatypes of NCCL as numbers: every test value is a small number that `f64`
//! holds exactly, so one encoder and one decoder serve all types. Integers wrap as
//! the vendor's arithmetic does.

use airamp_vendor_abi::nccl::DataType;
use half::{bf16, f16};

/// The bytes of `value` in `datatype`, little-endian, appended to `out`.
pub(crate) fn encode(datatype: DataType, value: f64, out: &mut Vec<u8>) {
    match datatype {
        // By way of i128, which holds every 64-bit integer, so that `as` wraps.
        DataType::INT8 | DataType::UINT8 => out.push(value as i128 as u8),
        DataType::INT32 | DataType::UINT32 => out.extend((value as i128 as u32).to_le_bytes()),
        DataType::INT64 | DataType::UINT64 => out.extend((value as i128 as u64).to_le_bytes()),
        DataType::FLOAT16 => out.extend(f16::from_f64(value).to_le_bytes()),
        DataType::BFLOAT16 => out.extend(bf16::from_f64(value).to_le_bytes()),
        DataType::FLOAT32 => out.extend((value as f32).to_le_bytes()),
        DataType::FLOAT64 => out.extend(value.to_le_bytes()),
        DataType::FLOAT8_E4M3 | DataType::FLOAT8_E5M2 => out.push(nearest_small_float(datatype, value)),
        _ => {}
    }
}

/// The value of the element at the front of `bytes`.
pub(crate) fn decode(datatype: DataType, bytes: &[u8]) -> f64 {
    fn front<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut front = [0; N];
        front.copy_from_slice(&bytes[..N]);
        front
    }
    match datatype {
        DataType::INT8 => f64::from(bytes[0] as i8),
        DataType::UINT8 => f64::from(bytes[0]),
        DataType::INT32 => f64::from(i32::from_le_bytes(front(bytes))),
        DataType::UINT32 => f64::from(u32::from_le_bytes(front(bytes))),
        DataType::INT64 => i64::from_le_bytes(front(bytes)) as f64,
        DataType::UINT64 => u64::from_le_bytes(front(bytes)) as f64,
        DataType::FLOAT16 => f16::from_le_bytes(front(bytes)).to_f64(),
        DataType::BFLOAT16 => bf16::from_le_bytes(front(bytes)).to_f64(),
        DataType::FLOAT32 => f64::from(f32::from_le_bytes(front(bytes))),
        DataType::FLOAT64 => f64::from_le_bytes(front(bytes)),
        DataType::FLOAT8_E4M3 => small_float(bytes[0], 3),
        DataType::FLOAT8_E5M2 => small_float(bytes[0], 2),
        _ => f64::NAN,
    }
}

/// The distance from 1 to the next number, for types that round; `None` for integers.
pub(crate) fn epsilon(datatype: DataType) -> Option<f64> {
    let mantissa = match datatype {
        DataType::FLOAT8_E5M2 => 2,
        DataType::FLOAT8_E4M3 => 3,
        DataType::BFLOAT16 => 7,
        DataType::FLOAT16 => 10,
        DataType::FLOAT32 => 23,
        DataType::FLOAT64 => 52,
        _ => return None,
    };
    Some((-f64::from(mantissa)).exp2())
}

pub(crate) fn is_unsigned(datatype: DataType) -> bool {
    matches!(datatype, DataType::UINT8 | DataType::UINT32 | DataType::UINT64)
}

/// An 8-bit float of the OCP formats, with `mantissa` bits of it (3: E4M3, 2: E5M2).
fn small_float(bits: u8, mantissa: u32) -> f64 {
    let bias = if mantissa == 3 { 7 } else { 15 };
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits & 0x7f) >> mantissa);
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1u32 << mantissa);
    match (mantissa, bits & 0x7f) {
        (3, 0x7f) => f64::NAN,
        (2, 0x7c) => sign * f64::INFINITY,
        (2, 0x7d..) => f64::NAN,
        _ if exponent == 0 => sign * fraction * f64::from(1 - bias).exp2(),
        _ => sign * (1.0 + fraction) * f64::from(exponent - bias).exp2(),
    }
}

fn nearest_small_float(datatype: DataType, value: f64) -> u8 {
    let distance = |bits: u8| (decode(datatype, &[bits]) - value).abs();
    // Positive zero comes first and wins a tie with negative zero.
    let finite = (0..=u8::MAX).filter(|bits| distance(*bits).is_finite());
    finite.min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(datatype: DataType, value: f64) -> f64 {
        let mut bytes = Vec::new();
        encode(datatype, value, &mut bytes);
        assert_eq!(Some(bytes.len()), datatype.size());
        decode(datatype, &bytes)
    }

    #[test]
    fn every_type_keeps_small_whole_numbers() {
        for (datatype, name) in DataType::ALL {
            for value in [0.0, 1.0, 2.0, 3.0, 4.0] {
                assert_eq!(round_trip(datatype, value), value, "{name}");
            }
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(round_trip(DataType::INT8, 130.0), -126.0);
        assert_eq!(round_trip(DataType::UINT8, 256.0 + 5.0), 5.0);
        assert_eq!(round_trip(DataType::UINT64, 2f64.powi(63)), 2f64.powi(63));
        assert_eq!(round_trip(DataType::INT64, -7.0), -7.0);
    }

    #[test]
    fn the_eight_bit_floats_have_the_ocp_limits() {
        assert_eq!(decode(DataType::FLOAT8_E4M3, &[0x7e]), 448.0);
        assert_eq!(decode(DataType::FLOAT8_E5M2, &[0x7b]), 57344.0);
        assert_eq!(decode(DataType::FLOAT8_E4M3, &[0x01]), 2f64.powi(-9));
        assert!(decode(DataType::FLOAT8_E4M3, &[0xff]).is_nan());
        assert_eq!(decode(DataType::FLOAT8_E5M2, &[0xfc]), f64::NEG_INFINITY);
    }
}
