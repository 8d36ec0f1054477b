//! The part after a vendor's call that makes communicators: what is known of them from their creation, and what that
//! returns instead of what the vendor said, where they cannot be kept. Called by the dispatcher.

use super::Ticket;
use crate::calls::Call;
use crate::clique::Clique;
use crate::communicators::{self, Facts, Origin};
use crate::thread::{Expected, Thread};
use crate::{lifecycle, telemetry};
use airamp_vendor_abi::nccl::NcclResult;
use std::ffi::c_int;

/// Communicators by `ncclCommInitRank` and its kin, or `ncclCommInitAll`, that the vendor has accepted.
pub(super) fn after_creation(
    thread: &Thread,
    vendor: u8,
    call: &Call,
    ticket: Ticket,
    result: NcclResult,
) -> Option<NcclResult> {
    let blocks = |config| lifecycle::is_blocking(config, true) && result == NcclResult::SUCCESS;
    match *call {
        Call::Create { at, nranks, rank, config, id } => {
            let blocking = blocks(config);
            let (clique, parent) = (Clique::UNKNOWN, Clique::UNKNOWN);
            let (origin, lends) = (Origin::Created, lifecycle::lends(config, false));
            let facts = Facts { origin, vendor, rank, nranks, blocking, clique, parent, lends };
            let seated = match ticket {
                // SAFETY: made for this call, and nobody else takes it.
                Ticket::Joining(joining) => Some(unsafe { joining.into_seated() }),
                _ => None,
            };
            lifecycle::created(thread, at, id, facts, seated)
        }
        Call::CreateAll { at, count } => {
            lifecycle::created_all(thread, vendor, at, count, blocks(std::ptr::null()))
        }
        _ => None,
    }
}

/// A communicator made from another one, or not.
pub(super) fn after_derivation(
    thread: &Thread,
    vendor: u8,
    call: &Call,
    ticket: Ticket,
    result: NcclResult,
) -> Option<NcclResult> {
    let Call::Derive { how, parent, at, config, detail, left_out, left_out_count } = *call else {
        return None;
    };
    if let Ticket::Ending(parent) = ticket {
        telemetry::left(parent);
        if result.is_accepted() {
            lifecycle::interrupted(parent);
        }
        parent.cancel_end();
    }
    if !result.is_accepted() {
        return None;
    }
    // A child is as its parent is, unless told otherwise.
    let parent = communicators::find(parent as usize);
    let inherited = parent.is_none_or(|it| it.entry.is_blocking());
    let blocking = lifecycle::is_blocking(config, inherited) && result == NcclResult::SUCCESS;
    // SAFETY: the vendor has just accepted the list.
    let left_out = unsafe { ranks_at(left_out, left_out_count) };
    let clique = parent.map_or(Clique::UNKNOWN, |it| it.entry.next_child(how, detail, left_out));
    let origin = lifecycle::origin_of(how);
    let of = parent.map_or(Clique::UNKNOWN, |it| it.entry.clique());
    let parent_lends = parent.is_none_or(|it| it.entry.lends());
    let lends = lifecycle::lends(config, parent_lends);
    let facts = Facts { origin, vendor, rank: -1, nranks: -1, blocking, clique, parent: of, lends };
    lifecycle::derived(thread, Expected { at, parent, facts }, parent_lends && !call.aborts_parent())
}

/// # Safety
/// Null, or as many ranks lie there, for as long as the slice is used.
unsafe fn ranks_at<'a>(ranks: *const c_int, count: c_int) -> &'a [c_int] {
    match usize::try_from(count) {
        // SAFETY: by the caller's word.
        Ok(count) if count > 0 && !ranks.is_null() => unsafe { std::slice::from_raw_parts(ranks, count) },
        _ => &[],
    }
}
