//! Turns what is remembered into what is shown. No decisions here.

use std::collections::BTreeMap;

use airamp_telemetry::State;

use crate::conditions::Limits;
use crate::gain::gain;
use crate::groups::{Group, Member};
use crate::jobs::{Job, Rank};
use crate::name;
use crate::process::Process;
use crate::rates::rates;
use crate::reading::Now;
use crate::rhythm;
use crate::shares::{self, Straggler};
use crate::standing::Behind;
use crate::tally::seconds;
use crate::timings;
use crate::view;
use crate::view::{Class, CommunicatorState, JobState, MemberState, ProcessState};

/// Lags below this are no heat: clocks and schedulers make as much.
const COLD_S: f64 = 0.001;

/// A job at this look.
pub(crate) struct Shown<'a> {
    pub(crate) groups: &'a [Group<'a>],
    pub(crate) classes: Vec<Class>,
    /// The newest process of each rank, and all that live.
    pub(crate) newest: &'a BTreeMap<Option<u32>, &'a Process>,
    pub(crate) live: &'a [&'a Process],
    pub(crate) seconds: f64,
    pub(crate) now: Now,
    pub(crate) limits: &'a Limits,
}

pub(crate) fn job(job: &mut Job, shown: Shown<'_>) -> view::Job {
    let ranks = ranks(job, &shown);
    let recent: Vec<_> = shown.live.iter().map(|process| &process.recent).collect();
    let shares = shares::shares(&recent);
    let compressing = ranks.iter().filter(|rank| rank.totals.compressed_calls > 0).count() as u64;
    let gain = gain(&job.sum, &shown.classes, &shares::best(&recent), compressing);
    let communicators: Vec<_> =
        shown.groups.iter().map(|group| communicator(group, shown.now, shown.limits)).collect();
    view::Job {
        label: job.label.clone(),
        job: job.name.clone(),
        source: job.facts.source.into(),
        pod: job.facts.pod.clone(),
        user: job.facts.user.clone(),
        uid: job.uid,
        mode: name::mode(job.facts.mode).into(),
        state: if shown.live.is_empty() { JobState::Ended } else { JobState::Running },
        started_unix_ms: job.started_unix_ms,
        ended_unix_ms: job.ended.map(|(unix_ms, _)| unix_ms),
        ranks_here: shown.live.len() as u64,
        size: communicators.iter().map(|communicator| communicator.size).max().unwrap_or(0),
        versions: versions(job, &shown),
        vendor: job.facts.vendor.clone(),
        totals: job.sum.view(),
        rates: rates(&job.grown, shown.seconds),
        communication_share: shares.communication,
        waiting_share: shares.waiting,
        host_share: shares.host,
        bound_by: shares::bound_by(&shares, straggler(&ranks, job)),
        gain,
        rhythm: rhythm::of_job(ranks.iter().filter(|rank| tells_its_rhythm(rank)).map(|rank| &rank.rhythm)),
        pace_changes: job.rhythms.view(shown.now),
        ranks,
        communicators,
        classes: shown.classes,
        decisions: job.decisions.records(),
        latency: timings::latency(&job.sum, &job.exemplars),
        sizes: timings::sizes(&job.sum),
    }
}

fn versions(job: &Job, shown: &Shown<'_>) -> Vec<String> {
    let mut versions: Vec<String> =
        shown.live.iter().map(|process| process.snapshot.identity.version.clone()).collect();
    versions.sort_unstable();
    versions.dedup();
    versions.truncate(16);
    if versions.is_empty() { vec![job.facts.version.clone()] } else { versions }
}

fn straggler(ranks: &[view::Rank], job: &Job) -> Option<Straggler> {
    let last = ranks.iter().filter(|rank| rank.last_share.is_some_and(|share| share > 0.0));
    let worst = last.max_by(|a, b| a.last_share.unwrap_or(0.0).total_cmp(&b.last_share.unwrap_or(0.0)))?;
    let lag_s = job.ranks.get(&worst.rank).map_or(0.0, |state| state.lags.mean_lag_s());
    Some(Straggler { rank: worst.rank?, last_share: worst.last_share?, lag_s })
}

fn ranks(job: &mut Job, shown: &Shown<'_>) -> Vec<view::Rank> {
    let missing: Vec<u32> = shown.groups.iter().flat_map(Group::missing).collect();
    let over = over(shown.live);
    let mut ranks: Vec<view::Rank> =
        job.ranks.iter_mut().map(|(rank, state)| one_rank(*rank, state, shown, &over)).collect();
    let most = ranks.iter().filter_map(|rank| rank.lag_s).fold(COLD_S, f64::max);
    for rank in &mut ranks {
        let is_missing = rank.rank.is_some_and(|rank| missing.contains(&rank));
        rank.heat = if is_missing { 1.0 } else { (rank.lag_s.unwrap_or(0.0) / most).clamp(0.0, 1.0) };
    }
    ranks
}

fn one_rank(
    rank: Option<u32>,
    state: &mut Rank,
    shown: &Shown<'_>,
    over: impl Fn(&Rank) -> ProcessState,
) -> view::Rank {
    if let Some(process) = shown.newest.get(&rank) {
        state.shown = facts(rank, process);
    } else {
        state.shown.rank = rank;
        state.shown.process_state = over(state);
    }
    let late = state.lags.once_late(shown.limits.late_after_ns).is_some() || state.lags.always_late();
    view::Rank {
        lag_s: state.lags.lag_s(),
        last_share: state.lags.last_share(),
        late,
        totals: state.sum.view(),
        rates: rates(&state.grown, shown.seconds),
        ..state.shown.clone()
    }
}

/// Gone is who was there together with one that lives, and is missed: not a rank of the job's last run, nor a number
/// under which a process was known for a while, nor one that no communicator had shown to be of the job, as others were.
fn over(live: &[&Process]) -> impl Fn(&Rank) -> ProcessState {
    let first_started_ns = live.iter().map(|process| process.snapshot.started_ns).min();
    let is_all_unknown = live.iter().all(|process| !process.settled);
    move |rank| {
        let was_there = |ended_ns: u64| first_started_ns.is_none_or(|started_ns| started_ns < ended_ns);
        let is_missed = was_there(rank.ended_ns) || (is_all_unknown && was_there(rank.unknown_ended_ns));
        if is_missed { ProcessState::Gone } else { ProcessState::Left }
    }
}

/// What is said of one in which the library is inert stands still.
fn tells_its_rhythm(rank: &view::Rank) -> bool {
    let is_live = !matches!(rank.process_state, ProcessState::Gone | ProcessState::Left);
    is_live && rank.state != State::Inert.name()
}

fn facts(rank: Option<u32>, process: &Process) -> view::Rank {
    let identity = &process.snapshot.identity;
    let own = process.snapshot.communicators.first().map(|communicator| &communicator.facts);
    view::Rank {
        rank,
        local_rank: u32::try_from(identity.local_rank).ok(),
        pid: process.snapshot.pid,
        process_state: process.state,
        state: process.snapshot.state.name().into(),
        version: identity.version.clone(),
        command: identity.command.clone(),
        step_id: identity.step_id.clone(),
        device: own.and_then(|facts| u32::try_from(facts.device).ok()),
        device_uuid: own.map(|facts| name::device(&facts.device_uuid)).unwrap_or_default(),
        nic: own.map(|facts| name::padded(&facts.nic)).unwrap_or_default(),
        rhythm: rhythm::of_process(&process.snapshot),
        ghosts: process
            .snapshot
            .ghosts_measured
            .map(|(without, with)| view::GhostGain { without_s: seconds(without), with_s: seconds(with) }),
        ..view::Rank::default()
    }
}

fn communicator(group: &Group<'_>, now: Now, limits: &Limits) -> view::Communicator {
    let parent = group.members.iter().map(|member| member.communicator.facts.parent).find(|name| *name != 0);
    view::Communicator {
        name: group.name(),
        parent: parent.map(name::communicator),
        slot: group.slot,
        size: group.size(),
        ranks: group.members.iter().map(|one| member(one, now)).collect(),
        state: state(group, limits),
        missing: group.missing(),
        elsewhere: group.elsewhere(),
        behind_sequence: group.verdict.hung.as_ref().map(|hung| hung.sequence),
    }
}

fn state(group: &Group<'_>, limits: &Limits) -> CommunicatorState {
    let late = |behind: &Option<Behind>| behind.is_some_and(|behind| behind.for_ns > limits.late_after_ns);
    if !group.is_open() {
        CommunicatorState::Ended
    } else if group.members.iter().any(|member| member.communicator.poisoned != 0) {
        CommunicatorState::Poisoned
    } else if group.verdict.hung.is_some() {
        CommunicatorState::Hung
    } else if group.verdict.behind.iter().any(late) {
        CommunicatorState::Late
    } else {
        CommunicatorState::Running
    }
}

fn member(member: &Member<'_>, now: Now) -> view::Member {
    let own = member.communicator;
    let in_flight = member.process.in_flight_since_ns(own);
    let inside = (own.inside > 0 && own.inside_since_ns > 0).then_some(own.inside_since_ns);
    view::Member {
        rank: member.process.rank,
        member: u32::try_from(own.facts.rank).unwrap_or(u32::MAX),
        pid: member.process.snapshot.pid,
        issued: own.issued,
        completed: own.completed,
        oldest_in_flight_s: in_flight.map(|since| now.seconds_since(since)),
        inside_host_s: inside.map(|since| now.seconds_since(since)),
        agreement: own.agreement.name().into(),
        reason: own.agreement_reason.clone(),
        arena_bytes: own.arena_bytes,
        compressed_calls: own.sums.compressed_calls,
        trial_calls: own.sums.trial_calls,
        vnmse: own.vnmse.filter(|vnmse| vnmse.is_finite()),
        saturated: own.sums.codec.saturated,
        nonfinite: own.sums.codec.nonfinite,
        codec_s: seconds(own.sums.codec_ns),
        pattern: pattern(member),
        ghosts: own.sums.ghosts,
        state: member_state(member),
    }
}

fn pattern(member: &Member<'_>) -> view::Pattern {
    let (pattern, sums) = (&member.communicator.pattern, &member.communicator.sums);
    let confidence = f64::from(pattern.confidence);
    view::Pattern {
        state: pattern.state.name().into(),
        confidence: if confidence.is_finite() { confidence.clamp(0.0, 1.0) } else { 0.0 },
        period_s: (pattern.period_ns > 0).then(|| seconds(pattern.period_ns)),
        step: pattern.step,
        period_calls: (pattern.period_calls > 0).then_some(pattern.period_calls),
        deviations: sums.deviations.iter().fold(0, |all, one| all.saturating_add(*one)),
        pace_changes: sums.pace_changes,
    }
}

fn member_state(member: &Member<'_>) -> MemberState {
    if member.communicator.ended.is_some() {
        MemberState::Ended
    } else if member.is_dead() {
        MemberState::Dead
    } else if member.communicator.poisoned != 0 {
        MemberState::Poisoned
    } else {
        MemberState::Running
    }
}
