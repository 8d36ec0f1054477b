//! Page-locked host memory: ordinary memory that is remembered, since copies from and
//! to it are asynchronous and devices can reach it by its own address.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Mutex;

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::device::Device;
use super::{Answer, capture, context, process};

const PAGE: usize = 4096;

#[derive(Clone, Copy)]
struct Pinned {
    len: usize,
    /// Ours to release; otherwise memory that the application registered.
    allocated: bool,
}

static PINNED: Mutex<BTreeMap<u64, Pinned>> = Mutex::new(BTreeMap::new());

pub fn alloc(len: usize) -> Answer<u64> {
    context::current()?.check()?;
    capture::refuse_unsafe_call()?;
    let layout = layout(len).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: `layout` refuses a length of zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(CudaError::OUT_OF_MEMORY);
    }
    let pinned = Pinned { len, allocated: true };
    lock(&PINNED).insert(memory as u64, pinned);
    Ok(memory as u64)
}

pub fn free(ptr: u64) -> Answer<()> {
    capture::refuse_unsafe_call()?;
    if ptr == 0 {
        return Ok(());
    }
    // Every device can reach it.
    process::init()?.iter().for_each(Device::wait_for_all);
    let pinned = remove(ptr, true)?;
    let layout = layout(pinned.len).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the table says that this address came from `alloc` with this length, and
    // it has just been taken out, so that it is released once.
    unsafe { std::alloc::dealloc(ptr as *mut u8, layout) };
    Ok(())
}

/// Marks memory of the application as page-locked.
pub fn register(ptr: u64, len: usize) -> Answer<()> {
    context::current()?.check()?;
    if ptr == 0 || len == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if contains(ptr, 1) {
        // `cudaErrorHostMemoryAlreadyRegistered`
        return Err(CudaError(712));
    }
    let pinned = Pinned { len, allocated: false };
    lock(&PINNED).insert(ptr, pinned);
    Ok(())
}

pub fn unregister(ptr: u64) -> Answer<()> {
    // `cudaErrorHostMemoryNotRegistered`
    remove(ptr, false).map(drop).map_err(|_| CudaError(713))
}

/// Whether all of a range lies in one page-locked piece.
pub fn contains(ptr: u64, len: usize) -> bool {
    let pinned = lock(&PINNED);
    let below = pinned.range(..=ptr).next_back();
    below.is_some_and(|(base, p)| (ptr - base).saturating_add(len as u64) <= p.len as u64)
}

fn remove(ptr: u64, allocated: bool) -> Answer<Pinned> {
    let mut all = lock(&PINNED);
    match all.get(&ptr) {
        Some(pinned) if pinned.allocated == allocated => {}
        _ => return Err(CudaError::INVALID_VALUE),
    }
    all.remove(&ptr).ok_or(CudaError::INVALID_VALUE)
}

fn layout(len: usize) -> Option<Layout> {
    let layout = Layout::from_size_align(len, PAGE).ok();
    layout.filter(|layout| layout.size() > 0)
}
