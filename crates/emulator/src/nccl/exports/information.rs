//! Questions about the library and its communicators, and memory.

use std::ffi::{c_char, c_int, c_void};

use airamp_vendor_abi::nccl::{Comm, NcclResult};

use super::exported;
use crate::gpu::memory;
use crate::nccl::availability;
use crate::nccl::communicator::{Communicator, registry};
use crate::nccl::error::{self, NcclError, Outcome};

/// Answers one number about a communicator that is ready.
fn answer(
    comm: Comm,
    function: &str,
    out: *mut c_int,
    value: impl Fn(&Communicator) -> Outcome<c_int>,
) -> Outcome {
    let comm = registry::lookup(comm, function)?;
    if out.is_null() {
        return Err(NcclError::null("where the answer goes"));
    }
    comm.health.readable()?;
    let value = value(&comm)?;
    // SAFETY: not null, and the caller owns it.
    unsafe { *out = value };
    Ok(())
}

exported! {
    fn ncclGetVersion / pncclGetVersion (version: *mut c_int) {
        if version.is_null() {
            return Err(NcclError::null("where the version goes"));
        }
        // SAFETY: not null, and the caller owns it.
        unsafe { *version = availability::version() as c_int };
        Ok(())
    }

    fn ncclCommGetAsyncError / pncclCommGetAsyncError (comm: Comm, result: *mut NcclResult) {
        let comm = registry::lookup(comm, "ncclCommGetAsyncError")?;
        if result.is_null() {
            return Err(NcclError::null("where the error goes"));
        }
        // SAFETY: not null, and the caller owns it.
        unsafe { *result = comm.health.async_error() };
        Ok(())
    }

    fn ncclCommCount / pncclCommCount (comm: Comm, count: *mut c_int) {
        answer(comm, "ncclCommCount", count, |comm| Ok(comm.membership()?.size() as c_int))
    }

    fn ncclCommCuDevice / pncclCommCuDevice (comm: Comm, device: *mut c_int) {
        answer(comm, "ncclCommCuDevice", device, |comm| Ok(comm.device))
    }

    fn ncclCommUserRank / pncclCommUserRank (comm: Comm, rank: *mut c_int) {
        answer(comm, "ncclCommUserRank", rank, |comm| Ok(comm.membership()?.rank as c_int))
    }

    /// Registration changes nothing here; the handle is the buffer.
    fn ncclCommRegister / pncclCommRegister (comm: Comm, buffer: *mut c_void, size: usize, handle: *mut *mut c_void) {
        registry::lookup(comm, "ncclCommRegister")?.health.usable()?;
        if handle.is_null() || buffer.is_null() || size == 0 {
            return Err(NcclError::null("the buffer, its size or the handle"));
        }
        // SAFETY: not null, and the caller owns it.
        unsafe { *handle = buffer };
        Ok(())
    }

    fn ncclCommDeregister / pncclCommDeregister (comm: Comm, _handle: *mut c_void) {
        registry::lookup(comm, "ncclCommDeregister").map(drop)
    }

    /// The communicator has no device memory of its own: every statistic is zero.
    fn ncclCommMemStats / pncclCommMemStats (comm: Comm, stat: c_int, value: *mut u64) {
        registry::lookup(comm, "ncclCommMemStats")?;
        if value.is_null() || !(0..4).contains(&stat) {
            return Err(NcclError::InvalidArgument(format!("statistic {stat} does not exist")));
        }
        // SAFETY: not null, and the caller owns it.
        unsafe { *value = 0 };
        Ok(())
    }

    fn ncclMemAlloc / pncclMemAlloc (ptr: *mut *mut c_void, size: usize) {
        if ptr.is_null() || size == 0 {
            return Err(NcclError::InvalidArgument("ncclMemAlloc needs a size and somewhere to answer".into()));
        }
        let address = memory::alloc(size).map_err(|code| NcclError::Device(format!("no memory: CUDA error {}", code.0)))?;
        // SAFETY: not null, and the caller owns it.
        unsafe { *ptr = address as *mut c_void };
        Ok(())
    }

    fn ncclMemFree / pncclMemFree (ptr: *mut c_void) {
        if ptr.is_null() {
            return Ok(());
        }
        memory::free(ptr as u64).map_err(|fault| {
            error::announce(&fault.message);
            NcclError::Device(fault.message)
        })
    }
}

/// The meaning of a result code.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: NcclResult) -> *const c_char {
    error::describe(result).as_ptr()
}

/// The profiling name of the function above.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetErrorString(result: NcclResult) -> *const c_char {
    error::describe(result).as_ptr()
}

/// This thread's last error, with its reason.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_comm: Comm) -> *const c_char {
    error::last()
}

/// The profiling name of the function above.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetLastError(_comm: Comm) -> *const c_char {
    error::last()
}
