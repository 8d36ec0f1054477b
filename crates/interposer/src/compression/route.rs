//! The path of a call while a communicator of this process compresses.

use super::active::{Decision, Failure, FastCall, Standing};
use super::doubt::{OneCall, is_refusal};
use super::group_end;
use super::held::{self, Afterwards, Held, HeldCalls};
use super::internal_error;
use super::meeting::is_dropped;
use super::single;
use crate::boundary::{Moment, ours};
use crate::calls::{AllReduce, Call, Ending, GroupCall, Operation};
use crate::clique::Clique;
use crate::communicators::{self, Known};
use crate::deferred::Deferred;
use crate::dispatch::{Ticket, announce, announce_message, counts, observe, pass_on, reserve, tell_call};
use crate::thread::Thread;
use crate::{log, startup, telemetry, vendors};
use airamp_policy::Entry;
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::fmt;
use std::sync::Arc;

const NOT_KEPT: &str = "a call of a group could not be kept";

/// Where an operation goes.
enum Route {
    /// To the vendor at once; how long it takes may be measured.
    Vendor(Ticket, Option<(Known, usize)>),
    /// It waits for the end of the group.
    Held(Ticket, Option<FastCall>),
    /// To the fast path at once.
    Compressed(Known, FastCall),
    /// To the fast path as a dry run, and then to the vendor.
    Trial(Known, Ticket, FastCall),
    /// The communicator is poisoned.
    Refused(NcclResult),
    /// The vendor would say so too.
    Invalid,
}

pub(crate) fn dispatch(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: Call,
    forward: Deferred,
) -> NcclResult {
    if thread.is_inside_vendor() {
        return forward.run();
    }
    if let Some(result) = error_of_parent(&call) {
        thread.fail_group(vendor, result);
        return result;
    }
    if startup::is_inert() {
        return internal_error::dispatch(thread, vendor, &call, &|| forward.run());
    }
    match call {
        Call::Operation(operation) => post(thread, function, vendor, &call, &operation, forward),
        Call::Group(how @ (GroupCall::End | GroupCall::SimulateEnd))
            if thread.group_depth(vendor) == 1
                && (thread.holds_calls(vendor) || thread.group_has_failed(vendor)) =>
        {
            group_end::run(thread, function, vendor, how, forward)
        }
        Call::Group(GroupCall::End) if thread.group_depth(vendor) == 1 => {
            group_end::run_unheld(thread, function, vendor, forward)
        }
        // What ends something that calls of the group still need.
        Call::DropOperator { comm } if group_end::holds_calls_of(thread, vendor, comm) => {
            keep_to_the_end(thread, vendor, function, comm, false, forward)
        }
        Call::End { how: Ending::Finalize | Ending::Suspend, comm }
            if group_end::holds_calls_of(thread, vendor, comm) =>
        {
            keep_to_the_end(thread, vendor, function, comm, true, forward)
        }
        Call::End { how: Ending::Destroy | Ending::Abort | Ending::Revoke, comm } if is_taken_back(comm) => {
            NcclResult::SUCCESS
        }
        Call::End { how: Ending::Destroy | Ending::Abort | Ending::Revoke, comm } => {
            group_end::drop_calls_of(thread, vendor, comm);
            observe(thread, function, vendor, &call, forward)
        }
        Call::Health { comm, error } => {
            let result = observe(thread, function, vendor, &call, forward);
            show_poison(comm, error, result);
            result
        }
        _ => observe(thread, function, vendor, &call, forward),
    }
}

fn post(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: &Call,
    operation: &Operation,
    forward: Deferred,
) -> NcclResult {
    let route = ours(function, Moment::Before, || {
        let route = route(thread, function, vendor, operation);
        announce_route(thread, vendor, operation, &route);
        route
    });
    let result = match route {
        None if compresses(operation.comm) => NcclResult::INTERNAL_ERROR,
        None => return thread.inside_vendor(|| forward.run()),
        Some(Route::Vendor(ticket, watch)) => {
            let doubt = OneCall::of(ticket, operation);
            let result = pass_on(thread, function, vendor, call, ticket, forward);
            doubt.settle(result);
            if let Some(watch) = watch {
                ours(function, Moment::After, || single::end_watch(watch, operation, result));
            }
            result
        }
        Some(Route::Held(ticket, fast)) => {
            let kept =
                ours(function, Moment::After, || hold(thread, vendor, operation, ticket, fast, forward));
            if kept == Some(true) { NcclResult::SUCCESS } else { NcclResult::INTERNAL_ERROR }
        }
        Some(Route::Compressed(known, fast)) => {
            let posted = ours(function, Moment::After, || single::compress(thread, known, operation, &fast));
            posted.unwrap_or(NcclResult::INTERNAL_ERROR)
        }
        Some(Route::Trial(known, ticket, fast)) => {
            thread.tally.expect_trial(fast.sent_bytes(known));
            let vendors = || pass_on(thread, function, vendor, call, ticket, forward);
            single::try_out(thread, function, known, operation, &fast, vendors)
        }
        Some(Route::Refused(result)) => result,
        Some(Route::Invalid) => NcclResult::INVALID_ARGUMENT,
    };
    if !result.is_accepted() {
        thread.fail_group(vendor, result);
    }
    result
}

/// Tells those who watch what goes to the vendor or to the fast path at once. What the tuner times is not timed again.
fn announce_route(thread: &Thread, vendor: u8, operation: &Operation, route: &Route) {
    match *route {
        Route::Vendor(ticket, watch) => {
            announce(thread, vendor, operation, ticket, watch.is_some());
            if !telemetry::is_collective(operation.kind) {
                announce_message(thread, vendor, ticket);
            }
        }
        Route::Trial(_, ticket, _) => announce(thread, vendor, operation, ticket, true),
        Route::Compressed(known, fast) => {
            telemetry::entering(thread, known, operation, fast.is_watched());
        }
        Route::Held(..) | Route::Refused(_) | Route::Invalid => {}
    }
}

fn route(thread: &Thread, function: &str, vendor: u8, operation: &Operation) -> Route {
    let known = communicators::find(operation.comm as usize);
    if let Some(result) = known.and_then(|known| known.entry.poison()) {
        // Another thread may have revoked it: then the peers may have made the other calls of the group.
        if is_refusal(result) {
            thread.fail_group(vendor, NcclResult::INTERNAL_ERROR);
        }
        return Route::Refused(result);
    }
    let (depth, active) = (thread.group_depth(vendor), known.filter(|known| known.entry.is_active()));
    let (ticket, standing) = match number(active, function, operation, depth == 0) {
        Ok(numbered) => numbered,
        Err((known, failure)) => return Route::Refused(refuse_uncounted(known, &failure)),
    };
    let decision = match (active, standing) {
        (Some(known), Some(standing)) => match decide(known, operation, standing) {
            Ok(decision) => decision,
            Err(failure) => return Route::Refused(refuse(known, standing.index, &failure)),
        },
        // Its calls can no longer be counted, so that nobody knows the plan of this one.
        (Some(known), _) if counts(operation.kind, operation.count) => {
            return Route::Refused(refuse_uncounted(known, &Failure::Uncounted));
        }
        _ => Decision::Vendor(None),
    };
    let fast = match decision {
        Decision::FastPath(_) if has_null(operation) => {
            if let Ticket::Reserved(known, _) = ticket {
                known.entry.index.roll_back(known.generation, 1);
            }
            return Route::Invalid;
        }
        Decision::FastPath(fast) => Some(fast),
        Decision::Vendor(_) => None,
    };
    match (depth, active, decision) {
        (0, Some(known), Decision::FastPath(fast)) if fast.trial.is_some() => {
            Route::Trial(known, ticket, fast)
        }
        (0, Some(known), Decision::FastPath(fast)) => Route::Compressed(known, fast),
        (0, Some(known), Decision::Vendor(Some(measurement))) => {
            Route::Vendor(ticket, Some((known, measurement)))
        }
        (0, _, _) => Route::Vendor(ticket, None),
        (_, Some(known), Decision::Vendor(_)) if operation.by_pointer => {
            if note_at_once(thread, vendor, operation) {
                return Route::Vendor(ticket, None);
            }
            poison(known, NcclResult::INTERNAL_ERROR, NOT_KEPT);
            Route::Refused(NcclResult::INTERNAL_ERROR)
        }
        (_, None, Decision::Vendor(_)) if operation.by_pointer => Route::Vendor(ticket, None),
        _ => Route::Held(ticket, fast),
    }
}

/// The operation's ticket, and where it stands if its communicator is `active` and the ranks agree about such calls.
/// An error where nobody can tell whether it takes an index.
fn number(
    active: Option<Known>,
    function: &str,
    operation: &Operation,
    alone: bool,
) -> Result<(Ticket, Option<Standing>), (Known, Failure)> {
    if let Some(known) = active.filter(|_| counts(operation.kind, operation.count))
        && is_captured(known, operation).map_err(|failure| (known, failure))?
    {
        tell_call(function, operation);
        let index = known.entry.index.go_by_next(known.generation);
        return Ok((Ticket::Unnumbered(known), index.map(|index| Standing { index, alone, captured: true })));
    }
    let ticket = reserve(function, operation);
    let standing = match ticket {
        Ticket::Reserved(_, index) => active.map(|_| Standing { index, alone, captured: false }),
        _ => None,
    };
    Ok((ticket, standing))
}

/// Whether the call goes into a graph, or into one whose capture has failed already.
pub(super) fn is_captured(known: Known, operation: &Operation) -> Result<bool, Failure> {
    let pin = known.pin();
    let active = pin.as_ref().and_then(|pin| pin.active());
    active.map_or(Ok(false), |active| active.is_captured(operation))
}

/// What becomes of a call that counts. Where the ranks are changing the plan of its index it waits for
/// the verdict, which needs nobody's host thread or device; without a pin, so that Abort can come.
fn decide(known: Known, operation: &Operation, standing: Standing) -> Result<Decision, Failure> {
    let index = standing.index;
    let pin = known.pin().ok_or(Failure::Ending)?;
    let active = pin.active().ok_or(Failure::Ending)?;
    let candidate = match active.candidate(operation, index) {
        Ok(candidate) => candidate,
        Err(reason) => {
            telemetry::fall_back(reason);
            return Ok(Decision::Vendor(None));
        }
    };
    let gate = Arc::clone(active.gate());
    drop(pin);
    let entry = Entry::from_byte(gate.entry(index, candidate.class.place())?);
    let pin = known.pin().ok_or(Failure::Ending)?;
    let active = pin.active().ok_or(Failure::Ending)?;
    let decision = active.decide(operation, candidate, entry, standing)?;
    if let Decision::Vendor(Some(measurement)) = decision
        && !known.is_usable()
    {
        // To begin a measurement may have had to wait for room in the device's queue, until an abort was through.
        active.measuring.end_watch(active.lane(), measurement, operation, false);
        return Err(Failure::Ending);
    }
    Ok(decision)
}

fn has_null(operation: &Operation) -> bool {
    operation.all_reduce.is_some_and(|it| it.send.is_null() || it.recv.is_null())
}

/// Keeps an operation back until the end of the group. False: there is no room, and what would have
/// been compressed can no longer be.
fn hold(
    thread: &Thread,
    vendor: u8,
    operation: &Operation,
    ticket: Ticket,
    fast: Option<FastCall>,
    forward: Deferred,
) -> bool {
    let known = communicators::find(operation.comm as usize);
    // One that is not known stands for itself.
    let clique = known.map_or(Clique::UNKNOWN, |known| known.entry.clique());
    let clique = if clique == Clique::UNKNOWN { Clique(operation.comm as u64) } else { clique };
    let forward = plain_call(vendor, operation).unwrap_or(forward);
    let held = Held::new(*operation, known, ticket, clique, fast, forward);
    let held = Held { reason: thread.tally.take_reason(), ..held };
    let kept = with_list(thread, vendor, |list| list.push(held));
    if let (false, Some(known)) = (kept, known.filter(|known| known.entry.is_active())) {
        poison(known, NcclResult::INTERNAL_ERROR, NOT_KEPT);
    }
    kept
}

/// Notes where a call runs that the vendor's open group has already. False: there is no room.
fn note_at_once(thread: &Thread, vendor: u8, operation: &Operation) -> bool {
    is_dropped(operation) || with_list(thread, vendor, |list| list.push_at_once(operation))
}

/// What is kept of the thread's open group.
fn with_list(thread: &Thread, vendor: u8, keep: impl FnOnce(&mut HeldCalls) -> bool) -> bool {
    let mut list = thread.take_held(vendor);
    if list.is_null() {
        list = held::take_spare();
    }
    // SAFETY: the list is this thread's until it is put back.
    let kept = keep(unsafe { &mut *list });
    thread.put_held(vendor, list);
    kept
}

/// For a simulated group, and behind a dry run: the same AllReduce without what may be gone by the
/// group's end.
fn plain_call(vendor: u8, operation: &Operation) -> Option<Deferred> {
    let function = vendors::at(usize::from(vendor))?.functions.ncclAllReduce?;
    let AllReduce { send, recv, op } = operation.all_reduce.filter(|_| operation.by_pointer)?;
    let Operation { count, datatype, comm, stream, .. } = *operation;
    // SAFETY: the caller's own arguments of an AllReduce.
    Some(Deferred::new(move || unsafe { function(send, recv, count, datatype, op, comm, stream) }))
}

/// Keeps back what frees something until the calls of the group are posted.
fn keep_to_the_end(
    thread: &Thread,
    vendor: u8,
    function: &str,
    comm: Comm,
    may_wait: bool,
    forward: Deferred,
) -> NcclResult {
    let known = communicators::find(comm as usize);
    let list = thread.take_held(vendor);
    // SAFETY: the list is this thread's until it is put back; it is not null, as was asked.
    let kept = unsafe { &mut *list }.push_afterwards(Afterwards { known, may_wait, forward });
    thread.put_held(vendor, list);
    if !kept {
        log::warn(format_args!("{function} could not be kept until the end of the group, and is not done"));
    }
    NcclResult::SUCCESS
}

/// A call whose plan is not known or cannot be carried out; what it returns.
pub(super) fn refuse(known: Known, index: u64, failure: &Failure) -> NcclResult {
    let result = failure.result();
    poison(known, result, &format!("AllReduce {index} cannot be compressed: {failure}"));
    result
}

/// A call that has no index.
fn refuse_uncounted(known: Known, failure: &Failure) -> NcclResult {
    poison(known, failure.result(), &format!("an AllReduce cannot be compressed: {failure}"));
    failure.result()
}

/// The ranks may no longer do the same: every later call on the communicator fails.
pub(super) fn poison(known: Known, result: NcclResult, reason: &str) {
    known.poison_as(result);
    telemetry::poisoned(known, result, reason);
    log::error(format_args!(
        "{reason}; rank {} of {} returns {} from here on",
        known.entry.rank(),
        known.entry.nranks(),
        Shown(result),
    ));
}

/// A result as its header calls it, as far as we return it ourselves.
struct Shown(NcclResult);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NcclResult::REMOTE_ERROR => f.write_str("ncclRemoteError"),
            NcclResult::INTERNAL_ERROR => f.write_str("ncclInternalError"),
            NcclResult(other) => write!(f, "ncclResult_t {other}"),
        }
    }
}

/// Whether calls of that communicator must not go to the vendor unseen.
pub(super) fn compresses(comm: Comm) -> bool {
    let known = communicators::find(comm as usize);
    known.is_some_and(|known| known.entry.is_active() || known.entry.is_poisoned())
}

/// Whether the call that made it is just ending it. To end it twice would free it twice.
pub(super) fn is_taken_back(comm: Comm) -> bool {
    communicators::find(comm as usize).is_some_and(|known| known.is_taken_back())
}

/// Why no communicator can be made from that one. A shrink that aborts it is the way out, and the vendor's.
fn error_of_parent(call: &Call) -> Option<NcclResult> {
    match *call {
        Call::Derive { parent, .. } if !call.aborts_parent() => {
            communicators::find(parent as usize)?.entry.own_failure()
        }
        _ => None,
    }
}

/// One that was revoked is as the vendor says: it has not failed by itself.
fn show_poison(comm: Comm, error: *mut NcclResult, result: NcclResult) {
    let poison = communicators::find(comm as usize).and_then(|known| known.entry.own_failure());
    if let Some(poison) = poison.filter(|_| result == NcclResult::SUCCESS && !error.is_null()) {
        // SAFETY: the vendor has just written there.
        unsafe { error.write(poison) };
    }
}
