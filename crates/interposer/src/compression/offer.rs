//! Compression is offered to a communicator inside its creation, before the application has it: what
//! it can fail on is acquired, the ranks agree, the peers are connected, and the ranks agree again.
//! Whatever goes wrong before that leaves the communicator to the vendor, on every rank; if it goes wrong in the middle
//! the communicator is poisoned, and its creation fails (`take_back`).

use super::acquire::{Acquired, Refusal, acquire};
use super::seats::Seated;
use super::{Active, brain, retired, switch_on, terms};
use crate::communicators::{Known, Pin};
use crate::startup::State;
use crate::thread::Thread;
use crate::{errno, log, startup, telemetry};
use airamp_agreement::{Capable, LONGEST_TEXT, MOST_TUNINGS_TOLD, Settled};
use airamp_control::Seat;
use airamp_fast_path::Lane;
use airamp_policy::explain::Decision;
use airamp_policy::{Record, Rules};
use airamp_settings::Settings;
use airamp_telemetry::{AgreementState, Reason};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A communicator that has just been made.
#[derive(Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) known: Known,
    pub(crate) comm: Comm,
}

/// One rank on its way to compression.
struct Candidate {
    fresh: Fresh,
    seated: Arc<Seated>,
    seat: Seat,
    prepared: Instant,
    _guard: Unsettled,
    /// What would be used, or why there is nothing.
    acquired: Result<Acquired, Refusal>,
}

pub(crate) fn offer(thread: &Thread, fresh: &[Fresh]) {
    let state = startup::ensure();
    if state.asked.is_none() {
        return;
    }
    let _errno = errno::keep();
    retired::sweep();
    // All have said what they hold before any is waited for: ranks of one communicator may be among them.
    let mut candidates: Vec<Candidate> =
        fresh.iter().filter_map(|it| candidate(thread, state, *it)).collect();
    // Ranks of one communicator in this thread go on together; everybody takes communicators in
    // the same order.
    candidates.sort_by_key(|it| it.fresh.known.entry.clique());
    let has_failed = || fresh.iter().any(|it| it.known.entry.is_poisoned());
    while let Some(first) = candidates.first() {
        let clique = first.fresh.known.entry.clique();
        let others = candidates.iter().take_while(|it| it.fresh.known.entry.clique() == clique).count();
        let clique: Vec<Candidate> = candidates.drain(..others).collect();
        settle(thread, &state.settings, clique, has_failed());
    }
}

/// Acquires what one rank needs, and says so. `None`: it is the vendor's, and that is said.
fn candidate(thread: &Thread, state: &State, fresh: Fresh) -> Option<Candidate> {
    let (entry, seated) = (fresh.known.entry, fresh.known.seat()?);
    let seat = match seated.seat() {
        Ok(seat) => seat.clone(),
        Err(reason) => {
            say_off(fresh, reason, Reason::NoAgreement);
            seated.settled();
            return None;
        }
    };
    if !entry.is_blocking() {
        // The application asked not to wait.
        refuse(fresh, "the communicator is not blocking");
        return None;
    }
    let acquired = match state.rejected {
        Some(setting) => Err(format!("{setting} has no value that it can have").into()),
        None => acquire(thread, &state.settings, fresh),
    };
    let capable = |acquired: &Acquired| {
        let mut tunings = brain::tunings(state.settings.tuning_cache.as_deref());
        tunings.truncate(MOST_TUNINGS_TOLD);
        Capable { terms: acquired.terms.clone(), host: terms::host(), tunings }
    };
    telemetry::agreement(fresh.known, AgreementState::Candidate, "");
    seat.prepared(acquired.as_ref().map(capable).map_err(|refusal| clipped(&refusal.text)));
    Some(Candidate { fresh, seated, seat, prepared: Instant::now(), _guard: Unsettled(fresh), acquired })
}

/// A rank that has said what it holds may find itself pledged. Should it panic before it has heard what became
/// of that, it does not know what its peers do.
struct Unsettled(Fresh);

impl Drop for Unsettled {
    fn drop(&mut self) {
        if std::thread::panicking() {
            poison(self.0, NcclResult::INTERNAL_ERROR, "internal error");
        }
    }
}

/// Leaves a communicator to the vendor that could have been offered compression, and tells its peers.
pub(crate) fn refuse(fresh: Fresh, reason: &str) {
    let Some(seated) = fresh.known.seat() else { return };
    if let Ok(seat) = seated.seat() {
        seat.prepared(Err(clipped(reason)));
    }
    say_off(fresh, reason, Reason::NoAgreement);
    seated.settled();
}

/// One that waits for its peers to be connected.
struct Agreed {
    candidate: Candidate,
    lane: Lane,
}

/// `another_failed`: peers may wait in its first exchange until the application has aborted it, and would not come to
/// the exchange of this one.
fn settle(thread: &Thread, settings: &Settings, clique: Vec<Candidate>, another_failed: bool) {
    let ranks = clique.len();
    let agreed: Vec<Agreed> = clique.into_iter().filter_map(|it| await_verdict(settings, it)).collect();
    if agreed.is_empty() {
        return;
    }
    let connected = if another_failed {
        Err("another communicator of the same group could not be connected".into())
    } else if agreed.len() == ranks {
        connect(thread, settings, &agreed)
    } else {
        Err("another rank on the same thread did not get the verdict".into())
    };
    let connected = connected.map_err(|reason| clipped(&reason));
    let error = if connected.is_ok() { NcclResult::REMOTE_ERROR } else { NcclResult::INTERNAL_ERROR };
    agreed.iter().for_each(|it| it.candidate.seat.connected(connected.clone()));
    for Agreed { candidate, lane } in agreed {
        let active = Box::new(active(settings, &candidate, lane));
        match candidate.seat.wait() {
            Settled::On => activate(settings, &candidate, active),
            Settled::Off { reason } | Settled::Broken { reason } => {
                give_up(candidate.fresh, active, error, &reason);
            }
            Settled::Connect { .. } => {
                give_up(candidate.fresh, active, error, "the agreement went back a step");
            }
        }
        candidate.seated.settled();
    }
}

/// Off, or on the way.
fn await_verdict(settings: &Settings, mut candidate: Candidate) -> Option<Agreed> {
    let settled = candidate.seat.wait();
    let acquired = std::mem::replace(&mut candidate.acquired, Err("".into()));
    match (settled, acquired) {
        (Settled::Connect { plan }, Ok(Acquired { mut lane, .. })) => {
            lane.lie_on_nodes(brain::ranks_per_node(&plan));
            // Before this rank says that it is connected: a change of plan may follow at once.
            candidate.seated.gate().start(plan);
            telemetry::agreement(candidate.fresh.known, AgreementState::Ready, "");
            return Some(Agreed { candidate, lane });
        }
        (Settled::Off { reason }, Err(own)) => say_off(candidate.fresh, &reason, own.reason),
        (Settled::Off { reason }, Ok(_)) => say_off(candidate.fresh, &reason, Reason::NoAgreement),
        (Settled::Broken { reason }, Ok(Acquired { lane, .. })) => {
            let active = Box::new(active(settings, &candidate, lane));
            give_up(candidate.fresh, active, NcclResult::REMOTE_ERROR, &reason);
        }
        // A rank that holds nothing has not pledged, and so cannot be asked for more.
        (Settled::Connect { .. } | Settled::On | Settled::Broken { .. }, _) => {
            candidate.seat.end();
            poison(candidate.fresh, NcclResult::INTERNAL_ERROR, "the agreement skipped a step");
        }
    }
    candidate.seated.settled();
    None
}

/// As much of a reason as peers take.
fn clipped(reason: &str) -> String {
    let ends = reason.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= LONGEST_TEXT).last().unwrap_or(0);
    reason[..end].to_owned()
}

/// Says it to people, and to `airamp explain`; its calls are counted as the vendor's for what kept this rank from it.
fn say_off(fresh: Fresh, reason: &str, counted: Reason) {
    let entry = fresh.known.entry;
    let record = Record {
        communicator: format!("{:016x}", entry.clique().0),
        rank: entry.rank().max(0).unsigned_abs(),
        ranks: entry.nranks().max(0).unsigned_abs(),
        index: None,
        class: None,
        decision: Decision::Vendor,
        reason: clipped(reason),
        speedup: None,
        ours_us: None,
        vendor_us: None,
        vnmse: None,
        who: Vec::new(),
    };
    log::warn(format_args!("communicator {:p}: compression off: {reason}", fresh.comm));
    log::info(format_args!("{}", record.to_line()));
    telemetry::decision(&record);
    telemetry::agreement(fresh.known, AgreementState::Off, reason);
    telemetry::why_off(fresh.known, counted);
}

/// The first exchanges may be half done, so that nobody can use the communicator any more: by this rank's own error, or
/// since the verdict did not come, or another rank has failed.
fn give_up(fresh: Fresh, active: Box<Active>, error: NcclResult, reason: &str) {
    poison(fresh, error, reason);
    retired::put_aside(active, fresh.known);
}

fn poison(fresh: Fresh, error: NcclResult, reason: &str) {
    fresh.known.poison_as(error);
    telemetry::poisoned(fresh.known, error, reason);
    // So that its calls are looked at.
    switch_on();
    log::error(format_args!("communicator {:p}: the ranks could not be connected: {reason}", fresh.comm));
}

fn active(settings: &Settings, candidate: &Candidate, lane: Lane) -> Active {
    let rules = Rules { min_bytes: settings.min_bytes };
    let (ranks, captures) = (candidate.fresh.known.entry.nranks().unsigned_abs(), lane.can_capture());
    let gate = Arc::clone(candidate.seated.gate());
    Active::new(lane, rules, ranks, captures, gate, candidate.seat.clone(), candidate.fresh.known)
}

fn activate(settings: &Settings, candidate: &Candidate, active: Box<Active>) {
    let Candidate { fresh, prepared, .. } = candidate;
    let (entry, per_node) = (fresh.known.entry, active.lane().ranks_per_node());
    if let Some(unused) = fresh.known.activate(active) {
        return retired::put_aside(unused, fresh.known);
    }
    switch_on();
    telemetry::arena(fresh.known, settings.arena_bytes);
    telemetry::agreement(fresh.known, AgreementState::On, "");
    let (from, plan) = candidate.seated.gate().newest();
    telemetry::plan_changed(entry.clique().0, entry.rank().unsigned_abs(), from, &plan);
    log::info(format_args!(
        "communicator {:p}: compression on: rank {} of {}, {per_node} to a node, {:?}, arena of {} bytes, agreed in {} ms",
        fresh.comm,
        entry.rank(),
        entry.nranks(),
        settings.wire_format,
        settings.arena_bytes,
        prepared.elapsed().as_millis()
    ));
}

fn connect(thread: &Thread, settings: &Settings, agreed: &[Agreed]) -> Result<(), String> {
    let patience = Instant::now() + Duration::from_millis(settings.doubt_ms);
    let pins: Option<Vec<Pin>> = agreed.iter().map(|it| it.candidate.fresh.known.pin()).collect();
    let _pins = pins.ok_or("the communicator is ending")?;
    let lanes: Vec<&Lane> = agreed.iter().map(|it| &it.lane).collect();
    // While a rank connects it can only hear that another one did not.
    let has_failed = || agreed.iter().any(|it| it.candidate.seat.has_news());
    let keep_waiting = || Instant::now() < patience && !has_failed();
    thread.inside_vendor(|| Lane::connect_while(&lanes, &keep_waiting)).map_err(|error| error.to_string())
}
