//! What the ranks' messages travel over.

use std::fmt;
use std::str::FromStr;

/// Above it every machine is the limit and no link.
const FASTEST_GBPS: f64 = 100_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    /// What the vendor chooses; on the emulator the same as `Loopback`.
    Vendors,
    /// Sockets on this machine's loopback, as fast as it is.
    Loopback,
    /// The emulator's network, or loopback, at so many Gbit/s.
    Rate(f64),
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "loopback" {
            return Ok(Self::Loopback);
        }
        let (number, unit) = match text.strip_suffix("mbit") {
            Some(number) => (number, 1e-3),
            None => (text.strip_suffix("gbit").unwrap_or(text), 1.0),
        };
        match number.parse::<f64>().map(|number| number * unit) {
            Ok(rate) if rate > 0.0 && rate <= FASTEST_GBPS => Ok(Self::Rate(rate)),
            _ => Err(format!(
                "expected a rate above 0, as 10gbit or 500mbit, at most {FASTEST_GBPS}gbit, or loopback, which is as fast as \
                 the machine"
            )),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vendors => f.write_str("vendor's"),
            Self::Loopback => f.write_str("loopback"),
            Self::Rate(rate) if *rate < 1.0 => write!(f, "{}mbit", rate * 1e3),
            Self::Rate(rate) => write!(f, "{rate}gbit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_gigabits_unless_it_says_otherwise() {
        assert_eq!("10gbit".parse(), Ok(Link::Rate(10.0)));
        assert_eq!("10".parse(), Ok(Link::Rate(10.0)));
        assert_eq!("500mbit".parse(), Ok(Link::Rate(0.5)));
        assert_eq!("loopback".parse(), Ok(Link::Loopback));
        for wrong in ["", "0", "-1gbit", "fast", "10kbit", "inf", "NaN", "1e308gbit", "100001"] {
            assert!(wrong.parse::<Link>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_shown_as_it_can_be_given() {
        for text in ["10gbit", "2.5gbit", "500mbit", "loopback"] {
            assert_eq!(text.parse::<Link>().map(|link| link.to_string()), Ok(text.to_owned()));
        }
    }
}
