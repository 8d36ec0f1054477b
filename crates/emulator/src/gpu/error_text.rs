//! Names and descriptions of the error codes, as both driver and runtime give them.

use std::ffi::CStr;

use airamp_vendor_abi::cuda::CudaError;

/// What is known about a code: the driver's name, the runtime's, and a description.
pub struct Text {
    pub driver: &'static CStr,
    pub runtime: &'static CStr,
    pub hip: &'static CStr,
    pub description: &'static CStr,
}

macro_rules! texts {
    ($($code:literal $driver:literal $runtime:literal $hip:literal $description:literal)*) => {
        const TEXTS: &[(i32, Text)] = &[$(($code, Text {
            driver: $driver, runtime: $runtime, hip: $hip, description: $description,
        })),*];
    };
}

texts! {
    0 c"CUDA_SUCCESS" c"cudaSuccess" c"hipSuccess" c"no error"
    1 c"CUDA_ERROR_INVALID_VALUE" c"cudaErrorInvalidValue" c"hipErrorInvalidValue" c"invalid argument"
    2 c"CUDA_ERROR_OUT_OF_MEMORY" c"cudaErrorMemoryAllocation" c"hipErrorOutOfMemory" c"out of memory"
    3 c"CUDA_ERROR_NOT_INITIALIZED" c"cudaErrorInitializationError" c"hipErrorNotInitialized" c"initialization error"
    4 c"CUDA_ERROR_DEINITIALIZED" c"cudaErrorCudartUnloading" c"hipErrorDeinitialized" c"driver shutting down"
    100 c"CUDA_ERROR_NO_DEVICE" c"cudaErrorNoDevice" c"hipErrorNoDevice" c"no GPU device is detected"
    101 c"CUDA_ERROR_INVALID_DEVICE" c"cudaErrorInvalidDevice" c"hipErrorInvalidDevice" c"invalid device ordinal"
    200 c"CUDA_ERROR_INVALID_IMAGE" c"cudaErrorInvalidKernelImage" c"hipErrorInvalidImage" c"device kernel image is invalid"
    201 c"CUDA_ERROR_INVALID_CONTEXT" c"cudaErrorDeviceUninitialized" c"hipErrorInvalidContext" c"invalid device context"
    209 c"CUDA_ERROR_NO_BINARY_FOR_GPU" c"cudaErrorNoKernelImageForDevice" c"hipErrorNoBinaryForGpu" c"no kernel image is available for execution on the device"
    218 c"CUDA_ERROR_INVALID_PTX" c"cudaErrorInvalidPtx" c"hipErrorInvalidKernelFile" c"a PTX JIT compilation failed"
    301 c"CUDA_ERROR_FILE_NOT_FOUND" c"cudaErrorFileNotFound" c"hipErrorFileNotFound" c"file not found"
    400 c"CUDA_ERROR_INVALID_HANDLE" c"cudaErrorInvalidResourceHandle" c"hipErrorInvalidHandle" c"invalid resource handle"
    401 c"CUDA_ERROR_ILLEGAL_STATE" c"cudaErrorIllegalState" c"hipErrorIllegalState" c"the operation cannot be performed in the present state"
    500 c"CUDA_ERROR_NOT_FOUND" c"cudaErrorSymbolNotFound" c"hipErrorNotFound" c"named symbol not found"
    600 c"CUDA_ERROR_NOT_READY" c"cudaErrorNotReady" c"hipErrorNotReady" c"device not ready"
    700 c"CUDA_ERROR_ILLEGAL_ADDRESS" c"cudaErrorIllegalAddress" c"hipErrorIllegalAddress" c"an illegal memory access was encountered"
    701 c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" c"cudaErrorLaunchOutOfResources" c"hipErrorLaunchOutOfResources" c"too many resources requested for launch"
    704 c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" c"cudaErrorPeerAccessAlreadyEnabled" c"hipErrorPeerAccessAlreadyEnabled" c"peer access is already enabled"
    712 c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" c"cudaErrorHostMemoryAlreadyRegistered" c"hipErrorHostMemoryAlreadyRegistered" c"part or all of the requested memory range is already mapped"
    713 c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"cudaErrorHostMemoryNotRegistered" c"hipErrorHostMemoryNotRegistered" c"pointer does not correspond to a registered memory region"
    719 c"CUDA_ERROR_LAUNCH_FAILED" c"cudaErrorLaunchFailure" c"hipErrorLaunchFailure" c"unspecified launch failure"
    800 c"CUDA_ERROR_NOT_PERMITTED" c"cudaErrorNotPermitted" c"hipErrorNotSupported" c"operation not permitted"
    801 c"CUDA_ERROR_NOT_SUPPORTED" c"cudaErrorNotSupported" c"hipErrorNotSupported" c"operation not supported"
    900 c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"cudaErrorStreamCaptureUnsupported" c"hipErrorStreamCaptureUnsupported" c"operation not permitted when stream is capturing"
    901 c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"cudaErrorStreamCaptureInvalidated" c"hipErrorStreamCaptureInvalidated" c"operation failed due to a previous error during capture"
    902 c"CUDA_ERROR_STREAM_CAPTURE_MERGE" c"cudaErrorStreamCaptureMerge" c"hipErrorStreamCaptureMerge" c"operation would result in a merge of separate capture sequences"
    903 c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" c"cudaErrorStreamCaptureUnmatched" c"hipErrorStreamCaptureUnmatched" c"capture was not ended in the same stream as it began"
    904 c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED" c"cudaErrorStreamCaptureUnjoined" c"hipErrorStreamCaptureUnjoined" c"capturing stream has unjoined work"
    905 c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION" c"cudaErrorStreamCaptureIsolation" c"hipErrorStreamCaptureIsolation" c"dependency created on uncaptured work in another stream"
    906 c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" c"cudaErrorStreamCaptureImplicit" c"hipErrorStreamCaptureImplicit" c"operation would make the legacy stream depend on a capturing blocking stream"
    907 c"CUDA_ERROR_CAPTURED_EVENT" c"cudaErrorCapturedEvent" c"hipErrorCapturedEvent" c"operation not permitted on an event last recorded in a capturing stream"
    908 c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" c"cudaErrorStreamCaptureWrongThread" c"hipErrorStreamCaptureWrongThread" c"attempt to terminate a thread-local capture sequence from another thread"
    910 c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" c"cudaErrorGraphExecUpdateFailure" c"hipErrorGraphExecUpdateFailure" c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"
    999 c"CUDA_ERROR_UNKNOWN" c"cudaErrorUnknown" c"hipErrorUnknown" c"unknown error"
}

/// `None` for a code that this emulator never returns.
pub fn of(code: CudaError) -> Option<&'static Text> {
    let found = TEXTS.iter().find(|(number, _)| *number == code.0);
    found.map(|(_, text)| text)
}
