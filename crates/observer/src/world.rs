//! The node as it is remembered from look to look: readings in, `view::Node` out. Pure: files, clocks and names
//! come from `Observer`.

use std::collections::{BTreeMap, BTreeSet};

use airamp_telemetry::snapshot::Call;

use crate::conditions::{Case, Limits, Sampled, conditions};
use crate::events::Events;
use crate::findings::{Changes, Condition, Findings};
use crate::groups::{Group, is_shown};
use crate::jobs::{Job, Jobs};
use crate::name;
use crate::process::Process;
use crate::rates::rates;
use crate::reading::{Now, Reading};
use crate::show::{self, Shown};
use crate::spikes::{Sample, Spike};
use crate::tally::Tally;
use crate::timings::class_of;
use crate::view;

/// How long an ended job is shown. It is remembered for longer, so that its counters go on if it comes back.
const SHOWN_AFTER_END_NS: u64 = 600_000_000_000;
/// Processes that are gone and that somebody might wait for.
const MOST_DEAD_PER_USER: usize = 1024;

pub(crate) struct World {
    node: String,
    limits: Limits,
    processes: BTreeMap<u64, Process>,
    jobs: Jobs,
    sum: Tally,
    events: Events,
    findings: Findings,
    last_look_ns: u64,
}

/// What a look gives: the view, and what began, for evidence.
pub(crate) struct Looked {
    pub(crate) node: view::Node,
    pub(crate) began: Vec<view::Finding>,
}

impl World {
    pub(crate) fn new(node: String, limits: Limits) -> Self {
        let (processes, jobs, sum) = (BTreeMap::new(), Jobs::default(), Tally::default());
        let (events, findings) = (Events::default(), Findings::default());
        Self { node, limits, processes, jobs, sum, events, findings, last_look_ns: 0 }
    }

    /// Before a look: of these no reading will come any more.
    pub(crate) fn lose(&mut self, ids: &[u64], now: Now) {
        for id in ids {
            if let Some(process) = self.processes.get_mut(id) {
                process.lose(now);
            }
        }
    }

    /// From the next look on.
    pub(crate) fn judge_by(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Processes that no reading is about stay as they were.
    pub(crate) fn look(&mut self, mut readings: Vec<Reading>, now: Now) -> Looked {
        let elapsed_s = if self.last_look_ns == 0 { 0.0 } else { now.seconds_since(self.last_look_ns) };
        self.jobs.begin_look(elapsed_s);
        let mut grown = Tally::default();
        let mut samples = BTreeMap::new();
        for reading in &mut readings {
            let process = self.processes.entry(reading.id).or_insert_with(|| Process::new(reading));
            process.take(reading, self.last_look_ns, now);
        }
        // Who belongs together shows when all were read.
        self.jobs.assign(&mut self.processes);
        for reading in readings {
            self.take(reading, &mut grown, &mut samples, now);
        }
        self.jobs.settle(&self.processes, now);
        let (jobs, conditions) = self.show_jobs(samples, elapsed_s, now);
        let changes = self.findings.update(conditions, now.ns, now.unix_ms);
        self.tell(&changes, now);
        self.forget(now);
        self.last_look_ns = now.ns;
        let node = view::Node {
            schema: view::SCHEMA,
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time_unix_ms: now.unix_ms,
            processes: self.processes.values().filter(|process| process.is_live()).count() as u64,
            jobs,
            events: self.events.view(),
            findings: self.findings.view(),
            totals: self.sum.view(),
            rates: rates(&grown, elapsed_s),
            ..view::Node::default()
        };
        Looked { node, began: changes.began }
    }

    /// The processes of a job that live, or that somebody might wait for: whose calls are evidence.
    pub(crate) fn processes_of(&self, label: &str) -> Vec<(u64, &Process)> {
        let of_job =
            |process: &&Process| self.jobs.by_number.get(&process.job).is_some_and(|job| job.label == label);
        self.processes
            .iter()
            .map(|(id, process)| (*id, process))
            .filter(|(_, process)| of_job(process))
            .collect()
    }

    pub(crate) fn process(&self, id: u64) -> Option<&Process> {
        self.processes.get(&id)
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    fn take(
        &mut self,
        reading: Reading,
        grown: &mut Tally,
        samples: &mut BTreeMap<u64, Vec<Sample<Sampled>>>,
        now: Now,
    ) {
        let Some(process) = self.processes.get_mut(&reading.id) else { return };
        self.jobs.add(process, now);
        self.sum.add(&process.grown.clone().without_histograms());
        if process.grown_lately {
            grown.add(&process.grown);
        }
        let Some(job) = self.jobs.by_number.get_mut(&process.job) else { return };
        reading.decisions.iter().for_each(|decision| job.decisions.take(&decision.json));
        for call in &reading.sampled {
            job.exemplars.take(call, process, now);
        }
        let of_job = samples.entry(process.job).or_default();
        of_job.extend(reading.sampled.into_iter().filter_map(|call| sampled(call, process)));
        for event in reading.events {
            job.rhythms.told(&event, process);
            self.events.told(event, process, &job.label, &self.node, now);
        }
    }

    fn show_jobs(
        &mut self,
        mut samples: BTreeMap<u64, Vec<Sample<Sampled>>>,
        seconds: f64,
        now: Now,
    ) -> (Vec<view::Job>, Vec<Condition>) {
        let mut by_job: BTreeMap<u64, Vec<(u64, &Process)>> = BTreeMap::new();
        for (id, process) in &self.processes {
            by_job.entry(process.job).or_default().push((*id, process));
        }
        let (mut views, mut found) = (Vec::new(), Vec::new());
        for (number, job) in &mut self.jobs.by_number {
            if job.ended.is_some_and(|(_, ended_ns)| now.ns.saturating_sub(ended_ns) > SHOWN_AFTER_END_NS) {
                continue;
            }
            let processes = by_job.remove(number).unwrap_or_default();
            let spike = job.spikes.take(samples.remove(number).unwrap_or_default());
            let (view, conditions) = show_job(job, &processes, spike, seconds, now, &self.limits);
            views.push(view);
            found.extend(conditions);
        }
        (views, found)
    }

    fn tell(&mut self, changes: &Changes, now: Now) {
        for (kind, findings) in [("finding_began", &changes.began), ("finding_ended", &changes.ended)] {
            for finding in findings {
                let whose = self.processes.values().find(|process| {
                    let job = self.jobs.by_number.get(&process.job);
                    process.rank.is_some()
                        && process.rank == finding.ranks.first().copied()
                        && job.is_some_and(|job| job.label == finding.job)
                });
                self.events.found(kind, finding, whose, &self.node, now);
            }
        }
        self.events.settle(now);
    }

    /// A process that is gone is kept while somebody might wait for it, and a while after they have given up.
    fn forget(&mut self, now: Now) {
        let live = self.processes.values().filter(|process| process.is_live());
        let theirs = live.flat_map(|process| &process.snapshot.communicators);
        let shown: BTreeSet<u64> =
            theirs.filter(|one| is_shown(one, now.ns)).map(|one| one.facts.name).collect();
        self.processes.retain(|_, process| {
            process.forget_arrivals();
            let mut open = process.snapshot.communicators.iter().filter(|one| one.ended.is_none());
            process.is_live() || open.any(|one| one.facts.name != 0 && shown.contains(&one.facts.name))
        });
        self.forget_oldest_dead();
    }

    /// A user whose files come and go can leave any number of dead processes.
    fn forget_oldest_dead(&mut self) {
        let dead = self.processes.iter().filter(|(_, process)| !process.is_live());
        let mut dead: Vec<(u64, u64, u32)> =
            dead.map(|(id, process)| (process.gone_ns, *id, process.snapshot.uid)).collect();
        dead.sort_unstable();
        let mut kept: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, id, uid) in dead.into_iter().rev() {
            let of_user = kept.entry(uid).or_default();
            *of_user += 1;
            if *of_user > MOST_DEAD_PER_USER {
                self.processes.remove(&id);
            }
        }
    }
}

fn show_job(
    job: &mut Job,
    processes: &[(u64, &Process)],
    spike: Option<Spike<Sampled>>,
    seconds: f64,
    now: Now,
    limits: &Limits,
) -> (view::Job, Vec<Condition>) {
    let groups = job.groups.look(processes, now.ns, limits.hang_after_ns);
    groups.iter().for_each(|group| note_lags(job, group));
    job.rhythms.follow(&groups, now.ns);
    let mut newest: BTreeMap<Option<u32>, &Process> = BTreeMap::new();
    for (_, process) in processes.iter().filter(|(_, process)| process.is_live()) {
        let known = newest.entry(process.rank).or_insert(process);
        if process.snapshot.started_ns > known.snapshot.started_ns {
            *known = process;
        }
    }
    let live: Vec<&Process> =
        processes.iter().map(|(_, process)| *process).filter(|process| process.is_live()).collect();
    let classes = job.decisions.classes();
    let case = Case { job, groups: &groups, classes: &classes, processes: &newest, spike, now_ns: now.ns };
    let found = conditions(&case, limits);
    let shown = Shown { groups: &groups, classes, newest: &newest, live: &live, seconds, now, limits };
    (show::job(job, shown), found)
}

fn note_lags(job: &mut Job, group: &Group<'_>) {
    let name = group.name();
    for (place, member) in group.judged().enumerate() {
        let Some(rank) = job.ranks.get_mut(&member.process.rank) else { continue };
        if let Some(lag) = group.comparison.lags.get(place).filter(|_| group.comparison.sequences > 0) {
            rank.lags.arrived(lag, group.comparison.sequences, &name);
        }
        if let Some(behind) = group.verdict.behind.get(place).copied().flatten() {
            let stopped = member.process.state == view::ProcessState::Stopped;
            rank.lags.is_behind(behind.for_ns, behind.sequence, &name, stopped);
        }
    }
}

/// `None`: one of the first, which say nothing about the next.
fn sampled(call: Call, process: &mut Process) -> Option<Sample<Sampled>> {
    let key = (call.kind, call.path, class_of(&call));
    let mut communicators = process.snapshot.communicators.iter();
    let own = communicators.find(|one| Some(one.slot) == call.slot);
    if own.is_some_and(|own| process.first_calls.take(key, &call, own)) {
        return None;
    }
    let clique = own.map_or(0, |own| own.facts.name);
    let communicator = own.map(|own| name::communicator(own.facts.name)).unwrap_or_default();
    let seconds = f64::from(call.device_ns) / 1e9;
    let occasion = (clique, call.sequence);
    Some(Sample { key, seconds, occasion, whose: Sampled { rank: process.rank, communicator, call } })
}
