//! What is wrong with a job at this look, each as a condition with a sentence that says what to do. What begins
//! and ends when is `findings`' business. Pure.

use std::collections::BTreeMap;

use airamp_telemetry::State;
use airamp_telemetry::snapshot::Call;

use crate::findings::{Condition, Key, severity};
use crate::groups::{Group, Member};
use crate::jobs::Job;
use crate::lags::Lags;
use crate::process::Process;
use crate::rhythm_conditions;
use crate::shares::percent;
use crate::spikes::Spike;
use crate::view::{Class, Finding, FindingKind, ProcessState};

/// The default of AIRAMP_MAX_VNMSE; what a job set instead is not in its file.
const MAX_VNMSE: f64 = 2e-3;
/// A process that has been gone for so long while most others of its communicator live did not leave with them.
const MAJORITY_AFTER_NS: u64 = 3_000_000_000;
/// Ranks named in a sentence.
pub(crate) const NAMED: usize = 8;

pub(crate) struct Limits {
    pub(crate) hang_after_ns: u64,
    pub(crate) late_after_ns: u64,
}

/// A job with all that is known of it at this look.
pub(crate) struct Case<'a> {
    pub(crate) job: &'a Job,
    pub(crate) groups: &'a [Group<'a>],
    pub(crate) classes: &'a [Class],
    pub(crate) processes: &'a BTreeMap<Option<u32>, &'a Process>,
    pub(crate) spike: Option<Spike<Sampled>>,
    pub(crate) now_ns: u64,
}

/// Whose call it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) rank: Option<u32>,
    pub(crate) communicator: String,
    pub(crate) call: Call,
}

pub(crate) fn conditions(case: &Case<'_>, limits: &Limits) -> Vec<Condition> {
    let groups = || case.groups.iter().filter(|group| group.is_open());
    let mut all: Vec<Condition> = groups().filter_map(|group| hang(case, group)).collect();
    // The others may have ended theirs because of it.
    all.extend(case.groups.iter().flat_map(|group| dead(case, group, limits)));
    all.extend(groups().filter_map(|group| inaccurate(case, group)));
    all.extend(case.job.ranks.iter().filter_map(|(rank, state)| late(case, (*rank)?, &state.lags, limits)));
    all.extend(case.spike.as_ref().map(|spike| slow(case, spike)));
    all.extend(burst(case));
    all.extend(storm(case));
    all.extend(rhythm_conditions::conditions(case, limits));
    all
}

fn hang(case: &Case<'_>, group: &Group<'_>) -> Option<Condition> {
    let hung = group.verdict.hung.as_ref()?;
    let seconds = hung.for_ns as f64 / 1e9;
    let (name, sequence) = (group.name(), hung.sequence);
    if let Some(blocked) = hung.blocked {
        return Some(blocked_host(case, group, blocked, seconds));
    }
    let text = if hung.missing.is_empty() {
        let beside = match unheard(case, group) {
            0 => String::new(),
            n => format!(", or at the {n} here in which the library is inert and saw nothing of it"),
        };
        let others = match (group.elsewhere(), group.inert()) {
            (0, 0) => "no rank is missing: look at the network and the devices".to_owned(),
            (0, n) => format!("look at the {n} more in which the library is inert, which tell nothing"),
            (n, 0) => format!("no rank of this node is missing: look at the {n} ranks on other nodes"),
            (n, inert) => format!(
                "look at the {inert} more here in which the library is inert, which tell nothing, and at the {n} ranks on other nodes"
            ),
        };
        format!(
            "Communicator {name} has not completed sequence {sequence} for {seconds:.0} s although all {} ranks here have issued it; {others}{beside}.",
            group.judged.len()
        )
    } else {
        let places = hung.missing.iter().filter_map(|place| group.judged.get(*place));
        let members: Vec<&Member<'_>> = places.filter_map(|place| group.members.get(*place)).collect();
        format!(
            "Communicator {name} has waited for sequence {sequence} for {seconds:.0} s: {} not issued it; look at what {} doing.",
            those(&members),
            if members.len() == 1 { "it is" } else { "they are" },
        )
    };
    let ranks = group.missing();
    Some(condition(case, FindingKind::Hang, name.clone(), name, ranks, Some(sequence), text))
}

/// Processes of the job that may have a part in it, since not all of its ranks are known here, and in which the library was
/// inert before it was made.
fn unheard(case: &Case<'_>, group: &Group<'_>) -> usize {
    let is_member = |process: &Process| group.members.iter().any(|one| std::ptr::eq(one.process, process));
    let live = case.processes.values().filter(|process| process.is_live());
    let inert = live.filter(|process| process.snapshot.state == State::Inert && !is_member(process));
    if group.elsewhere() == 0 { 0 } else { inert.count() }
}

/// Nobody is behind in a collective: only who is at the other end of a message could be, and that nobody tells.
fn blocked_host(case: &Case<'_>, group: &Group<'_>, place: usize, seconds: f64) -> Condition {
    let name = group.name();
    let host = group.judged().nth(place).map_or_else(|| "a rank".to_owned(), who);
    let unless = match group.inert() + unheard(case, group) {
        0 => String::new(),
        n => format!(", unless the library is inert in it ({n} here)"),
    };
    let text = format!(
        "{} has been inside a message of communicator {name}, or its end, for {seconds:.0} s, and no rank here is behind in a collective{unless}; look at the rank at the other end, the network and the devices.",
        sentence(&host),
    );
    condition(case, FindingKind::Hang, name.clone(), name, Vec::new(), None, text)
}

/// A process that is gone without having ended its communicator, and a sign that this was not the end of the job.
fn dead<'a>(
    case: &'a Case<'_>,
    group: &'a Group<'_>,
    limits: &Limits,
) -> impl Iterator<Item = Condition> + 'a {
    let late_after_ns = limits.late_after_ns;
    let missed = misses_somebody(case, group);
    let failed_around = |ns| case.job.storms.had_error_around(ns);
    let judged = group.judged().enumerate().filter(|(_, member)| member.is_dead());
    judged.filter_map(move |(place, member)| {
        let behind = group.verdict.behind.get(place).copied().flatten();
        let gone_ns = case.now_ns.saturating_sub(member.process.gone_ns);
        let waited_for = behind.is_some_and(|behind| behind.for_ns > late_after_ns);
        // It may have ended its own as the others did, and not have said so.
        let missed = missed && (!member.is_inert() || group.is_open());
        let missed = missed || failed_around(member.process.gone_ns);
        (waited_for || (missed && gone_ns >= late_after_ns)).then(|| dead_one(case, group, member))
    })
}

/// The others wait or are poisoned, or most of them live on. A job that ends leaves few behind, and those wait for nobody.
fn misses_somebody(case: &Case<'_>, group: &Group<'_>) -> bool {
    let open = || group.judged().filter(|member| member.is_open());
    let waits = open().any(|member| {
        member.communicator.inside > 0 || member.process.in_flight_since_ns(member.communicator).is_some()
    });
    let live = || group.members.iter().filter(|member| member.process.is_live());
    let poisoned = live().any(|member| member.communicator.poisoned != 0);
    let lately = group
        .judged()
        .filter(|member| member.is_dead())
        .all(|member| case.now_ns.saturating_sub(member.process.gone_ns) >= MAJORITY_AFTER_NS);
    // Those in which the library is inert live on too, though they are not judged.
    let most_live = || (open().count() + group.inert()) * 2 > group.judged.len() + group.inert();
    waits || group.verdict.has_victims || poisoned || (lately && most_live())
}

fn dead_one(case: &Case<'_>, group: &Group<'_>, member: &Member<'_>) -> Condition {
    let name = group.name();
    let others =
        if group.is_open() { "which the others still have" } else { "and the others have ended it since" };
    let how = if member.is_inert() {
        "ended; the library was inert in it and saw no end of"
    } else {
        "ended without ending"
    };
    let text = format!(
        "{} {how} communicator {name}, {others}; its own log should say why, and the job must be restarted.",
        sentence(&who(member)),
    );
    let about = format!("{name}/{}", member.id);
    let ranks = member.process.rank.into_iter().collect();
    let sequence = (!member.is_inert()).then(|| member.communicator.issued.saturating_add(1));
    condition(case, FindingKind::DeadProcess, about, name, ranks, sequence, text)
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn late(case: &Case<'_>, rank: u32, lags: &Lags, limits: &Limits) -> Option<Condition> {
    let process = case.processes.get(&Some(rank)).copied();
    let whose = process.map(|process| format!(" ({})", describe(process))).unwrap_or_default();
    let (worst, text) = if let Some(worst) = lags.once_late(limits.late_after_ns) {
        let (sequence, name, seconds) = (worst.sequence, &worst.communicator, worst.ns as f64 / 1e9);
        let did = if lags.behind() == Some(worst) {
            format!(
                "has kept the others waiting for sequence {sequence} of communicator {name} for {seconds:.1} s"
            )
        } else {
            format!("came to sequence {sequence} of communicator {name} {seconds:.1} s behind the first")
        };
        let text = format!("Rank {rank}{whose} {did}; {}.", advice(process));
        (Some(worst), text)
    } else if lags.always_late() {
        let text = format!(
            "Rank {rank}{whose} is the last to arrive in {} of the collectives, {:.1} ms behind the first; {}.",
            percent(lags.last_share().unwrap_or(0.0)),
            lags.mean_lag_s() * 1e3,
            advice(process),
        );
        (lags.worst(), text)
    } else {
        return None;
    };
    let communicator = worst.map(|worst| worst.communicator.clone()).unwrap_or_default();
    let sequence = worst.map(|worst| worst.sequence);
    Some(condition(case, FindingKind::LateRank, rank.to_string(), communicator, vec![rank], sequence, text))
}

fn advice(process: Option<&Process>) -> &'static str {
    match process.map(|process| process.state) {
        Some(ProcessState::Stopped) => "it is stopped: continue it (SIGCONT) or detach the debugger",
        Some(ProcessState::Blocked) => "it is blocked in the kernel: look at its storage and drivers",
        _ => "look at its device's clocks, its data loading and its host",
    }
}

/// Of compressed calls. A class that was tried and refused for its error leaves its number behind too.
fn inaccurate(case: &Case<'_>, group: &Group<'_>) -> Option<Condition> {
    let name = group.name();
    let refused = |vnmse: f64| {
        let mut classes = case.classes.iter().filter(|class| class.communicator == name);
        classes.any(|class| {
            matches!(class.decision.as_ref(), "vendor" | "would-not" | "trial")
                && class.vnmse.is_some_and(|known| (known - vnmse).abs() <= 1e-6 * known.abs())
        })
    };
    let tells = group.judged().filter(|member| !member.is_inert());
    let compresses = tells.filter(|member| member.communicator.sums.compressed_calls > 0);
    let above = compresses.filter_map(|member| Some((member, member.communicator.vnmse?)));
    let above = above.filter(|(_, vnmse)| vnmse.is_finite() && *vnmse > MAX_VNMSE && !refused(*vnmse));
    let (member, vnmse) = above.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let text = format!(
        "The error of communicator {name} is {vnmse:.1e}, above {MAX_VNMSE:.0e} ({}); if training suffers, set AIRAMP_MODE=shadow or another wire format.",
        who(member),
    );
    let ranks = member.process.rank.into_iter().collect();
    Some(condition(case, FindingKind::Accuracy, name.clone(), name, ranks, None, text))
}

fn slow(case: &Case<'_>, spike: &Spike<Sampled>) -> Condition {
    let Sampled { rank, communicator, call } = &spike.whose;
    let text = format!(
        "{} {} on the {} path took {:.1} ms on the device, {:.0} times the usual {:.2} ms{}; look for a late rank, other traffic and throttled devices.",
        article(spike.key.0.name()),
        spike.key.0.name(),
        spike.key.1.name(),
        spike.seconds * 1e3,
        spike.seconds / spike.median_s,
        spike.median_s * 1e3,
        rank.map(|rank| format!(" (seen by rank {rank})")).unwrap_or_default(),
    );
    let about = format!("{}/{}", spike.key.0.name(), spike.key.2);
    let ranks = rank.iter().copied().collect();
    let sequence = (call.sequence > 0).then_some(call.sequence);
    condition(case, FindingKind::LatencySpike, about, communicator.clone(), ranks, sequence, text)
}

fn article(name: &str) -> &'static str {
    if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "An" } else { "A" }
}

fn burst(case: &Case<'_>) -> Option<Condition> {
    let burst = case.job.storms.burst()?;
    let text = format!(
        "{} calls returned an error in the last ten seconds, most of them {}; the library's log (NCCL_DEBUG=WARN) names the cause.",
        burst.errors, burst.result
    );
    let ranks = whose(case, |grown| !grown.errors.is_empty());
    Some(condition(case, FindingKind::ErrorBurst, String::new(), String::new(), ranks, None, text))
}

fn storm(case: &Case<'_>) -> Option<Condition> {
    let storm = case.job.storms.storm()?;
    let text = format!(
        "{} of {} calls in the last ten seconds went to the vendor although compression is asked for, most of them for this reason: {}; see airamp explain.",
        storm.fallbacks,
        storm.calls,
        storm.reason.name(),
    );
    let ranks = whose(case, |grown| grown.fallbacks.contains_key(&storm.reason));
    Some(condition(case, FindingKind::FallbackStorm, String::new(), String::new(), ranks, None, text))
}

fn whose(case: &Case<'_>, did: impl Fn(&crate::tally::Tally) -> bool) -> Vec<u32> {
    let ranks = case.job.ranks.iter().filter(|(_, state)| did(&state.grown));
    ranks.filter_map(|(rank, _)| *rank).take(NAMED).collect()
}

pub(crate) fn condition(
    case: &Case<'_>,
    kind: FindingKind,
    about: String,
    communicator: String,
    ranks: Vec<u32>,
    sequence: Option<u64>,
    text: String,
) -> Condition {
    let job = case.job.label.clone();
    let key = Key { kind, job: job.clone(), about };
    let severity = severity(kind);
    Condition {
        key,
        finding: Finding { kind, severity, since_unix_ms: 0, job, communicator, ranks, sequence, text },
    }
}

/// "Rank 3 (pid 71, stopped) has" or "ranks 3, 4 (pid …) have".
fn those(members: &[&Member<'_>]) -> String {
    let named: Vec<String> = members.iter().take(NAMED).map(|member| who(member)).collect();
    let more = members.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let have = if members.len() == 1 { "has" } else { "have" };
    format!("{}{more} {have}", named.join(", "))
}

fn who(member: &Member<'_>) -> String {
    let own = member.communicator.facts.rank;
    match member.process.rank {
        Some(rank) => format!("rank {rank} ({})", describe(member.process)),
        None => format!("its rank {own} ({})", describe(member.process)),
    }
}

fn describe(process: &Process) -> String {
    let pid = process.snapshot.pid;
    match process.state {
        ProcessState::Running | ProcessState::Foreign => format!("pid {pid}"),
        ProcessState::Stopped => format!("pid {pid}, stopped"),
        ProcessState::Blocked => format!("pid {pid}, blocked in the kernel"),
        ProcessState::Gone | ProcessState::Left => format!("pid {pid}, gone"),
    }
}
