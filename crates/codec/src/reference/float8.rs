//! binary32 to and from the two 8-bit float formats of the OCP specification, in integer arithmetic:
//! E4M3 (no infinity, one NaN per sign) and E5M2 (as IEEE 754).
//! Rounds to nearest even and saturates; a NaN must not come in, writing a block sees to that.

/// An 8-bit float format: sign, exponent with this bias, mantissa of this many bits.
struct Layout {
    mantissa_bits: u32,
    bias: i32,
    largest_code: u8,
}

const E4M3: Layout = Layout { mantissa_bits: 3, bias: 7, largest_code: 0x7e };
const E5M2: Layout = Layout { mantissa_bits: 2, bias: 15, largest_code: 0x7b };

/// The E4M3 code nearest to a finite value.
pub fn to_e4m3(value: f32) -> u8 {
    E4M3.encode(value)
}

/// The E5M2 code nearest to a finite value.
pub fn to_e5m2(value: f32) -> u8 {
    E5M2.encode(value)
}

/// The value of an E4M3 code; NaN for 0x7f and 0xff.
pub fn from_e4m3(code: u8) -> f32 {
    E4M3.decode(code)
}

/// The value of an E5M2 code; NaN where the exponent is all ones, which no writer makes but as 0x7f.
pub fn from_e5m2(code: u8) -> f32 {
    E5M2.decode(code)
}

impl Layout {
    fn encode(&self, value: f32) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let bits = value.to_bits() & 0x7fff_ffff;
        let exponent = (bits >> 23) as i32 - 127;
        let significand = (bits & 0x7f_ffff) | 0x80_0000;
        // Bits of the significand below the last one kept; below the least normal number more are lost.
        let lost = 23 - self.mantissa_bits as i32 + (1 - self.bias - exponent).max(0);
        // Shifted by 25 or more, every significand is below half of the last bit kept.
        let kept = if lost > 24 { 0 } else { round_shift(significand, lost as u32) };
        // A kept significand of a normal number carries the leading one into the exponent field, as does
        // one that was rounded up to the next power of two.
        let field = (exponent + self.bias - 1).max(0) as u32;
        let magnitude = (field << self.mantissa_bits) + kept;
        sign | magnitude.min(u32::from(self.largest_code)) as u8
    }

    fn decode(&self, code: u8) -> f32 {
        let magnitude = code & 0x7f;
        if magnitude > self.largest_code {
            return f32::NAN;
        }
        let mantissa = u32::from(magnitude) & ((1 << self.mantissa_bits) - 1);
        let field = i32::from(magnitude >> self.mantissa_bits);
        let (significand, exponent) = match field {
            0 => (mantissa, 1 - self.bias),
            _ => (mantissa | 1 << self.mantissa_bits, field - self.bias),
        };
        let value = significand as f32 * power_of_two(exponent - self.mantissa_bits as i32);
        if code & 0x80 != 0 { -value } else { value }
    }
}

/// `value` / 2^`shift`, rounded to nearest even.
fn round_shift(value: u32, shift: u32) -> u32 {
    let odd = (value >> shift) & 1;
    (value + (1 << (shift - 1)) - 1 + odd) >> shift
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}
