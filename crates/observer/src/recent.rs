//! What a process did lately: counters that fade, with a half-life of thirty seconds, so that shares follow the
//! job without jumping from look to look. Pure.

use std::collections::BTreeMap;

use airamp_telemetry::{Kind, Path};

use crate::tally::{Tally, seconds};

const HALF_LIFE_S: f64 = 30.0;
/// Faded below this, a sample says nothing any more.
const LEAST_SAMPLES: f64 = 0.25;

pub(crate) type Key = (Kind, Path, u8);

#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) wall_s: f64,
    /// Inside the vendor's functions and in the library.
    pub(crate) host_s: f64,
    classes: BTreeMap<Key, Class>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    calls: f64,
    samples: f64,
    sum_s: f64,
}

/// Calls of a class and what one takes on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) key: Key,
    pub(crate) calls: f64,
    pub(crate) mean_s: f64,
}

impl Recent {
    /// What a process grew by in so many seconds.
    pub(crate) fn take(&mut self, grown: &Tally, elapsed_s: f64) {
        self.fade(elapsed_s);
        self.wall_s += elapsed_s;
        self.host_s += seconds(grown.plain.vendor_ns.saturating_add(grown.plain.hook_ns));
        for ((kind, path), counts) in &grown.sizes {
            for (class, calls) in counts.iter().enumerate().filter(|(_, calls)| **calls > 0) {
                self.classes.entry((*kind, *path, class as u8)).or_default().calls += *calls as f64;
            }
        }
        for (key, timed) in &grown.timed {
            let class = self.classes.entry(*key).or_default();
            class.samples += timed.samples as f64;
            class.sum_s += seconds(timed.sum_ns);
        }
    }

    /// Collectives that were timed; not messages between two ranks, which wait by design.
    pub(crate) fn loads(&self) -> impl Iterator<Item = Load> + '_ {
        let collective = |kind: Kind| !matches!(kind, Kind::Send | Kind::Recv);
        self.classes.iter().filter_map(move |(key, class)| {
            let known = collective(key.0) && class.samples >= LEAST_SAMPLES;
            known.then(|| Load { key: *key, calls: class.calls, mean_s: class.sum_s / class.samples })
        })
    }

    fn fade(&mut self, elapsed_s: f64) {
        let rest = 0.5_f64.powf(elapsed_s / HALF_LIFE_S);
        self.wall_s *= rest;
        self.host_s *= rest;
        for class in self.classes.values_mut() {
            class.calls *= rest;
            class.samples *= rest;
            class.sum_s *= rest;
        }
    }
}

#[cfg(test)]
pub(crate) fn busy(class: u8, calls: u64, mean_ns: u64, elapsed_s: f64, host_ns: u64) -> Recent {
    use crate::tally::{Plain, Timed};
    let mut sizes = [0; airamp_telemetry::sizes::SIZE_CLASSES];
    sizes[usize::from(class)] = calls;
    let grown = Tally {
        sizes: BTreeMap::from([((Kind::AllReduce, Path::Vendor), sizes)]),
        timed: BTreeMap::from([(
            (Kind::AllReduce, Path::Vendor, class),
            Timed { samples: 2, sum_ns: 2 * mean_ns },
        )]),
        plain: Plain { vendor_ns: host_ns, ..Plain::default() },
        ..Tally::default()
    };
    let mut recent = Recent::default();
    recent.take(&grown, elapsed_s);
    recent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fades_and_shares_stay() {
        let mut recent = busy(3, 1000, 1_000_000, 10.0, 0);
        for _ in 0..600 {
            recent.take(&Tally::default(), 1.0);
        }
        assert!(recent.loads().next().is_none(), "ten minutes later nothing of it counts");
        assert!((40.0..46.0).contains(&recent.wall_s), "{}", recent.wall_s);
    }

    #[test]
    fn the_mean_is_that_of_the_samples_and_the_calls_are_all_of_them() {
        let load = busy(3, 1000, 2_000_000, 10.0, 0).loads().next().expect("a class");
        assert_eq!(load.key, (Kind::AllReduce, Path::Vendor, 3));
        assert!((load.mean_s - 0.002).abs() < 1e-12 && (load.calls - 1000.0).abs() < 1e-9);
    }
}
