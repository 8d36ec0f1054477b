//! What this process tells those who watch it: the rest of the library calls in here at a few named points, and
//! `airamp-telemetry` has the file. Nothing here changes what becomes of a call, and no plan depends on it.
//!
//! On the path of a call: no system call, no allocation (but for the first groups with more than a few unlike calls),
//! no lock that is waited for, no wait. Without a file every point is one load.

mod bytes;
mod communicators;
mod counting;
mod device;
mod device_time;
mod file;
mod group;
mod inside;
mod nic;
mod shapes;
mod sources;
mod tally;
pub(crate) mod tick_rate;

pub(crate) use communicators::{closed, open, slot_of};
pub(crate) use counting::{
    Turn, compressed, entering, entering_end, entering_message, entering_with, forget_sample,
    held_took_effect, is_collective, left, posted, posted_alone, posted_as_usual, posted_in_group,
};
pub(crate) use device_time::{is_call_under_way, poll_gently, want_sample};
pub(crate) use file::{abandon, became_inert, begin, is_on, writer};
pub(crate) use group::{Run, begin_end, entering_held, left_held, settle_group};
pub(crate) use nic::meet_by;
pub(crate) use shapes::Shapes;
pub(crate) use sources::{
    agreement, arena, decision, event, fall_back, frozen, order, plan_changed, poisoned, timed, why_off,
};
pub(crate) use tally::Tally;

use crate::boundary::contain;
use crate::thread::Thread;
use airamp_telemetry::{EventKind, now};
use airamp_vendor_abi::nccl::NcclResult;

/// A call that is one function of the vendor's has come.
#[inline(always)]
pub(crate) fn arrive(thread: &Thread) {
    if let Some(at) = file::time() {
        thread.tally.arrive(at);
    }
}

/// That function has answered.
#[inline(always)]
pub(crate) fn depart(thread: &Thread, function: &'static str, result: NcclResult) {
    if thread.tally.is_split() {
        tell_times(thread, tally::ONE_OF);
    }
    if result != NcclResult::SUCCESS {
        tell_error(function, result);
    }
}

/// A call that may be more than one function of the vendor's, or none.
pub(crate) fn around(
    thread: &Thread,
    function: &'static str,
    call: impl FnOnce() -> NcclResult,
) -> NcclResult {
    if !is_on() {
        return call();
    }
    thread.tally.arrive_around(now());
    let result = call();
    contain("telemetry", || {
        tell_times(thread, 1);
        tell_error(function, result);
    });
    result
}

/// The call stands for `weight` of them.
#[cold]
fn tell_times(thread: &Thread, weight: u64) {
    let (vendor, ours) = thread.tally.spent();
    thread.tally.leave();
    // Gone if the call made us inert.
    if let Some(writer) = writer() {
        writer.spent(ours, vendor, weight);
    }
}

#[cold]
fn tell_error(function: &'static str, result: NcclResult) {
    if let Some(writer) = writer().filter(|_| !result.is_accepted()) {
        writer.error(result.0);
        writer.event(EventKind::Error, None, result.0.unsigned_abs().into(), 0, function);
    }
}
