//! The one path of every intercepted call: our part before, the vendor's function, our part
//! after. The vendor's function is called exactly once, whatever happens to our parts, and no
//! lock is held across it.

use crate::boundary::{Moment, ours};
use crate::calls::{Call, Derivation, Ending, GroupCall, Kind};
use crate::communicators::{self, Facts, Known, Origin};
use crate::thread::{self, Expected, Thread};
use crate::{fork, log, startup, vendors};
use airamp_vendor_abi::nccl::{Comm, Config, NcclResult};
use std::ffi::c_int;

/// What the part before leaves for the part after.
enum Ticket {
    Nothing,
    /// An index is reserved.
    Reserved(Known),
    /// No communicator is known at that address.
    Stranger,
    /// The communicator accepts no new use of ours.
    Ending(Known),
}

#[inline]
pub(crate) fn dispatch(
    function: &'static str,
    vendor: u8,
    call: Call,
    forward: impl FnOnce() -> NcclResult,
) -> NcclResult {
    if startup::is_inert() {
        return forward();
    }
    thread::with(|thread| {
        if thread.is_inside_vendor() {
            return forward();
        }
        let ticket = ours(function, Moment::Before, || before(function, &call));
        let result = thread.inside_vendor(forward);
        if let Some(ticket) = ticket {
            ours(function, Moment::After, || after(thread, vendor, &call, ticket, result));
        }
        result
    })
}

#[inline]
fn before(function: &str, call: &Call) -> Ticket {
    match *call {
        Call::Collective { kind, comm, count } => {
            if log::is_on(log::Level::Debug) {
                log::debug(format_args!("{function} comm={comm:p} count={count}"));
            }
            reserve(kind, comm, count)
        }
        Call::Group(_) | Call::Operator => Ticket::Nothing,
        Call::End { how, comm } => begin_end(how, comm),
        Call::Derive { parent, aborts_parent: true, .. } => begin_end(Ending::Revoke, parent),
        Call::Identify | Call::Create { .. } | Call::CreateAll { .. } | Call::Derive { .. } => {
            startup::decide();
            Ticket::Nothing
        }
    }
}

/// Whether a call counts towards the index: every rank answers the same for the same call.
fn counts(kind: Kind, count: usize) -> bool {
    kind == Kind::AllReduce && count > 0
}

#[inline]
fn reserve(kind: Kind, comm: Comm, count: usize) -> Ticket {
    match communicators::find(comm as usize) {
        None => Ticket::Stranger,
        Some(known) if counts(kind, count) && known.entry.index.reserve(known.generation).is_some() => {
            Ticket::Reserved(known)
        }
        Some(_) => Ticket::Nothing,
    }
}

fn begin_end(how: Ending, comm: Comm) -> Ticket {
    let waits = matches!(how, Ending::Destroy | Ending::Abort | Ending::Revoke);
    let Some(known) = communicators::find(comm as usize).filter(|_| waits) else {
        return Ticket::Nothing;
    };
    if !known.begin_end() {
        log::warn(format_args!("{how:?} of a communicator went ahead of a call of ours that did not return"));
    }
    Ticket::Ending(known)
}

#[inline]
fn after(thread: &Thread, vendor: u8, call: &Call, ticket: Ticket, result: NcclResult) {
    match (*call, ticket) {
        (Call::Collective { .. }, Ticket::Reserved(known)) => settle_call(thread, vendor, known, result),
        (Call::Collective { kind, comm, count }, Ticket::Stranger) if result.is_accepted() => {
            adopt(thread, vendor, kind, comm, count);
        }
        (Call::Group(call), _) => after_group(thread, vendor, call, result),
        (Call::End { how, .. }, Ticket::Ending(known)) => after_end(how, known, result),
        (Call::Create { at, nranks, rank, config }, _) if result.is_accepted() => {
            let blocking = is_blocking(config);
            created(thread, at, Facts { origin: Origin::Created, vendor, rank, nranks, blocking });
        }
        (Call::CreateAll { at, count }, _) if result.is_accepted() => created_all(thread, vendor, at, count),
        (Call::Derive { how, at, config, .. }, ticket) => {
            if let Ticket::Ending(parent) = ticket {
                parent.cancel_end();
            }
            if result.is_accepted() {
                let (origin, blocking) = (origin_of(how), is_blocking(config));
                created(thread, at, Facts { origin, vendor, rank: -1, nranks: -1, blocking });
            }
        }
        _ => {}
    }
}

/// Outside a group a call has its effect when it returns; inside, when the group ends.
#[inline]
fn settle_call(thread: &Thread, vendor: u8, known: Known, result: NcclResult) {
    let index = &known.entry.index;
    if !result.is_accepted() {
        index.roll_back(known.generation, 1);
    } else if thread.group_depth(vendor) == 0 {
        index.commit(known.generation, 1);
    } else if !thread.wait_for_group_end(known) {
        log::warn(format_args!("a group with too many communicators: one is no longer tracked"));
        known.forget();
    }
}

fn after_group(thread: &Thread, vendor: u8, call: GroupCall, result: NcclResult) {
    let depth = thread.group_depth(vendor);
    match call {
        GroupCall::Start if result.is_accepted() => thread.set_group_depth(vendor, depth + 1),
        GroupCall::Start => {}
        GroupCall::End | GroupCall::SimulateEnd if depth > 1 => thread.set_group_depth(vendor, depth - 1),
        GroupCall::End | GroupCall::SimulateEnd if depth == 1 => {
            thread.set_group_depth(vendor, 0);
            settle_group(thread, vendor, call == GroupCall::End && result.is_accepted());
        }
        GroupCall::End | GroupCall::SimulateEnd => {}
    }
}

/// The outermost end of a group: all of it took effect, or none.
fn settle_group(thread: &Thread, vendor: u8, took_effect: bool) {
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
                enter(thread, expected.at, expected.facts);
            }
        },
    );
}

fn created(thread: &Thread, at: *mut Comm, facts: Facts) {
    if thread.group_depth(facts.vendor) == 0 {
        enter(thread, at, facts);
    } else {
        // One that finds no room here is adopted at its first call.
        thread.expect_communicator(Expected { at, facts });
    }
}

fn created_all(thread: &Thread, vendor: u8, at: *mut Comm, count: c_int) {
    for rank in 0..count {
        let facts = Facts { origin: Origin::CreatedAll, vendor, rank, nranks: count, blocking: true };
        enter(thread, at.wrapping_add(rank as usize), facts);
    }
}

/// Enters the communicator that the vendor has written, if it has.
fn enter(thread: &Thread, at: *mut Comm, facts: Facts) {
    // SAFETY: the vendor accepted `at` as the place for the handle, and the application keeps it
    // until the creation has ended. A non-blocking creation may write it from another thread.
    let comm = unsafe { std::ptr::read_volatile(at) };
    if comm.is_null() {
        return;
    }
    fork::owns_communicators_now();
    let Some(known) = communicators::insert(comm as usize, &facts) else {
        log::warn(format_args!("too many communicators: one is not tracked, and its calls pass through"));
        return;
    };
    if facts.rank < 0 && facts.blocking {
        learn_place(thread, known, comm, facts.vendor);
    }
    log::info(format_args!(
        "communicator {comm:p}: rank {} of {} ({:?})",
        known.entry.rank(),
        known.entry.nranks(),
        facts.origin
    ));
}

/// Asks the vendor for the rank in a derived communicator, pinned against its end.
fn learn_place(thread: &Thread, known: Known, comm: Comm, vendor: u8) {
    let (Some(_pin), Some(vendor)) = (known.pin(), vendors::at(usize::from(vendor))) else {
        return;
    };
    let (Some(count), Some(user_rank)) = (vendor.comm_count, vendor.comm_user_rank) else {
        return;
    };
    let (mut rank, mut nranks) = (-1, -1);
    let answered = thread.inside_vendor(|| {
        // SAFETY: the pin keeps the communicator; each query writes one int.
        unsafe { count(comm, &mut nranks).is_accepted() && user_rank(comm, &mut rank).is_accepted() }
    });
    if answered {
        known.learn_place(rank, nranks);
    }
}

/// A communicator that works though we did not see it made: a non-blocking creation, say.
#[cold]
fn adopt(thread: &Thread, vendor: u8, kind: Kind, comm: Comm, count: usize) {
    if fork::is_bystander() {
        return;
    }
    let facts = Facts { origin: Origin::Adopted, vendor, rank: -1, nranks: -1, blocking: false };
    let Some(known) = communicators::insert(comm as usize, &facts) else {
        return;
    };
    log::info(format_args!("communicator {comm:p}: adopted at its first call"));
    if counts(kind, count) && known.entry.index.reserve(known.generation).is_some() {
        settle_call(thread, vendor, known, NcclResult::SUCCESS);
    }
}

fn after_end(how: Ending, known: Known, result: NcclResult) {
    let gone = matches!(how, Ending::Destroy | Ending::Abort) && result.is_accepted();
    if !gone {
        known.cancel_end();
        return;
    }
    let counts = known.entry.index.counts();
    log::info(format_args!("{how:?} of a communicator after {} calls that count", counts.committed));
    known.forget();
}

fn origin_of(how: Derivation) -> Origin {
    match how {
        Derivation::Split => Origin::Split,
        Derivation::Shrink => Origin::Shrink,
        Derivation::Grow => Origin::Grow,
    }
}

/// Whether creation blocks. The vendor has accepted the configuration, so its first fields are there.
fn is_blocking(config: *const Config) -> bool {
    // SAFETY: the vendor has just read the same structure; `blocking` has kept its place since 2.14.
    config.is_null() || unsafe { (*config).blocking } != 0
}
