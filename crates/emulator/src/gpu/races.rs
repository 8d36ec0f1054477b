//! Wrong stream order, found where it is submitted: two accesses to the same bytes, one
//! of them a write, that nothing puts in order.
//!
//! Says nothing where there is doubt: accesses from different devices (a collective may
//! order them), memory of the host, and accesses that were too long ago to be kept.

use std::sync::Arc;

use airamp_vendor_abi::cuda::CudaError;

use super::Fault;
use super::clock::Clock;
use super::completion::lock;
use super::memory::{self, Access};
use super::work::Touch;

/// Accesses that are kept per allocation.
const KEPT: usize = 256;

/// Who makes the accesses of a submission.
pub(super) struct Accessor<'a> {
    pub(super) clock: &'a Clock,
    pub(super) timeline: usize,
    pub(super) number: u64,
    pub(super) device: i32,
    pub(super) who: Arc<str>,
}

/// Checks the touches of one operation against what came before and records them.
pub(super) fn check(accessor: &Accessor<'_>, touches: &[Touch]) -> Option<Fault> {
    let conflicts: Vec<Access> = touches.iter().filter_map(|touch| find_conflict(accessor, touch)).collect();
    for touch in touches {
        record(accessor, touch);
    }
    let earlier = conflicts.first()?;
    let message = format!(
        "wrong stream order: {} and {} use the same memory at {:#x}, and no event, stream or synchronisation puts one before the other",
        accessor.who, earlier.who, earlier.start
    );
    Some(Fault::new(CudaError::LAUNCH_FAILED, message))
}

fn find_conflict(accessor: &Accessor<'_>, touch: &Touch) -> Option<Access> {
    let owner = memory::owner(touch.ptr)?;
    let mut memory = lock(&owner.memory);
    let accesses = memory.accesses(touch.ptr)?;
    let end = touch.ptr + touch.len as u64;
    let conflicting = |access: &&Access| {
        access.start < end
            && touch.ptr < access.end
            && (access.write || touch.write)
            && !(access.atomic && touch.atomic)
            && access.device == accessor.device
            && !accessor.clock.is_after(access.timeline, access.number)
    };
    accesses.iter().find(conflicting).cloned()
}

fn record(accessor: &Accessor<'_>, touch: &Touch) {
    let Some(owner) = memory::owner(touch.ptr).filter(|_| touch.len > 0) else {
        return;
    };
    let mut memory = lock(&owner.memory);
    let Some(accesses) = memory.accesses(touch.ptr) else {
        return;
    };
    let end = touch.ptr + touch.len as u64;
    // An access that this one covers and follows adds nothing: who is in order with this
    // one is in order with that one too. An atomic one excuses other atomic ones, and so
    // stands in for those only.
    accesses.retain(|old| {
        let stands_in = (touch.write || !old.write) && (!touch.atomic || old.atomic);
        let covered = touch.ptr <= old.start && old.end <= end && stands_in;
        !(covered && accessor.clock.is_after(old.timeline, old.number))
    });
    if accesses.len() == KEPT {
        accesses.remove(0);
    }
    accesses.push(Access {
        start: touch.ptr,
        end,
        write: touch.write,
        atomic: touch.atomic,
        timeline: accessor.timeline,
        number: accessor.number,
        device: accessor.device,
        who: Arc::clone(&accessor.who),
    });
}
