//! The 8-bit floats, by table: there are only 65,536 pairs of them.
//!
//! They follow OCP: E4M3 has no infinity and one NaN per sign, E5M2 is a short IEEE type. A
//! result is computed in `f32` and rounded to nearest even; what overflows saturates to the
//! largest finite value, as NCCL's conversions ask for.

use std::sync::OnceLock;

use super::Combine;

/// An 8-bit float: mantissa bits, exponent bias, largest finite pattern, NaN pattern.
pub(super) struct Format {
    mantissa: u32,
    bias: i32,
    largest: u8,
    nan: u8,
    /// The results of each reduction, by both operands; made when first needed.
    tables: [OnceLock<Box<[u8; 1 << 16]>>; 4],
}

pub(super) static E4M3: Format = Format::new(3, 7, 0x7e);
pub(super) static E5M2: Format = Format::new(2, 15, 0x7b);

impl Format {
    const fn new(mantissa: u32, bias: i32, largest: u8) -> Self {
        Self { mantissa, bias, largest, nan: 0x7f, tables: [const { OnceLock::new() }; 4] }
    }

    pub(super) fn fold(&self, how: Combine, partial: &mut [u8], local: &[u8]) {
        let table = self.tables[how as usize].get_or_init(|| self.table(how));
        for (target, own) in partial.iter_mut().zip(local) {
            *target = table[usize::from(*target) << 8 | usize::from(*own)];
        }
    }

    pub(super) fn scale(&self, data: &mut [u8], scalar: u8) {
        let factor = self.decode(scalar);
        let products: [u8; 256] = std::array::from_fn(|bits| self.encode(self.decode(bits as u8) * factor));
        for value in data {
            *value = products[usize::from(*value)];
        }
    }

    fn table(&self, how: Combine) -> Box<[u8; 1 << 16]> {
        let mut table = Box::new([0; 1 << 16]);
        for (index, result) in table.iter_mut().enumerate() {
            let (left, right) = (self.decode((index >> 8) as u8), self.decode(index as u8));
            *result = self.encode(how.apply(left, right));
        }
        table
    }

    fn decode(&self, bits: u8) -> f32 {
        let magnitude = bits & 0x7f;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        if magnitude > self.largest {
            // Beyond the largest finite value E5M2 has one infinity, then NaNs.
            return if self.mantissa == 2 && magnitude == 0x7c { sign * f32::INFINITY } else { f32::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa);
        let fraction = f32::from(magnitude & ((1 << self.mantissa) - 1)) / (1u32 << self.mantissa) as f32;
        match exponent {
            0 => sign * fraction * 2f32.powi(1 - self.bias),
            _ => sign * (1.0 + fraction) * 2f32.powi(exponent - self.bias),
        }
    }

    pub(super) fn encode(&self, value: f32) -> u8 {
        let sign = (value.to_bits() >> 24) as u8 & 0x80;
        if value.is_nan() {
            return sign | self.nan;
        }
        sign | self.encode_magnitude(value.abs())
    }

    fn encode_magnitude(&self, value: f32) -> u8 {
        let exponent = ((value.to_bits() >> 23) as i32 - 127).max(1 - self.bias);
        // In units of the last place of this binade; ties go to even. A carry into the next
        // binade has the right pattern by itself.
        let units = (value * 2f32.powi(self.mantissa as i32 - exponent)).round_ties_even();
        if !units.is_finite() || exponent > self.bias + 1 {
            return self.largest;
        }
        let pattern = (((exponent + self.bias - 1) as u32) << self.mantissa) + units as u32;
        pattern.min(u32::from(self.largest)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_8_bit_pattern_survives_the_round_trip() {
        for format in [&E4M3, &E5M2] {
            for bits in 0..=255u8 {
                let value = format.decode(bits);
                if value.is_finite() {
                    assert_eq!(format.encode(value), bits, "{value}");
                }
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_overflow_saturates() {
        assert_eq!(E4M3.encode(17.0), E4M3.encode(16.0), "17 lies between 16 and 18");
        assert_eq!(E4M3.encode(19.0), E4M3.encode(20.0));
        assert_eq!(E4M3.encode(1e9), 0x7e);
        assert_eq!(E4M3.encode(-465.0), 0xfe);
        assert_eq!(E5M2.encode(f32::INFINITY), 0x7b);
        assert!(E5M2.decode(E5M2.encode(f32::NAN)).is_nan());
    }

    #[test]
    fn the_smallest_subnormals_are_kept() {
        assert_eq!(E4M3.encode(2f32.powi(-9)), 1);
        assert_eq!(E5M2.encode(2f32.powi(-16)), 1);
        assert_eq!(E4M3.encode(2f32.powi(-10)), 0, "a tie with zero goes to even");
        assert_eq!(E4M3.encode(f32::from_bits(1)), 0);
    }
}
