//! Compression in this process: which communicators compress, and the path of every call while one does.
//!
//! A communicator is offered compression inside its creation, before the application has it
//! (`joining`, `offer`). From then on the plan of its index says what becomes of a call that could be compressed:
//! the vendor's, compressed, or tried, with a dry run before the vendor's function (`active`). Inside a group every
//! call is kept back (`held`) until the outermost end (`group_end`). **Nothing here falls back to the vendor at an
//! index whose plan is not the vendor's**: an error returns `ncclInternalError` and poisons the communicator, as its
//! peers may have gone on.

mod acquire;
mod active;
mod brain;
mod choice;
mod doubt;
mod fitting;
mod group_end;
mod held;
mod internal_error;
mod joining;
mod kernels;
mod measuring;
mod meeting;
mod nodes;
mod offer;
mod patience;
mod retired;
mod route;
mod seats;
mod single;
mod terms;
mod trials;
mod tuning_file;
mod tuning_queue;
mod unsuited;

pub(crate) use acquire::{context_of, device_of};
pub(crate) use active::Active;
pub(crate) use held::HeldCalls;
pub(crate) use internal_error::{dispatch as dispatch_inert, settle_end, settle_group};
pub(crate) use joining::{await_hellos, introduce, join, join_all, join_child};
pub(crate) use offer::{Fresh, offer, refuse};
pub(crate) use retired::{retire, sweep};
pub(crate) use route::dispatch;
pub(crate) use seats::{Joining, Seated, leave};

use crate::communicators;
use crate::dispatch::{COMPRESSING, attend_no_more_to, attend_to};
use airamp_agreement::Plan;
use airamp_vendor_abi::nccl::Comm;

fn switch_on() {
    attend_to(COMPRESSING);
}

/// A forked child compresses nothing that its parent did. Only stores.
pub(crate) fn clear() {
    attend_no_more_to(COMPRESSING);
    tuning_queue::abandon();
}

/// How many calls of that communicator were compressed; `None` where none ever will be.
pub(crate) fn compressed_calls(comm: Comm) -> Option<u64> {
    let pin = communicators::find(comm as usize)?.pin()?;
    Some(pin.active()?.compressed_calls())
}

/// How many of its calls were tried.
pub(crate) fn trial_calls(comm: Comm) -> Option<u64> {
    let pin = communicators::find(comm as usize)?.pin()?;
    Some(pin.active()?.trial_calls())
}

/// The plan of its next call, and the index from which it holds; never waits.
pub(crate) fn plan_in_force(comm: Comm) -> Option<(u64, Plan)> {
    let known = communicators::find(comm as usize)?;
    let pin = known.pin()?;
    let (gate, next) = (pin.active()?.gate(), known.entry.index.counts().reserved);
    let (from, newest) = gate.newest();
    if from <= next {
        return Some((from, newest));
    }
    // Agreed on, and ahead of the calls. What is pledged lies further ahead, so that nothing waits here.
    let plan = std::array::from_fn(|place| gate.entry(next, place).unwrap_or(0));
    Some((gate.since(next), plan))
}

/// The counters of its device as they came back last.
pub(crate) fn stats(comm: Comm) -> Option<airamp_codec::Stats> {
    let pin = communicators::find(comm as usize)?.pin()?;
    Some(pin.active()?.stats())
}
