//! What can be asked about an address (`cuPointerGetAttribute`).

use airamp_vendor_abi::cuda::CudaError;

use super::memory::{self, Place};
use super::{Answer, context};

/// What is known about an address of the device or of page-locked memory.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// 1 for host memory, 2 for device memory, in both vendors' numbers.
    pub memory_type: u32,
    pub device: i32,
    pub device_pointer: u64,
    /// 0 for device memory.
    pub host_pointer: u64,
    pub start: u64,
    pub len: usize,
}

/// `INVALID_VALUE` for an address that no device knows.
pub fn facts(ptr: u64) -> Answer<Facts> {
    let unknown = |_| CudaError::INVALID_VALUE;
    match memory::place(ptr) {
        Place::Device(device) => {
            let (start, len) = memory::range_of(ptr).map_err(unknown)?;
            Ok(Facts { memory_type: 2, device, device_pointer: ptr, host_pointer: 0, start, len })
        }
        Place::Pinned => Ok(Facts {
            memory_type: 1,
            device: context::current_device()?,
            device_pointer: ptr,
            host_pointer: ptr,
            start: ptr,
            len: 0,
        }),
        Place::Host => Err(CudaError::INVALID_VALUE),
    }
}
