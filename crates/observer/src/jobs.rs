//! Jobs and ranks, and what is remembered of them; which process belongs to which is `placing`'s business. Ended
//! ranks stay in the sums; of many, the oldest are added up without their number. Bounded.

mod parties;
mod placing;

use std::collections::{BTreeMap, BTreeSet};

use crate::decisions::Decisions;
use crate::groups::Groups;
use crate::lags::Lags;
use crate::process::Process;
use crate::reading::Now;
use crate::rhythm::Rhythms;
use crate::spikes::Spikes;
use crate::storms::Storms;
use crate::tally::Tally;
use crate::timings::Exemplars;

/// Ended ranks that are remembered by their number, and ended jobs that are remembered at all.
const ENDED_RANKS: usize = 4096;
const ENDED_JOBS: usize = 256;
const LONGEST_NAME: usize = 128;

#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) by_number: BTreeMap<u64, Job>,
    labels: BTreeSet<String>,
    made: u64,
}

#[derive(Default)]
pub(crate) struct Job {
    pub(crate) label: String,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) sum: Tally,
    /// What it grew by since the last look.
    pub(crate) grown: Tally,
    pub(crate) ranks: BTreeMap<Option<u32>, Rank>,
    pub(crate) started_unix_ms: u64,
    /// Unix time and CLOCK_MONOTONIC.
    pub(crate) ended: Option<(u64, u64)>,
    /// When a process of it was last known to live.
    last_alive_ns: u64,
    /// Of its newest process.
    pub(crate) facts: Facts,
    pub(crate) groups: Groups,
    pub(crate) decisions: Decisions,
    pub(crate) spikes: Spikes,
    pub(crate) storms: Storms,
    pub(crate) rhythms: Rhythms,
    pub(crate) exemplars: Exemplars,
    /// Ranks of its live processes, as they were placed last.
    live: BTreeSet<Option<u32>>,
}

#[derive(Clone, Default)]
pub(crate) struct Facts {
    pub(crate) source: &'static str,
    pub(crate) pod: String,
    pub(crate) user: String,
    pub(crate) mode: u8,
    pub(crate) vendor: String,
    pub(crate) version: String,
}

#[derive(Default)]
pub(crate) struct Rank {
    pub(crate) sum: Tally,
    pub(crate) grown: Tally,
    pub(crate) lags: Lags,
    pub(crate) last_seen_ns: u64,
    /// When its newest process that was seen to end was last known to live; 0: none was.
    pub(crate) ended_ns: u64,
    /// The same of those that no communicator had shown to be of this job.
    pub(crate) unknown_ended_ns: u64,
    /// As it was shown last, without numbers: for when its process is gone.
    pub(crate) shown: crate::view::Rank,
}

impl Jobs {
    pub(crate) fn begin_look(&mut self, elapsed_s: f64) {
        for job in self.by_number.values_mut() {
            job.grown = Tally::default();
            for rank in job.ranks.values_mut() {
                rank.grown = Tally::default();
                rank.lags.begin_look(elapsed_s);
            }
        }
    }

    /// Adds what the process grew by to its rank and its job.
    pub(crate) fn add(&mut self, process: &Process, now: Now) {
        let Some(job) = self.by_number.get_mut(&process.job) else { return };
        job.sum.add(&process.grown);
        // What an earlier run left behind says nothing about the one that runs.
        if process.is_live() || job.live.is_empty() {
            let started = process.snapshot.started_unix_ms;
            let anew = job.started_unix_ms == 0 || job.ended.take().is_some();
            job.started_unix_ms = if anew { started } else { job.started_unix_ms.min(started) };
            job.facts = facts(process);
        }
        job.last_alive_ns = job.last_alive_ns.max(process.alive_ns);
        let rank = job.ranks.entry(process.rank).or_default();
        rank.sum.add(&process.grown.clone().without_histograms());
        rank.last_seen_ns = now.ns;
        if process.grown_lately {
            job.storms.take(&process.grown, now.ns);
            job.grown.add(&process.grown);
            rank.grown.add(&process.grown);
        }
    }

    /// After all processes were read: who lives, what has ended, and what is too much to remember.
    pub(crate) fn settle(&mut self, processes: &BTreeMap<u64, Process>, now: Now) {
        for process in processes.values().filter(|process| !process.is_live()) {
            let job = self.by_number.get_mut(&process.job);
            let Some(rank) = job.and_then(|job| job.ranks.get_mut(&process.rank)) else { continue };
            let ended_ns = if process.settled { &mut rank.ended_ns } else { &mut rank.unknown_ended_ns };
            *ended_ns = process.alive_ns.max(*ended_ns);
        }
        for job in self.by_number.values_mut() {
            job.storms.forget(now.ns);
            job.forget_numbers();
            if job.live.is_empty() {
                job.ended.get_or_insert((now.unix_ms_of(job.last_alive_ns), job.last_alive_ns));
            }
        }
        self.add_up_ended_ranks();
        self.forget_ended_jobs();
    }

    fn add_up_ended_ranks(&mut self) {
        let mut ended: Vec<(u64, u64, Option<u32>)> = Vec::new();
        for (number, job) in &self.by_number {
            let gone = job.ranks.iter().filter(|(rank, _)| rank.is_some() && !job.live.contains(*rank));
            ended.extend(gone.map(|(rank, state)| (state.last_seen_ns, *number, *rank)));
        }
        let too_many = ended.len().saturating_sub(ENDED_RANKS);
        if too_many == 0 {
            return;
        }
        ended.sort_unstable();
        for (_, number, rank) in ended.into_iter().take(too_many) {
            let Some(job) = self.by_number.get_mut(&number) else { continue };
            let Some(state) = job.ranks.remove(&rank) else { continue };
            let sum = job.ranks.entry(None).or_default();
            sum.sum.add(&state.sum);
            sum.last_seen_ns = sum.last_seen_ns.max(state.last_seen_ns);
        }
    }

    fn forget_ended_jobs(&mut self) {
        let ended = self.by_number.iter().filter_map(|(number, job)| Some((job.ended?.1, *number)));
        let mut ended: Vec<(u64, u64)> = ended.collect();
        let too_many = ended.len().saturating_sub(ENDED_JOBS);
        ended.sort_unstable();
        for (_, number) in ended.into_iter().take(too_many) {
            if let Some(job) = self.by_number.remove(&number) {
                self.labels.remove(&job.label);
            }
        }
    }
}

impl Job {
    /// A process without a rank in its environment has another number, or none, until its largest communicator is
    /// there. Of one that nobody has any more, and under which nothing was counted, nothing is left.
    fn forget_numbers(&mut self) {
        let live = &self.live;
        self.ranks.retain(|number, rank| {
            let was_seen_to_end = rank.ended_ns > 0 || rank.unknown_ended_ns > 0;
            live.contains(number) || was_seen_to_end || rank.sum != Tally::default()
        });
    }
}

fn facts(process: &Process) -> Facts {
    let identity = &process.snapshot.identity;
    Facts {
        source: identity.job_source.name(),
        pod: identity.pod.clone(),
        user: process.user.clone(),
        mode: identity.mode,
        vendor: identity.vendor.clone(),
        version: identity.version.clone(),
    }
}

fn job_name(process: &Process) -> String {
    process.snapshot.identity.job.chars().take(LONGEST_NAME).collect()
}

/// Names of communicators that tell who belongs together.
fn names(process: &Process) -> impl Iterator<Item = u64> + '_ {
    let live = process.snapshot.communicators.iter().filter(|communicator| communicator.ended.is_none());
    live.map(|communicator| communicator.facts.name).filter(|name| *name != 0)
}
