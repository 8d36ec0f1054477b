//! Compression in this process: which communicators compress, and the path of every call while one does.
//!
//! A communicator is offered compression inside its creation, before the application has it
//! (`offer`, `test_plan`). From then on each of its calls that is eligible goes to the fast path, the
//! others to the vendor; inside a group every call is kept back (`held`) until the outermost end
//! (`group_end`). **Nothing here falls back to the vendor for an eligible call**: an error returns
//! `ncclInternalError` and poisons the communicator, as its peers may have gone on.

mod active;
mod choice;
mod group_end;
mod held;
mod kernels;
mod offer;
mod retired;
mod route;
mod test_plan;

pub(crate) use active::Active;
pub(crate) use held::HeldCalls;
pub(crate) use offer::{Fresh, offer};
pub(crate) use retired::retire;
pub(crate) use route::dispatch;

use crate::communicators;
use airamp_vendor_abi::nccl::Comm;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a communicator of this process has ever compressed.
static ON: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn switch_on() {
    ON.store(true, Ordering::SeqCst);
}

/// A forked child compresses nothing that its parent did. Only stores.
pub(crate) fn clear() {
    ON.store(false, Ordering::Relaxed);
}

/// How many calls of that communicator were compressed; `None` where none ever will be.
pub(crate) fn compressed_calls(comm: Comm) -> Option<u64> {
    let pin = communicators::find(comm as usize)?.pin()?;
    Some(pin.active()?.compressed_calls())
}

/// The counters of its device as they came back last.
pub(crate) fn stats(comm: Comm) -> Option<airamp_codec::Stats> {
    let pin = communicators::find(comm as usize)?.pin()?;
    Some(pin.active()?.stats())
}
