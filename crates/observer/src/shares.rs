//! Where a job's time goes: communication, waiting for the last rank, the host; and what it is bound by. Pure.
//! docs/diagnosis.md tells what these numbers cannot say.

use std::collections::BTreeMap;

use crate::recent::{Key, Recent};
use crate::view::{Bound, BoundBy};

/// Waiting that is worth the name of a straggler: by wall time, and by the time in communication.
const WAITING: f64 = 0.10;
const WAITING_OF_COMMUNICATION: f64 = 0.4;
const COMMUNICATION: f64 = 0.30;
const HOST: f64 = 0.25;

/// All by wall time, 0 to 1; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) communication: Option<f64>,
    pub(crate) waiting: Option<f64>,
    pub(crate) host: Option<f64>,
}

/// The rank that is most often last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Straggler {
    pub(crate) rank: u32,
    pub(crate) last_share: f64,
    pub(crate) lag_s: f64,
}

/// The mean over the processes of a job.
pub(crate) fn shares(processes: &[&Recent]) -> Shares {
    let best = best(processes);
    let one = |recent: &&Recent| communication(recent, &best);
    let known: Vec<(f64, f64)> = processes.iter().filter_map(one).collect();
    let host =
        processes.iter().filter(|recent| recent.wall_s > 0.0).map(|recent| recent.host_s / recent.wall_s);
    Shares {
        communication: mean(known.iter().map(|(communication, _)| *communication)),
        waiting: (processes.len() > 1).then(|| mean(known.iter().map(|(_, waiting)| *waiting))).flatten(),
        host: mean(host),
    }
}

/// Of each class the least mean over the processes: the last to arrive waits for nobody, and its time is the
/// collective's true cost.
pub(crate) fn best(processes: &[&Recent]) -> BTreeMap<Key, f64> {
    let mut best = BTreeMap::new();
    for load in processes.iter().flat_map(|recent| recent.loads()) {
        let least = best.entry(load.key).or_insert(load.mean_s);
        *least = load.mean_s.min(*least);
    }
    best
}

fn communication(recent: &Recent, best: &BTreeMap<Key, f64>) -> Option<(f64, f64)> {
    let mut known = false;
    let (mut all_s, mut waiting_s) = (0.0, 0.0);
    for load in recent.loads() {
        known = true;
        all_s += load.calls * load.mean_s;
        waiting_s += load.calls * (load.mean_s - best.get(&load.key).copied().unwrap_or(load.mean_s));
    }
    (known && recent.wall_s > 0.0).then(|| (all_s / recent.wall_s, waiting_s / recent.wall_s))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values.filter(|value| value.is_finite()) {
        (sum, count) = (sum + value.clamp(0.0, 1.0), count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}

pub(crate) fn bound_by(shares: &Shares, straggler: Option<Straggler>) -> BoundBy {
    let Some(communication) = shares.communication else {
        let why = "No collective was timed on the device yet.".to_owned();
        return BoundBy { what: Bound::Unknown, why };
    };
    let waiting = shares.waiting.unwrap_or(0.0);
    let host = shares.host.unwrap_or(0.0);
    let (what, why) = if waiting >= WAITING && waiting >= WAITING_OF_COMMUNICATION * communication {
        (Bound::Straggler, waits(waiting, communication, straggler))
    } else if communication - waiting >= COMMUNICATION {
        (Bound::Communication, carries(communication, waiting))
    } else if host >= HOST {
        (Bound::Host, on_host(host, communication))
    } else {
        (Bound::Compute, computes(communication, host))
    };
    BoundBy { what, why }
}

fn waits(waiting: f64, communication: f64, straggler: Option<Straggler>) -> String {
    let shares = format!(
        "{} of the wall time is spent waiting inside collectives ({} in collectives in all)",
        percent(waiting),
        percent(communication)
    );
    match straggler {
        Some(Straggler { rank, last_share, lag_s }) => format!(
            "{shares}: rank {rank} arrives last in {} of them, {:.1} ms behind the first.",
            percent(last_share),
            lag_s * 1e3
        ),
        None => format!("{shares}; which rank comes last is not to be seen on this node."),
    }
}

fn carries(communication: f64, waiting: f64) -> String {
    format!(
        "Collectives take {} of the wall time on the device, of which {} is waiting for late ranks.",
        percent(communication),
        percent(waiting)
    )
}

fn on_host(host: f64, communication: f64) -> String {
    format!(
        "The host spends {} of the wall time inside calls of the library, while collectives take {} on the device.",
        percent(host),
        percent(communication)
    )
}

fn computes(communication: f64, host: f64) -> String {
    format!(
        "Collectives take {} of the wall time on the device and {} on the host; the rest is the program's own.",
        percent(communication),
        percent(host)
    )
}

pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 10.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recent::busy;

    const MS: u64 = 1_000_000;

    #[test]
    fn device_time_of_collectives_by_wall_time_is_the_share_of_communication() {
        let (a, b) = (busy(5, 100, 20 * MS, 10.0, 0), busy(5, 100, 20 * MS, 10.0, 0));
        let shares = shares(&[&a, &b]);
        assert!((shares.communication.unwrap() - 0.2).abs() < 1e-9);
        assert!(shares.waiting.unwrap() < 1e-9);
        assert_eq!(bound_by(&shares, None).what, Bound::Compute);
    }

    #[test]
    fn ranks_that_take_longer_than_the_fastest_wait_for_it() {
        let (waiting, last) = (busy(5, 100, 50 * MS, 10.0, 0), busy(5, 100, 10 * MS, 10.0, 0));
        let shares = shares(&[&waiting, &last]);
        assert!((shares.waiting.unwrap() - 0.2).abs() < 1e-9);
        let straggler = Straggler { rank: 3, last_share: 0.9, lag_s: 0.04 };
        let bound = bound_by(&shares, Some(straggler));
        assert_eq!(bound.what, Bound::Straggler);
        assert!(bound.why.contains("rank 3") && bound.why.contains("20%"), "{}", bound.why);
    }

    #[test]
    fn much_communication_without_waiting_is_bound_by_communication() {
        let (a, b) = (busy(5, 100, 60 * MS, 10.0, 0), busy(5, 100, 58 * MS, 10.0, 0));
        let bound = bound_by(&shares(&[&a, &b]), None);
        assert_eq!(bound.what, Bound::Communication);
        assert!(bound.why.contains("59%"), "{}", bound.why);
    }

    #[test]
    fn much_time_in_calls_and_little_on_the_device_is_bound_by_the_host() {
        let a = busy(5, 100, MS, 10.0, 4000 * MS);
        assert_eq!(bound_by(&shares(&[&a]), None).what, Bound::Host);
    }

    #[test]
    fn without_a_timed_call_nothing_is_said() {
        let shares = shares(&[&Recent::default()]);
        assert_eq!((shares.communication, bound_by(&shares, None).what), (None, Bound::Unknown));
    }

    #[test]
    fn shares_stay_between_nothing_and_all() {
        let a = busy(15, u64::MAX, u64::MAX / 4, 1e-9, u64::MAX);
        let shares = shares(&[&a, &a]);
        for share in [shares.communication, shares.waiting, shares.host] {
            assert!((0.0..=1.0).contains(&share.unwrap()), "{share:?}");
        }
    }
}
