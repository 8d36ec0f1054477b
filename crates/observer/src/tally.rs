//! Counters of a process, a rank, a job or the node. A process's counters are taken as what they grew by since
//! the last look, and added: so no sum goes backwards, whatever a file says. Pure.

use std::collections::BTreeMap;

use airamp_telemetry::sizes::{DURATION_BUCKETS, SIZE_CLASSES};
use airamp_telemetry::snapshot::Snapshot;
use airamp_telemetry::{Datatype, Deviation, Kind, Path, Reason};

use crate::view;

/// Errors by result that are told apart; the rest is result -1.
const MOST_RESULTS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) calls: BTreeMap<(Kind, Path, Datatype), Counted>,
    pub(crate) sizes: BTreeMap<(Kind, Path), [u64; SIZE_CLASSES]>,
    pub(crate) timed: BTreeMap<(Kind, Path, u8), Timed>,
    pub(crate) buckets: BTreeMap<(Kind, Path), [u64; DURATION_BUCKETS]>,
    pub(crate) fallbacks: BTreeMap<Reason, u64>,
    pub(crate) errors: BTreeMap<i32, u64>,
    pub(crate) deviations: BTreeMap<Deviation, u64>,
    pub(crate) plain: Plain,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) logical: u64,
    pub(crate) wire: u64,
    pub(crate) would_wire: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) samples: u64,
    pub(crate) sum_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) hook_ns: u64,
    pub(crate) hook_calls: u64,
    pub(crate) vendor_ns: u64,
    pub(crate) vendor_calls: u64,
    pub(crate) codec_ns: u64,
    pub(crate) codec_bytes: u64,
    pub(crate) saturated: u64,
    pub(crate) nonfinite: u64,
    pub(crate) compressed_calls: u64,
    pub(crate) trial_calls: u64,
    pub(crate) ghosts: u64,
    pub(crate) pace_changes: u64,
    pub(crate) untracked: u64,
    pub(crate) events_lost: u64,
}

/// A set of counters that can be raised to another's level, cell by cell.
trait Level: Copy + Default + PartialEq {
    fn pair(self, other: Self, with: fn(u64, u64) -> u64) -> Self;

    /// What `now` has grown by; a cell that fell has not grown.
    fn grown(self, now: Self) -> Self {
        now.pair(self, u64::saturating_sub)
    }

    fn highest(self, now: Self) -> Self {
        self.pair(now, u64::max)
    }

    fn plus(self, more: Self) -> Self {
        self.pair(more, u64::saturating_add)
    }
}

impl Level for u64 {
    fn pair(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        with(self, other)
    }
}

macro_rules! level {
    ($name:ident { $($field:ident),+ }) => {
        impl Level for $name {
            fn pair(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
                Self { $($field: with(self.$field, other.$field)),+ }
            }
        }
    };
}

level!(Counted { calls, logical, wire, would_wire });
level!(Timed { samples, sum_ns });
level!(Plain {
    hook_ns,
    hook_calls,
    vendor_ns,
    vendor_calls,
    codec_ns,
    codec_bytes,
    saturated,
    nonfinite,
    compressed_calls,
    trial_calls,
    ghosts,
    pace_changes,
    untracked,
    events_lost
});

impl Tally {
    pub(crate) fn of(snapshot: &Snapshot, events_lost: u64) -> Self {
        let mut tally = Self { plain: plain(snapshot, events_lost), ..Self::default() };
        for count in &snapshot.counts {
            let counted = Counted {
                calls: count.calls,
                logical: count.logical_bytes,
                wire: count.wire_bytes,
                would_wire: count.would_wire_bytes,
            };
            add(&mut tally.calls, (count.kind, count.path, count.datatype), counted);
        }
        for sizes in &snapshot.sizes {
            add_row(&mut tally.sizes, (sizes.kind, sizes.path), &sizes.calls);
        }
        for one in &snapshot.durations {
            let timed = Timed { samples: one.samples, sum_ns: one.sum_ns };
            add(&mut tally.timed, (one.kind, one.path, one.size_class), timed);
            add_row(&mut tally.buckets, (one.kind, one.path), &one.buckets);
        }
        for (reason, calls) in &snapshot.fallbacks {
            add(&mut tally.fallbacks, *reason, *calls);
        }
        for (result, calls) in snapshot.errors.iter().take(MOST_RESULTS) {
            add(&mut tally.errors, *result, *calls);
        }
        for (how, calls) in
            Deviation::ALL.iter().zip(snapshot.sums.deviations).filter(|(_, calls)| *calls > 0)
        {
            add(&mut tally.deviations, *how, calls);
        }
        tally
    }

    /// Raises itself to `now` and says by how much it grew.
    pub(crate) fn advance(&mut self, now: &Self) -> Self {
        let plain = self.plain.grown(now.plain);
        self.plain = self.plain.highest(now.plain);
        Self {
            calls: advance(&mut self.calls, &now.calls),
            sizes: advance_rows(&mut self.sizes, &now.sizes),
            timed: advance(&mut self.timed, &now.timed),
            buckets: advance_rows(&mut self.buckets, &now.buckets),
            fallbacks: advance(&mut self.fallbacks, &now.fallbacks),
            errors: advance(&mut self.errors, &now.errors),
            deviations: advance(&mut self.deviations, &now.deviations),
            plain,
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        more.calls.iter().for_each(|(key, value)| add(&mut self.calls, *key, *value));
        more.sizes.iter().for_each(|(key, value)| add_row(&mut self.sizes, *key, value));
        more.timed.iter().for_each(|(key, value)| add(&mut self.timed, *key, *value));
        more.buckets.iter().for_each(|(key, value)| add_row(&mut self.buckets, *key, value));
        more.fallbacks.iter().for_each(|(key, value)| add(&mut self.fallbacks, *key, *value));
        more.deviations.iter().for_each(|(key, value)| add(&mut self.deviations, *key, *value));
        for (result, calls) in &more.errors {
            let known = self.errors.len() < MOST_RESULTS || self.errors.contains_key(result);
            add(&mut self.errors, if known { *result } else { -1 }, *calls);
        }
        self.plain = self.plain.plus(more.plain);
    }

    /// Without what only jobs show.
    pub(crate) fn without_histograms(mut self) -> Self {
        self.sizes.clear();
        self.timed.clear();
        self.buckets.clear();
        self
    }

    pub(crate) fn all(&self) -> Counted {
        self.calls.values().fold(Counted::default(), |sum, one| sum.plus(*one))
    }

    pub(crate) fn view(&self) -> view::Totals {
        view::Totals {
            calls: self.calls.iter().map(|(key, counted)| row(*key, *counted)).collect(),
            fallbacks: self.fallbacks.iter().map(|(reason, calls)| fallback(*reason, *calls)).collect(),
            errors: self.errors.iter().map(|(result, calls)| error(*result, *calls)).collect(),
            hook_s: seconds(self.plain.hook_ns),
            hook_calls: self.plain.hook_calls,
            vendor_host_s: seconds(self.plain.vendor_ns),
            codec_s: seconds(self.plain.codec_ns),
            codec_bytes: self.plain.codec_bytes,
            saturated: self.plain.saturated,
            nonfinite: self.plain.nonfinite,
            compressed_calls: self.plain.compressed_calls,
            trial_calls: self.plain.trial_calls,
            ghosts: self.plain.ghosts,
            deviations: self.deviations.iter().map(|(how, calls)| deviation(*how, *calls)).collect(),
            pace_changes: self.plain.pace_changes,
            events_lost: self.plain.events_lost,
            untracked: self.plain.untracked,
        }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn plain(snapshot: &Snapshot, events_lost: u64) -> Plain {
    let sums = &snapshot.sums;
    Plain {
        hook_ns: snapshot.hook.spent.ns,
        hook_calls: snapshot.hook.spent.calls,
        vendor_ns: snapshot.in_vendor.ns,
        vendor_calls: snapshot.in_vendor.calls,
        codec_ns: sums.codec_ns,
        codec_bytes: sums.codec_bytes,
        saturated: sums.codec.saturated,
        nonfinite: sums.codec.nonfinite,
        compressed_calls: sums.compressed_calls,
        trial_calls: sums.trial_calls,
        ghosts: sums.ghosts,
        pace_changes: sums.pace_changes,
        untracked: snapshot.untracked,
        events_lost,
    }
}

fn add<K: Ord, V: Level>(map: &mut BTreeMap<K, V>, key: K, more: V) {
    let sum = map.entry(key).or_default();
    *sum = sum.plus(more);
}

fn add_row<K: Ord, const N: usize>(map: &mut BTreeMap<K, [u64; N]>, key: K, more: &[u64; N]) {
    let sum = map.entry(key).or_insert([0; N]);
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

fn advance<K: Ord + Copy, V: Level>(before: &mut BTreeMap<K, V>, now: &BTreeMap<K, V>) -> BTreeMap<K, V> {
    let mut grown = BTreeMap::new();
    for (key, now) in now {
        let before = before.entry(*key).or_default();
        let more = before.grown(*now);
        if more != V::default() {
            *before = before.highest(*now);
            grown.insert(*key, more);
        }
    }
    grown
}

fn advance_rows<K: Ord + Copy, const N: usize>(
    before: &mut BTreeMap<K, [u64; N]>,
    now: &BTreeMap<K, [u64; N]>,
) -> BTreeMap<K, [u64; N]> {
    let mut grown = BTreeMap::new();
    for (key, now) in now {
        let before = before.entry(*key).or_insert([0; N]);
        let more: [u64; N] = std::array::from_fn(|place| now[place].saturating_sub(before[place]));
        if more.iter().any(|cell| *cell != 0) {
            before.iter_mut().zip(now).for_each(|(before, now)| *before = (*before).max(*now));
            grown.insert(*key, more);
        }
    }
    grown
}

fn row((kind, path, datatype): (Kind, Path, Datatype), counted: Counted) -> view::Calls {
    view::Calls {
        kind: kind.name().into(),
        path: path.name().into(),
        datatype: datatype.name().into(),
        calls: counted.calls,
        logical_bytes: counted.logical,
        wire_bytes: counted.wire,
        saved_bytes: saved(path, counted),
    }
}

/// Only what was really compressed saves anything; a trial's calls went to the vendor.
pub(crate) fn saved(path: Path, counted: Counted) -> u64 {
    match path {
        Path::Compressed | Path::CompressedCaptured => counted.would_wire.saturating_sub(counted.wire),
        Path::Vendor | Path::Trial | Path::VendorCaptured => 0,
    }
}

fn fallback(reason: Reason, calls: u64) -> view::Fallbacks {
    view::Fallbacks { reason: reason.name().into(), calls }
}

fn deviation(how: Deviation, calls: u64) -> view::Deviations {
    view::Deviations { kind: how.name().into(), calls }
}

fn error(result: i32, calls: u64) -> view::Errors {
    view::Errors { result, calls }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_calls(calls: u64, logical: u64) -> Tally {
        let counted = Counted { calls, logical, wire: logical / 2, would_wire: logical };
        let calls = BTreeMap::from([((Kind::AllReduce, Path::Compressed, Datatype(7)), counted)]);
        Tally { calls, ..Tally::default() }
    }

    #[test]
    fn what_a_process_grew_by_is_added_once() {
        let (mut before, mut sum) = (Tally::default(), Tally::default());
        for now in [with_calls(3, 300), with_calls(5, 500), with_calls(5, 500)] {
            sum.add(&before.advance(&now));
        }
        assert_eq!(sum, with_calls(5, 500));
    }

    #[test]
    fn a_file_whose_counters_fall_takes_nothing_away_and_adds_nothing_twice() {
        let (mut before, mut sum) = (Tally::default(), Tally::default());
        for now in [with_calls(5, 500), Tally::default(), with_calls(2, 100), with_calls(6, 500)] {
            sum.add(&before.advance(&now));
        }
        assert_eq!(sum.all(), Counted { calls: 6, logical: 500, wire: 250, would_wire: 500 });
    }

    #[test]
    fn huge_counters_saturate() {
        let mut sum = with_calls(u64::MAX, u64::MAX);
        sum.add(&with_calls(u64::MAX, u64::MAX));
        assert_eq!(sum.all().calls, u64::MAX);
        assert!(sum.view().hook_s.is_finite());
    }

    #[test]
    fn only_compressed_calls_save_bytes() {
        let counted = Counted { calls: 1, logical: 100, wire: 25, would_wire: 100 };
        assert_eq!(saved(Path::Compressed, counted), 75);
        assert_eq!(saved(Path::Trial, counted), 0);
        let worse = Counted { wire: 200, ..counted };
        assert_eq!(saved(Path::Compressed, worse), 0);
    }

    #[test]
    fn errors_with_thousands_of_results_stay_bounded() {
        let mut sum = Tally::default();
        for result in 0..10_000 {
            sum.add(&Tally { errors: BTreeMap::from([(result, 1)]), ..Tally::default() });
        }
        assert!(sum.errors.len() <= MOST_RESULTS + 1);
        assert_eq!(sum.errors.values().sum::<u64>(), 10_000);
    }
}
