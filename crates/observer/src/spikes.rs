//! Latency spikes: a sampled call that took far longer than calls of its kind, path and size class do. Median and
//! median absolute deviation, so that the spikes themselves do not move the measure. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use airamp_telemetry::{Kind, Path};

/// Samples remembered per class, and how many it takes before anything is called unusual.
const REMEMBERED: usize = 64;
const ENOUGH: usize = 24;
/// A spike is this many deviations and this many times above the median, and by at least so many seconds: a busy
/// host delays any call by some milliseconds, and nobody has to look at that.
const DEVIATIONS: f64 = 8.0;
const TIMES: f64 = 3.0;
const LEAST_S: f64 = 0.010;
/// A normal distribution's standard deviation by its median absolute deviation.
const SIGMA: f64 = 1.4826;
/// One slow call this far above the median stands for itself; nearer ones need company.
const ALONE: f64 = 20.0;
const ALONE_S: f64 = 0.100;
const COMPANY: usize = 2;

pub(crate) type Key = (Kind, Path, u8);

#[derive(Default)]
pub(crate) struct Spikes {
    classes: BTreeMap<Key, VecDeque<f64>>,
}

/// The device time of a call as one rank saw it.
pub(crate) struct Sample<W> {
    pub(crate) key: Key,
    pub(crate) seconds: f64,
    /// Communicator and sequence: the same for all ranks that took part in the call.
    pub(crate) occasion: (u64, u64),
    pub(crate) whose: W,
}

/// The worst of a look.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spike<W> {
    pub(crate) key: Key,
    pub(crate) seconds: f64,
    pub(crate) median_s: f64,
    pub(crate) whose: W,
}

impl Spikes {
    /// Samples of one look; `whose` comes back with the worst spike, if they are spikes enough.
    pub(crate) fn take<W>(&mut self, samples: impl IntoIterator<Item = Sample<W>>) -> Option<Spike<W>> {
        let mut found = BTreeSet::new();
        let mut worst: Option<Spike<W>> = None;
        for Sample { key, seconds, occasion, whose } in samples {
            let known = self.classes.entry(key).or_default();
            if let Some(median_s) = exceeded(known, seconds) {
                found.insert(occasion);
                let times = |spike: &Spike<W>| spike.seconds / spike.median_s;
                if worst.as_ref().is_none_or(|worst| seconds / median_s > times(worst)) {
                    worst = Some(Spike { key, seconds, median_s, whose });
                }
            }
            if known.len() == REMEMBERED {
                known.pop_front();
            }
            known.push_back(seconds);
        }
        worst.filter(|worst| found.len() >= COMPANY || worst.stands_alone())
    }
}

impl<W> Spike<W> {
    fn stands_alone(&self) -> bool {
        self.seconds > ALONE * self.median_s && self.seconds - self.median_s >= ALONE_S
    }
}

/// The median, if the sample lies far above it.
fn exceeded(known: &VecDeque<f64>, seconds: f64) -> Option<f64> {
    if known.len() < ENOUGH || !seconds.is_finite() {
        return None;
    }
    let median_s = median(known.iter().copied())?;
    if seconds <= TIMES * median_s || seconds - median_s < LEAST_S {
        return None;
    }
    let deviation = median(known.iter().map(|one| (one - median_s).abs()))?;
    (seconds > median_s + DEVIATIONS * SIGMA * deviation).then_some(median_s.max(1e-9))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (Kind::AllReduce, Path::Vendor, 5);

    /// Each a call of its own.
    fn samples(seconds: &[f64]) -> Vec<Sample<usize>> {
        let sample = |(place, seconds): (usize, &f64)| Sample {
            key: KEY,
            seconds: *seconds,
            occasion: (7, place as u64),
            whose: place,
        };
        seconds.iter().enumerate().map(sample).collect()
    }

    fn used_to(seconds: f64) -> Spikes {
        let mut spikes = Spikes::default();
        let usual: Vec<f64> = (0..REMEMBERED).map(|i| seconds * (1.0 + 0.01 * (i % 7) as f64)).collect();
        assert_eq!(spikes.take(samples(&usual)), None);
        spikes
    }

    #[test]
    fn two_calls_far_above_the_median_are_a_spike_and_the_worst_is_named() {
        let spike = used_to(0.002).take(samples(&[0.02, 0.03])).expect("a spike");
        assert_eq!((spike.whose, spike.seconds), (1, 0.03));
        assert!((0.002..0.0022).contains(&spike.median_s));
    }

    #[test]
    fn one_slow_call_is_none_unless_it_is_very_slow() {
        assert_eq!(used_to(0.002).take(samples(&[0.03])), None);
        assert_eq!(used_to(0.0002).take(samples(&[0.03])), None, "150 times, but of very little");
        assert!(used_to(0.002).take(samples(&[0.2])).is_some());
    }

    #[test]
    fn one_slow_call_that_several_ranks_saw_is_one() {
        let mut seen_by_all = samples(&[0.03; 4]);
        seen_by_all.iter_mut().for_each(|sample| sample.occasion = (7, 99));
        assert_eq!(used_to(0.002).take(seen_by_all), None);
    }

    #[test]
    fn a_class_that_varies_widely_has_a_wide_limit() {
        let mut spikes = Spikes::default();
        let wide: Vec<f64> = (0..REMEMBERED).map(|i| 0.001 * (1 + i % 32) as f64).collect();
        spikes.take(samples(&wide));
        assert_eq!(spikes.take(samples(&[0.06, 0.06])), None);
    }

    #[test]
    fn a_new_class_is_not_judged_yet() {
        assert_eq!(Spikes::default().take(samples(&[0.001, 5.0, 9.0])), None);
    }

    #[test]
    fn less_than_ten_milliseconds_more_are_none_however_many_times_the_usual() {
        assert_eq!(used_to(0.0002).take(samples(&[0.001, 0.005, 0.0101])), None);
        assert!(used_to(0.0002).take(samples(&[0.0103, 0.0104])).is_some());
    }

    #[test]
    fn a_lasting_change_becomes_usual() {
        let mut spikes = used_to(0.002);
        assert!(spikes.take(samples(&[0.02; REMEMBERED])).is_some());
        assert_eq!(spikes.take(samples(&[0.02; REMEMBERED])), None);
    }

    #[test]
    fn values_that_are_no_numbers_do_no_harm() {
        let mut spikes = used_to(0.002);
        assert_eq!(spikes.take(samples(&[f64::NAN, f64::INFINITY])), None);
    }
}
