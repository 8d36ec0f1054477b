//! Numbers as the formats write them: whole ones exactly, others with as many digits as tell them apart,
//! and bucket bounds in the one spelling that OpenMetrics calls canonical.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    pub(super) fn is_finite(self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Real(value) => value.is_finite(),
        }
    }

    pub(super) fn is_negative(self) -> bool {
        matches!(self, Self::Real(value) if value < 0.0)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => Self::Whole(a.saturating_add(b)),
            (a, b) => Self::Real(a.real() + b.real()),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            // Debug, and not Display, which writes 1e300 with three hundred zeros.
            Self::Real(value) => write!(f, "{value:?}"),
        }
    }
}

/// What a sample can be made of; `None` is no sample.
pub(super) trait Value {
    fn number(self) -> Option<Number>;
}

impl Value for u64 {
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self))
    }
}

impl Value for u32 {
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self.into()))
    }
}

impl Value for bool {
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self.into()))
    }
}

impl Value for f64 {
    fn number(self) -> Option<Number> {
        Some(Number::Real(self))
    }
}

impl<V: Value> Value for Option<V> {
    fn number(self) -> Option<Number> {
        self.and_then(Value::number)
    }
}

/// The value of a label `le`: an exponent of at least two digits below 0.0001 and from a million on, else a
/// decimal number that always has a point. A second spelling of a bound would be a second series.
pub(super) fn bound(value: f64) -> String {
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_the_canonical_spelling() {
        let spelled = [
            (1e-6, "1e-06"),
            (1.6e-5, "1.6e-05"),
            (1e-4, "0.0001"),
            (0.001024, "0.001024"),
            (1.0, "1.0"),
            (134.217728, "134.217728"),
            (262_144.0, "262144.0"),
            (1e6, "1e+06"),
            (1_048_576.0, "1.048576e+06"),
            (1e10, "1e+10"),
            (1_099_511_627_776.0, "1.099511627776e+12"),
        ];
        for (value, text) in spelled {
            assert_eq!(bound(value), text);
        }
    }

    #[test]
    fn whole_numbers_keep_every_digit_and_others_come_back_as_they_were() {
        assert_eq!(Number::Whole(u64::MAX).to_string(), "18446744073709551615");
        for value in [0.1, 1e300, 1e-300, 5.0, 123_456_789.123_456_79] {
            let text = Number::Real(value).to_string();
            assert!(text.len() < 25 && text.parse::<f64>() == Ok(value), "{text}");
        }
    }
}
