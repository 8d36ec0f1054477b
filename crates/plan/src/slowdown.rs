//! How much longer, or shorter, processors take at a size than a single alpha and a single beta say: the vendor changes
//! protocol, channels and algorithm with the size, and caches end somewhere. A line over the logarithm of the size for each
//! number of ranks, with a point at each size that was measured and a penalty that holds it near 1 and straight, so that
//! close sizes give a close line and single measurements do not bend it. Found by `fit`; pure.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::fit::sorted;
use crate::least_squares::solve;

/// Sizes that are closer than this share a point.
const LEAST_STEP: f64 = 1.09;
/// As if so much of a measurement said that there is no slowdown at a point, and that the line does not turn there.
const TOWARDS_ONE: f64 = 0.05;
const STRAIGHT: f64 = 0.3;
const FAR_OFF: f64 = 0.1;
const ROUNDS: usize = 8;
/// What processors may be slower or faster by; beyond, the times are not of what the model is of.
const FACTORS: RangeInclusive<f64> = 1e-6..=1e6;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slowdown {
    /// Where the line has its points, from the least to the largest.
    sizes: Vec<f64>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    ranks: usize,
    /// Reducing and casting take processors longer in some types than in others.
    element_bytes: usize,
    /// One for each size.
    factors: Vec<f64>,
}

/// A measurement as the slowdown sees it.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) ranks: usize,
    pub(crate) element_bytes: usize,
    pub(crate) size: usize,
    /// ln(measured / predicted without a slowdown).
    pub(crate) off: f64,
    /// The part of the time that a slowdown stretches.
    pub(crate) share: f64,
}

/// Of which call the slowdown is to be known.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) ranks: usize,
    pub(crate) element_bytes: usize,
    pub(crate) size: usize,
}

impl Slowdown {
    pub(crate) const fn none() -> Self {
        Self { sizes: Vec::new(), lines: Vec::new() }
    }

    pub(crate) fn of(seen: &[Seen]) -> Self {
        let mut found = Self { sizes: points(seen), lines: Vec::new() };
        for (ranks, element_bytes) in sorted(seen.iter().map(|one| (one.ranks, one.element_bytes))) {
            let is_of_it = |one: &&Seen| (one.ranks, one.element_bytes) == (ranks, element_bytes);
            let those: Vec<Seen> = seen.iter().filter(is_of_it).copied().collect();
            let factors = found.factors(&those);
            found.lines.push(Line { ranks, element_bytes, factors });
        }
        found
    }

    /// Whether a saved one can be used: sizes that ascend, and for each of them a factor that can be.
    pub(crate) fn is_whole(&self) -> bool {
        let is_number = |one: &f64| one.is_finite() && *one > 0.0;
        let is_factor = |one: &f64| FACTORS.contains(one);
        let is_of_all = |of: &Line| {
            of.ranks > 0 && of.factors.len() == self.sizes.len() && of.factors.iter().all(is_factor)
        };
        self.sizes.iter().all(is_number)
            && self.sizes.is_sorted_by(|one, next| one < next)
            && self.lines.iter().all(is_of_all)
    }

    /// Between numbers of ranks that were measured in between, beyond them as at the nearest; of a type that was not measured
    /// as of another one. `alike` are the numbers of ranks that run the same algorithm.
    pub(crate) fn at(&self, asked: &Asked, alike: impl Fn(usize) -> bool) -> f64 {
        let Some(Between { at, next, part }) = self.between(asked.size as f64) else { return 1.0 };
        let ranks = asked.ranks;
        let log = |of: &Line| of.factors[at].ln() * (1.0 - part) + of.factors[next].ln() * part;
        let is_known = self.lines.iter().any(|of| of.element_bytes == asked.element_bytes);
        let any = self.lines.first().map_or(0, |of| of.element_bytes);
        let element_bytes = if is_known { asked.element_bytes } else { any };
        let known = || self.lines.iter().filter(|of| of.element_bytes == element_bytes && alike(of.ranks));
        let below = known().rfind(|of| of.ranks <= ranks);
        let above = known().find(|of| of.ranks >= ranks);
        match (below, above) {
            (Some(below), Some(above)) if below.ranks < above.ranks => {
                let logs = [below.ranks, ranks, above.ranks].map(|ranks| (ranks as f64).ln());
                let part = (logs[1] - logs[0]) / (logs[2] - logs[0]);
                (log(below) * (1.0 - part) + log(above) * part).exp()
            }
            (Some(nearest), _) | (None, Some(nearest)) => log(nearest).exp(),
            (None, None) => 1.0,
        }
    }

    /// Beyond the sizes as at the nearest.
    fn between(&self, size: f64) -> Option<Between> {
        let last = self.sizes.len().checked_sub(1)?;
        let next = self.sizes.partition_point(|one| *one < size).min(last);
        let at = next.saturating_sub(1);
        let span = (self.sizes[next] / self.sizes[at]).ln();
        let part = if span > 0.0 { ((size / self.sizes[at]).ln() / span).clamp(0.0, 1.0) } else { 0.0 };
        Some(Between { at, next, part })
    }

    fn factors(&self, seen: &[Seen]) -> Vec<f64> {
        let penalty = self.penalty();
        let mut logs = vec![0.0; self.sizes.len()];
        for _ in 0..ROUNDS {
            let (mut matrix, mut right) = (penalty.clone(), vec![0.0; logs.len()]);
            for one in seen {
                let Some(Between { at, next, part }) = self.between(one.size as f64) else { continue };
                let row = [(at, one.share * (1.0 - part)), (next, one.share * part)];
                let left = one.off - row.iter().map(|(i, weight)| weight * logs[*i]).sum::<f64>();
                let trust = if left.abs() <= FAR_OFF { 1.0 } else { FAR_OFF / left.abs() };
                for (i, weight) in row {
                    right[i] += trust * weight * one.off;
                    row.iter().for_each(|(j, other)| matrix[i][*j] += trust * weight * other);
                }
            }
            solve(&mut matrix, &mut right);
            logs = right;
        }
        logs.into_iter().map(f64::exp).collect()
    }

    fn penalty(&self) -> Vec<Vec<f64>> {
        let points = self.sizes.len();
        let mut matrix = vec![vec![0.0; points]; points];
        for (point, row) in matrix.iter_mut().enumerate() {
            row[point] += TOWARDS_ONE;
        }
        for point in 1..points.saturating_sub(1) {
            let steps = [point, point + 1].map(|point| (self.sizes[point] / self.sizes[point - 1]).ln());
            let [before, after] = steps.map(|step| f64::midpoint(steps[0], steps[1]) / step);
            let turn = [(point - 1, before), (point, -before - after), (point + 1, after)];
            for (i, one) in turn {
                turn.iter().for_each(|(j, other)| matrix[i][*j] += STRAIGHT * one * other);
            }
        }
        matrix
    }
}

/// A place on the line: between which points, and how far.
struct Between {
    at: usize,
    next: usize,
    part: f64,
}

/// Each size that was measured, without those that are close to the one before.
fn points(seen: &[Seen]) -> Vec<f64> {
    let mut sizes: Vec<f64> = seen.iter().map(|one| one.size as f64).collect();
    sizes.sort_by(f64::total_cmp);
    let mut kept: Vec<f64> = Vec::new();
    for size in sizes {
        if kept.last().is_none_or(|last| size > last * LEAST_STEP) {
            kept.push(size);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ranks: usize, size: usize) -> Asked {
        Asked { ranks, element_bytes: 4, size }
    }

    fn seen(ranks: usize, slow: impl Fn(usize) -> f64) -> Vec<Seen> {
        let one = |power: u32| Seen {
            ranks,
            element_bytes: 4,
            size: 1 << power,
            off: slow(1 << power).ln(),
            share: 1.0,
        };
        (16..28).map(one).collect()
    }

    #[test]
    fn what_is_slower_above_a_size_is_slower_there_and_not_below() {
        let found = Slowdown::of(&seen(4, |size| if size >= 1 << 22 { 1.5 } else { 1.0 }));
        let at = |power: u32| found.at(&asked(4, 1 << power), |_| true);
        assert!((0.9..1.1).contains(&at(17)) && (1.4..1.6).contains(&at(26)), "{} {}", at(17), at(26));
        assert_eq!(at(40), at(27), "beyond what was measured as at its end");
    }

    #[test]
    fn close_sizes_give_a_close_line_and_one_that_is_left_out_lies_between_its_neighbours() {
        // A time that doubles from one size to one that is half as large again: where caches end.
        let slow =
            |size: f64| (4.0_f64 / 3.0).powf(((size / 524_288.0).log2() / 1.5_f64.log2()).clamp(0.0, 1.0));
        let size = |step: i32| (65_536.0 * 2_f64.powf(f64::from(step) / 5.0)) as usize;
        let one = |step: i32| Seen {
            ranks: 4,
            element_bytes: 4,
            size: size(step),
            off: slow(size(step) as f64).ln(),
            share: 1.0,
        };
        for left_out in 1..30 {
            let shown: Vec<Seen> = (0..=30).filter(|step| *step != left_out).map(one).collect();
            let off =
                Slowdown::of(&shown).at(&asked(4, size(left_out)), |_| true) / slow(size(left_out) as f64);
            assert!((0.9..1.1).contains(&off), "{left_out}: {off}");
        }
    }

    #[test]
    fn each_type_has_a_line_of_its_own_and_one_that_was_not_measured_takes_another_s() {
        let narrow = seen(4, |_| 1.3).into_iter().map(|one| Seen { element_bytes: 2, ..one });
        let found = Slowdown::of(&seen(4, |_| 0.9).into_iter().chain(narrow).collect::<Vec<_>>());
        let at = |element_bytes: usize| found.at(&Asked { element_bytes, ..asked(4, 1 << 20) }, |_| true);
        assert!((0.88..0.95).contains(&at(4)) && (1.22..1.32).contains(&at(2)), "{} {}", at(4), at(2));
        assert_eq!(at(1), at(2));
    }

    #[test]
    fn a_saved_one_without_a_factor_for_each_size_is_not_whole() {
        let whole = Slowdown::of(&seen(4, |_| 1.2));
        assert!(whole.is_whole() && Slowdown::none().is_whole());
        let mut short = whole.clone();
        short.lines[0].factors.pop();
        let mut twice = whole.clone();
        twice.sizes[1] = twice.sizes[0];
        let mut of_nobody = whole.clone();
        of_nobody.lines[0].ranks = 0;
        assert!(!short.is_whole() && !twice.is_whole() && !of_nobody.is_whole());
        for factor in [0.0, 1e-300, 1e300, f64::NAN] {
            let mut impossible = whole.clone();
            impossible.lines[0].factors[0] = factor;
            assert!(!impossible.is_whole());
        }
    }

    #[test]
    fn a_single_measurement_that_is_far_off_bends_it_little() {
        let found = Slowdown::of(&seen(4, |size| if size == 1 << 21 { 3.0 } else { 1.0 }));
        assert!((0.95..1.15).contains(&found.at(&asked(4, 1 << 21), |_| true)));
    }

    #[test]
    fn a_part_that_a_slowdown_does_not_stretch_does_not_count() {
        let on_the_wire = |one: Seen| Seen { share: 0.01, ..one };
        let found = Slowdown::of(&seen(4, |_| 1.05).into_iter().map(on_the_wire).collect::<Vec<_>>());
        assert!((found.at(&asked(4, 1 << 20), |_| true) - 1.0).abs() < 0.03);
    }

    #[test]
    fn other_numbers_lines_lie_between_their_neighbours_of_the_same_algorithm() {
        let all = [seen(2, |_| 1.0), seen(4, |_| 1.2), seen(8, |_| 1.4)].concat();
        let found = Slowdown::of(&all);
        let at = |ranks: usize| found.at(&asked(ranks, 1 << 20), |_| true);
        assert!(at(2) < at(3) && at(3) < at(4) && at(4) < at(6) && at(6) < at(8));
        assert_eq!(at(64), at(8));
        let of_ours = |ranks: usize| found.at(&asked(ranks, 1 << 20), |other| other != 2);
        assert_eq!(of_ours(3), of_ours(4));
        assert_eq!(Slowdown::none().at(&asked(4, 1 << 20), |_| true), 1.0);
    }
}
