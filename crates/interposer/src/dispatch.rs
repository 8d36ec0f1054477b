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
use std::sync::atomic::{AtomicBool, Ordering};

/// What the part before leaves for the part after.
#[derive(Clone, Copy)]
enum Ticket {
    Nothing,
    /// An index is reserved.
    Reserved(Known),
    /// No communicator is known at that address.
    Stranger,
    /// The communicator accepts no new use of ours.
    Ending(Known),
}

/// Undoes the part before where the vendor leaves by an exception and there is no part after.
struct Undo(Option<Ticket>);

impl Drop for Undo {
    fn drop(&mut self) {
        match self.0 {
            Some(Ticket::Reserved(known)) => known.entry.index.roll_back(known.generation, 1),
            Some(Ticket::Ending(known)) => known.cancel_end(),
            _ => {}
        }
    }
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
        let exception = Undo(ticket);
        let result = thread.inside_vendor(forward);
        std::mem::forget(exception);
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
            let blocking = is_blocking(config, true);
            created(at, Facts { origin: Origin::Created, vendor, rank, nranks, blocking });
        }
        (Call::CreateAll { at, count }, _) if result.is_accepted() => created_all(vendor, at, count),
        (Call::Derive { how, parent, at, config, .. }, ticket) => {
            if let Ticket::Ending(parent) = ticket {
                parent.cancel_end();
            }
            if result.is_accepted() {
                // A child is as its parent is, unless told otherwise.
                let inherited = communicators::find(parent as usize).is_none_or(|it| it.entry.is_blocking());
                let blocking = is_blocking(config, inherited) && result == NcclResult::SUCCESS;
                derived(thread, at, Facts { origin: origin_of(how), vendor, rank: -1, nranks: -1, blocking });
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
        known.stop_counting();
        warn_once(&TOO_MANY_IN_GROUP, "a group with too many communicators: some are no longer counted");
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
                enter_derived(thread, expected.at, &expected.facts);
            }
        },
    );
}

/// A communicator made by its rank. NCCL writes the handle at once, also inside a group, and does
/// not need the place for it afterwards. One that is not written yet is adopted at its first call.
fn created(at: *mut Comm, facts: Facts) {
    // SAFETY: the vendor has just accepted `at` as the place for the handle.
    enter(unsafe { std::ptr::read_volatile(at) }, &facts);
}

/// A communicator made from another one. In a group the vendor writes the handle at its end, into
/// a place that the application keeps until then.
fn derived(thread: &Thread, at: *mut Comm, facts: Facts) {
    if thread.group_depth(facts.vendor) == 0 {
        enter_derived(thread, at, &facts);
    } else {
        // One that finds no room here is adopted at its first call.
        thread.expect_communicator(Expected { at, facts });
    }
}

fn enter_derived(thread: &Thread, at: *mut Comm, facts: &Facts) {
    // SAFETY: the vendor has just written the handle there, or null.
    let comm = unsafe { std::ptr::read_volatile(at) };
    if let Some(known) = enter(comm, facts).filter(|_| facts.blocking) {
        learn_place(thread, known, comm, facts.vendor);
    }
}

fn created_all(vendor: u8, at: *mut Comm, count: c_int) {
    for rank in 0..count {
        let facts = Facts { origin: Origin::CreatedAll, vendor, rank, nranks: count, blocking: true };
        created(at.wrapping_add(rank as usize), facts);
    }
}

fn enter(comm: Comm, facts: &Facts) -> Option<Known> {
    if comm.is_null() {
        return None;
    }
    fork::owns_communicators_now();
    let known = communicators::insert(comm as usize, facts);
    match known {
        Some(_) => log::info(format_args!(
            "communicator {comm:p}: {:?}, rank {} of {}",
            facts.origin, facts.rank, facts.nranks
        )),
        None => warn_once(
            &TABLE_FULL,
            "too many communicators: some are not tracked, and their calls pass through",
        ),
    }
    known
}

static TABLE_FULL: AtomicBool = AtomicBool::new(false);
static TOO_MANY_IN_GROUP: AtomicBool = AtomicBool::new(false);

#[cold]
fn warn_once(warned: &AtomicBool, message: &str) {
    if !warned.swap(true, Ordering::Relaxed) {
        log::warn(format_args!("{message}"));
    }
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
        log::info(format_args!("communicator {comm:p}: rank {rank} of {nranks}"));
    }
}

/// A communicator that works though we did not see it made: a non-blocking creation, say.
#[cold]
fn adopt(thread: &Thread, vendor: u8, kind: Kind, comm: Comm, count: usize) {
    if fork::is_bystander() {
        return;
    }
    let facts = Facts { origin: Origin::Adopted, vendor, rank: -1, nranks: -1, blocking: false };
    let Some(known) = communicators::insert_if_absent(comm as usize, &facts) else {
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
    let (rank, nranks) = (known.entry.rank(), known.entry.nranks());
    let calls = known.entry.index.counts().committed;
    log::info(format_args!("{how:?} of rank {rank} of {nranks} after {calls} calls that count"));
    known.forget();
}

fn origin_of(how: Derivation) -> Origin {
    match how {
        Derivation::Split => Origin::Split,
        Derivation::Shrink => Origin::Shrink,
        Derivation::Grow => Origin::Grow,
    }
}

/// Whether creation blocks: as the configuration says, or the environment, or as it is otherwise.
fn is_blocking(config: *const Config, otherwise: bool) -> bool {
    // SAFETY: null, or the structure that the vendor has just read; `blocking` has kept its place
    // since 2.14.
    match unsafe { config.as_ref() }.map(|config| config.blocking) {
        Some(0) => false,
        Some(1) => true,
        _ => otherwise && startup::ensure().blocks_by_default,
    }
}
