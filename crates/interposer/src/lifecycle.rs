//! How communicators come and go: entered in the table when the vendor has made them, forgotten
//! when it has ended them.

use crate::calls::{Derivation, Ending, Operation};
use crate::clique::Clique;
use crate::communicators::{self, Facts, Known, Origin};
use crate::compression::{self, Fresh, Seated};
use crate::dispatch::{counts, settle_call};
use crate::take_back::Places;
use crate::thread::{Expected, Thread};
use crate::{fork, log, take_back, telemetry, vendors};
use airamp_vendor_abi::nccl::{Comm, Config, NcclResult, UniqueId};
use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A communicator made by its rank; what its creation returns, where it cannot be kept. NCCL writes the handle at once, also inside a group, and does
/// not need the place for it afterwards. One that is not written yet is adopted at its first call.
pub(crate) fn created(
    thread: &Thread,
    at: *mut Comm,
    id: *const UniqueId,
    facts: Facts,
    seated: Option<Arc<Seated>>,
) -> Option<NcclResult> {
    // SAFETY: the vendor has just read the id, and accepted `at` as the place for the handle.
    let (id, comm) = unsafe { (id.as_ref(), std::ptr::read_volatile(at)) };
    let facts = Facts { clique: id.map_or(Clique::UNKNOWN, Clique::of_id), ..facts };
    if telemetry::is_on() {
        id.into_iter().for_each(telemetry::meet_by);
    }
    let Some(known) = enter(comm, &facts) else {
        seated.iter().for_each(|seated| seated.end());
        return None;
    };
    if let Some(seated) = seated {
        seated.belongs_to(known);
    }
    offer(thread, facts.vendor, &[Fresh { known, comm }], Places { at, count: 1, shares: false })
}

/// Offers compression to communicators that one call has made, now or at the end of the group.
fn offer(thread: &Thread, vendor: u8, fresh: &[Fresh], places: Places) -> Option<NcclResult> {
    if thread.group_depth(vendor) == 0 {
        return made_alone(thread, fresh, places);
    }
    for fresh in fresh {
        if !thread.remember_fresh(*fresh) {
            compression::refuse(*fresh, "too many communicators were made in one group");
        }
    }
    None
}

/// The same outside a group, where the application has nothing of it before the call returns.
fn made_alone(thread: &Thread, fresh: &[Fresh], places: Places) -> Option<NcclResult> {
    made(thread, fresh);
    take_back::first_error(fresh).inspect(|error| take_back::all(thread, fresh, places, *error))
}

/// Communicators that the vendor has made, and that have taken effect.
pub(crate) fn made(thread: &Thread, fresh: &[Fresh]) {
    fresh.iter().for_each(|fresh| telemetry::open(thread, *fresh, fresh.known.entry.is_blocking()));
    compression::offer(thread, fresh);
}

pub(crate) fn created_all(
    thread: &Thread,
    vendor: u8,
    at: *mut Comm,
    count: c_int,
    blocking: bool,
) -> Option<NcclResult> {
    let (clique, parent) = (Clique::of_this_process(), Clique::UNKNOWN);
    let mut fresh = Vec::new();
    for rank in 0..count {
        let (origin, nranks) = (Origin::CreatedAll, count);
        let facts = Facts { origin, vendor, rank, nranks, blocking, clique, parent, lends: false };
        // SAFETY: the vendor has just written that many handles.
        let comm = unsafe { std::ptr::read_volatile(at.wrapping_add(rank as usize)) };
        fresh.extend(enter(comm, &facts).map(|known| Fresh { known, comm }));
    }
    compression::join_all(&fresh);
    offer(thread, vendor, &fresh, Places { at, count: usize::try_from(count).unwrap_or(0), shares: false })
}

/// A communicator made from another one, with which it may share what both need. In a group the vendor writes the handle at its end, into
/// a place that the application keeps until then.
pub(crate) fn derived(thread: &Thread, expected: Expected, shares: bool) -> Option<NcclResult> {
    if thread.group_depth(expected.facts.vendor) > 0 {
        // One that finds no room here is adopted at its first call.
        thread.expect_communicator(expected);
        return None;
    }
    let fresh = enter_derived(thread, &expected)?;
    made_alone(thread, &[fresh], Places { at: expected.at, count: 1, shares })
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
            compression::retire(known, false);
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
        lends: true,
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
        if how == Ending::Revoke && result.is_accepted() {
            interrupted(known);
        }
        known.cancel_end();
        return;
    }
    let (rank, nranks) = (known.entry.rank(), known.entry.nranks());
    let calls = known.entry.index.counts().committed;
    log::info(format_args!("{how:?} of rank {rank} of {nranks} after {calls} calls that count"));
    compression::leave(known);
    compression::retire(known, how == Ending::Abort);
    telemetry::closed(known, how);
    known.forget();
}

/// Revoked, or the parent of a shrink that aborts: of no use any more but to make others from it. Its calls fail as the
/// vendor's would.
pub(crate) fn interrupted(known: Known) {
    known.interrupt();
    if known.entry.is_active() {
        known.poison_as(NcclResult::INVALID_USAGE);
    }
}

pub(crate) fn origin_of(how: Derivation) -> Origin {
    match how {
        Derivation::Split => Origin::Split,
        Derivation::Shrink => Origin::Shrink,
        Derivation::Grow => Origin::Grow,
    }
}

/// Whether creation blocks: as the environment says, which the vendor puts above configurations; else as the configuration
/// says, or as it is `otherwise`. A creation that is still in progress when it returns does not, whatever this says.
pub(crate) fn is_blocking(config: *const Config, otherwise: bool) -> bool {
    // Not kept: the vendor's first call may add to the environment what stands in a file of its own.
    let environment = std::env::var("NCCL_COMM_BLOCKING").ok();
    // SAFETY: null, or the structure that the vendor reads; `blocking` has kept its place since 2.14.
    let configured = unsafe { config.as_ref() }.map(|config| config.blocking);
    blocks(environment.as_deref(), configured, otherwise)
}

fn blocks(environment: Option<&str>, configured: Option<c_int>, otherwise: bool) -> bool {
    let is_no_digit = |c: char| !c.is_ascii_digit();
    let by_environment =
        environment.and_then(|text| text.trim_start().split(is_no_digit).next()?.parse().ok());
    let says = |number: Option<c_int>| number.filter(|number| (0..=1).contains(number));
    says(by_environment).or(says(configured)).map_or(otherwise, |number| number == 1)
}

/// Where `ncclConfig_t` says since 2.27 whether what is shrunk from a communicator shares with it.
const SHRINK_SHARE: usize = 64;

/// Whether communicators that are made from one with that configuration may share its resources; `otherwise` where
/// it has none of its own.
pub(crate) fn lends(config: *const Config, otherwise: bool) -> bool {
    // SAFETY: null, or the structure that the vendor has just read.
    let Some(size) = (unsafe { config.as_ref() }).map(|config| config.size) else {
        return otherwise;
    };
    let says_so = |offset: usize| {
        let end = offset + size_of::<c_int>();
        // SAFETY: the structure is as long as it says, and has an int there.
        end <= size && unsafe { config.byte_add(offset).cast::<c_int>().read_unaligned() } == 1
    };
    says_so(offset_of!(Config, split_share)) || says_so(SHRINK_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_before_the_configuration_whether_a_creation_blocks() {
        for otherwise in [false, true] {
            assert_eq!(blocks(None, None, otherwise), otherwise);
            assert!(blocks(None, Some(1), otherwise) && !blocks(None, Some(0), otherwise));
            assert!(blocks(Some("1"), Some(0), otherwise) && !blocks(Some(" 0"), Some(1), otherwise));
            for neither in ["", "no", "-1", "2", "99999999999999999999"] {
                assert_eq!(blocks(Some(neither), None, otherwise), otherwise, "{neither}");
                assert!(!blocks(Some(neither), Some(0), otherwise), "{neither}");
            }
            assert_eq!(blocks(None, Some(c_int::MIN), otherwise), otherwise, "not set");
        }
    }

    #[test]
    fn a_communicator_lends_what_its_configuration_says_and_else_what_its_parent_does() {
        for otherwise in [false, true] {
            assert_eq!(lends(std::ptr::null(), otherwise), otherwise);
        }
        let mut long = [0_u64; 16];
        let config = long.as_mut_ptr().cast::<Config>();
        // SAFETY: the memory is longer than the structure, and any bytes will do.
        unsafe {
            (*config).size = size_of_val(&long);
            assert!(!lends(config, true));
            (*config).split_share = 1;
            assert!(lends(config, false));
            (*config).split_share = 0;
            config.byte_add(SHRINK_SHARE).cast::<c_int>().write(1);
            assert!(lends(config, false));
            (*config).size = SHRINK_SHARE;
            assert!(!lends(config, false), "what lies behind the structure is not read");
        }
    }
}
