//! What is wrong with a job's rhythm at this look: it broke off, a rank comes late for its own, its steps became
//! longer. Conditions like those of `conditions`, which calls this. Pure.

use airamp_telemetry::{Grew, PatternState};

use crate::conditions::{Case, Limits, NAMED, condition};
use crate::findings::Condition;
use crate::groups::{Group, Key, Member};
use crate::rhythm::{Change, Late};
use crate::shares::percent;
use crate::view::FindingKind;

/// A rhythm is broken when nothing fitted it for so many of its steps, and for as long as a hang takes.
const STEPS_BROKEN: u64 = 10;
/// Late by at least this share of a step, so many times in ten seconds, and by a hundredth of them in all: less is the
/// jitter of a busy host. Or once by the limit for late ranks.
const LATE_SHARE: u64 = 10;
const LATE_TIMES: usize = 3;
const LATE_IN_ALL_NS: u64 = 100_000_000;
/// How long a job is said to be slower than it was; then it is how it is.
const SLOWER_FOR_NS: u64 = 300_000_000_000;

pub(crate) fn conditions<'a>(case: &'a Case<'_>, limits: &'a Limits) -> impl Iterator<Item = Condition> + 'a {
    let open = || case.groups.iter().filter(|group| group.is_open());
    silent(case, limits)
        .into_iter()
        .chain(open().filter_map(move |group| broken(case, group, limits)))
        .chain(open().filter_map(move |group| late(case, group, limits)))
        .chain(open().filter_map(|group| slower(case, group)))
}

fn limit_ns(period_ns: u64, limits: &Limits) -> u64 {
    limits.hang_after_ns.max(period_ns.saturating_mul(STEPS_BROKEN))
}

/// No rank of the job has issued anything for many steps, and nobody waits inside a call: whatever it does, it is
/// not what it did.
fn silent(case: &Case<'_>, limits: &Limits) -> Option<Condition> {
    let members = || case.groups.iter().flat_map(|group| group.judged()).filter(|member| member.is_open());
    let locked = members().map(|member| &member.communicator.pattern);
    let step =
        locked.filter(|pattern| pattern.state == PatternState::Locked).max_by_key(|one| one.period_ns)?;
    let last_ns = members().map(|member| member.communicator.issued_ns).max()?;
    let quiet_ns = case.now_ns.saturating_sub(last_ns);
    let waits = members().any(|member| member.communicator.inside > 0);
    let hung = case.groups.iter().any(|group| group.verdict.hung.is_some());
    if last_ns == 0 || waits || hung || step.period_ns == 0 || quiet_ns <= limit_ns(step.period_ns, limits) {
        return None;
    }
    let text = format!(
        "No rank has issued a collective for {:.0} s, where a step took {}; {EXPECTED}, else look at what the ranks do (input, storage, host).",
        quiet_ns as f64 / 1e9,
        span(step.period_ns),
    );
    Some(condition(case, FindingKind::RhythmBroken, String::new(), String::new(), Vec::new(), None, text))
}

const EXPECTED: &str = "this is normal in an evaluation, at a checkpoint and at the end";

fn broken(case: &Case<'_>, group: &Group<'_>, limits: &Limits) -> Option<Condition> {
    let for_ns = |member: &Member<'_>| {
        let since = case.job.rhythms.drifting_since_ns(member.id, member.communicator.slot)?;
        Some(case.now_ns.saturating_sub(since))
    };
    let drifts = |member: &&Member<'_>| {
        for_ns(member).is_some_and(|ns| ns > limit_ns(member.communicator.pattern.period_ns, limits))
    };
    let members: Vec<&Member<'_>> = group.judged().filter(drifts).collect();
    let longest = members.iter().filter_map(|member| for_ns(member)).max()?;
    let name = group.name();
    let ranks = ranks_of(members.iter().filter_map(|member| member.process.rank));
    let text = format!(
        "Communicator {name} has not followed the step that it had learnt for {:.0} s ({}); {EXPECTED}, else the program's calls changed.",
        longest as f64 / 1e9,
        named(&ranks),
    );
    Some(condition(case, FindingKind::RhythmBroken, name.clone(), name, ranks, None, text))
}

fn late(case: &Case<'_>, group: &Group<'_>, limits: &Limits) -> Option<Condition> {
    let Key::Named(number) = group.key else { return None };
    let matters = |late: &Late| {
        late.by_ns >= limits.late_after_ns
            || (late.period_ns > 0 && late.by_ns >= late.period_ns / LATE_SHARE)
    };
    let ranks_here = group.judged().filter(|member| member.is_open()).count();
    let lates: Vec<Late> = case.job.rhythms.late(number, ranks_here).into_iter().filter(matters).collect();
    let worst = lates.iter().max_by_key(|late| late.by_ns)?;
    let in_all_ns = lates.iter().fold(0_u64, |sum, late| sum.saturating_add(late.by_ns));
    let is_often = lates.len() >= LATE_TIMES && in_all_ns >= LATE_IN_ALL_NS;
    if worst.by_ns < limits.late_after_ns && !is_often {
        return None;
    }
    let ranks = ranks_of(lates.iter().map(|late| late.rank));
    let share = if worst.period_ns > 0 {
        format!(", {} of its step", percent(worst.by_ns as f64 / worst.period_ns as f64))
    } else {
        String::new()
    };
    let name = group.name();
    let text = format!(
        "On communicator {name} {} late for the step learnt there, {} in the last ten seconds, at most by {}{share} (rank {}, step {}); look at data loading, pauses and other work on that host.",
        if ranks.len() == 1 {
            format!("rank {} came", worst.rank)
        } else {
            format!("{} came", named(&ranks))
        },
        if lates.len() == 1 { "once".to_owned() } else { format!("{} times", lates.len()) },
        span(worst.by_ns),
        worst.rank,
        worst.step,
    );
    Some(condition(case, FindingKind::LateCall, name.clone(), name, ranks, None, text))
}

fn slower(case: &Case<'_>, group: &Group<'_>) -> Option<Condition> {
    let Key::Named(number) = group.key else { return None };
    let change = case.job.rhythms.change(number)?;
    if !change.is_slower() || case.now_ns.saturating_sub(change.at_ns) > SLOWER_FOR_NS {
        return None;
    }
    let name = group.name();
    let more = (change.after_ns - change.before_ns) as f64 / (change.before_ns.max(1)) as f64;
    let text = format!(
        "Steps of communicator {name} take {} since step {}, {} longer than the {} before; {}.",
        span(change.after_ns),
        change.step,
        percent(more),
        span(change.before_ns),
        whose(change),
    );
    let ranks = suspects(change);
    Some(condition(case, FindingKind::SlowerPace, name.clone(), name, ranks, None, text))
}

/// Where some ranks compute longer and the others wait for them, it is the doing of those who compute.
fn suspects(change: &Change) -> Vec<u32> {
    let compute = change.ranks(Grew::Compute);
    if compute.len() < change.grew.len() { ranks_of(compute.into_iter()) } else { Vec::new() }
}

fn whose(change: &Change) -> String {
    let (compute, communication) = (change.ranks(Grew::Compute), change.ranks(Grew::Communication));
    match (compute.is_empty(), communication.is_empty()) {
        (false, false) => format!(
            "compute grew on {} and the others wait: look at its device's clocks, its data loading and its host",
            named(&ranks_of(compute.into_iter()))
        ),
        (false, true) => "compute grew: look at device clocks, data loading and the program".to_owned(),
        (true, false) => "communication grew: look at the network and at ranks on other nodes".to_owned(),
        (true, true) => "what of it grew is not known".to_owned(),
    }
}

fn ranks_of(ranks: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut ranks: Vec<u32> = ranks.collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks.truncate(NAMED);
    ranks
}

fn named(ranks: &[u32]) -> String {
    let numbers: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match numbers.as_slice() {
        [] => "ranks without a number".to_owned(),
        [one] => format!("rank {one}"),
        several => format!("ranks {}", several.join(", ")),
    }
}

/// Nanoseconds for people.
pub(crate) fn span(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}
