//! Device memory: what the application gets are addresses that no one can read or write
//! directly, as on a GPU; operations reach the bytes through [`resolve`].
//!
//! Every use is checked against the allocations, and a freed range is remembered while
//! address space lasts, so that a stale pointer is named as such.

mod mapping;
mod space;

use std::sync::atomic::{AtomicU64, Ordering};

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::device::Device;
use super::{Answer, Fault, capture, context, host_memory, process};
use crate::environment;

pub(super) use space::{Access, AddressSpace};

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of the device with this number.
    Device(i32),
    /// Page-locked memory of the host, which devices can reach.
    Pinned,
    /// Anything else that the process may have.
    Host,
}

/// Allocates on the current device.
pub fn alloc(len: usize) -> Answer<u64> {
    alloc_on(context::current()?, len)
}

/// Allocates as the runtime interfaces do, in which no bytes are the address 0.
pub fn alloc_or_nothing(len: usize) -> Answer<u64> {
    match len {
        0 => context::current()?.check().map(|()| 0),
        _ => alloc(len),
    }
}

/// Allocates on a given device.
pub fn alloc_on(device: &'static Device, len: usize) -> Answer<u64> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    device.check()?;
    capture::refuse_unsafe_call()?;
    if len == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if environment::number("AIRAMP_EMU_ALLOC_SYNC") == 2 {
        device.wait_for_all();
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if count == environment::number("AIRAMP_EMU_FAIL_ALLOC") {
        return Err(CudaError::OUT_OF_MEMORY);
    }
    lock(&device.memory).alloc(len)
}

/// Room for what the driver itself keeps on the device; not an allocation of the program.
pub(super) fn take_room(device: &'static Device, len: usize) -> Answer<u64> {
    lock(&device.memory).alloc(len)
}

pub(super) fn give_room_back(device: &'static Device, ptr: u64) -> Result<(), Fault> {
    lock(&device.memory).free(ptr)
}

/// Frees device memory, after the device's running work unless that is switched off.
/// The address 0 is accepted.
pub fn free(ptr: u64) -> Result<(), Fault> {
    let refuse = |code| Fault::new(code, format!("free of {ptr:#x} was refused: error {}", code.0));
    // Also for the address 0, with which programs ask for the device to be initialised.
    context::current().map_err(refuse)?;
    if ptr == 0 {
        return Ok(());
    }
    capture::refuse_unsafe_call().map_err(refuse)?;
    let Some(device) = owner(ptr) else {
        let message = format!("free of {ptr:#x}, which is not device memory");
        return Err(Fault::new(CudaError::INVALID_VALUE, message));
    };
    if environment::number("AIRAMP_EMU_ALLOC_SYNC") > 0 {
        device.wait_for_all();
    }
    lock(&device.memory).free(ptr)
}

/// The bytes behind `len` bytes of device or page-locked memory at `ptr`, if all of them
/// are allocated.
pub fn resolve(ptr: u64, len: usize) -> Result<*mut u8, Fault> {
    if let Some(device) = owner(ptr) {
        return lock(&device.memory).resolve(ptr, len);
    }
    if len == 0 || host_memory::contains(ptr, len) {
        return Ok(ptr as *mut u8);
    }
    let message = format!("access to {len} bytes at {ptr:#x}, which is not device memory");
    Err(Fault::address(message))
}

/// Where an address lies, whether it is allocated or not.
pub fn place(ptr: u64) -> Place {
    match owner(ptr) {
        Some(device) => Place::Device(device.ordinal),
        None if host_memory::contains(ptr, 1) => Place::Pinned,
        None => Place::Host,
    }
}

/// The start and size of the live allocation that holds `ptr`.
pub fn range_of(ptr: u64) -> Answer<(u64, usize)> {
    let device = owner(ptr).ok_or(CudaError::NOT_FOUND)?;
    let found = lock(&device.memory).range_of(ptr);
    found.ok_or(CudaError::NOT_FOUND)
}

/// Free and total bytes of the device.
pub fn info(device: &Device) -> (u64, u64) {
    lock(&device.memory).info()
}

/// The device in whose range of addresses `ptr` lies.
pub(super) fn owner(ptr: u64) -> Option<&'static Device> {
    let ordinal = mapping::ordinal_of(ptr)?;
    process::device(ordinal).ok()
}
