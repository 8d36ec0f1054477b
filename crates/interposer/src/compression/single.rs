//! One call outside any group, on the fast path or timed on its way to the vendor.

use super::active::{Failure, FastCall};
use super::route::{poison, refuse};
use crate::boundary::{Moment, ours};
use crate::calls::Operation;
use crate::communicators::Known;
use crate::thread::Thread;
use crate::{log, startup, telemetry};
use airamp_fast_path::{UNMEASURED, enqueue};
use airamp_vendor_abi::nccl::NcclResult;

pub(super) fn compress(thread: &Thread, known: Known, operation: &Operation, fast: &FastCall) -> NcclResult {
    let posted = post_compressed(thread, known, operation, fast);
    telemetry::left(known);
    match posted {
        Ok(()) => {
            if !fast.captured {
                known.entry.index.commit(known.generation, 1);
            }
            telemetry::compressed(thread, operation, known, fast.sent_bytes(known));
            NcclResult::SUCCESS
        }
        Err(failure) => {
            telemetry::forget_sample(thread);
            failed(known, fast, &failure)
        }
    }
}

/// A dry run, and then the vendor's function on the application's data. From the moment that the dry run is
/// posted an error of any kind is for good: the peers have seen it.
pub(super) fn try_out(
    thread: &Thread,
    function: &'static str,
    known: Known,
    operation: &Operation,
    fast: &FastCall,
    vendors: impl FnOnce() -> NcclResult,
) -> NcclResult {
    let measurement = match ours(function, Moment::After, || post_dry(thread, known, operation, fast)) {
        Some(Ok(measurement)) => measurement,
        Some(Err(failure)) => {
            telemetry::left(known);
            return failed(known, fast, &failure);
        }
        None => {
            telemetry::left(known);
            return NcclResult::INTERNAL_ERROR;
        }
    };
    let exception = HalfDone(known, NcclResult::INTERNAL_ERROR);
    let result = vendors();
    std::mem::forget(exception);
    if !result.is_accepted() {
        drop(HalfDone(known, result));
    }
    ours(function, Moment::After, || end_trial(known, operation, fast, measurement, result));
    // Ours is the part behind the vendor's function too.
    if startup::is_inert() { NcclResult::INTERNAL_ERROR } else { result }
}

/// A dry run whose call did not follow, be it by an error or by an exception of the vendor's.
struct HalfDone(Known, NcclResult);

impl Drop for HalfDone {
    fn drop(&mut self) {
        poison(self.0, self.1, "the vendor refused an AllReduce after its dry run");
    }
}

fn post_compressed(
    thread: &Thread,
    known: Known,
    operation: &Operation,
    fast: &FastCall,
) -> Result<(), Failure> {
    let pin = known.pin().ok_or(Failure::Ending)?;
    let active = pin.active().ok_or(Failure::Ending)?;
    let post = active.post(operation, fast, None)?;
    let observed = active.observe(operation, fast, true);
    // SAFETY: the buffers and the stream are the application's, as they would be for the vendor.
    let posted = thread.inside_vendor(|| unsafe { enqueue(&[post]) });
    active.end_observation(observed, operation, fast, posted.is_ok());
    posted?;
    active.count_one(fast);
    Ok(())
}

/// Posts the dry run; where it is measured.
fn post_dry(thread: &Thread, known: Known, operation: &Operation, fast: &FastCall) -> Result<usize, Failure> {
    let pin = known.pin().ok_or(Failure::Ending)?;
    let active = pin.active().ok_or(Failure::Ending)?;
    let measurement = active.lane().take_measurement().unwrap_or(UNMEASURED);
    let post = active.post(operation, fast, Some(measurement))?;
    // SAFETY: the buffers and the stream are the application's, as they would be for the vendor.
    let posted = thread.inside_vendor(|| unsafe { enqueue(&[post]) });
    if posted.is_err() {
        active.lane().drop_measurement(measurement);
    }
    posted?;
    active.count_one(fast);
    // Whoever ends the communicator has waited for the dry run, and would not wait for the vendor's call.
    if !known.is_usable() {
        return Err(Failure::Ending);
    }
    Ok(measurement)
}

fn end_trial(known: Known, operation: &Operation, fast: &FastCall, measurement: usize, result: NcclResult) {
    let pin = known.pin();
    if let Some(active) = pin.as_ref().and_then(|pin| pin.active()) {
        active.end_trial(operation, fast, measurement, result.is_accepted());
    }
}

/// A call that the fast path did not take; what it returns.
fn failed(known: Known, fast: &FastCall, failure: &Failure) -> NcclResult {
    if !failure.is_refusal() {
        return refuse(known, fast.index, failure);
    }
    if !fast.captured {
        known.entry.index.roll_back(known.generation, 1);
    }
    log::warn(format_args!("AllReduce {} was refused: {failure}", fast.index));
    NcclResult::INVALID_USAGE
}

/// Ends the timing of a call of the vendor's.
pub(super) fn end_watch((known, measurement): (Known, usize), operation: &Operation, result: NcclResult) {
    let pin = known.pin();
    if let Some(active) = pin.as_ref().and_then(|pin| pin.active()) {
        active.measuring.end_watch(active.lane(), measurement, operation, result.is_accepted());
    }
}
