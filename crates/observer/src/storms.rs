//! Bursts of errors and storms of fallbacks: what happened in the last ten seconds. Pure.

use std::collections::{BTreeMap, VecDeque};

use airamp_telemetry::Reason;

use crate::tally::Tally;

const SPAN_NS: u64 = 10_000_000_000;
/// Entries within this are one: looks may come faster.
const GRAIN_NS: u64 = 500_000_000;
const ERRORS: u64 = 5;
const FALLBACKS: u64 = 100;

#[derive(Default)]
pub(crate) struct Storms {
    errors: BTreeMap<i32, Lately>,
    fallbacks: BTreeMap<Reason, Lately>,
    calls: Lately,
    /// When an error was last counted.
    error_ns: Option<u64>,
}

/// A sum over the last ten seconds.
#[derive(Default)]
struct Lately {
    entries: VecDeque<(u64, u64)>,
    sum: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) errors: u64,
    /// The most frequent result.
    pub(crate) result: i32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Storm {
    pub(crate) fallbacks: u64,
    pub(crate) calls: u64,
    pub(crate) reason: Reason,
}

impl Storms {
    pub(crate) fn take(&mut self, grown: &Tally, now_ns: u64) {
        grown
            .errors
            .iter()
            .for_each(|(result, calls)| self.errors.entry(*result).or_default().add(*calls, now_ns));
        for (reason, calls) in grown.fallbacks.iter().filter(|(reason, _)| is_trouble(**reason)) {
            self.fallbacks.entry(*reason).or_default().add(*calls, now_ns);
        }
        self.calls.add(grown.all().calls, now_ns);
        self.error_ns = if grown.errors.is_empty() { self.error_ns } else { Some(now_ns) };
    }

    /// What is over counts no more, whether or not anything came since: most errors are a job's last calls.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        self.errors.retain(|_, lately| lately.keep(now_ns));
        self.fallbacks.retain(|_, lately| lately.keep(now_ns));
        self.calls.keep(now_ns);
    }

    pub(crate) fn burst(&self) -> Option<Burst> {
        let errors = self.errors.values().map(|lately| lately.sum).fold(0, u64::saturating_add);
        let (result, _) = self.errors.iter().max_by_key(|(_, lately)| lately.sum)?;
        (errors >= ERRORS).then_some(Burst { errors, result: *result })
    }

    /// In the ten seconds before that time, or at any time since.
    pub(crate) fn had_error_around(&self, ns: u64) -> bool {
        self.error_ns.is_some_and(|error_ns| error_ns.saturating_add(SPAN_NS) >= ns)
    }

    /// At least a hundred, and at least half of all calls.
    pub(crate) fn storm(&self) -> Option<Storm> {
        let fallbacks = self.fallbacks.values().map(|lately| lately.sum).fold(0, u64::saturating_add);
        let (reason, _) = self.fallbacks.iter().max_by_key(|(_, lately)| lately.sum)?;
        let calls = self.calls.sum;
        let storm = fallbacks >= FALLBACKS && fallbacks >= calls / 2;
        storm.then_some(Storm { fallbacks, calls, reason: *reason })
    }
}

impl Lately {
    fn add(&mut self, more: u64, now_ns: u64) {
        self.sum = self.sum.saturating_add(more);
        match self.entries.back_mut() {
            Some((at, sum)) if now_ns.saturating_sub(*at) < GRAIN_NS => *sum = sum.saturating_add(more),
            _ => self.entries.push_back((now_ns, more)),
        }
    }

    /// Drops what is over; whether anything is left.
    fn keep(&mut self, now_ns: u64) -> bool {
        while self.entries.front().is_some_and(|(at, _)| now_ns.saturating_sub(*at) > SPAN_NS) {
            self.entries.pop_front();
        }
        self.sum = self.entries.iter().map(|(_, more)| *more).fold(0, u64::saturating_add);
        !self.entries.is_empty()
    }
}

/// Reasons that somebody could do something about. The others are the design: a datatype, a size, a decision.
fn is_trouble(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Ranks
            | Reason::Datatype
            | Reason::Reduction
            | Reason::Size
            | Reason::HostMemory
            | Reason::PlanVendor
            | Reason::PlanRefused
            | Reason::Disabled
            | Reason::Mode
            | Reason::Collective
    )
}

#[cfg(test)]
mod tests {
    use airamp_telemetry::{Datatype, Kind, Path};

    use super::*;
    use crate::tally::Counted;

    const S: u64 = 1_000_000_000;

    fn grown(calls: u64, fallbacks: &[(Reason, u64)], errors: &[(i32, u64)]) -> Tally {
        let counted = Counted { calls, ..Counted::default() };
        Tally {
            calls: BTreeMap::from([((Kind::AllReduce, Path::Vendor, Datatype(7)), counted)]),
            fallbacks: fallbacks.iter().copied().collect(),
            errors: errors.iter().copied().collect(),
            ..Tally::default()
        }
    }

    #[test]
    fn five_errors_within_ten_seconds_are_a_burst_and_their_result_is_named() {
        let mut storms = Storms::default();
        for second in 0..5 {
            assert_eq!(storms.burst(), None);
            storms.take(&grown(1, &[], &[(3, 1)]), second * S);
        }
        assert_eq!(storms.burst(), Some(Burst { errors: 5, result: 3 }));
        storms.forget(14 * S);
        assert_eq!(storms.burst(), None);
    }

    #[test]
    fn an_error_belongs_to_what_happened_up_to_ten_seconds_later_or_at_any_time_before() {
        let mut storms = Storms::default();
        assert!(!storms.had_error_around(0));
        storms.take(&grown(1, &[], &[(6, 1)]), 20 * S);
        storms.forget(90 * S);
        assert!(storms.had_error_around(5 * S) && storms.had_error_around(30 * S));
        assert!(!storms.had_error_around(31 * S));
    }

    #[test]
    fn calls_that_go_to_the_vendor_for_want_of_memory_are_a_storm() {
        let mut storms = Storms::default();
        storms.take(&grown(150, &[(Reason::Memory, 120)], &[]), S);
        let storm = storms.storm().expect("a storm");
        assert_eq!((storm.fallbacks, storm.calls, storm.reason), (120, 150, Reason::Memory));
    }

    #[test]
    fn calls_that_are_too_small_are_none_however_many() {
        let mut storms = Storms::default();
        storms.take(&grown(1000, &[(Reason::Size, 1000)], &[]), S);
        assert_eq!(storms.storm(), None);
    }

    #[test]
    fn a_few_among_many_are_none() {
        let mut storms = Storms::default();
        storms.take(&grown(10_000, &[(Reason::Memory, 200)], &[]), S);
        assert_eq!(storms.storm(), None);
    }

    #[test]
    fn looks_in_quick_succession_do_not_pile_up() {
        let mut storms = Storms::default();
        (0..100_000).for_each(|i| {
            storms.take(&grown(1, &[], &[]), i * 1_000_000);
            storms.forget(i * 1_000_000);
        });
        assert!(storms.calls.entries.len() < 32);
    }
}
