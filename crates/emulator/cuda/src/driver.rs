//! `cu*`: the driver interface. Refuses calls before `cuInit` and, where a context is
//! needed, in threads that have none.

use std::ffi::{c_char, c_int, c_uint, c_void};

use airamp_emulator::c_interface::*;
use airamp_emulator::environment;
use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::kernels::Launch;
use airamp_emulator::gpu::{
    Answer, Fault, attributes, capture, context, current_device, error_text, event, graph, host_memory,
    memory, module, process, replay, stream, user_object,
};
use airamp_vendor_abi::cuda::{
    CudaError, HostFn, MEMCPY_DEFAULT, MEMCPY_DEVICE_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE,
    STREAM_LEGACY,
};

/// Exports functions under the driver's names, each after a check.
macro_rules! export {
    ($check:expr; $($name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> CudaError {
            code(|| {
                $check?;
                // SAFETY: the caller follows the header: what it passes is null or points
                // to what the function's documentation asks for.
                #[allow(unused_unsafe, reason = "some bodies do nothing unsafe")]
                unsafe { $body }
            })
        }
    )*};
}

macro_rules! export_shared_without_context {
    ($($name:ident / $runtime:ident / $hip:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { require_init(); $($name ($($argument: $type),*) $body)* }
    };
}

macro_rules! export_shared_in_context {
    ($($name:ident / $runtime:ident / $hip:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { require_context(); $($name ($($argument: $type),*) $body)* }
    };
}

macro_rules! export_without_context {
    ($($name:ident / $hip:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { require_init(); $($name ($($argument: $type),*) $body)* }
    };
}

macro_rules! export_in_context {
    ($($name:ident / $hip:ident ($($argument:ident: $type:ty),*) $body:block)*) => {
        export! { require_context(); $($name ($($argument: $type),*) $body)* }
    };
}

airamp_emulator::for_each_function_without_context!(export_shared_without_context);
airamp_emulator::for_each_function_in_context!(export_shared_in_context);
airamp_emulator::for_each_driver_function_without_context!(export_without_context);
airamp_emulator::for_each_driver_function_in_context!(export_in_context);

/// The result of a graph update: an outcome and the nodes at fault, which are not named.
#[repr(C)]
struct UpdateInfo {
    result: c_int,
    error_node: usize,
    error_from_node: usize,
}

export! {
    Answer::Ok(());
    cuInit (flags: c_uint) {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        process::init().map(drop)
    }
    cuGetErrorName (code: c_int, name: *mut *const c_char) {
        let text = error_text::of(CudaError(code)).ok_or(CudaError::INVALID_VALUE);
        offer(name, std::ptr::null());
        put(name, text?.driver.as_ptr())
    }
    cuGetErrorString (code: c_int, description: *mut *const c_char) {
        let text = error_text::of(CudaError(code)).ok_or(CudaError::INVALID_VALUE);
        offer(description, std::ptr::null());
        put(description, text?.description.as_ptr())
    }
}

export! {
    require_init();
    cuDeviceGetCount (count: *mut c_int) {
        put(count, process::devices()?.len() as c_int)
    }
    cuDeviceGetUuid (uuid: *mut [u8; 16], ordinal: c_int) {
        put(uuid, attributes::uuid(process::device(ordinal)?))
    }
    cuCtxGetId (context: usize, id: *mut u64) {
        put(id, context::id_of(context)?)
    }
    cuPointerGetAttributes (count: c_uint, which: *const c_int, to: *const *mut c_void, ptr: u64) {
        for index in 0..count as usize {
            // An attribute that an address does not have is left as it is.
            let _unknown = put_pointer_attribute(*to.add(index), *which.add(index), ptr);
        }
        Ok(())
    }
    cuGraphExecUpdate_v2 (executable: usize, graph: usize, info: *mut UpdateInfo) {
        let outcome = replay::update(executable, graph)?;
        let result = update_result(outcome);
        offer(info, UpdateInfo { result, error_node: 0, error_from_node: 0 });
        outcome.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)
    }
}

export! {
    require_context();
    cuCtxEnablePeerAccess (context: usize, _flags: c_uint) {
        context::device_of(context).map(drop)
    }
    cuMemAlloc_v2 (ptr: *mut u64, len: usize) {
        put(ptr, memory::alloc(len)?)
    }
    cuMemcpy (to: u64, from: u64, len: usize) {
        copy::synchronous(Copy { to, from, len, direction: MEMCPY_DEFAULT })
    }
    cuMemcpyAsync (to: u64, from: u64, len: usize, stream: usize) {
        copy::asynchronous(stream, Copy { to, from, len, direction: MEMCPY_DEFAULT })
    }
    cuStreamGetCtx (stream: usize, context: *mut usize) {
        stream::find(stream)?;
        put(context, context::current_handle()?)
    }
    cuFuncGetAttribute (value: *mut c_int, attribute: c_int, function: usize) {
        module::parameters(function)?;
        put(value, if attribute == 0 { 1024 } else { 0 })
    }
    cuFuncSetAttribute (function: usize, _attribute: c_int, _value: c_int) {
        module::parameters(function).map(drop)
    }
}
