//! What of HIP differs from CUDA in type or number. All else is as in [`crate::cuda`].

use std::ffi::c_int;

/// `hipError_t`. Its numbers are CUDA's but for those named here.
pub type HipError = crate::cuda::CudaError;

/// `hipErrorNoDevice`.
pub const NO_DEVICE: HipError = crate::cuda::CudaError(100);
/// `hipDeviceAttributeComputeCapabilityMajor`.
pub const ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_int = 23;
/// `hipDeviceAttributeComputeCapabilityMinor`.
pub const ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_int = 61;
