//! How much longer, or shorter, processors take at a size than a single alpha and a single beta say: the vendor changes
//! protocol, channels and algorithm with the size, and caches end somewhere. A line with few bends over the logarithm of the size for
//! each number of ranks, held near 1 by a penalty, so that single measurements do not bend it. Found by `fit`; pure.

use serde::{Deserialize, Serialize};

use super::least_squares::solved;

/// Bends, evenly over the logarithm of the sizes that were measured.
pub(super) const BENDS: usize = 7;
/// As if so much of a measurement said that there is no slowdown at a bend, and that the line does not turn there.
const TOWARDS_ONE: f64 = 0.05;
const STRAIGHT: f64 = 0.1;
const FAR_OFF: f64 = 0.1;
const ROUNDS: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slowdown {
    /// Between which sizes.
    least: f64,
    most: f64,
    of_ranks: Vec<OfRanks>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRanks {
    ranks: usize,
    factors: [f64; BENDS],
}

/// A measurement as the slowdown sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) ranks: usize,
    pub(super) size: usize,
    /// ln(measured / predicted without a slowdown).
    pub(super) off: f64,
    /// The part of the time that a slowdown stretches.
    pub(super) share: f64,
}

impl Slowdown {
    pub(super) const fn none() -> Self {
        Self { least: 1.0, most: 2.0, of_ranks: Vec::new() }
    }

    pub(super) fn of(seen: &[Seen]) -> Self {
        let sizes = || seen.iter().map(|one| one.size as f64);
        let mut found = Self {
            least: sizes().fold(f64::INFINITY, f64::min),
            most: sizes().fold(2.0, f64::max),
            of_ranks: Vec::new(),
        };
        let mut numbers: Vec<usize> = seen.iter().map(|one| one.ranks).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for ranks in numbers {
            let those: Vec<Seen> = seen.iter().filter(|one| one.ranks == ranks).copied().collect();
            let factors = found.factors(&those);
            found.of_ranks.push(OfRanks { ranks, factors });
        }
        found
    }

    /// Between numbers of ranks that were measured in between, beyond them as at the nearest. `alike` are those that run the
    /// same algorithm.
    pub(super) fn at(&self, ranks: usize, size: usize, alike: impl Fn(usize) -> bool) -> f64 {
        let weights = self.weights(size as f64);
        let log = |of: &OfRanks| {
            of.factors.iter().zip(weights).map(|(factor, weight)| factor.ln() * weight).sum::<f64>()
        };
        let known = || self.of_ranks.iter().filter(|of| alike(of.ranks));
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

    /// Of each bend in the line at a size.
    fn weights(&self, size: f64) -> [f64; BENDS] {
        let span = (self.most / self.least).ln().max(1e-9);
        let at = ((size / self.least).ln() / span).clamp(0.0, 1.0) * (BENDS - 1) as f64;
        std::array::from_fn(|bend| (1.0 - (at - bend as f64).abs()).max(0.0))
    }

    fn factors(&self, seen: &[Seen]) -> [f64; BENDS] {
        let mut logs = [0.0; BENDS];
        for _ in 0..ROUNDS {
            let (mut matrix, mut right) = (penalty(), [0.0; BENDS]);
            for one in seen {
                let row = self.weights(one.size as f64).map(|weight| weight * one.share);
                let left: f64 = one.off - row.iter().zip(logs).map(|(weight, log)| weight * log).sum::<f64>();
                let trust = if left.abs() <= FAR_OFF { 1.0 } else { FAR_OFF / left.abs() };
                for i in 0..BENDS {
                    right[i] += trust * row[i] * one.off;
                    (0..BENDS).for_each(|j| matrix[i][j] += trust * row[i] * row[j]);
                }
            }
            logs = solved(matrix, right);
        }
        logs.map(f64::exp)
    }
}

fn penalty() -> [[f64; BENDS]; BENDS] {
    let mut matrix = [[0.0; BENDS]; BENDS];
    for (bend, row) in matrix.iter_mut().enumerate() {
        row[bend] += TOWARDS_ONE;
    }
    for bend in 1..BENDS - 1 {
        let turn = [(bend - 1, 1.0), (bend, -2.0), (bend + 1, 1.0)];
        for (i, one) in turn {
            turn.iter().for_each(|(j, other)| matrix[i][*j] += STRAIGHT * one * other);
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ranks: usize, slow: impl Fn(usize) -> f64) -> Vec<Seen> {
        let one = |power: u32| Seen { ranks, size: 1 << power, off: slow(1 << power).ln(), share: 1.0 };
        (16..28).map(one).collect()
    }

    #[test]
    fn what_is_slower_above_a_size_is_slower_there_and_not_below() {
        let found = Slowdown::of(&seen(4, |size| if size >= 1 << 22 { 1.5 } else { 1.0 }));
        let at = |power: u32| found.at(4, 1 << power, |_| true);
        assert!((0.9..1.1).contains(&at(17)) && (1.4..1.6).contains(&at(26)), "{} {}", at(17), at(26));
        assert_eq!(at(40), at(27), "beyond what was measured as at its end");
    }

    #[test]
    fn a_single_measurement_that_is_far_off_bends_it_little() {
        let found = Slowdown::of(&seen(4, |size| if size == 1 << 21 { 3.0 } else { 1.0 }));
        assert!((0.95..1.15).contains(&found.at(4, 1 << 21, |_| true)));
    }

    #[test]
    fn a_part_that_a_slowdown_does_not_stretch_does_not_count() {
        let on_the_wire = |one: Seen| Seen { share: 0.01, ..one };
        let found = Slowdown::of(&seen(4, |_| 1.05).into_iter().map(on_the_wire).collect::<Vec<_>>());
        assert!((found.at(4, 1 << 20, |_| true) - 1.0).abs() < 0.03);
    }

    #[test]
    fn other_numbers_of_ranks_lie_between_their_neighbours_of_the_same_algorithm() {
        let all = [seen(2, |_| 1.0), seen(4, |_| 1.2), seen(8, |_| 1.4)].concat();
        let found = Slowdown::of(&all);
        let at = |ranks: usize| found.at(ranks, 1 << 20, |_| true);
        assert!(at(2) < at(3) && at(3) < at(4) && at(4) < at(6) && at(6) < at(8));
        assert_eq!(at(64), at(8));
        let of_ours = |ranks: usize| found.at(ranks, 1 << 20, |other| other != 2);
        assert_eq!(of_ours(3), of_ours(4));
        assert_eq!(Slowdown::none().at(4, 1 << 20, |_| true), 1.0);
    }
}
