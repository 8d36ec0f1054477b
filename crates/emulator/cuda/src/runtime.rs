//! `cuda*`: the runtime interface. Initialises by itself, takes device 0 where none was
//! chosen, and remembers the last error of each thread.

use std::ffi::{c_char, c_int, c_uint, c_void};

use airamp_emulator::c_interface::*;
use airamp_emulator::environment;
use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::{
    Fault, attributes, capture, context, current_device, error_text, event, graph, host_memory, memory,
    pointers, process, replay, set_current, stream, user_object,
};
use airamp_vendor_abi::cuda::{CudaError, HostFn, STREAM_LEGACY};

macro_rules! export {
    ($($name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> CudaError {
            remembered(|| {
                // SAFETY: the caller follows the header: what it passes is null or points
                // to what the function's documentation asks for.
                #[allow(unused_unsafe, reason = "some bodies do nothing unsafe")]
                unsafe { $body }
            })
        }
    )*};
}

macro_rules! export_shared {
    ($($driver:ident / $name:ident / $hip:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { $($name ($($argument: $type),*) $body)* }
    };
}

airamp_emulator::for_each_function_without_context!(export_shared);
airamp_emulator::for_each_function_in_context!(export_shared);

/// `cudaPointerAttributes`
#[repr(C)]
struct PointerAttributes {
    memory_type: c_uint,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

/// The result of a graph update: an outcome and the nodes at fault, which are not named.
#[repr(C)]
struct UpdateInfo {
    result: c_int,
    error_node: usize,
    error_from_node: usize,
}

export! {
    cudaGetDeviceCount (count: *mut c_int) {
        offer(count, 0);
        put(count, process::init()?.len() as c_int)
    }
    cudaGetDevice (ordinal: *mut c_int) {
        put(ordinal, current_device()?)
    }
    cudaSetDevice (ordinal: c_int) {
        set_current(ordinal)
    }
    cudaDeviceReset () {
        context::current()?.reset()
    }
    cudaSetDeviceFlags (_flags: c_uint) {
        process::init().map(drop)
    }
    cudaRuntimeGetVersion (version: *mut c_int) {
        put(version, environment::number("AIRAMP_EMU_DRIVER_VERSION") as c_int)
    }
    cudaDeviceEnablePeerAccess (peer: c_int, _flags: c_uint) {
        process::device(peer).map(drop)
    }
    cudaDeviceDisablePeerAccess (peer: c_int) {
        process::device(peer).map(drop)
    }
    cudaMalloc (ptr: *mut u64, len: usize) {
        put(ptr, memory::alloc_or_nothing(len)?)
    }
    cudaMemcpy (to: u64, from: u64, len: usize, direction: c_int) {
        copy::synchronous(Copy { to, from, len, direction })
    }
    cudaMemcpyAsync (to: u64, from: u64, len: usize, direction: c_int, stream: usize) {
        copy::asynchronous(stream, Copy { to, from, len, direction })
    }
    cudaMemset (to: u64, value: c_int, len: usize) {
        copy::fill(STREAM_LEGACY, to, &[value as u8], len)
    }
    cudaMemsetAsync (to: u64, value: c_int, len: usize, stream: usize) {
        copy::fill(stream, to, &[value as u8], len)
    }
    cudaPointerGetAttributes (to: *mut PointerAttributes, ptr: u64) {
        let unregistered = PointerAttributes {
            memory_type: 0,
            device: -2,
            device_pointer: 0,
            host_pointer: ptr,
        };
        let known = pointers::facts(ptr).map(|facts| PointerAttributes {
            memory_type: facts.memory_type,
            device: facts.device,
            device_pointer: facts.device_pointer,
            host_pointer: facts.host_pointer,
        });
        put(to, known.unwrap_or(unregistered))
    }
    cudaStreamCreate (stream: *mut usize) {
        put(stream, stream::create(0, 0)?)
    }
    cudaEventCreate (event: *mut usize) {
        put(event, event::create(0)?)
    }
    cudaGraphInstantiate (executable: *mut usize, graph: usize) {
        put(executable, replay::instantiate(graph)?)
    }
    cudaGraphExecUpdate (executable: usize, graph: usize, info: *mut UpdateInfo) {
        let outcome = replay::update(executable, graph)?;
        let result = update_result(outcome);
        offer(info, UpdateInfo { result, error_node: 0, error_from_node: 0 });
        outcome.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)
    }
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> CudaError {
    last_error(true)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> CudaError {
    last_error(false)
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    error_text::of(CudaError(code)).map_or(c"unrecognized error code", |text| text.runtime).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    error_text::of(CudaError(code)).map_or(c"unrecognized error code", |text| text.description).as_ptr()
}
