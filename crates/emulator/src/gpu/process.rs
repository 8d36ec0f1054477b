//! The devices of this process, made at the first use.
//!
//! Owns the one-time initialisation and the rule for fork: a child of a process that
//! had initialised has no device, as in CUDA, since neither the worker threads nor
//! the state of the locks came with it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use airamp_vendor_abi::cuda::CudaError;

use super::Answer;
use super::device::Device;
use crate::environment;

/// Whose interface this library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Nvidia,
    Amd,
}

static AMD: AtomicU8 = AtomicU8::new(0);
static FORKED: AtomicBool = AtomicBool::new(false);
static DEVICES: OnceLock<Answer<Vec<Device>>> = OnceLock::new();

/// Called by the library's constructor, before anything else is.
pub fn set_vendor(vendor: Vendor) {
    AMD.store(u8::from(vendor == Vendor::Amd), Ordering::Relaxed);
}

pub fn vendor() -> Vendor {
    match AMD.load(Ordering::Relaxed) {
        0 => Vendor::Nvidia,
        _ => Vendor::Amd,
    }
}

/// Whether this is a child, by fork, of a process that had initialised.
#[inline]
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Initialises once (`cuInit`) and returns the devices.
#[inline]
pub fn init() -> Answer<&'static [Device]> {
    if is_forked_child() {
        return Err(CudaError::NOT_INITIALIZED);
    }
    match DEVICES.get_or_init(make_devices) {
        Ok(devices) => Ok(devices),
        Err(code) => Err(*code),
    }
}

/// The devices, for a caller that must have initialised before.
#[inline]
pub fn devices() -> Answer<&'static [Device]> {
    match DEVICES.get() {
        Some(_) => init(),
        None => Err(CudaError::NOT_INITIALIZED),
    }
}

pub fn device(ordinal: i32) -> Answer<&'static Device> {
    let index = usize::try_from(ordinal).map_err(|_| CudaError::INVALID_DEVICE)?;
    init()?.get(index).ok_or(CudaError::INVALID_DEVICE)
}

fn make_devices() -> Answer<Vec<Device>> {
    let count = environment::number("AIRAMP_EMU_DEVICES");
    if environment::switch("AIRAMP_EMU_NO_DEVICE") || count == 0 {
        return Err(CudaError::NO_DEVICE);
    }
    // SAFETY: the handler only stores to an atomic, which is allowed in a forked child.
    unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
    Ok((0..count as i32).map(Device::new).collect())
}

extern "C" fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}
