//! `hip*`: one interface with the duties of CUDA's driver and runtime. Initialises by
//! itself, takes device 0 where none was chosen, and remembers the last error.

use std::ffi::{c_char, c_int, c_uint, c_void};

use airamp_emulator::c_interface::*;
use airamp_emulator::environment;
use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::kernels::Launch;
use airamp_emulator::gpu::module::Architecture;
use airamp_emulator::gpu::{
    Fault, attributes, capture, context, current_device, error_text, event, graph, host_memory, memory,
    module, pointers, process, replay, set_current, stream, user_object,
};
use airamp_vendor_abi::cuda::{
    CudaError, HostFn, MEMCPY_DEVICE_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE, STREAM_LEGACY,
};

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
    ($($driver:ident / $runtime:ident / $name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { $($name ($($argument: $type),*) $body)* }
    };
}

macro_rules! export_driver {
    ($($driver:ident / $name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { $($name ($($argument: $type),*) $body)* }
    };
}

airamp_emulator::for_each_function_without_context!(export_shared);
airamp_emulator::for_each_function_in_context!(export_shared);
airamp_emulator::for_each_driver_function_without_context!(export_driver);
airamp_emulator::for_each_driver_function_in_context!(export_driver);

/// `hipPointerAttribute_t`
#[repr(C)]
struct PointerAttributes {
    memory_type: c_uint,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    is_managed: c_int,
    allocation_flags: c_uint,
}

/// `hipDeviceProp_t` of ROCm 6, of which only these places are filled.
#[repr(C, align(8))]
struct Properties([u8; 1472]);

const PROPERTY_NAME: usize = 0;
const PROPERTY_UUID: usize = 256;
const PROPERTY_TOTAL_MEMORY: usize = 288;
const PROPERTY_ARCHITECTURE: usize = 1160;

impl Properties {
    fn of(ordinal: c_int) -> Result<Self, CudaError> {
        let device = process::device(ordinal)?;
        let mut properties = Self([0; 1472]);
        let mut set = |at: usize, bytes: &[u8]| {
            properties.0[at..at + bytes.len()].copy_from_slice(bytes);
        };
        set(PROPERTY_NAME, attributes::name(device).as_bytes());
        set(PROPERTY_UUID, &attributes::uuid(device));
        set(PROPERTY_TOTAL_MEMORY, &attributes::total_memory(device).to_le_bytes());
        set(PROPERTY_ARCHITECTURE, Architecture::reported().to_string().as_bytes());
        Ok(properties)
    }
}

export! {
    hipInit (flags: c_uint) {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        process::init().map(drop)
    }
    hipGetDeviceCount (count: *mut c_int) {
        offer(count, 0);
        put(count, process::init()?.len() as c_int)
    }
    hipGetDevice (ordinal: *mut c_int) {
        put(ordinal, current_device()?)
    }
    hipSetDevice (ordinal: c_int) {
        set_current(ordinal)
    }
    hipDeviceReset () {
        context::current()?.reset()
    }
    hipSetDeviceFlags (_flags: c_uint) {
        process::init().map(drop)
    }
    hipRuntimeGetVersion (version: *mut c_int) {
        put(version, environment::number("AIRAMP_EMU_DRIVER_VERSION") as c_int)
    }
    hipGetDevicePropertiesR0600 (properties: *mut Properties, ordinal: c_int) {
        put(properties, Properties::of(ordinal)?)
    }
    hipCtxSynchronize () {
        context::current()?.synchronize()
    }
    hipDeviceEnablePeerAccess (peer: c_int, _flags: c_uint) {
        process::device(peer).map(drop)
    }
    hipDeviceDisablePeerAccess (peer: c_int) {
        process::device(peer).map(drop)
    }
    hipMalloc (ptr: *mut u64, len: usize) {
        put(ptr, memory::alloc_or_nothing(len)?)
    }
    hipHostAlloc (ptr: *mut u64, len: usize, _flags: c_uint) {
        put(ptr, host_memory::alloc(len)?)
    }
    hipFreeHost (ptr: u64) {
        host_memory::free(ptr)
    }
    hipMemcpy (to: u64, from: u64, len: usize, direction: c_int) {
        copy::synchronous(Copy { to, from, len, direction })
    }
    hipMemcpyAsync (to: u64, from: u64, len: usize, direction: c_int, stream: usize) {
        copy::asynchronous(stream, Copy { to, from, len, direction })
    }
    hipMemset (to: u64, value: c_int, len: usize) {
        copy::fill(STREAM_LEGACY, to, &[value as u8], len)
    }
    hipMemsetAsync (to: u64, value: c_int, len: usize, stream: usize) {
        copy::fill(stream, to, &[value as u8], len)
    }
    hipPointerGetAttributes (to: *mut PointerAttributes, ptr: u64) {
        let facts = pointers::facts(ptr)?;
        put(to, PointerAttributes {
            memory_type: facts.memory_type,
            device: facts.device,
            device_pointer: facts.device_pointer,
            host_pointer: facts.host_pointer,
            is_managed: 0,
            allocation_flags: 0,
        })
    }
    hipStreamCreate (stream: *mut usize) {
        put(stream, stream::create(0, 0)?)
    }
    hipEventCreate (event: *mut usize) {
        put(event, event::create(0)?)
    }
    hipGraphInstantiate (executable: *mut usize, graph: usize) {
        put(executable, replay::instantiate(graph)?)
    }
    hipGraphExecUpdate (executable: usize, graph: usize, error_node: *mut usize, result: *mut c_int) {
        let outcome = replay::update(executable, graph)?;
        offer(error_node, 0);
        offer(result, update_result(outcome));
        outcome.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)
    }
    hipDrvGetErrorName (code: c_int, name: *mut *const c_char) {
        let text = error_text::of(CudaError(code)).ok_or(CudaError::INVALID_VALUE);
        put(name, text?.hip.as_ptr())
    }
    hipDrvGetErrorString (code: c_int, description: *mut *const c_char) {
        let text = error_text::of(CudaError(code)).ok_or(CudaError::INVALID_VALUE);
        put(description, text?.description.as_ptr())
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipGetLastError() -> CudaError {
    last_error(true)
}

#[unsafe(no_mangle)]
extern "C" fn hipPeekAtLastError() -> CudaError {
    last_error(false)
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    error_text::of(CudaError(code)).map_or(c"hipErrorUnknown", |text| text.hip).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    error_text::of(CudaError(code)).map_or(c"unknown error", |text| text.description).as_ptr()
}
