//! Ten minutes of every job: one point per look. Bounded in jobs, looks and ranks; of the jobs that do not run the one
//! that ran longest ago makes room, and one that comes while too many run has no history until there is some. The board
//! feeds it and reads it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use airamp_observer::view::{Job, JobState, Node};
use serde::Serialize;

const LOOKS: usize = 600;
const JOBS: usize = 64;

/// Series of lags in all jobs together: at 600 looks of four bytes they come to 4.7 MiB.
const RANKS: usize = 2048;

#[derive(Default)]
pub(crate) struct History {
    jobs: BTreeMap<String, Series>,
}

#[derive(Default)]
struct Series {
    points: VecDeque<Point>,
    /// Each as long as `points`; NaN where the rank had no lag.
    lags: BTreeMap<u32, VecDeque<f32>>,
}

#[derive(Clone, Copy)]
struct Point {
    time_unix_ms: u64,
    logical_bytes_per_s: f64,
    wire_bytes_per_s: f64,
    saved_bytes_per_s: f64,
    mean_latency_s: Option<f64>,
    calls_per_s: f64,
}

/// A job's series, as `/api/v1/timeline` gives them.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Timeline<'a> {
    schema: u32,
    job: &'a str,
    times_unix_ms: Vec<u64>,
    logical_bytes_per_s: Vec<f64>,
    wire_bytes_per_s: Vec<f64>,
    saved_bytes_per_s: Vec<f64>,
    mean_latency_s: Vec<Option<f64>>,
    calls_per_s: Vec<f64>,
    lag_s: BTreeMap<u32, Vec<Option<f32>>>,
}

impl History {
    pub(crate) fn add(&mut self, node: &Node) {
        let is_running = |job: &&Job| job.state == JobState::Running;
        let running: BTreeSet<&str> =
            node.jobs.iter().filter(is_running).map(|job| job.label.as_str()).collect();
        for job in &node.jobs {
            if !self.jobs.contains_key(&job.label) && !self.make_room(job, &running) {
                continue;
            }
            let room_for_ranks =
                RANKS.saturating_sub(self.jobs.values().map(|series| series.lags.len()).sum());
            let series = self.jobs.entry(job.label.clone()).or_default();
            if job.state == JobState::Running {
                series.add(node.time_unix_ms, job, room_for_ranks);
            }
        }
    }

    /// False: there is none. One that runs makes room for nobody, and for one that has ended nobody does: else they would
    /// take it from each other at every look.
    fn make_room(&mut self, job: &Job, running: &BTreeSet<&str>) -> bool {
        if self.jobs.len() < JOBS {
            return true;
        }
        let over = self.jobs.iter().filter(|(label, _)| !running.contains(label.as_str()));
        let oldest = over.min_by_key(|(_, series)| series.last()).map(|(label, _)| label.clone());
        job.state == JobState::Running && oldest.is_some_and(|oldest| self.jobs.remove(&oldest).is_some())
    }

    /// The points after that time; nothing for a job that was never seen.
    pub(crate) fn timeline(&self, job: &str, since_unix_ms: u64) -> Option<Timeline<'_>> {
        let (job, series) = self.jobs.get_key_value(job)?;
        Some(series.timeline(job, since_unix_ms))
    }
}

impl Series {
    fn last(&self) -> u64 {
        self.points.back().map_or(0, |point| point.time_unix_ms)
    }

    fn add(&mut self, time_unix_ms: u64, job: &Job, room_for_ranks: usize) {
        let rates = &job.rates;
        self.points.push_back(Point {
            time_unix_ms,
            logical_bytes_per_s: rates.logical_bytes_per_s,
            wire_bytes_per_s: rates.wire_bytes_per_s,
            saved_bytes_per_s: rates.saved_bytes_per_s,
            mean_latency_s: rates.mean_latency_s,
            calls_per_s: rates.calls_per_s,
        });
        self.add_lags(job, room_for_ranks);
        if self.points.len() > LOOKS {
            self.points.pop_front();
            for lags in self.lags.values_mut() {
                lags.pop_front();
            }
            self.lags.retain(|_, lags| lags.iter().any(|lag| !lag.is_nan()));
        }
    }

    fn add_lags(&mut self, job: &Job, mut room: usize) {
        let before = self.points.len() - 1;
        for rank in &job.ranks {
            let (Some(number), Some(lag)) = (rank.rank, rank.lag_s) else { continue };
            if !self.lags.contains_key(&number) {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            let lags = self.lags.entry(number).or_default();
            lags.resize(before, f32::NAN);
            lags.push_back(lag as f32);
        }
        self.lags.values_mut().for_each(|lags| lags.resize(before + 1, f32::NAN));
    }

    fn timeline<'a>(&self, job: &'a str, since_unix_ms: u64) -> Timeline<'a> {
        let from = self.points.partition_point(|point| point.time_unix_ms <= since_unix_ms);
        let points = || self.points.iter().skip(from);
        let known = |lag: &f32| Some(*lag).filter(|lag| lag.is_finite());
        let lags = |lags: &VecDeque<f32>| lags.iter().skip(from).map(known).collect();
        Timeline {
            schema: 1,
            job,
            times_unix_ms: points().map(|point| point.time_unix_ms).collect(),
            logical_bytes_per_s: points().map(|point| point.logical_bytes_per_s).collect(),
            wire_bytes_per_s: points().map(|point| point.wire_bytes_per_s).collect(),
            saved_bytes_per_s: points().map(|point| point.saved_bytes_per_s).collect(),
            mean_latency_s: points().map(|point| point.mean_latency_s).collect(),
            calls_per_s: points().map(|point| point.calls_per_s).collect(),
            lag_s: self.lags.iter().map(|(rank, of_rank)| (*rank, lags(of_rank))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_observer::view::Rank;

    fn node(time_unix_ms: u64, label: &str, lags: &[(u32, Option<f64>)]) -> Node {
        let ranks =
            lags.iter().map(|(rank, lag_s)| Rank { rank: Some(*rank), lag_s: *lag_s, ..Rank::default() });
        let mut job = Job { label: label.to_owned(), ranks: ranks.collect(), ..Job::default() };
        job.rates.calls_per_s = time_unix_ms as f64;
        Node { time_unix_ms, jobs: vec![job], ..Node::default() }
    }

    fn at(history: &History, job: &str, since: u64) -> serde_json::Value {
        serde_json::to_value(history.timeline(job, since)).expect("it is JSON")
    }

    #[test]
    fn a_rank_that_comes_late_or_has_no_lag_shows_as_null_there() {
        let mut history = History::default();
        history.add(&node(1, "a", &[(0, Some(0.5))]));
        history.add(&node(2, "a", &[(0, None), (1, Some(0.25))]));
        assert_eq!(at(&history, "a", 0)["lag_s"], serde_json::json!({"0": [0.5, null], "1": [null, 0.25]}));
        assert_eq!(at(&history, "a", 1)["times_unix_ms"], serde_json::json!([2]));
        assert_eq!(at(&history, "b", 0), serde_json::Value::Null);
    }

    #[test]
    fn the_oldest_look_leaves_when_there_are_six_hundred() {
        let mut history = History::default();
        for time in 1..=700 {
            history.add(&node(time, "a", &[(0, Some(1.0))]));
        }
        let timeline = at(&history, "a", 0);
        for series in ["times_unix_ms", "calls_per_s", "mean_latency_s"] {
            assert_eq!(timeline[series].as_array().map(Vec::len), Some(LOOKS), "{series}");
        }
        assert_eq!(timeline["lag_s"]["0"].as_array().map(Vec::len), Some(LOOKS));
        assert_eq!(timeline["times_unix_ms"][0], 101);
    }

    #[test]
    fn many_jobs_and_many_ranks_stay_bounded_and_the_newest_job_is_kept() {
        let mut history = History::default();
        let lags: Vec<_> = (0..1000).map(|rank| (rank, Some(1.0))).collect();
        for time in 1..=200_u64 {
            history.add(&node(time, &format!("job{time}"), &lags));
        }
        assert!(history.jobs.len() <= JOBS);
        assert!(history.jobs.values().map(|series| series.lags.len()).sum::<usize>() <= RANKS);
        assert!(history.timeline("job200", 0).is_some());
    }

    #[test]
    fn more_jobs_at_once_than_there_is_room_for_do_not_take_it_from_each_other() {
        let mut history = History::default();
        let look = |history: &mut History, time: u64, jobs: std::ops::Range<usize>, ended: usize| {
            let mut all = Node { time_unix_ms: time, ..Node::default() };
            for number in jobs {
                all.jobs.extend(node(time, &format!("job{number:03}"), &[]).jobs);
            }
            all.jobs.iter_mut().take(ended).for_each(|job| job.state = JobState::Ended);
            history.add(&all);
        };
        let kept = |history: &History, job: &str| {
            history.timeline(job, 0).map(|timeline| timeline.times_unix_ms.len())
        };
        (1..=10).for_each(|time| look(&mut history, time, 0..70, 0));
        assert_eq!((kept(&history, "job000"), kept(&history, "job063")), (Some(10), Some(10)));
        assert_eq!(kept(&history, "job064"), None);
        look(&mut history, 11, 0..70, 2);
        assert_eq!((kept(&history, "job000"), kept(&history, "job001")), (None, None));
        assert_eq!((kept(&history, "job064"), kept(&history, "job065")), (Some(1), Some(1)));
        look(&mut history, 12, 0..70, 2);
        assert_eq!((kept(&history, "job000"), kept(&history, "job064")), (None, Some(2)));
        assert_eq!(kept(&history, "job002"), Some(12));
    }
}
