//! The application's GPU library, found once, and the one question that every call asks it: whether its stream is
//! being captured. Makes no other GPU call.

use crate::startup;
use airamp_vendor::gpu::{CaptureQuestion, Gpu};
use airamp_vendor_abi::cuda::{CudaError, STREAM_LEGACY};
use airamp_vendor_abi::nccl::Stream;
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

static GPU: AtomicPtr<Gpu> = AtomicPtr::new(std::ptr::null_mut());
/// The driver's function by which a stream is asked; where there is none, ours, which knows of no capture.
static QUESTION: AtomicPtr<()> = AtomicPtr::new(none_is_captured as *mut ());

unsafe extern "C" fn none_is_captured(_stream: Stream, _status: *mut c_int) -> CudaError {
    CudaError::SUCCESS
}

/// Looks for the application's GPU library. Called once, before the first communicator is made.
pub(super) fn find_gpu() {
    if let Some(gpu) = startup::gpu_kind().and_then(|kind| Gpu::attach(kind).ok()) {
        if let Some(question) = gpu.capture_question() {
            QUESTION.store(question.address(), Ordering::Release);
        }
        GPU.store(Box::into_raw(Box::new(gpu)), Ordering::Release);
    }
}

pub(super) fn gpu() -> Option<&'static Gpu> {
    // SAFETY: null, or from a leaked box that is never changed.
    unsafe { GPU.load(Ordering::Acquire).as_ref() }
}

/// Whether what is enqueued on that stream goes into a graph. The default stream cannot be captured.
#[inline(always)]
pub(super) fn is_captured(stream: Stream) -> bool {
    if stream as usize <= STREAM_LEGACY {
        return false;
    }
    let question = QUESTION.load(Ordering::Relaxed);
    // SAFETY: the address of such a function, from the start or by `find_gpu`; the stream is the application's own, with which it calls the vendor.
    unsafe { CaptureQuestion::at(question).is_capturing(stream) }
}

/// A forked child: the device is its parent's. Only stores.
pub(super) fn abandon() {
    GPU.store(std::ptr::null_mut(), Ordering::Relaxed);
}
