//! From bytes and speedups to places in the drawing.

/// The area that the lines are drawn in, in pixels.
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 700.0;
pub(super) const TOP: f64 = 72.0;
pub(super) const BOTTOM: f64 = 440.0;

/// About so many lines across the area.
const MOST_TICKS: f64 = 8.0;

pub(super) struct Scale {
    /// Every size that was measured, ascending.
    pub(super) sizes: Vec<usize>,
    pub(super) highest: f64,
    pub(super) step: f64,
}

impl Scale {
    pub(super) fn of(points: impl Iterator<Item = (usize, f64)>) -> Self {
        let (mut sizes, mut highest) = (Vec::new(), 1.0_f64);
        for (bytes, speedup) in points {
            sizes.push(bytes);
            highest = highest.max(speedup);
        }
        sizes.sort_unstable();
        sizes.dedup();
        let step = step(highest);
        Self { sizes, highest: (highest / step).floor().mul_add(step, step), step }
    }

    /// Sizes are logarithmic; a single one stands in the middle.
    pub(super) fn x(&self, bytes: usize) -> f64 {
        let (Some(first), Some(last)) = (self.sizes.first(), self.sizes.last()) else { return LEFT };
        let octaves = |bytes: usize| (bytes as f64 / *first as f64).log2();
        if first == last {
            f64::midpoint(LEFT, RIGHT)
        } else {
            LEFT + (RIGHT - LEFT) * octaves(bytes) / octaves(*last)
        }
    }

    pub(super) fn y(&self, speedup: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * speedup / self.highest
    }

    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let (step, count) = (self.step, (self.highest / self.step).round() as u32);
        (0..=count).map(move |tick| f64::from(tick) * step)
    }
}

/// 0.25, 0.5, 1, 2, 5, 10 and so on.
fn step(highest: f64) -> f64 {
    let steps = [0.25, 0.5, 1.0, 2.0, 5.0].into_iter();
    let larger = (1..).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    steps.chain(larger).find(|step| highest / step <= MOST_TICKS).unwrap_or(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_sizes_are_equally_far_apart() {
        let scale = Scale::of([(4096, 1.0), (1024, 2.0), (2048, 0.5)].into_iter());
        assert_eq!((scale.x(1024), scale.x(4096)), (LEFT, RIGHT));
        assert_eq!(scale.x(2048), f64::midpoint(LEFT, RIGHT));
    }

    #[test]
    fn every_speedup_lies_below_the_highest_tick() {
        for highest in [0.4, 1.0, 1.9, 3.94, 7.0, 55.0, 1234.0] {
            let scale = Scale::of([(8, highest)].into_iter());
            let ticks: Vec<f64> = scale.ticks().collect();
            assert!(ticks.last().is_some_and(|last| *last > highest), "{highest}: {ticks:?}");
            assert!((3..=10).contains(&ticks.len()), "{highest}: {ticks:?}");
        }
    }
}
