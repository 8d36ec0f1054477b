//! How communicators come and go: entered in the table when the vendor has made them, forgotten
//! when it has ended them.

use crate::calls::{Derivation, Ending, Operation};
use crate::clique::Clique;
use crate::communicators::{self, Facts, Known, Origin};
use crate::compression::{self, Fresh, Seated};
use crate::dispatch::{counts, settle_call};
use crate::thread::{Expected, Thread};
use crate::{fork, log, startup, telemetry, vendors};
use airamp_vendor_abi::nccl::{Comm, Config, NcclResult, UniqueId};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A communicator made by its rank. NCCL writes the handle at once, also inside a group, and does
/// not need the place for it afterwards. One that is not written yet is adopted at its first call.
pub(crate) fn created(
    thread: &Thread,
    at: *mut Comm,
    id: *const UniqueId,
    facts: Facts,
    seated: Option<Arc<Seated>>,
) {
    // SAFETY: the vendor has just read the id, and accepted `at` as the place for the handle.
    let (id, comm) = unsafe { (id.as_ref(), std::ptr::read_volatile(at)) };
    let facts = Facts { clique: id.map_or(Clique::UNKNOWN, Clique::of_id), ..facts };
    if telemetry::is_on() {
        id.into_iter().for_each(telemetry::meet_by);
    }
    let Some(known) = enter(comm, &facts) else {
        seated.iter().for_each(|seated| seated.end());
        return;
    };
    if let Some(seated) = seated {
        seated.belongs_to(known);
    }
    offer(thread, facts.vendor, &[Fresh { known, comm }]);
}

/// Offers compression to communicators that were made, now or at the end of the group.
fn offer(thread: &Thread, vendor: u8, fresh: &[Fresh]) {
    if thread.group_depth(vendor) == 0 {
        return made(thread, fresh);
    }
    for fresh in fresh {
        if !thread.remember_fresh(*fresh) {
            compression::refuse(*fresh, "too many communicators were made in one group");
        }
    }
}

/// Communicators that the vendor has made, and that have taken effect.
pub(crate) fn made(thread: &Thread, fresh: &[Fresh]) {
    fresh.iter().for_each(|fresh| telemetry::open(thread, *fresh, fresh.known.entry.is_blocking()));
    compression::offer(thread, fresh);
}

pub(crate) fn created_all(thread: &Thread, vendor: u8, at: *mut Comm, count: c_int) {
    let (clique, parent) = (Clique::of_this_process(), Clique::UNKNOWN);
    let mut fresh = Vec::new();
    for rank in 0..count {
        let (origin, nranks, blocking) = (Origin::CreatedAll, count, true);
        let facts = Facts { origin, vendor, rank, nranks, blocking, clique, parent };
        // SAFETY: the vendor has just written that many handles.
        let comm = unsafe { std::ptr::read_volatile(at.wrapping_add(rank as usize)) };
        fresh.extend(enter(comm, &facts).map(|known| Fresh { known, comm }));
    }
    compression::join_all(&fresh);
    offer(thread, vendor, &fresh);
}

/// A communicator made from another one. In a group the vendor writes the handle at its end, into
/// a place that the application keeps until then.
pub(crate) fn derived(thread: &Thread, expected: Expected) {
    if thread.group_depth(expected.facts.vendor) > 0 {
        // One that finds no room here is adopted at its first call.
        thread.expect_communicator(expected);
    } else if let Some(fresh) = enter_derived(thread, &expected) {
        made(thread, &[fresh]);
    }
}

pub(crate) fn enter_derived(thread: &Thread, expected: &Expected) -> Option<Fresh> {
    let Expected { at, parent, facts } = expected;
    // SAFETY: the vendor has just written the handle there, or null.
    let comm = unsafe { std::ptr::read_volatile(*at) };
    let known = enter(comm, facts)?;
    if facts.blocking {
        learn_place(thread, known, comm, facts.vendor);
    }
    compression::join_child(known, facts.origin, *parent);
    Some(Fresh { known, comm })
}

fn enter(comm: Comm, facts: &Facts) -> Option<Known> {
    if comm.is_null() {
        return None;
    }
    fork::owns_communicators_now();
    let known = communicators::insert(comm as usize, facts);
    match known {
        Some(known) => {
            // Of one at that address whose end we did not see.
            compression::leave(known);
            compression::retire(known);
            telemetry::closed(known, Ending::Destroy);
            log::info(format_args!(
                "communicator {comm:p}: {:?}, rank {} of {}",
                facts.origin, facts.rank, facts.nranks
            ));
        }
        None => warn_once(
            &TABLE_FULL,
            "too many communicators: some are not tracked, and their calls pass through",
        ),
    }
    known
}

static TABLE_FULL: AtomicBool = AtomicBool::new(false);

#[cold]
pub(crate) fn warn_once(warned: &AtomicBool, message: &str) {
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
pub(crate) fn adopt(thread: &Thread, vendor: u8, operation: &Operation, result: NcclResult) -> Option<Known> {
    if fork::is_bystander() {
        return None;
    }
    let Operation { kind, comm, count, .. } = *operation;
    let facts = Facts {
        origin: Origin::Adopted,
        vendor,
        rank: -1,
        nranks: -1,
        blocking: false,
        clique: Clique::UNKNOWN,
        parent: Clique::UNKNOWN,
    };
    let known = communicators::insert_if_absent(comm as usize, &facts)?;
    if result == NcclResult::SUCCESS {
        learn_place(thread, known, comm, vendor);
    }
    telemetry::open(thread, Fresh { known, comm }, result == NcclResult::SUCCESS);
    log::info(format_args!("communicator {comm:p}: adopted at its first call"));
    if counts(kind, count) && known.entry.index.reserve(known.generation).is_some() {
        settle_call(thread, vendor, known, NcclResult::SUCCESS);
    }
    Some(known)
}

pub(crate) fn ended(how: Ending, known: Known, result: NcclResult) {
    // One that is revoked keeps its seat, since it may yet be shrunk.
    let gone = matches!(how, Ending::Destroy | Ending::Abort) && result.is_accepted();
    if !gone {
        if how == Ending::Revoke && result.is_accepted() && known.entry.is_active() {
            known.poison();
        }
        known.cancel_end();
        return;
    }
    let (rank, nranks) = (known.entry.rank(), known.entry.nranks());
    let calls = known.entry.index.counts().committed;
    log::info(format_args!("{how:?} of rank {rank} of {nranks} after {calls} calls that count"));
    compression::leave(known);
    compression::retire(known);
    telemetry::closed(known, how);
    known.forget();
}

pub(crate) fn origin_of(how: Derivation) -> Origin {
    match how {
        Derivation::Split => Origin::Split,
        Derivation::Shrink => Origin::Shrink,
        Derivation::Grow => Origin::Grow,
    }
}

/// Whether creation blocks: as the configuration says, or the environment, or as it is otherwise.
pub(crate) fn is_blocking(config: *const Config, otherwise: bool) -> bool {
    // SAFETY: null, or the structure that the vendor has just read; `blocking` has kept its place
    // since 2.14.
    match unsafe { config.as_ref() }.map(|config| config.blocking) {
        Some(0) => false,
        Some(1) => true,
        _ => otherwise && startup::ensure().blocks_by_default,
    }
}
