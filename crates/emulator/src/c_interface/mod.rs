//! What the libraries of CUDA and HIP share: the tables of functions that differ in name
//! only, and the way from a C call to the device and back.
//!
//! Owns no behaviour. Each table names a function once, with the names it has in
//! the driver interface, the runtime interface and HIP; the sibling crates turn a
//! table into exports with a macro that says what has to hold before a call.

mod launch;
mod loading;
mod tables;

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use airamp_vendor_abi::cuda::{
    CAPTURE_STATUS_ACTIVE, CAPTURE_STATUS_INVALIDATED, CAPTURE_STATUS_NONE, CudaError, HostFn,
};

use crate::gpu::replay::Mismatch;
use crate::gpu::{Answer, capture, context, graph, module, pointers, process, report, stream};

pub use launch::arguments;
pub use loading::loaded_as;

/// `CUDA_ERROR_NOT_PERMITTED`
const NOT_PERMITTED: CudaError = CudaError(800);

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
    /// What the last query about a capture listed. Never dropped, as other thread-locals
    /// may still ask.
    static NODES: RefCell<ManuallyDrop<Vec<usize>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The code of an answer. A panic becomes an unknown error: it must not reach C.
pub fn code(call: impl FnOnce() -> Answer<()>) -> CudaError {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => CudaError::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => CudaError::UNKNOWN,
    }
}

/// The same for a function of the runtime interface, which remembers the last error of
/// the thread.
pub fn remembered(call: impl FnOnce() -> Answer<()>) -> CudaError {
    let code = code(|| {
        refuse_in_host_function()?;
        if process::is_forked_child() { Err(CudaError::NOT_INITIALIZED) } else { call() }
    });
    if code != CudaError::SUCCESS && code != CudaError::NOT_READY {
        LAST_ERROR.set(code.0);
    }
    code
}

/// The last error of the thread. One that is sticky comes back with the next call.
pub fn last_error(forget: bool) -> CudaError {
    let code = LAST_ERROR.get();
    if forget {
        LAST_ERROR.set(0);
    }
    CudaError(code)
}

/// Refuses a call that a host function makes: the device waits for that, and would wait
/// for ever if it waited for the device.
#[inline]
fn refuse_in_host_function() -> Answer<()> {
    if stream::is_in_host_function() {
        report("a host function calls the device, which is not permitted");
        return Err(NOT_PERMITTED);
    }
    Ok(())
}

/// Refuses a driver call before `cuInit`.
pub fn require_init() -> Answer<()> {
    refuse_in_host_function()?;
    process::devices().map(drop)
}

/// Refuses a driver call in a thread without a current context.
#[inline]
pub fn require_context() -> Answer<()> {
    refuse_in_host_function()?;
    context::require_current()
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `to` is null or can be written.
pub unsafe fn put<T>(to: *mut T, value: T) -> Answer<()> {
    if to.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a result if the caller wants it.
///
/// # Safety
/// `to` is null or can be written.
pub unsafe fn offer<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { to.write(value) };
    }
}

/// Writes a text, cut to `len` bytes including its NUL.
///
/// # Safety
/// `to` is null or has room for `len` bytes.
pub unsafe fn put_text(to: *mut c_char, len: c_int, text: &str) -> Answer<()> {
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let copied = text.len().min(room - 1);
    // SAFETY: `copied` and the NUL fit into the room that the caller vouches for.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), copied);
        to.add(copied).write(0);
    }
    Ok(())
}

/// A name that the caller passed.
///
/// # Safety
/// `text` is null or a C string.
pub unsafe fn text<'a>(text: *const c_char) -> Answer<&'a str> {
    if text.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches that it ends in a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| CudaError::NOT_FOUND)
}

/// Puts a function of the application on a stream.
pub fn host_function(stream: usize, function: Option<HostFn>, data: *mut c_void) -> Answer<()> {
    let function = function.ok_or(CudaError::INVALID_VALUE)?;
    let data = data as usize;
    // SAFETY: the application gave this function for this argument, to be called on a
    // thread of the driver.
    let call = move || unsafe { function(data as *mut c_void) };
    stream::launch_host_function(stream, call)
}

/// Writes one attribute of an address in the driver's numbers, which HIP shares.
///
/// # Safety
/// `to` has room for the attribute's type.
pub unsafe fn put_pointer_attribute(to: *mut c_void, attribute: c_int, ptr: u64) -> Answer<()> {
    let facts = pointers::facts(ptr)?;
    // SAFETY: the caller gives room for the type that the header names for the attribute.
    unsafe {
        match attribute {
            1 => put(to.cast(), context::current_handle()?),
            2 => put(to.cast(), facts.memory_type),
            3 => put(to.cast(), facts.device_pointer),
            4 if facts.host_pointer == 0 => Err(CudaError::INVALID_VALUE),
            4 => put(to.cast(), facts.host_pointer),
            6 | 8 => put(to.cast(), false),
            7 | 11 => put(to.cast(), facts.start),
            9 => put(to.cast(), facts.device),
            12 => put(to.cast(), facts.len),
            13 => put(to.cast(), true),
            _ => Err(CudaError::NOT_SUPPORTED),
        }
    }
}

/// The number of an outcome of a graph update, in both vendors' numbers.
pub fn update_result(outcome: Result<(), Mismatch>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Mismatch::Topology) => 2,
        Err(Mismatch::NodeKind) => 3,
    }
}

/// The code object at an address that the caller passed.
///
/// # Safety
/// `image` is null, a whole code object, or a C string.
pub unsafe fn image_at<'a>(image: *const u8) -> Answer<&'a [u8]> {
    if image.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for a whole image, whose own header gives the length.
    unsafe {
        let len = module::image_len(image).ok_or(CudaError::INVALID_IMAGE)?;
        Ok(std::slice::from_raw_parts(image, len))
    }
}

/// The capture status of a stream, as both vendors number it.
#[inline]
pub fn capture_status(stream: usize) -> Answer<c_int> {
    let status = capture::status_of(stream)?;
    Ok(match status {
        None => CAPTURE_STATUS_NONE,
        Some(status) if status.valid => CAPTURE_STATUS_ACTIVE,
        Some(_) => CAPTURE_STATUS_INVALIDATED,
    })
}

/// Writes what the caller wants to know about a capture.
///
/// # Safety
/// Each pointer is null or can be written.
pub unsafe fn capture_info(
    stream: usize,
    id: *mut u64,
    graph: *mut usize,
    after: *mut *const usize,
    after_count: *mut usize,
) -> Answer<()> {
    let Some(status) = capture::status_of(stream)? else {
        return Ok(());
    };
    let nodes = status.next_after.iter().map(|index| node_handle(status.graph, *index));
    let nodes: Vec<usize> = nodes.collect();
    // SAFETY: the caller vouches for the pointers. The list stays until the thread asks
    // again, which is as long as the headers promise.
    unsafe {
        offer(id, status.id);
        offer(graph, status.graph);
        offer(after_count, nodes.len());
        NODES.with_borrow_mut(|kept| {
            **kept = nodes;
            offer(after, kept.as_ptr());
        });
    }
    Ok(())
}

/// Writes up to `*count` nodes, or without room for them only their number.
///
/// # Safety
/// `count` is null or can be written; `nodes` is null or has room for `*count`.
pub unsafe fn graph_nodes(graph: usize, nodes: *mut usize, count: *mut usize) -> Answer<()> {
    let number = graph::node_count(graph)?;
    if count.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe {
        if nodes.is_null() {
            count.write(number);
            return Ok(());
        }
        let written = number.min(*count);
        for index in 0..written {
            nodes.add(index).write(node_handle(graph, index));
        }
        count.write(written);
    }
    Ok(())
}

/// Nodes are only ever counted and compared, so that a number does for a handle.
fn node_handle(graph: usize, index: usize) -> usize {
    graph << 20 | (index + 1)
}
