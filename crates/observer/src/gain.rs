//! What compression gained, against the vendor's times that its own trials measured, and what it would gain on
//! other links. Pure. docs/diagnosis.md has the model and its limits.

use std::collections::BTreeMap;

use airamp_telemetry::{Datatype, Kind, Path, size_class};

use crate::recent::Key;
use crate::tally::{Tally, saved};
use crate::view::{Class, Gain, OnLink};

const LINKS_GBIT_PER_S: [f64; 5] = [10.0, 25.0, 100.0, 200.0, 400.0];
/// Bytes on the wire per element: a byte, and two bytes of scale for each block of 128.
const PACKED: f64 = 1.0 + 2.0 / 128.0;
const COMPRESSED: [Path; 2] = [Path::Compressed, Path::CompressedCaptured];

/// `best`: least mean device time by class, where calls were timed. `ranks`: those that compressed.
pub(crate) fn gain(sum: &Tally, classes: &[Class], best: &BTreeMap<Key, f64>, ranks: u64) -> Gain {
    let measured = measured(sum, classes, best);
    let per_rank = |seconds: f64| seconds / ranks.max(1) as f64;
    Gain {
        speedup: measured.map(|(vendor_s, ours_s)| vendor_s / ours_s).filter(|speedup| speedup.is_finite()),
        saved_s: measured.map(|(vendor_s, ours_s)| per_rank(vendor_s - ours_s)).filter(|s| s.is_finite()),
        saved_bytes: saved_bytes(sum),
        baseline: if measured.is_some() { "trials" } else { "none" }.into(),
        on_other_links: on_other_links(sum),
    }
}

pub(crate) fn saved_bytes(sum: &Tally) -> u64 {
    sum.calls.iter().map(|(key, counted)| saved(key.1, *counted)).fold(0, u64::saturating_add)
}

/// Seconds that all compressed calls with a baseline would have taken, and took.
fn measured(sum: &Tally, classes: &[Class], best: &BTreeMap<Key, f64>) -> Option<(f64, f64)> {
    let mut all = None;
    for path in COMPRESSED {
        let Some(sizes) = sum.sizes.get(&(Kind::AllReduce, path)) else { continue };
        for (class, calls) in sizes.iter().enumerate().filter(|(_, calls)| **calls > 0) {
            let Some((vendor_s, ours_s)) = baseline(class as u8, classes) else { continue };
            let ours_s = best.get(&(Kind::AllReduce, path, class as u8)).copied().unwrap_or(ours_s);
            let (before, after) = all.unwrap_or((0.0, 0.0));
            all = Some((before + *calls as f64 * vendor_s, after + *calls as f64 * ours_s));
        }
    }
    all.filter(|(_, ours_s)| *ours_s > 0.0)
}

/// What trials measured for calls of this size, the mean over datatypes and communicators.
fn baseline(class: u8, classes: &[Class]) -> Option<(f64, f64)> {
    let of_size = classes.iter().filter(|one| size_class(one.from_bytes) == class);
    let times: Vec<(f64, f64)> = of_size.filter_map(|one| Some((one.vendor_us?, one.ours_us?))).collect();
    let good = |(vendor, ours): &&(f64, f64)| vendor.is_finite() && ours.is_finite() && *ours > 0.0;
    let (mut vendor_us, mut ours_us, mut count) = (0.0, 0.0, 0.0);
    for (vendor, ours) in times.iter().filter(good) {
        (vendor_us, ours_us, count) = (vendor_us + vendor, ours_us + ours, count + 1.0);
    }
    (count > 0.0).then(|| (vendor_us / count * 1e-6, ours_us / count * 1e-6))
}

/// A link that carries nothing else, and a codec that overlaps nothing: the vendor takes its bytes by the rate,
/// ours its fewer bytes by the rate and the codec's time. So it is the least that is to be expected.
fn on_other_links(sum: &Tally) -> Vec<OnLink> {
    let traffic = traffic(sum);
    let speedup = |gbit_per_s: f64| {
        let (vendor_bytes, our_bytes, codec_s) = traffic?;
        let bytes_per_s = gbit_per_s * 1e9 / 8.0;
        let speedup = (vendor_bytes / bytes_per_s) / (our_bytes / bytes_per_s + codec_s);
        (speedup.is_finite() && speedup > 0.0).then_some(speedup)
    };
    LINKS_GBIT_PER_S.map(|gbit_per_s| OnLink { gbit_per_s, speedup: speedup(gbit_per_s) }).to_vec()
}

/// Bytes of the vendor, bytes of ours, and the codec's seconds for the same calls: of those that were
/// compressed, else of those that were tried.
fn traffic(sum: &Tally) -> Option<(f64, f64, f64)> {
    if sum.plain.codec_bytes == 0 || sum.plain.codec_ns == 0 {
        return None;
    }
    let codec_s_per_byte = sum.plain.codec_ns as f64 * 1e-9 / sum.plain.codec_bytes as f64;
    let of = |wanted: fn(Path) -> bool, packed: fn(Datatype, f64, f64) -> f64| {
        let (mut vendor, mut ours, mut logical) = (0.0, 0.0, 0.0);
        for ((_, path, datatype), counted) in &sum.calls {
            if wanted(*path) {
                vendor += counted.would_wire as f64;
                ours += packed(*datatype, counted.would_wire as f64, counted.wire as f64);
                logical += counted.logical as f64;
            }
        }
        (ours > 0.0).then_some((vendor, ours, logical * codec_s_per_byte))
    };
    of(|path| COMPRESSED.contains(&path), |_, _, wire| wire)
        .or_else(|| of(|path| path == Path::Trial, |datatype, would, _| would * PACKED / element(datatype)))
}

/// Bytes of an element, by NCCL's number; compression takes no others than these.
fn element(datatype: Datatype) -> f64 {
    match datatype.name() {
        "float32" => 4.0,
        "float16" | "bfloat16" => 2.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use airamp_telemetry::sizes::SIZE_CLASSES;

    use super::*;
    use crate::tally::{Counted, Plain};

    const MIB: u64 = 1 << 20;

    fn compressed(path: Path, calls: u64, codec_ns: u64) -> Tally {
        let logical = calls * 64 * MIB;
        let wire = if path == Path::Trial { logical * 3 } else { logical };
        let counted = Counted { calls, logical, wire, would_wire: 2 * logical };
        let mut sizes = [0; SIZE_CLASSES];
        sizes[usize::from(size_class(64 * MIB))] = calls;
        Tally {
            calls: BTreeMap::from([((Kind::AllReduce, path, Datatype(9)), counted)]),
            sizes: BTreeMap::from([((Kind::AllReduce, path), sizes)]),
            plain: Plain { codec_ns, codec_bytes: logical, ..Plain::default() },
            ..Tally::default()
        }
    }

    fn class(vendor_us: f64, ours_us: f64) -> Class {
        Class { from_bytes: 64 * MIB, vendor_us: Some(vendor_us), ours_us: Some(ours_us), ..Class::default() }
    }

    #[test]
    fn the_gain_is_that_of_the_compressed_calls_against_the_trials_of_their_class() {
        let sum = compressed(Path::Compressed, 200, 0);
        let gain = gain(&sum, &[class(2000.0, 1000.0)], &BTreeMap::new(), 2);
        assert_eq!((gain.speedup, gain.baseline.as_ref()), (Some(2.0), "trials"));
        assert!((gain.saved_s.unwrap() - 0.1).abs() < 1e-9, "100 calls of a rank save a millisecond each");
        assert_eq!(gain.saved_bytes, 200 * 64 * MIB);
    }

    #[test]
    fn what_was_timed_since_goes_before_what_the_trials_promised() {
        let sum = compressed(Path::Compressed, 200, 0);
        let key = (Kind::AllReduce, Path::Compressed, size_class(64 * MIB));
        let gain = gain(&sum, &[class(2000.0, 1000.0)], &BTreeMap::from([(key, 0.0016)]), 2);
        assert!((gain.speedup.unwrap() - 1.25).abs() < 1e-9);
    }

    #[test]
    fn without_trials_there_is_no_baseline() {
        let gain = gain(&compressed(Path::Compressed, 200, 0), &[], &BTreeMap::new(), 2);
        assert_eq!((gain.speedup, gain.saved_s, gain.baseline.as_ref()), (None, None, "none"));
        assert!(gain.saved_bytes > 0);
    }

    #[test]
    fn on_slow_links_the_bytes_count_and_on_fast_ones_the_codec() {
        let sum = compressed(Path::Compressed, 100, 100 * 2_000_000);
        let links = gain(&sum, &[], &BTreeMap::new(), 1).on_other_links;
        let speedups: Vec<f64> = links.iter().map(|link| link.speedup.unwrap()).collect();
        assert!(speedups.is_sorted_by(|slow, fast| slow > fast), "{speedups:?}");
        assert!(speedups[0] > 1.9 && speedups[4] < 1.2, "{speedups:?}");
    }

    #[test]
    fn trials_alone_foretell_what_compression_would_gain() {
        let sum = compressed(Path::Trial, 100, 1);
        let links = gain(&sum, &[], &BTreeMap::new(), 1).on_other_links;
        assert!((links[0].speedup.unwrap() - 2.0 / PACKED).abs() < 1e-9);
    }

    #[test]
    fn a_codec_that_was_never_timed_leaves_other_links_unknown() {
        let mut untold = compressed(Path::Compressed, 100, 1);
        untold.plain.codec_bytes = 0;
        for sum in [untold, compressed(Path::Compressed, 100, 0)] {
            let gain = gain(&sum, &[], &BTreeMap::new(), 1);
            assert!(gain.on_other_links.iter().all(|link| link.speedup.is_none()));
        }
    }

    #[test]
    fn hostile_numbers_give_null_and_never_infinity() {
        let sum = compressed(Path::Compressed, 1, u64::MAX);
        for (vendor, ours) in [(f64::NAN, 1.0), (1.0, 0.0), (f64::INFINITY, 1.0), (1.0, f64::MIN_POSITIVE)] {
            let gain = gain(&sum, &[class(vendor, ours)], &BTreeMap::new(), 0);
            assert!(gain.speedup.is_none_or(f64::is_finite) && gain.saved_s.is_none_or(f64::is_finite));
        }
    }
}
