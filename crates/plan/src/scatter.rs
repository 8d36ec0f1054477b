//! How far measurements of the same work lie apart, so that a prediction is judged by what could be known. Nothing here
//! looks at a model: only at repeats, and at larger tensors that took less time. Called by `held_out`.

use std::collections::BTreeMap;

use crate::measured::{Point, Side, median};

/// With fewer repeats than this a job's repeatability is not known.
const LEAST_REPEATS: usize = 4;

/// Of one side, for each link and number of ranks: the standard deviation of the logarithm of a time.
pub(crate) struct Scatter<'a> {
    side: Side,
    points: Vec<&'a Point>,
    of_jobs: BTreeMap<(String, usize), f64>,
}

impl<'a> Scatter<'a> {
    pub(crate) fn of(points: Vec<&'a Point>, side: Side) -> Self {
        let mut jobs: BTreeMap<(String, usize), BTreeMap<u64, (f64, usize)>> = BTreeMap::new();
        for point in &points {
            let job = jobs.entry((point.link.clone(), point.ranks)).or_default();
            let repeats = point.repeats(side);
            // The same repeats can belong to points of two types, and count once.
            job.insert(median(repeats.iter().copied()).to_bits(), squares(repeats));
        }
        let of_job = |job: BTreeMap<u64, (f64, usize)>| {
            let (sum, free) = job.values().fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            (free >= LEAST_REPEATS).then(|| (sum / free as f64).sqrt())
        };
        let of_jobs = jobs.into_iter().filter_map(|(job, all)| Some((job, of_job(all)?))).collect();
        Self { side, points, of_jobs }
    }

    /// Two standard deviations of the logarithm of the point's time: of a measurement in its job, or, where they differ more, of its own
    /// repeats; a median of several runs is closer to the truth than one of them.
    pub(crate) fn bar(&self, point: &Point) -> f64 {
        let job = self.of_jobs.get(&(point.link.clone(), point.ranks)).copied().unwrap_or(0.0);
        let (sum, free) = squares(point.repeats(self.side));
        let own = if free > 0 { (sum / free as f64).sqrt() } else { 0.0 };
        2.0 * job.max(own) / (point.runs as f64).sqrt()
    }

    /// The least time that a larger tensor of the same series took, or the most that a smaller one took, where that
    /// contradicts the point: more work cannot take less time.
    pub(crate) fn contradiction(&self, point: &Point) -> Option<f64> {
        let time = point.time_us(self.side);
        let larger = self.series(point).filter(|other| other.bytes > point.bytes);
        let smaller = self.series(point).filter(|other| other.bytes < point.bytes);
        let least =
            larger.map(|other| other.time_us(self.side)).reduce(f64::min).filter(|other| *other < time);
        let most =
            smaller.map(|other| other.time_us(self.side)).reduce(f64::max).filter(|other| *other > time);
        least.or(most)
    }

    /// Other sizes of the same, this one included.
    pub(crate) fn series(&self, point: &Point) -> impl Iterator<Item = &'a Point> {
        let same = |other: &&Point| {
            (other.ranks, &other.link, &other.datatype) == (point.ranks, &point.link, &point.datatype)
        };
        self.points.iter().copied().filter(same)
    }
}

/// The sum of squares about the mean of the logarithms, and its degrees of freedom.
fn squares(times: &[f64]) -> (f64, usize) {
    let logs = || times.iter().map(|time| time.ln());
    let mean = logs().sum::<f64>() / times.len().max(1) as f64;
    (logs().map(|log| (log - mean).powi(2)).sum(), times.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: usize, time: f64, repeats: &[f64]) -> Point {
        Point {
            ranks: 4,
            link: "loopback".into(),
            gbps: None,
            emulated: false,
            datatype: "float32".into(),
            element_bytes: 4,
            bytes,
            arena_bytes: 16 << 20,
            runs: 1,
            vendor_us: time,
            ours_us: time,
            vendor_repeats: repeats.to_vec(),
            our_repeats: vec![time],
        }
    }

    #[test]
    fn repeats_that_agree_leave_no_excuse_and_repeats_that_do_not_leave_one() {
        let steady = [point(1, 100.0, &[100.0, 100.0, 100.0]), point(2, 200.0, &[200.0, 200.0, 200.0])];
        assert_eq!(Scatter::of(steady.iter().collect(), Side::Vendor).bar(&steady[0]), 0.0);
        let loose = [point(1, 100.0, &[100.0, 121.0]), point(2, 200.0, &[200.0, 200.0, 200.0, 200.0])];
        let scatter = Scatter::of(loose.iter().collect(), Side::Vendor);
        // Two standard deviations of two values: their distance times the root of two.
        assert!((scatter.bar(&loose[0]) - 1.21_f64.ln() * 2.0_f64.sqrt()).abs() < 1e-9);
        // The job as a whole is steadier: one of four degrees of freedom.
        assert!((scatter.bar(&loose[1]) - 1.21_f64.ln() / 2.0_f64.sqrt()).abs() < 1e-9);
        let of_four = Point { runs: 4, ..loose[0].clone() };
        assert!((scatter.bar(&of_four) / scatter.bar(&loose[0]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_repeats_there_is_no_excuse() {
        let alone = [point(1, 100.0, &[100.0]), point(2, 200.0, &[200.0])];
        assert_eq!(Scatter::of(alone.iter().collect(), Side::Vendor).bar(&alone[0]), 0.0);
    }

    #[test]
    fn a_larger_tensor_that_took_less_time_contradicts_a_smaller_one() {
        let series = [point(1, 50.0, &[50.0]), point(2, 200.0, &[200.0]), point(4, 120.0, &[120.0])];
        let scatter = Scatter::of(series.iter().collect(), Side::Ours);
        let found = series.each_ref().map(|point| scatter.contradiction(point));
        assert_eq!(found, [None, Some(120.0), Some(200.0)]);
    }
}
