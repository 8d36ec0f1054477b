//! Device memory with an owner. Bounds are checked before the driver sees a copy.

use std::ffi::c_void;
use std::sync::Arc;

use airamp_vendor_abi::cuda::DevicePtr;

use super::driver::{Driver, GpuError};
use super::queue::Stream;

/// An allocation on the device that was current when it was made.
pub struct Buffer {
    driver: Arc<Driver>,
    address: DevicePtr,
    bytes: usize,
}

impl Buffer {
    pub(super) fn new(driver: Arc<Driver>, bytes: usize) -> Result<Self, GpuError> {
        let mut address = 0;
        driver.mem_alloc(&mut address, bytes)?;
        Ok(Self { driver, address, bytes })
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device address `offset` bytes in, for a vendor's call.
    pub fn at(&self, offset: usize) -> *mut c_void {
        (self.address as usize + offset) as *mut c_void
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<DevicePtr, GpuError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.address + offset as DevicePtr),
            _ => Err(GpuError::OutOfBounds(bytes, offset, self.bytes)),
        }
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), GpuError> {
        let to = self.range(offset, bytes.len())?;
        self.driver.copy_to_device(to, bytes.as_ptr().cast(), bytes.len())
    }

    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        let from = self.range(offset, bytes.len())?;
        self.driver.copy_to_host(bytes.as_mut_ptr().cast(), from, bytes.len())
    }

    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), GpuError> {
        self.driver.set_bytes(self.range(offset, bytes)?, value, bytes)
    }

    pub fn fill_async(
        &self,
        offset: usize,
        bytes: usize,
        value: u8,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        self.driver.set_bytes_async(self.range(offset, bytes)?, value, bytes, stream.raw())
    }

    /// # Safety
    /// `bytes` stays alive and unchanged until the stream has passed the copy.
    pub unsafe fn write_async(&self, offset: usize, bytes: &[u8], stream: &Stream) -> Result<(), GpuError> {
        let to = self.range(offset, bytes.len())?;
        self.driver.copy_to_device_async(to, bytes.as_ptr().cast(), bytes.len(), stream.raw())
    }

    /// # Safety
    /// `bytes` stays alive and is not read until the stream has passed the copy.
    pub unsafe fn read_async(
        &self,
        offset: usize,
        bytes: &mut [u8],
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let from = self.range(offset, bytes.len())?;
        self.driver.copy_to_host_async(bytes.as_mut_ptr().cast(), from, bytes.len(), stream.raw())
    }

    /// Copies from another buffer, in stream order.
    pub fn copy_from_async(
        &self,
        offset: usize,
        source: &Buffer,
        source_offset: usize,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let to = self.range(offset, bytes)?;
        let from = source.range(source_offset, bytes)?;
        self.driver.copy_on_device_async(to, from, bytes, stream.raw())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A failed free has no remedy here, and the process's end frees it anyway.
        let _ = self.driver.mem_free(self.address);
    }
}
