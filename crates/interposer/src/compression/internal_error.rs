//! The path of a call after an internal error of ours, anywhere, at any time: what we know of groups and indices may be
//! wrong. Communicators that compress fail until they are ended; all else is the vendor's alone.

use super::route::{compresses, is_taken_back};
use crate::calls::{Call, Ending, GroupCall};
use crate::communicators::{self, Known};
use crate::lifecycle;
use crate::thread::Thread;
use airamp_vendor_abi::nccl::{Comm, NcclResult};

#[cold]
pub(crate) fn dispatch(
    thread: &Thread,
    vendor: u8,
    call: &Call,
    forward: &dyn Fn() -> NcclResult,
) -> NcclResult {
    match *call {
        Call::Operation(operation) if compresses(operation.comm) => {
            thread.fail_group(vendor, NcclResult::INTERNAL_ERROR);
            NcclResult::INTERNAL_ERROR
        }
        Call::Health { comm, error } => {
            let result = forward();
            if result == NcclResult::SUCCESS && compresses(comm) && !error.is_null() {
                // SAFETY: the vendor has just written there.
                unsafe { error.write(NcclResult::INTERNAL_ERROR) };
            }
            result
        }
        // The vendor would wait for peers that may wait for this rank in a call that failed here.
        Call::Derive { parent, .. } if !call.aborts_parent() && may_be_awaited(parent) => {
            thread.fail_group(vendor, NcclResult::INTERNAL_ERROR);
            NcclResult::INTERNAL_ERROR
        }
        Call::Derive { parent, .. } if call.aborts_parent() => interrupt(parent, forward),
        Call::End { how: Ending::Destroy | Ending::Abort | Ending::Revoke, comm } if is_taken_back(comm) => {
            NcclResult::SUCCESS
        }
        Call::End { how: Ending::Destroy | Ending::Abort, comm } => end(comm, forward),
        Call::End { how: Ending::Revoke, comm } => interrupt(comm, forward),
        Call::Group(how) => {
            let (depth, result) = (thread.group_depth(vendor), thread.inside_vendor(forward));
            settle_group(thread, vendor, how, depth, result)
        }
        _ => forward(),
    }
}

/// Of one that has failed or was revoked it is known already.
fn may_be_awaited(comm: Comm) -> bool {
    communicators::find(comm as usize)
        .is_some_and(|known| known.entry.is_active() && !known.entry.is_poisoned())
}

/// The next communicator at its address has nothing to do with it. What it held of the device stays with the process.
fn end(comm: Comm, forward: &dyn Fn() -> NcclResult) -> NcclResult {
    let (known, result) = ending(comm, forward);
    known.inspect(|known| forget(*known, result));
    result
}

fn forget(known: Known, result: NcclResult) {
    if result.is_accepted() { known.forget() } else { known.cancel_end() }
}

/// Revoked, or shrunk with an abort: others can be made from it from then on.
fn interrupt(comm: Comm, forward: &dyn Fn() -> NcclResult) -> NcclResult {
    let (known, result) = ending(comm, forward);
    known.inspect(|known| lifecycle::ended(Ending::Revoke, *known, result));
    result
}

/// The same behind a vendor's call that our own part went wrong after.
pub(crate) fn settle_end(call: &Call, known: Known, result: NcclResult) {
    match call {
        Call::End { how: Ending::Destroy | Ending::Abort, .. } => forget(known, result),
        _ => lifecycle::ended(Ending::Revoke, known, result),
    }
}

/// Another thread may still be inside a call of ours on it.
fn ending(comm: Comm, forward: &dyn Fn() -> NcclResult) -> (Option<Known>, NcclResult) {
    let known = communicators::find(comm as usize);
    known.inspect(|known| _ = known.begin_end());
    (known, forward())
}

/// A group's begin or end that our own part was not there for; `depth` is that of before. At the outermost end what was kept
/// back is lost, and no such call of the group has had an effect.
pub(crate) fn settle_group(
    thread: &Thread,
    vendor: u8,
    how: GroupCall,
    depth: u32,
    result: NcclResult,
) -> NcclResult {
    let depth = match how {
        GroupCall::Start if result.is_accepted() => depth + 1,
        GroupCall::Start => depth,
        GroupCall::End | GroupCall::SimulateEnd => depth.saturating_sub(1),
    };
    thread.set_group_depth(vendor, depth);
    if how == GroupCall::Start || depth > 0 {
        return result;
    }
    let has_lost_calls = !thread.take_held(vendor).is_null();
    let has_failed = !thread.take_group_error(vendor).is_accepted();
    if has_lost_calls || has_failed { NcclResult::INTERNAL_ERROR } else { result }
}
