//! What tests and tools may ask of the loaded library. Not part of NCCL's interface.

use crate::{communicators, compression};
use airamp_agreement::Plan;
use airamp_vendor_abi::nccl::Comm;
use std::ffi::{c_double, c_int, c_ulonglong};

/// Writes how many calls that count the communicator has made, and how many of them have taken
/// effect. Returns 0, or 1 if no such communicator is counted.
///
/// # Safety
/// `reserved` and `committed` are null or point to one integer each.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as the functions beside it are")]
unsafe extern "C" fn airampCallIndex(
    comm: Comm,
    reserved: *mut c_ulonglong,
    committed: *mut c_ulonglong,
) -> c_int {
    let known = communicators::find(comm as usize);
    let Some(known) = known.filter(|known| known.entry.index.is_counting(known.generation)) else {
        return 1;
    };
    let counts = known.entry.index.counts();
    for (target, value) in [(reserved, counts.reserved), (committed, counts.committed)] {
        if !target.is_null() {
            // SAFETY: the caller gives valid pointers, or null.
            unsafe { target.write(value) };
        }
    }
    0
}

/// Writes how many calls of the communicator were compressed. Returns 0, or 1 if it does not compress.
///
/// # Safety
/// `calls` points to one integer.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as the functions beside it are")]
unsafe extern "C" fn airampCompressedCalls(comm: Comm, calls: *mut c_ulonglong) -> c_int {
    let Some(compressed) = compression::compressed_calls(comm) else {
        return 1;
    };
    // SAFETY: the caller's word.
    unsafe { calls.write(compressed) };
    0
}

/// Writes how many calls of the communicator were tried: a dry run, and then the vendor's function. Returns 0,
/// or 1 if its ranks have agreed on nothing.
///
/// # Safety
/// `calls` points to one integer.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as the functions beside it are")]
unsafe extern "C" fn airampTrialCalls(comm: Comm, calls: *mut c_ulonglong) -> c_int {
    let Some(trials) = compression::trial_calls(comm) else {
        return 1;
    };
    // SAFETY: the caller's word.
    unsafe { calls.write(trials) };
    0
}

/// Writes what the ranks have agreed on for the communicator's next call, a byte per class and more, and the call
/// index from which it holds. Returns 0, or 1 if they have agreed on nothing.
///
/// # Safety
/// `plan` points to 64 bytes; `from` is null or points to one integer.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as the functions beside it are")]
unsafe extern "C" fn airampPlan(comm: Comm, plan: *mut Plan, from: *mut c_ulonglong) -> c_int {
    let Some((index, agreed)) = compression::plan_in_force(comm) else {
        return 1;
    };
    // SAFETY: the caller's word.
    unsafe { plan.write(agreed) };
    if !from.is_null() {
        // SAFETY: as above.
        unsafe { from.write(index) };
    }
    0
}

/// What the device counted over all compressed calls, as it came back last.
#[repr(C)]
struct CompressionStats {
    saturated: c_ulonglong,
    non_finite_blocks: c_ulonglong,
    squared_error: c_double,
    signal: c_double,
    foreign: c_ulonglong,
}

/// Writes the counters of a communicator that compresses; never waits for the device. Returns 0,
/// or 1 if it does not compress.
///
/// # Safety
/// `stats` points to such a structure.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "named as the functions beside it are")]
unsafe extern "C" fn airampCompressionStats(comm: Comm, stats: *mut CompressionStats) -> c_int {
    let Some(now) = compression::stats(comm) else {
        return 1;
    };
    let now = CompressionStats {
        saturated: now.saturated,
        non_finite_blocks: now.non_finite_blocks,
        squared_error: now.squared_error,
        signal: now.signal,
        foreign: now.foreign,
    };
    // SAFETY: the caller's word.
    unsafe { stats.write(now) };
    0
}
