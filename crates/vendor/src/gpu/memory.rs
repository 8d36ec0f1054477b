//! Memory with an owner, on the device and page-locked on the host. Bounds are checked
//! before the driver sees a copy.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use airamp_vendor_abi::cuda::DevicePtr;

use super::context::Context;
use super::driver::{Driver, GpuError};
use super::queue::Stream;

/// An allocation on the device that was current when it was made.
pub struct Buffer {
    driver: Arc<Driver>,
    context: Option<Context>,
    address: DevicePtr,
    bytes: usize,
}

impl Buffer {
    pub(super) fn new(driver: Arc<Driver>, bytes: usize) -> Result<Self, GpuError> {
        let context = driver.context()?;
        let mut address = 0;
        driver.mem_alloc(&mut address, bytes)?;
        Ok(Self { driver, context, address, bytes })
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device address of its first byte.
    pub fn address(&self) -> DevicePtr {
        self.address
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
        self.driver.release(self.context, |driver| {
            let _ = driver.mem_free(self.address);
        });
    }
}

/// Page-locked memory of the host, which copies reach without a detour and captures
/// may hold. Zeroed at first.
pub struct PinnedBuffer {
    driver: Arc<Driver>,
    context: Option<Context>,
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory with one owner; the driver frees it on any thread.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared access goes through raw pointers and volatile reads only.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    pub(super) fn new(driver: Arc<Driver>, bytes: usize) -> Result<Self, GpuError> {
        let context = driver.context()?;
        let mut raw = ptr::null_mut();
        driver.host_alloc(&mut raw, bytes, 0)?;
        let address = NonNull::new(raw.cast::<u8>()).ok_or(GpuError::OutOfBounds(bytes, 0, 0))?;
        // SAFETY: the driver gave `bytes` bytes that nobody else knows yet.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { driver, context, address, bytes })
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number at `offset` as the device left it last; it may change at any time.
    pub fn read_u64(&self, offset: usize) -> Result<u64, GpuError> {
        let misplaced = GpuError::OutOfBounds(size_of::<u64>(), offset, self.bytes);
        let end = offset.checked_add(size_of::<u64>()).filter(|end| *end <= self.bytes);
        if end.is_none() || !offset.is_multiple_of(align_of::<u64>()) {
            return Err(misplaced);
        }
        // SAFETY: inside the allocation, which the driver aligned to a page. Volatile, since
        // the device writes there.
        Ok(unsafe { self.address.as_ptr().add(offset).cast::<u64>().read_volatile() })
    }

    /// Copies from device memory into this buffer, in stream order.
    pub fn copy_from_async(
        &self,
        offset: usize,
        source: &Buffer,
        source_offset: usize,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let from = source.range(source_offset, bytes)?;
        // SAFETY: the range is the source's, which whoever drops it keeps until the device is done.
        unsafe { self.copy_from_address_async(offset, from, bytes, stream) }
    }

    /// The same from device memory that is not ours.
    ///
    /// # Safety
    /// The range is device memory until the stream has passed the copy.
    pub unsafe fn copy_from_address_async(
        &self,
        offset: usize,
        from: DevicePtr,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => {
                let to = self.address.as_ptr().wrapping_add(offset);
                self.driver.copy_to_host_async(to.cast(), from, bytes, stream.raw())
            }
            _ => Err(GpuError::OutOfBounds(bytes, offset, self.bytes)),
        }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        self.driver.release(self.context, |driver| {
            let _ = driver.host_free(self.address.as_ptr().cast());
        });
    }
}
