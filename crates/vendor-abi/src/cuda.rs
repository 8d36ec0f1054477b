//! Types and constants of the CUDA driver and runtime interfaces that this project uses.

use std::ffi::{c_int, c_uint, c_void};

/// `CUresult` and `cudaError_t`, which share the numbers below.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaError(pub c_int);

impl CudaError {
    pub const SUCCESS: Self = Self(0);
    pub const INVALID_VALUE: Self = Self(1);
    pub const OUT_OF_MEMORY: Self = Self(2);
    pub const NOT_INITIALIZED: Self = Self(3);
    pub const DEINITIALIZED: Self = Self(4);
    pub const NO_DEVICE: Self = Self(100);
    pub const INVALID_DEVICE: Self = Self(101);
    pub const INVALID_IMAGE: Self = Self(200);
    pub const INVALID_CONTEXT: Self = Self(201);
    pub const NO_BINARY_FOR_GPU: Self = Self(209);
    pub const INVALID_PTX: Self = Self(218);
    pub const INVALID_HANDLE: Self = Self(400);
    pub const NOT_FOUND: Self = Self(500);
    pub const NOT_READY: Self = Self(600);
    pub const ILLEGAL_ADDRESS: Self = Self(700);
    pub const LAUNCH_OUT_OF_RESOURCES: Self = Self(701);
    pub const LAUNCH_FAILED: Self = Self(719);
    pub const NOT_SUPPORTED: Self = Self(801);
    pub const STREAM_CAPTURE_UNSUPPORTED: Self = Self(900);
    pub const STREAM_CAPTURE_INVALIDATED: Self = Self(901);
    pub const STREAM_CAPTURE_MERGE: Self = Self(902);
    pub const STREAM_CAPTURE_UNMATCHED: Self = Self(903);
    pub const STREAM_CAPTURE_UNJOINED: Self = Self(904);
    pub const STREAM_CAPTURE_ISOLATION: Self = Self(905);
    pub const STREAM_CAPTURE_IMPLICIT: Self = Self(906);
    pub const CAPTURED_EVENT: Self = Self(907);
    pub const STREAM_CAPTURE_WRONG_THREAD: Self = Self(908);
    pub const GRAPH_EXEC_UPDATE_FAILURE: Self = Self(910);
    pub const UNKNOWN: Self = Self(999);
}

pub type Device = c_int;
pub type DevicePtr = u64;
pub type Context = *mut c_void;
pub type Stream = *mut c_void;
pub type Event = *mut c_void;
pub type Module = *mut c_void;
pub type Function = *mut c_void;
pub type Graph = *mut c_void;
pub type GraphExec = *mut c_void;
pub type UserObject = *mut c_void;
pub type HostFn = unsafe extern "C" fn(*mut c_void);

/// The legacy default stream, under its explicit handle.
pub const STREAM_LEGACY: usize = 1;
/// The default stream of the calling thread, under its explicit handle.
pub const STREAM_PER_THREAD: usize = 2;

pub const STREAM_NON_BLOCKING: c_uint = 1;
pub const EVENT_DISABLE_TIMING: c_uint = 2;
pub const EVENT_RECORD_EXTERNAL: c_uint = 1;
pub const EVENT_WAIT_EXTERNAL: c_uint = 1;

pub const CAPTURE_MODE_GLOBAL: c_int = 0;
pub const CAPTURE_MODE_THREAD_LOCAL: c_int = 1;
pub const CAPTURE_MODE_RELAXED: c_int = 2;

pub const CAPTURE_STATUS_NONE: c_int = 0;
pub const CAPTURE_STATUS_ACTIVE: c_int = 1;
pub const CAPTURE_STATUS_INVALIDATED: c_int = 2;

pub const ATTRIBUTE_MULTIPROCESSOR_COUNT: c_int = 16;
pub const ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_int = 75;
pub const ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_int = 76;

/// `cudaMemcpyKind` and `hipMemcpyKind`.
pub const MEMCPY_HOST_TO_HOST: c_int = 0;
pub const MEMCPY_HOST_TO_DEVICE: c_int = 1;
pub const MEMCPY_DEVICE_TO_HOST: c_int = 2;
pub const MEMCPY_DEVICE_TO_DEVICE: c_int = 3;
pub const MEMCPY_DEFAULT: c_int = 4;
