//! What tests and tools may ask of the loaded library. Not part of NCCL's interface.

use crate::communicators;
use airamp_vendor_abi::nccl::Comm;
use std::ffi::{c_int, c_ulonglong};

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
