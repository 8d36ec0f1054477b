//! The formats a block can be written in, and the numbers that docs/wire-format.md gives each of them.
//! Names and kernel arguments are defined here once; nothing here computes.

/// How the elements of a packet are coded. The discriminant is the kernels' `format` argument.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    E4M3 = 0,
    E5M2 = 1,
    /// INT8, but for blocks with a non-finite element, which are E4M3.
    Int8 = 2,
    /// Each block in whichever of E4M3 and INT8 suits it.
    Auto = 3,
}

impl Format {
    pub const ALL: [Format; 4] = [Format::E4M3, Format::E5M2, Format::Int8, Format::Auto];

    /// The format that a kernel argument stands for.
    pub fn from_argument(argument: u32) -> Option<Format> {
        Self::ALL.into_iter().find(|format| *format as u32 == argument)
    }

    /// The format of this name, as settings and documents spell it.
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::E4M3 => "e4m3",
            Format::E5M2 => "e5m2",
            Format::Int8 => "int8",
            Format::Auto => "auto",
        }
    }

    /// How a block with this scale word is to be read.
    pub(crate) fn codes(self, scale_word: u16) -> Codes {
        match self {
            Format::E4M3 => Codes::E4M3,
            Format::E5M2 => Codes::E5M2,
            Format::Int8 | Format::Auto if scale_word & INT8_BIT != 0 => Codes::Int8,
            Format::Int8 | Format::Auto => Codes::E4M3,
        }
    }
}

/// The bit of a scale word that says the block's codes are INT8.
pub(crate) const INT8_BIT: u16 = 0x8000;

/// 2^-110, the least scale other than zero: its reciprocal and its products with codes stay normal.
pub(crate) const LEAST_SCALE: f32 = f32::from_bits((127 - 110) << 23);

/// The code of a non-finite element. No block that has one is INT8.
pub(crate) const NON_FINITE: u8 = 0x7f;

/// `auto` takes INT8 if its codes squared add up to this, and to the other for every code but zero.
pub(crate) const LEAST_SQUARES: i32 = 17000;
pub(crate) const SQUARES_PER_CODE: i32 = 128;

/// How the codes of one block are read; `Format::Auto` has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codes {
    E4M3,
    E5M2,
    Int8,
}

impl Codes {
    /// M: the largest value a code stands for.
    pub(crate) const fn largest(self) -> f32 {
        match self {
            Codes::E4M3 => 448.0,
            Codes::E5M2 => 57344.0,
            Codes::Int8 => 127.0,
        }
    }

    /// The largest bf16 number that times `largest` does not exceed FLT_MAX.
    pub(crate) const fn largest_scale(self) -> f32 {
        let bits: u32 = match self {
            Codes::E4M3 => 0x7b12,
            Codes::E5M2 => 0x7792,
            Codes::Int8 => 0x7c01,
        };
        f32::from_bits(bits << 16)
    }

    /// The scale word of a block that has this scale.
    pub(crate) fn word(self, scale: f32) -> u16 {
        let mark = if self == Codes::Int8 { INT8_BIT } else { 0 };
        (scale.to_bits() >> 16) as u16 | mark
    }
}

/// The scale that a scale word holds.
pub(crate) fn scale(scale_word: u16) -> f32 {
    f32::from_bits(u32::from(scale_word & !INT8_BIT) << 16)
}

/// The type of the elements outside the packet. The discriminant orders the kernels' names.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    F16 = 0,
    Bf16 = 1,
    F32 = 2,
}

impl Element {
    pub const ALL: [Element; 3] = [Element::F16, Element::Bf16, Element::F32];

    pub fn from_argument(argument: u32) -> Option<Element> {
        Self::ALL.into_iter().find(|element| *element as u32 == argument)
    }

    /// The element of this name, as kernel symbols and documents spell it.
    pub fn from_name(name: &str) -> Option<Element> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
            Element::F32 => "f32",
        }
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
        }
    }

    /// The largest finite number of the type.
    pub(crate) const fn largest(self) -> f32 {
        match self {
            Element::F16 => 65504.0,
            Element::Bf16 => f32::from_bits(0x7f7f_0000),
            Element::F32 => f32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: [Codes; 3] = [Codes::E4M3, Codes::E5M2, Codes::Int8];

    #[test]
    fn the_largest_scale_is_the_last_whose_largest_value_is_finite() {
        for codes in CODES {
            let scale = codes.largest_scale();
            let next = f32::from_bits(scale.to_bits() + 0x1_0000);
            let limit = f64::from(f32::MAX) / f64::from(codes.largest());
            assert!(f64::from(scale) <= limit, "{codes:?}");
            assert!(f64::from(next) > limit, "{codes:?}");
        }
    }

    #[test]
    fn the_least_scale_is_two_to_the_minus_110() {
        assert_eq!(f64::from(LEAST_SCALE), 2f64.powi(-110));
    }

    #[test]
    fn arguments_and_names_lead_back_to_their_format_and_element() {
        for format in Format::ALL {
            assert_eq!(Format::from_argument(format as u32), Some(format));
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        for element in Element::ALL {
            assert_eq!(Element::from_argument(element as u32), Some(element));
            assert_eq!(Element::from_name(element.name()), Some(element));
        }
        assert_eq!(Format::from_argument(4), None);
        assert_eq!(Element::from_argument(3), None);
        assert_eq!(Format::from_name("E4M3"), None);
    }
}
