//! Who came last: compares when the ranks of a communicator issued the same sequence. Pure; only the ranks of
//! this node are seen, and a sequence counts when all of them have issued it.

use airamp_telemetry::snapshot::{Arrival, Communicator};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// Sequences that all members issued since the last comparison and whose times are still known.
    pub(crate) sequences: u64,
    /// The largest sequence that all members have issued.
    pub(crate) newest: u64,
    /// One for each member, in their order.
    pub(crate) lags: Vec<Lag>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) sum_ns: u64,
    pub(crate) most_ns: u64,
    pub(crate) most_at: u64,
    /// How often it was the last.
    pub(crate) last: u64,
}

/// Compares sequences above `after`. Fewer than two members have nobody to wait for.
pub(crate) fn compare(members: &[&Communicator], after: u64) -> Comparison {
    let newest = members.iter().map(|member| member.issued).min().unwrap_or(0);
    let mut comparison = Comparison { newest, lags: vec![Lag::default(); members.len()], sequences: 0 };
    if members.len() < 2 || newest <= after {
        return comparison;
    }
    let known: Vec<Vec<Arrival>> = members.iter().map(|member| known(member, after, newest)).collect();
    let mut places = vec![0; known.len()];
    let mut times = vec![0; known.len()];
    let Some((first, others)) = known.split_first() else { return comparison };
    for arrival in first {
        times[0] = arrival.at_ns;
        if seek(others, &mut places[1..], arrival.sequence, &mut times[1..]) {
            enter(&mut comparison, arrival.sequence, &times);
        }
    }
    comparison
}

/// When a member issued the sequence, if that is still known.
pub(crate) fn arrival_of(member: &Communicator, sequence: u64) -> Option<u64> {
    let mut all = member.arrivals.iter().chain(&member.milestones);
    all.find(|arrival| arrival.sequence == sequence).map(|arrival| arrival.at_ns)
}

fn known(member: &Communicator, after: u64, newest: u64) -> Vec<Arrival> {
    let wanted = |arrival: &&Arrival| arrival.sequence > after && arrival.sequence <= newest;
    let mut known: Vec<Arrival> =
        member.milestones.iter().chain(&member.arrivals).filter(wanted).copied().collect();
    known.sort_unstable();
    known.dedup_by_key(|arrival| arrival.sequence);
    known
}

/// Whether all others know the sequence; moves their places up to it.
fn seek(others: &[Vec<Arrival>], places: &mut [usize], sequence: u64, times: &mut [u64]) -> bool {
    for ((other, place), time) in others.iter().zip(places).zip(times) {
        while other.get(*place).is_some_and(|arrival| arrival.sequence < sequence) {
            *place += 1;
        }
        match other.get(*place) {
            Some(arrival) if arrival.sequence == sequence => *time = arrival.at_ns,
            _ => return false,
        }
    }
    true
}

fn enter(comparison: &mut Comparison, sequence: u64, times: &[u64]) {
    let first = times.iter().copied().min().unwrap_or(0);
    let last = times.iter().copied().max().unwrap_or(0);
    comparison.sequences += 1;
    for (lag, time) in comparison.lags.iter_mut().zip(times) {
        let behind = time.saturating_sub(first);
        lag.sum_ns = lag.sum_ns.saturating_add(behind);
        if behind > lag.most_ns {
            (lag.most_ns, lag.most_at) = (behind, sequence);
        }
        lag.last += u64::from(*time == last && last > first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::communicator;

    fn with(arrivals: &[(u64, u64)]) -> Communicator {
        let arrivals =
            arrivals.iter().map(|(sequence, at_ns)| Arrival { sequence: *sequence, at_ns: *at_ns });
        let arrivals: Vec<Arrival> = arrivals.collect();
        let issued = arrivals.last().map_or(0, |arrival| arrival.sequence);
        Communicator { arrivals, issued, ..communicator(7, 0, 2) }
    }

    #[test]
    fn the_last_to_arrive_is_named_with_its_distance_from_the_first() {
        let (early, late) = (with(&[(1, 100), (2, 200), (3, 300)]), with(&[(1, 150), (2, 290), (3, 310)]));
        let comparison = compare(&[&early, &late], 0);
        assert_eq!(comparison.sequences, 3);
        assert_eq!(comparison.lags[0], Lag::default());
        assert_eq!(comparison.lags[1], Lag { sum_ns: 150, most_ns: 90, most_at: 2, last: 3 });
    }

    #[test]
    fn a_sequence_is_compared_once_and_only_when_all_have_issued_it() {
        let (ahead, behind) = (with(&[(1, 100), (2, 200), (3, 300)]), with(&[(1, 150), (2, 290)]));
        let first = compare(&[&ahead, &behind], 0);
        assert_eq!((first.sequences, first.newest), (2, 2));
        assert_eq!(compare(&[&ahead, &behind], first.newest).sequences, 0);
    }

    #[test]
    fn sequences_that_one_rank_has_overwritten_are_left_out() {
        let (a, b) = (with(&[(8, 100), (9, 200)]), with(&[(9, 230), (10, 300)]));
        let comparison = compare(&[&a, &b], 0);
        assert_eq!((comparison.sequences, comparison.lags[1].sum_ns), (1, 30));
    }

    #[test]
    fn ranks_that_arrive_together_have_no_last() {
        let (a, b) = (with(&[(1, 100)]), with(&[(1, 100)]));
        assert!(compare(&[&a, &b], 0).lags.iter().all(|lag| lag.last == 0));
    }

    #[test]
    fn hostile_arrivals_neither_panic_nor_overflow() {
        let a = with(&[(u64::MAX, 0), (3, u64::MAX), (3, 5), (u64::MAX, u64::MAX)]);
        let b = with(&[(3, 0), (u64::MAX, u64::MAX), (0, 0), (u64::MAX, 1)]);
        let comparison = compare(&[&a, &b], 0);
        assert!(comparison.sequences <= 4);
    }
}
