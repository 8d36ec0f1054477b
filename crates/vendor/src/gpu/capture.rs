//! Whether a stream is being captured, and objects that live as long as the graph of a
//! capture and its executable copies. Begins and ends no capture.

use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda::{self, CAPTURE_STATUS_ACTIVE, CAPTURE_STATUS_NONE};

use super::driver::{Driver, GpuError};
use super::queue::Stream;
use super::raw::IsCapturing;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, the only kind that there is.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the graph takes the caller's reference over.
const MOVE_REFERENCE: c_uint = 1;

/// How a stream stands to captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// What is enqueued runs.
    Live,
    /// What is enqueued goes into a graph.
    Capturing(Capture),
    /// The capture has failed already; its end will say so.
    Invalidated,
}

/// The driver's own function for one question. The library is never closed.
#[derive(Clone, Copy)]
pub struct CaptureQuestion(pub(super) IsCapturing);

impl CaptureQuestion {
    /// Whether what is enqueued on that stream of the application's goes into a graph; no where that cannot be told.
    ///
    /// # Safety
    /// The stream is a live one, or a default stream's handle.
    #[inline(always)]
    pub unsafe fn is_capturing(self, stream: cuda::Stream) -> bool {
        let mut status = CAPTURE_STATUS_NONE;
        // SAFETY: the caller vouches for the stream; the call writes one int.
        let answer = unsafe { (self.0)(stream, &mut status) };
        answer == cuda::CudaError::SUCCESS && status != CAPTURE_STATUS_NONE
    }

    /// As a word that an atomic can hold.
    pub fn address(self) -> *mut () {
        self.0 as *mut ()
    }

    /// # Safety
    /// From [`CaptureQuestion::address`], and not null.
    #[inline(always)]
    pub unsafe fn at(address: *mut ()) -> Self {
        // SAFETY: the caller's word.
        Self(unsafe { std::mem::transmute::<*mut (), IsCapturing>(address) })
    }
}

/// A capture under way, with a number that is unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    pub id: u64,
    graph: cuda::Graph,
}

impl Stream {
    /// Asks without disturbing the capture.
    pub fn capture_status(&self) -> Result<CaptureStatus, GpuError> {
        let (mut status, mut id, mut graph) = (0 as c_int, 0, ptr::null_mut());
        let (mut after, mut after_count) = (ptr::null(), 0);
        self.driver().stream_capture_info(
            self.raw(),
            &mut status,
            &mut id,
            &mut graph,
            &mut after,
            &mut after_count,
        )?;
        Ok(match status {
            CAPTURE_STATUS_NONE => CaptureStatus::Live,
            CAPTURE_STATUS_ACTIVE => CaptureStatus::Capturing(Capture { id, graph }),
            _ => CaptureStatus::Invalidated,
        })
    }

    /// Keeps `object` until the graph of `capture`, each executable made from it and
    /// each launch of those are gone. The driver then drops it on a thread of its own, on
    /// which the drop must make no GPU call.
    pub fn keep_in_graph<T: Send + Sync + 'static>(
        &self,
        capture: Capture,
        object: Arc<T>,
    ) -> Result<(), GpuError> {
        keep(self.driver(), capture.graph, object)
    }
}

fn keep<T: Send + Sync + 'static>(
    driver: &Driver,
    graph: cuda::Graph,
    object: Arc<T>,
) -> Result<(), GpuError> {
    let data = Arc::into_raw(object).cast_mut().cast();
    let mut raw = ptr::null_mut();
    if let Err(error) = driver.user_object_create(&mut raw, data, drop_one::<T>, 1, NO_DESTRUCTOR_SYNC) {
        // SAFETY: the driver refused, so that the reference is still ours to drop.
        unsafe { drop_one::<T>(data) };
        return Err(error);
    }
    driver.graph_retain_user_object(graph, raw, 1, MOVE_REFERENCE).inspect_err(|_| {
        let _ = driver.user_object_release(raw, 1);
    })
}

/// # Safety
/// `data` came from `Arc::<T>::into_raw` and is dropped here only.
unsafe extern "C" fn drop_one<T>(data: *mut c_void) {
    // A panic must not unwind into the driver.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller vouches for the pointer.
        drop(unsafe { Arc::from_raw(data.cast_const().cast::<T>()) });
    }));
}
