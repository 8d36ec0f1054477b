//! Rates between two looks. Pure.

use crate::gain::saved_bytes;
use crate::recent::Recent;
use crate::tally::Tally;
use crate::view::Rates;

/// `seconds`: since the last look; 0 at the first.
pub(crate) fn rates(grown: &Tally, seconds: f64) -> Rates {
    if seconds <= 0.0 {
        return Rates::default();
    }
    let all = grown.all();
    let per_second = |count: u64| count as f64 / seconds;
    let samples: u64 = grown.timed.values().map(|timed| timed.samples).fold(0, u64::saturating_add);
    let sampled_ns: u64 = grown.timed.values().map(|timed| timed.sum_ns).fold(0, u64::saturating_add);
    Rates {
        seconds,
        logical_bytes_per_s: per_second(all.logical),
        wire_bytes_per_s: per_second(all.wire),
        saved_bytes_per_s: per_second(saved_bytes(grown)),
        calls_per_s: per_second(all.calls),
        effective_gbit_per_s: effective(grown, seconds),
        mean_latency_s: (samples > 0).then(|| sampled_ns as f64 / 1e9 / samples as f64),
    }
}

/// Logical bits by the device time of their calls: samples by calls, class by class.
fn effective(grown: &Tally, seconds: f64) -> Option<f64> {
    let mut recent = Recent::default();
    recent.take(grown, seconds);
    let mut device_s = 0.0;
    let mut kinds = std::collections::BTreeSet::new();
    for load in recent.loads() {
        device_s += load.calls * load.mean_s;
        kinds.insert((load.key.0, load.key.1));
    }
    let timed = grown.calls.iter().filter(|(key, _)| kinds.contains(&(key.0, key.1)));
    let bytes: f64 = timed.map(|(_, counted)| counted.logical as f64).sum();
    let rate = bytes * 8.0 / device_s / 1e9;
    (device_s > 0.0 && rate.is_finite()).then_some(rate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use airamp_telemetry::{Datatype, Kind, Path};

    use super::*;
    use crate::tally::{Counted, Timed};

    fn grown() -> Tally {
        let mut sizes = [0; airamp_telemetry::sizes::SIZE_CLASSES];
        sizes[5] = 100;
        let counted = Counted { calls: 100, logical: 100 << 20, wire: 50 << 20, would_wire: 100 << 20 };
        Tally {
            calls: BTreeMap::from([((Kind::AllReduce, Path::Compressed, Datatype(9)), counted)]),
            sizes: BTreeMap::from([((Kind::AllReduce, Path::Compressed), sizes)]),
            timed: BTreeMap::from([(
                (Kind::AllReduce, Path::Compressed, 5),
                Timed { samples: 2, sum_ns: 2_000_000 },
            )]),
            ..Tally::default()
        }
    }

    #[test]
    fn rates_are_what_grew_by_the_time_between_looks() {
        let rates = rates(&grown(), 2.0);
        assert_eq!((rates.calls_per_s, rates.logical_bytes_per_s), (50.0, 52_428_800.0));
        assert_eq!((rates.wire_bytes_per_s, rates.saved_bytes_per_s), (26_214_400.0, 26_214_400.0));
        assert_eq!(rates.mean_latency_s, Some(0.001));
        let gbit = rates.effective_gbit_per_s.expect("timed calls");
        assert!((gbit - 8.388608).abs() < 1e-6, "a mebibyte in a millisecond: {gbit}");
    }

    #[test]
    fn the_first_look_has_no_rates() {
        assert_eq!(rates(&grown(), 0.0), Rates::default());
    }
}
