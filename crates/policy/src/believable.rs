//! Numbers from other machines and from files: which can be true at all.

use std::ops::RangeInclusive;

/// No collective is quicker than 10 ns or slower than an hour; a clock that says so is wrong.
const POSSIBLE_US: RangeInclusive<f64> = 0.01..=3.6e9;

/// A time that can be believed.
pub(crate) fn time(us: f64) -> Option<f64> {
    POSSIBLE_US.contains(&us).then_some(us)
}

/// A sum of squares that can be believed.
pub(crate) fn power(sum: f64) -> Option<f64> {
    (sum >= 0.0 && sum.is_finite()).then_some(sum)
}

/// The error as a share of the signal. Silence that stays silent is exact.
pub(crate) fn vnmse(squared_error: f64, signal: f64) -> f64 {
    if squared_error == 0.0 { 0.0 } else { squared_error / signal }
}
