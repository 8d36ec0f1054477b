//! Kernels by name: what a code object's symbols do when they are launched here.
//!
//! Parses nothing and knows no code object. A kernel says how its arguments are laid
//! out, what it touches and what it does: those of the product by the codec, and a few
//! small ones for tests of the emulator itself.

mod compression;
mod plain;

use super::Fault;
use super::memory;
use super::work::Touch;

/// One launch, with the arguments as they were when it was submitted.
#[derive(Clone)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub arguments: Vec<Box<[u8]>>,
}

impl Launch {
    /// An argument of up to eight bytes, as an unsigned number.
    pub fn unsigned(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        let given = &self.arguments[index];
        let len = given.len().min(8);
        bytes[..len].copy_from_slice(&given[..len]);
        u64::from_le_bytes(bytes)
    }

    /// The elements of device memory that argument `index` points to.
    ///
    /// # Safety
    /// As for [`elements_at`].
    unsafe fn elements<'a, T>(&self, index: usize, count: usize) -> Result<&'a mut [T], Fault> {
        // SAFETY: the caller vouches for all of it.
        unsafe { elements_at(self.unsigned(index), count) }
    }
}

/// The elements of device memory at an address.
///
/// # Safety
/// `T` is valid for all bit patterns, and nothing else uses the elements while the launch
/// runs, after which they may not be used any more.
unsafe fn elements_at<'a, T>(at: u64, count: usize) -> Result<&'a mut [T], Fault> {
    if count == 0 {
        return Ok(&mut []);
    }
    if !at.is_multiple_of(align_of::<T>() as u64) {
        return Err(Fault::address(format!("misaligned address {at:#x}")));
    }
    let bytes = memory::resolve(at, count.saturating_mul(size_of::<T>()))?;
    // SAFETY: `resolve` vouches for the bytes, the alignment was checked, and the caller
    // vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), count) })
}

#[derive(Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    /// The size of each parameter in bytes.
    pub parameters: &'static [usize],
    pub touches: fn(&Launch) -> Vec<Touch>,
    pub run: fn(&Launch) -> Result<(), Fault>,
}

pub fn find(name: &str) -> Option<Kernel> {
    let known = plain::KERNELS.iter().chain(compression::KERNELS.as_flattened());
    known.copied().find(|kernel| kernel.name == name)
}

/// Spoils the byte at an address, for the fault of a kernel that computes wrongly.
pub(super) fn flip_a_bit(at: u64) -> Result<(), Fault> {
    // SAFETY: any bits are a byte; it lies in what the launch that has just run may write.
    let byte = unsafe { elements_at::<u8>(at, 1)? };
    byte[0] ^= 1;
    Ok(())
}
