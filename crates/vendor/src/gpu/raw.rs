//! The driver's functions as raw pointers: one table for CUDA and HIP, since the two
//! agree in the C signature of every function named here. `""` marks a function that
//! one of them does not have. No call is made here.

use std::ffi::{CString, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use airamp_vendor_abi::cuda::{
    Context, CudaError, Device, DevicePtr, Event, Function, Graph, GraphExec, HostFn, Module, Stream,
    UserObject,
};

use super::{Kind, Library};

macro_rules! driver_functions {
    ($($field:ident: $cuda:literal / $hip:literal ($($argument:ident: $type:ty),*);)*) => {
        /// Function pointers of one driver library; missing = `None`.
        pub(super) struct Table {
            $(pub(super) $field: Option<unsafe extern "C" fn($($type),*) -> CudaError>,)*
        }

        impl Table {
            pub(super) fn load(library: &Library, kind: Kind) -> Self {
                Self {
                    $($field: function(library, kind, $cuda, $hip).map(|address| {
                        // SAFETY: the vendor's header gives the function of this name
                        // this signature, and a null address was ruled out.
                        unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($type),*) -> CudaError>(address) }
                    }),)*
                }
            }
        }

        /// The vendor's name of each function, for error messages.
        pub(super) mod names {
            use super::Kind;
            $(pub(in super::super) fn $field(kind: Kind) -> &'static str {
                match kind { Kind::Cuda => $cuda, Kind::Hip => $hip }
            })*
        }

        /// The calls as results: a missing function and a failed call are both errors.
        impl super::Driver {
            $(pub(super) fn $field(&self, $($argument: $type),*) -> Result<(), super::GpuError> {
                let name = names::$field(self.kind());
                let function = self.table().$field.ok_or_else(|| self.missing(name))?;
                // SAFETY: the arguments are what the owned types of this module pass:
                // handles they created, and pointers that live across the call.
                self.checked(name, unsafe { function($($argument),*) })
            })*
        }
    };
}

pub(super) type ErrorString = unsafe extern "C" fn(CudaError, *mut *const c_char) -> CudaError;

/// Apart from the table, since a failure to explain a failure is none.
pub(super) fn error_string(library: &Library, kind: Kind) -> Option<ErrorString> {
    function(library, kind, "cuGetErrorString", "hipDrvGetErrorString").map(|address| {
        // SAFETY: both headers give it this signature, and the address is not null.
        unsafe { std::mem::transmute::<*const c_void, ErrorString>(address) }
    })
}

pub(super) type IsCapturing = unsafe extern "C" fn(Stream, *mut c_int) -> CudaError;

/// Apart from the table, since it is asked without an error value.
pub(super) fn is_capturing(library: &Library, kind: Kind) -> Option<IsCapturing> {
    function(library, kind, "cuStreamIsCapturing", "hipStreamIsCapturing").map(|address| {
        // SAFETY: both headers give it this signature, and the address is not null.
        unsafe { std::mem::transmute::<*const c_void, IsCapturing>(address) }
    })
}

fn function(library: &Library, kind: Kind, cuda: &str, hip: &str) -> Option<*const c_void> {
    let name = match kind {
        Kind::Cuda => cuda,
        Kind::Hip => hip,
    };
    if name.is_empty() {
        return None;
    }
    library.symbol(&CString::new(name).ok()?)
}

driver_functions! {
    init: "cuInit" / "hipInit" (flags: c_uint);
    driver_version: "cuDriverGetVersion" / "hipDriverGetVersion" (version: *mut c_int);
    device_count: "cuDeviceGetCount" / "hipGetDeviceCount" (count: *mut c_int);
    device_get: "cuDeviceGet" / "hipDeviceGet" (device: *mut Device, ordinal: c_int);
    device_name: "cuDeviceGetName" / "hipDeviceGetName" (name: *mut c_char, length: c_int, device: Device);
    device_uuid: "cuDeviceGetUuid_v2" / "hipDeviceGetUuid" (uuid: *mut [u8; 16], device: Device);
    device_uuid_before_11_4: "cuDeviceGetUuid" / "" (uuid: *mut [u8; 16], device: Device);
    device_attribute: "cuDeviceGetAttribute" / "hipDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: Device);
    device_properties: "" / "hipGetDevicePropertiesR0600" (properties: *mut c_void, device: Device);
    device_properties_before_6: "" / "hipGetDeviceProperties" (properties: *mut c_void, device: Device);
    primary_context_retain: "cuDevicePrimaryCtxRetain" / "" (context: *mut Context, device: Device);
    primary_context_release: "cuDevicePrimaryCtxRelease_v2" / "" (device: Device);
    context_id: "cuCtxGetId" / "" (context: Context, id: *mut c_ulonglong);
    current_context: "cuCtxGetCurrent" / "" (context: *mut Context);
    set_current_context: "cuCtxSetCurrent" / "" (context: Context);
    current_device: "cuCtxGetDevice" / "hipGetDevice" (device: *mut Device);
    set_current_device: "" / "hipSetDevice" (ordinal: c_int);
    pointer_attribute: "cuPointerGetAttribute" / "hipPointerGetAttribute" (value: *mut c_void, attribute: c_int, address: DevicePtr);
    device_synchronize: "cuCtxSynchronize" / "hipDeviceSynchronize" ();
    memory_info: "cuMemGetInfo_v2" / "hipMemGetInfo" (free: *mut usize, total: *mut usize);
    mem_alloc: "cuMemAlloc_v2" / "hipMalloc" (address: *mut DevicePtr, bytes: usize);
    mem_free: "cuMemFree_v2" / "hipFree" (address: DevicePtr);
    host_alloc: "cuMemHostAlloc" / "hipHostMalloc" (address: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free: "cuMemFreeHost" / "hipHostFree" (address: *mut c_void);
    copy_to_device: "cuMemcpyHtoD_v2" / "hipMemcpyHtoD" (to: DevicePtr, from: *const c_void, bytes: usize);
    copy_to_host: "cuMemcpyDtoH_v2" / "hipMemcpyDtoH" (to: *mut c_void, from: DevicePtr, bytes: usize);
    copy_to_device_async: "cuMemcpyHtoDAsync_v2" / "hipMemcpyHtoDAsync" (to: DevicePtr, from: *const c_void, bytes: usize, stream: Stream);
    copy_to_host_async: "cuMemcpyDtoHAsync_v2" / "hipMemcpyDtoHAsync" (to: *mut c_void, from: DevicePtr, bytes: usize, stream: Stream);
    copy_on_device_async: "cuMemcpyDtoDAsync_v2" / "hipMemcpyDtoDAsync" (to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream);
    set_bytes: "cuMemsetD8_v2" / "hipMemsetD8" (to: DevicePtr, value: c_uchar, bytes: usize);
    set_bytes_async: "cuMemsetD8Async" / "hipMemsetD8Async" (to: DevicePtr, value: c_uchar, bytes: usize, stream: Stream);
    stream_create: "cuStreamCreate" / "hipStreamCreateWithFlags" (stream: *mut Stream, flags: c_uint);
    stream_create_with_priority: "cuStreamCreateWithPriority" / "hipStreamCreateWithPriority" (stream: *mut Stream, flags: c_uint, priority: c_int);
    stream_priorities: "cuCtxGetStreamPriorityRange" / "hipDeviceGetStreamPriorityRange" (least: *mut c_int, greatest: *mut c_int);
    stream_destroy: "cuStreamDestroy_v2" / "hipStreamDestroy" (stream: Stream);
    stream_synchronize: "cuStreamSynchronize" / "hipStreamSynchronize" (stream: Stream);
    stream_wait_event: "cuStreamWaitEvent" / "hipStreamWaitEvent" (stream: Stream, event: Event, flags: c_uint);
    stream_begin_capture: "cuStreamBeginCapture_v2" / "hipStreamBeginCapture" (stream: Stream, mode: c_int);
    stream_end_capture: "cuStreamEndCapture" / "hipStreamEndCapture" (stream: Stream, graph: *mut Graph);
    stream_capture_info: "cuStreamGetCaptureInfo_v2" / "hipStreamGetCaptureInfo_v2" (stream: Stream, status: *mut c_int, id: *mut u64, graph: *mut Graph, after: *mut *const c_void, after_count: *mut usize);
    exchange_capture_mode: "cuThreadExchangeStreamCaptureMode" / "hipThreadExchangeStreamCaptureMode" (mode: *mut c_int);
    event_create: "cuEventCreate" / "hipEventCreateWithFlags" (event: *mut Event, flags: c_uint);
    event_destroy: "cuEventDestroy_v2" / "hipEventDestroy" (event: Event);
    event_record: "cuEventRecord" / "hipEventRecord" (event: Event, stream: Stream);
    event_record_with_flags: "cuEventRecordWithFlags" / "hipEventRecordWithFlags" (event: Event, stream: Stream, flags: c_uint);
    event_query: "cuEventQuery" / "hipEventQuery" (event: Event);
    event_synchronize: "cuEventSynchronize" / "hipEventSynchronize" (event: Event);
    event_elapsed: "cuEventElapsedTime" / "hipEventElapsedTime" (milliseconds: *mut f32, start: Event, end: Event);
    graph_instantiate: "cuGraphInstantiateWithFlags" / "hipGraphInstantiateWithFlags" (executable: *mut GraphExec, graph: Graph, flags: c_ulonglong);
    graph_launch: "cuGraphLaunch" / "hipGraphLaunch" (executable: GraphExec, stream: Stream);
    graph_destroy: "cuGraphDestroy" / "hipGraphDestroy" (graph: Graph);
    graph_exec_destroy: "cuGraphExecDestroy" / "hipGraphExecDestroy" (executable: GraphExec);
    user_object_create: "cuUserObjectCreate" / "hipUserObjectCreate" (object: *mut UserObject, data: *mut c_void, destroy: HostFn, references: c_uint, flags: c_uint);
    user_object_release: "cuUserObjectRelease" / "hipUserObjectRelease" (object: UserObject, count: c_uint);
    graph_retain_user_object: "cuGraphRetainUserObject" / "hipGraphRetainUserObject" (graph: Graph, object: UserObject, count: c_uint, flags: c_uint);
    module_load: "cuModuleLoadData" / "hipModuleLoadData" (module: *mut Module, image: *const c_void);
    module_unload: "cuModuleUnload" / "hipModuleUnload" (module: Module);
    module_function: "cuModuleGetFunction" / "hipModuleGetFunction" (function: *mut Function, module: Module, name: *const c_char);
    launch: "cuLaunchKernel" / "hipModuleLaunchKernel" (function: Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Stream, arguments: *mut *mut c_void, extra: *mut *mut c_void);
}
