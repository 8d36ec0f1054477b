//! An executable graph that is updated from a new capture, as frameworks do when tensors move. By
//! CUDA's own functions: the project's interface to the GPU has no update, since the library needs none.

use std::ffi::{CStr, c_int, c_ulonglong, c_void};
use std::mem::transmute_copy;
use std::ptr;

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::cuda::{self, CAPTURE_MODE_THREAD_LOCAL, CudaError};

use crate::error::RankError;

type BeginFn = unsafe extern "C" fn(cuda::Stream, c_int) -> CudaError;
type EndFn = unsafe extern "C" fn(cuda::Stream, *mut cuda::Graph) -> CudaError;
type InstantiateFn = unsafe extern "C" fn(*mut cuda::GraphExec, cuda::Graph, c_ulonglong) -> CudaError;
type LaunchFn = unsafe extern "C" fn(cuda::GraphExec, cuda::Stream) -> CudaError;
type UpdateFn = unsafe extern "C" fn(cuda::GraphExec, cuda::Graph, *mut UpdateInfo) -> CudaError;
type DestroyFn = unsafe extern "C" fn(*mut c_void) -> CudaError;

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
struct UpdateInfo {
    result: c_int,
    error_node: *mut c_void,
    error_from_node: *mut c_void,
}

pub(super) struct Updatable {
    raw: cuda::GraphExec,
}

impl Updatable {
    pub(super) fn capture(
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<(), RankError>,
    ) -> Result<Self, RankError> {
        let graph = captured(stream, enqueue)?;
        let mut raw = ptr::null_mut();
        let instantiate: InstantiateFn = function(c"cuGraphInstantiateWithFlags")?;
        // SAFETY: the graph is a finished capture.
        let made = checked("cuGraphInstantiateWithFlags", unsafe { instantiate(&raw mut raw, graph, 0) });
        destroy(c"cuGraphDestroy", graph);
        made.map(|()| Self { raw })
    }

    /// Takes a new capture over. An error where the graphs differ in shape.
    pub(super) fn update(
        &self,
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<(), RankError>,
    ) -> Result<(), RankError> {
        let graph = captured(stream, enqueue)?;
        let update: UpdateFn = function(c"cuGraphExecUpdate_v2")?;
        let mut info =
            UpdateInfo { result: 0, error_node: ptr::null_mut(), error_from_node: ptr::null_mut() };
        // SAFETY: both are live, and the outcome is written to a structure of the header's layout.
        let done = checked("cuGraphExecUpdate", unsafe { update(self.raw, graph, &raw mut info) });
        destroy(c"cuGraphDestroy", graph);
        done
    }

    pub(super) fn launch(&self, stream: &Stream) -> Result<(), RankError> {
        let launch: LaunchFn = function(c"cuGraphLaunch")?;
        // SAFETY: the executable is live until it is dropped.
        checked("cuGraphLaunch", unsafe { launch(self.raw, stream.raw()) })
    }
}

impl Drop for Updatable {
    fn drop(&mut self) {
        destroy(c"cuGraphExecDestroy", self.raw);
    }
}

/// What `enqueue` puts on the stream. The capture is ended also where that fails.
fn captured(
    stream: &Stream,
    enqueue: impl FnOnce() -> Result<(), RankError>,
) -> Result<cuda::Graph, RankError> {
    let (begin, end): (BeginFn, EndFn) =
        (function(c"cuStreamBeginCapture_v2")?, function(c"cuStreamEndCapture")?);
    // SAFETY: the stream is live and not being captured.
    checked("cuStreamBeginCapture", unsafe { begin(stream.raw(), CAPTURE_MODE_THREAD_LOCAL) })?;
    let enqueued = enqueue();
    let mut graph = ptr::null_mut();
    // SAFETY: the capture was begun above.
    let ended = checked("cuStreamEndCapture", unsafe { end(stream.raw(), &raw mut graph) });
    enqueued?;
    ended.map(|()| graph)
}

fn destroy(name: &CStr, what: *mut c_void) {
    if let Ok(destroy) = function::<DestroyFn>(name) {
        // SAFETY: the caller owns it and does not use it again. A failure has no remedy.
        let _ = unsafe { destroy(what) };
    }
}

fn checked(function: &'static str, result: CudaError) -> Result<(), RankError> {
    match result {
        CudaError::SUCCESS => Ok(()),
        CudaError(code) => Err(RankError::Arguments(format!("{function} failed: error {code}"))),
    }
}

/// A function of the driver that the process has loaded.
fn function<F: Copy>(name: &CStr) -> Result<F, RankError> {
    // SAFETY: NOLOAD opens only what is mapped already.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: a look-up; a null handle is the program itself.
    let address = unsafe { libc::dlsym(driver, name.as_ptr()) };
    if address.is_null() {
        return Err(RankError::Arguments(format!("the driver has no {}", name.to_string_lossy())));
    }
    // SAFETY: every caller names the type that the driver's header gives to the name; all are
    // pointers to functions.
    Ok(unsafe { transmute_copy(&address) })
}
