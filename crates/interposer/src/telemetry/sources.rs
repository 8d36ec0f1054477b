//! What happens to communicators and to the process, told where it happens: agreement, plans, decisions, orders,
//! poison, measured times. Each is a store or two; none decides anything.

use super::{slot_of, writer};
use crate::communicators::{self, Known};
use crate::startup;
use airamp_agreement::Plan;
use airamp_policy::{Mode, Record, explain, in_words};
use airamp_telemetry::{AgreementState, EventKind, Kind, Path, Reason, size_class};
use airamp_vendor_abi::nccl::NcclResult;

/// Tells of a communicator.
pub(crate) fn event(known: Known, kind: EventKind, a: u64, b: u64, text: &str) {
    if let Some(writer) = writer() {
        writer.event(kind, slot_of(known), a, b, text);
    }
}

/// Where the ranks of the communicator are with each other.
pub(crate) fn agreement(known: Known, state: AgreementState, reason: &str) {
    let Some(slot) = slot_of(known) else { return };
    slot.agreement(state, reason);
    match state {
        AgreementState::On => event(known, EventKind::AgreementReached, 0, 0, reason),
        AgreementState::Off => event(known, EventKind::AgreementOff, 0, 0, reason),
        _ => {}
    }
}

/// The ranks go on without their leader, under the plan that they have.
pub(crate) fn frozen(clique: u64, rank: u32, reason: &str) {
    if let Some(known) = communicators::find_rank(clique, rank) {
        agreement(known, AgreementState::Frozen, reason);
    }
}

/// Whether calls that go to the vendor are worth a reason: somebody asked for them to be compressed.
fn is_meant_to_compress() -> bool {
    startup::state().is_some_and(|state| matches!(state.asked, Some(Mode::On | Mode::Forced)))
}

/// From here on the communicator's AllReduces go to the vendor for that reason.
pub(crate) fn why_off(known: Known, reason: Reason) {
    if is_meant_to_compress() {
        known.entry.set_why_off(reason);
    }
}

/// The call that this thread is in the middle of goes to the vendor for that reason, whatever it might have been.
#[inline]
pub(crate) fn fall_back(reason: Reason) {
    if writer().is_some() && is_meant_to_compress() {
        crate::thread::with(|thread| thread.tally.set_reason(reason));
    }
}

/// A new plan holds from that index on.
pub(crate) fn plan_changed(clique: u64, rank: u32, from: u64, plan: &Plan) {
    let Some(known) = communicators::find_rank(clique, rank) else { return };
    let Some(slot) = slot_of(known) else { return };
    slot.plan(from, plan);
    event(known, EventKind::PlanChanged, from, 0, &in_words(plan));
}

/// Scratch memory of a communicator that compresses.
pub(crate) fn arena(known: Known, bytes: u64) {
    if let Some(slot) = slot_of(known) {
        slot.arena(bytes);
    }
}

/// The same record as in the log.
pub(crate) fn decision(record: &Record) {
    let line = record.to_line();
    if let (Some(writer), Some(json)) = (writer(), line.strip_prefix(explain::WORD)) {
        writer.decision(json);
    }
}

/// An operator's order reached the communicator's leader.
pub(crate) fn order(clique: u64, rank: u32, off: bool) {
    if let Some(known) = communicators::find_rank(clique, rank) {
        event(known, if off { EventKind::OrderOff } else { EventKind::OrderOn }, 0, 0, "");
    }
}

/// Its calls fail from here on.
pub(crate) fn poisoned(known: Known, result: NcclResult, reason: &str) {
    if let Some(slot) = slot_of(known) {
        slot.poisoned(result.0);
    }
    event(known, EventKind::Poisoned, result.0.unsigned_abs().into(), 0, reason);
}

/// The tuner's own measurement of an AllReduce, which is not measured again.
pub(crate) fn timed(path: Path, bytes: u64, microseconds: f64) {
    if let Some(writer) = writer() {
        writer.duration(Kind::AllReduce, path, size_class(bytes), (microseconds * 1000.0) as u64);
    }
}
