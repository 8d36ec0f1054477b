//! The one path of every intercepted call: our part before, the vendor's function, our part
//! after. While no communicator compresses, the vendor's function is called exactly once, whatever
//! happens to our parts, and no lock is held across it.

use crate::boundary::{Moment, ours};
use crate::calls::{Call, Ending, GroupCall, Kind, Operation};
use crate::communicators::{self, Facts, Known};
use crate::compression::Joining;
use crate::deferred::Deferred;
use crate::lifecycle::{self, warn_once};
use crate::thread::{self, Expected, Thread};
use crate::{compression, log, rhythm, startup, take_back, telemetry};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

mod creation;
mod operation;

use creation::{after_creation, after_derivation};
use operation::observe_operation;

/// What the part before leaves for the part after.
#[derive(Clone, Copy)]
pub(crate) enum Ticket {
    Nothing,
    /// That index is reserved.
    Reserved(Known, u64),
    /// No index is reserved: the call is of another kind, or empty, or captured, or can no longer be counted.
    Unnumbered(Known),
    /// No communicator is known at that address.
    Stranger,
    /// The communicator accepts no new use of ours.
    Ending(Known),
    /// A communicator is being made whose rank has come to the agreement.
    Joining(Joining),
}

/// Undoes the part before where the vendor leaves by an exception and there is no part after.
struct Undo<'a> {
    ticket: &'a Ticket,
    thread: &'a Thread,
    vendor: u8,
    call: &'a Call,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        match *self.ticket {
            Ticket::Reserved(known, _) => {
                known.entry.index.roll_back(known.generation, 1);
                telemetry::left(known);
            }
            Ticket::Unnumbered(known) => telemetry::left(known),
            Ticket::Ending(known) => {
                telemetry::left(known);
                known.cancel_end();
            }
            Ticket::Joining(joining) => give_up_seat(joining),
            Ticket::Nothing | Ticket::Stranger => {}
        }
        telemetry::forget_sample(self.thread);
        if let Call::Group(end @ (GroupCall::End | GroupCall::SimulateEnd)) = self.call {
            after_group(self.thread, self.vendor, *end, NcclResult::INTERNAL_ERROR);
        }
    }
}

/// The vendor's function with its arguments.
trait Forward: FnOnce() -> NcclResult + Copy + 'static {}
impl<F: FnOnce() -> NcclResult + Copy + 'static> Forward for F {}

#[inline(always)]
pub(crate) fn dispatch(
    function: &'static str,
    vendor: u8,
    call: Call,
    forward: impl FnOnce() -> NcclResult + Copy + 'static,
) -> NcclResult {
    if ATTENTION.load(Ordering::Relaxed) != 0 {
        return with_attention(function, vendor, call, Deferred::new(forward));
    }
    if startup::is_inert() {
        return forward();
    }
    let thread = thread::current();
    if thread.is_inside_vendor() {
        return forward();
    }
    if let Call::Operation(operation) = call {
        return observe_operation(thread, function, vendor, operation, forward);
    }
    observe_as::<true>(thread, function, vendor, &call, forward)
}

/// What calls have to look out for besides, one bit each: one load for all of it.
static ATTENTION: AtomicU8 = AtomicU8::new(0);
/// A communicator of this process has compressed.
pub(crate) const COMPRESSING: u8 = 1;
/// Somebody uses the time until the next call.
pub(crate) const GAPS_ARE_USED: u8 = 2;

pub(crate) fn attend_to(bit: u8) {
    ATTENTION.fetch_or(bit, Ordering::SeqCst);
}

pub(crate) fn attends_to(bit: u8) -> bool {
    ATTENTION.load(Ordering::Relaxed) & bit != 0
}

/// For a forked child, too.
pub(crate) fn attend_no_more_to(bit: u8) {
    ATTENTION.fetch_and(!bit, Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn with_attention(function: &'static str, vendor: u8, call: Call, forward: Deferred) -> NcclResult {
    let attention = ATTENTION.load(Ordering::Relaxed);
    let is_compressing = attention & COMPRESSING != 0;
    if !is_compressing && startup::is_inert() {
        return forward.run();
    }
    let thread = thread::current();
    if thread.is_inside_vendor() {
        return forward.run();
    }
    // Whoever uses the time until the next call stops at once. A health check is none.
    if attention & GAPS_ARE_USED != 0 && matches!(call, Call::Operation(_) | Call::Group(_)) {
        rhythm::call_came();
    }
    if !is_compressing {
        return observe_as::<true>(thread, function, vendor, &call, move || forward.run());
    }
    telemetry::around(thread, function, || compression::dispatch(thread, function, vendor, call, forward))
}

/// Watches a call that goes to the vendor, while a communicator compresses.
pub(crate) fn observe(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: &Call,
    forward: Deferred,
) -> NcclResult {
    observe_as::<false>(thread, function, vendor, call, move || forward.run())
}

/// Watches a call. It is `PLAIN` if the vendor's function is all there is to it.
#[inline(always)]
fn observe_as<const PLAIN: bool>(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: &Call,
    forward: impl Forward,
) -> NcclResult {
    let ticket = ours(function, Moment::Before, || {
        if PLAIN {
            telemetry::arrive(thread);
        }
        before(thread, function, vendor, call)
    });
    match &ticket {
        Some(ticket) => pass_on_as::<PLAIN>(thread, function, vendor, call, ticket, forward),
        None => without_our_part(thread, vendor, call, forward),
    }
}

/// The vendor's function, and our part after it, while a communicator compresses.
pub(crate) fn pass_on(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: &Call,
    ticket: Ticket,
    forward: Deferred,
) -> NcclResult {
    pass_on_as::<false>(thread, function, vendor, call, &ticket, move || forward.run())
}

#[inline(always)]
fn pass_on_as<const PLAIN: bool>(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    call: &Call,
    ticket: &Ticket,
    forward: impl Forward,
) -> NcclResult {
    let exception = Undo { ticket, thread, vendor, call };
    let result = thread.inside_vendor(forward);
    std::mem::forget(exception);
    let mut told = result;
    match call {
        Call::Operation(operation) => {
            ours(function, Moment::After, || {
                after(thread, vendor, operation, ticket, result);
                if PLAIN {
                    telemetry::depart(thread, function, result);
                }
            });
        }
        Call::Group(how) => {
            let depth = thread.group_depth(vendor);
            let done = ours(function, Moment::After, || {
                told = after_group(thread, vendor, *how, result);
                if PLAIN {
                    telemetry::depart(thread, function, told);
                }
            });
            if done.is_none() {
                told = compression::settle_group(thread, vendor, *how, depth, result);
            }
        }
        _ => {
            let done = ours(function, Moment::After, || {
                told = after_others(thread, vendor, call, *ticket, result);
                if PLAIN {
                    telemetry::depart(thread, function, told);
                }
            });
            if let (None, Ticket::Ending(known)) = (done, ticket) {
                compression::settle_end(call, *known, result);
            }
        }
    }
    // What the vendor said, unless a communicator that was made could not be kept.
    told
}

/// How deep in groups a thread is, and which communicators have ended, has to be known all the same: calls of those that
/// compress fail from now on, and so must the end of the group that they are in.
#[cold]
#[inline(never)]
fn without_our_part(thread: &Thread, vendor: u8, call: &Call, forward: impl Forward) -> NcclResult {
    let forward = || forward();
    match call {
        Call::Group(_) | Call::End { .. } => compression::dispatch_inert(thread, vendor, call, &forward),
        _ if call.aborts_parent() => compression::dispatch_inert(thread, vendor, call, &forward),
        _ => thread.inside_vendor(forward),
    }
}

#[inline(always)]
fn before(thread: &Thread, function: &str, vendor: u8, call: &Call) -> Ticket {
    if let Call::Operation(operation) = call {
        let ticket = reserve(function, operation);
        announce(thread, vendor, operation, ticket, false);
        if !telemetry::is_collective(operation.kind) {
            announce_message(thread, vendor, ticket);
        }
        return ticket;
    }
    if let Call::Group(how) = call {
        return before_group(thread, vendor, *how);
    }
    before_others(thread, vendor, call)
}

#[inline]
fn before_group(thread: &Thread, vendor: u8, call: GroupCall) -> Ticket {
    if call != GroupCall::Start && thread.group_depth(vendor) == 1 {
        if call == GroupCall::End && thread.has_fresh() {
            compression::await_hellos(thread, vendor);
        }
        telemetry::begin_end(thread, vendor);
    }
    Ticket::Nothing
}

#[inline(never)]
fn before_others(thread: &Thread, vendor: u8, call: &Call) -> Ticket {
    match *call {
        Call::Operation(_)
        | Call::Group(_)
        | Call::Operator
        | Call::DropOperator { .. }
        | Call::Health { .. } => Ticket::Nothing,
        Call::End { how, comm } => begin_end(thread, how, comm),
        Call::Derive { parent, .. } if call.aborts_parent() => begin_end(thread, Ending::Revoke, parent),
        Call::Create { rank, nranks, config, id, .. } => {
            startup::decide();
            telemetry::begin();
            let blocking = lifecycle::is_blocking(config, true);
            let is_outside = thread.group_depth(vendor) == 0;
            compression::join(id, rank, nranks, blocking, is_outside).map_or(Ticket::Nothing, Ticket::Joining)
        }
        Call::Identify { .. } => {
            startup::decide();
            Ticket::Nothing
        }
        Call::CreateAll { .. } | Call::Derive { .. } => {
            startup::decide();
            telemetry::begin();
            Ticket::Nothing
        }
    }
}

/// The communicator was not made.
fn give_up_seat(joining: Joining) {
    // SAFETY: the call that it was made for ends here, so that nobody else takes it.
    unsafe { joining.into_seated() }.end();
}

/// Whether a call counts towards the index: every rank answers the same for the same call.
pub(crate) fn counts(kind: Kind, count: usize) -> bool {
    kind == Kind::AllReduce && count > 0
}

/// A line for who debugs.
#[inline(always)]
pub(crate) fn tell_call(function: &str, operation: &Operation) {
    if log::is_on(log::Level::Debug) {
        log::debug(format_args!("{function} comm={:p} count={}", operation.comm, operation.count));
    }
}

#[inline(always)]
pub(crate) fn reserve(function: &str, operation: &Operation) -> Ticket {
    let Operation { kind, comm, count, .. } = *operation;
    tell_call(function, operation);
    match communicators::find(comm as usize) {
        None => Ticket::Stranger,
        Some(known) if counts(kind, count) => match known.entry.index.reserve(known.generation) {
            Some(index) => Ticket::Reserved(known, index),
            None => Ticket::Unnumbered(known),
        },
        Some(known) => Ticket::Unnumbered(known),
    }
}

/// Tells those who watch that the operation goes to the vendor; in a group it is the group's end that does.
#[inline(always)]
pub(crate) fn announce(
    thread: &Thread,
    vendor: u8,
    operation: &Operation,
    ticket: Ticket,
    is_timed_elsewhere: bool,
) {
    if let Ticket::Reserved(known, _) | Ticket::Unnumbered(known) = ticket
        && thread.group_depth(vendor) == 0
    {
        telemetry::entering(thread, known, operation, is_timed_elsewhere);
    }
}

pub(crate) fn announce_message(thread: &Thread, vendor: u8, ticket: Ticket) {
    if let Ticket::Unnumbered(known) = ticket
        && thread.group_depth(vendor) == 0
    {
        telemetry::entering_message(known);
    }
}

fn begin_end(thread: &Thread, how: Ending, comm: Comm) -> Ticket {
    let waits = matches!(how, Ending::Destroy | Ending::Abort | Ending::Revoke);
    let Some(known) = communicators::find(comm as usize).filter(|_| waits) else {
        return Ticket::Nothing;
    };
    telemetry::entering_end(thread, known);
    if !known.begin_end() {
        log::warn(format_args!("{how:?} of a communicator went ahead of a call of ours that did not return"));
    }
    Ticket::Ending(known)
}

#[inline(always)]
fn after(thread: &Thread, vendor: u8, operation: &Operation, ticket: &Ticket, result: NcclResult) {
    let is_done = result == NcclResult::SUCCESS && thread.group_depth(vendor) == 0;
    match *ticket {
        Ticket::Reserved(known, _) if is_done => {
            known.entry.index.commit_one(known.generation);
            telemetry::posted_alone(thread, vendor, operation, known);
        }
        Ticket::Unnumbered(known) if is_done => {
            telemetry::posted_alone(thread, vendor, operation, known);
        }
        _ => after_operation(thread, vendor, operation, ticket, result),
    }
}

/// What was not accepted at once, or is in a group, or on a communicator that is not known.
#[inline(never)]
fn after_operation(thread: &Thread, vendor: u8, operation: &Operation, ticket: &Ticket, result: NcclResult) {
    let known = match *ticket {
        Ticket::Reserved(known, _) => {
            settle_call(thread, vendor, known, result);
            if result.is_accepted() && thread.group_depth(vendor) > 0 {
                return telemetry::posted_in_group(thread, vendor, operation, known, result);
            }
            Some(known)
        }
        Ticket::Unnumbered(known) if result.is_accepted() && thread.group_depth(vendor) > 0 => {
            return telemetry::posted_in_group(thread, vendor, operation, known, result);
        }
        Ticket::Unnumbered(known) => Some(known),
        Ticket::Stranger if result.is_accepted() => lifecycle::adopt(thread, vendor, operation, result),
        _ => None,
    };
    telemetry::posted(thread, vendor, operation, known, result);
}

#[inline(never)]
fn after_others(thread: &Thread, vendor: u8, call: &Call, ticket: Ticket, result: NcclResult) -> NcclResult {
    match (*call, ticket) {
        (Call::Health { .. }, _) => telemetry::poll_gently(),
        (Call::End { how, .. }, Ticket::Ending(known)) => {
            telemetry::left(known);
            lifecycle::ended(how, known, result);
        }
        (Call::Identify { id }, _) if result.is_accepted() => compression::introduce(id),
        (Call::End { how: Ending::Finalize, comm }, _) if result.is_accepted() => {
            communicators::find(comm as usize).into_iter().for_each(compression::leave);
        }
        (Call::Create { .. } | Call::CreateAll { .. }, _) if result.is_accepted() => {
            return after_creation(thread, vendor, call, ticket, result).unwrap_or(result);
        }
        (Call::Create { .. }, Ticket::Joining(joining)) => give_up_seat(joining),
        (Call::Derive { .. }, ticket) => {
            return after_derivation(thread, vendor, call, ticket, result).unwrap_or(result);
        }
        _ => {}
    }
    result
}

/// Outside a group a call has its effect when it returns; inside, when the group ends.
#[inline]
pub(crate) fn settle_call(thread: &Thread, vendor: u8, known: Known, result: NcclResult) {
    let index = &known.entry.index;
    if !result.is_accepted() {
        index.roll_back(known.generation, 1);
    } else if thread.group_depth(vendor) == 0 {
        index.commit(known.generation, 1);
    } else if !thread.wait_for_group_end(known) {
        known.stop_counting();
        warn_once(&TOO_MANY_IN_GROUP, "a group with too many communicators: some are no longer counted");
    }
}

static TOO_MANY_IN_GROUP: AtomicBool = AtomicBool::new(false);

fn after_group(thread: &Thread, vendor: u8, call: GroupCall, result: NcclResult) -> NcclResult {
    let depth = thread.group_depth(vendor);
    match call {
        GroupCall::Start if result.is_accepted() => thread.set_group_depth(vendor, depth + 1),
        GroupCall::Start => {}
        GroupCall::End | GroupCall::SimulateEnd if depth > 1 => thread.set_group_depth(vendor, depth - 1),
        GroupCall::End | GroupCall::SimulateEnd if depth == 1 => {
            thread.set_group_depth(vendor, 0);
            let took_effect = call == GroupCall::End && result.is_accepted();
            let is_under_way = result == NcclResult::IN_PROGRESS;
            return settle_group(thread, vendor, took_effect, is_under_way).unwrap_or(result);
        }
        GroupCall::End | GroupCall::SimulateEnd => {}
    }
    result
}

/// The outermost end of a group: all of it took effect, or none. What it returns instead of what the vendor said,
/// where a communicator that it made is of no use. None that it made blocks if it `is_under_way`.
fn settle_group(thread: &Thread, vendor: u8, took_effect: bool, is_under_way: bool) -> Option<NcclResult> {
    telemetry::settle_group(thread, vendor, took_effect);
    let mut fresh = Vec::new();
    thread.take_fresh(vendor, |made| fresh.push(made));
    thread.settle_group(
        vendor,
        |waiting| {
            let known = waiting.known();
            if took_effect {
                known.entry.index.commit(known.generation, waiting.calls);
            } else {
                known.entry.index.roll_back(known.generation, waiting.calls);
            }
        },
        |expected| {
            if took_effect {
                let blocking = expected.facts.blocking && !is_under_way;
                let facts = Facts { blocking, ..expected.facts };
                fresh.extend(lifecycle::enter_derived(thread, &Expected { facts, ..expected }));
            }
        },
    );
    if is_under_way {
        fresh.iter().for_each(|fresh| fresh.known.does_not_block());
    }
    if !took_effect {
        fresh.iter().for_each(|fresh| compression::leave(fresh.known));
    } else if !fresh.is_empty() {
        lifecycle::made(thread, &fresh);
        return take_back::first_error(&fresh);
    }
    None
}
