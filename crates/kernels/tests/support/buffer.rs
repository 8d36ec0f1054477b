//! Memory that ends where a page begins that nobody may touch.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// `len` bytes at any alignment wanted; what lies behind them, up to the next multiple of 16, and the page
/// that cannot be touched, is not the kernels'.
pub(crate) struct Buffer {
    mapping: *mut u8,
    mapped: usize,
    offset: usize,
    len: usize,
}

impl Buffer {
    /// A buffer that ends right before the page, and so is aligned as its length is.
    pub(crate) fn ending_at_a_page(len: usize) -> Buffer {
        Self::new(len, 0)
    }

    /// A buffer that begins at a multiple of 16 bytes.
    pub(crate) fn aligned(len: usize) -> Buffer {
        Self::new(len, len.next_multiple_of(16) - len)
    }

    /// A buffer that begins `bytes` behind a multiple of 16 bytes.
    pub(crate) fn misaligned(len: usize, bytes: usize) -> Buffer {
        Self::new(len, (len + bytes).next_multiple_of(16) - len - bytes)
    }

    pub(crate) fn of(bytes: &[u8], misaligned: usize) -> Buffer {
        let mut buffer = Self::misaligned(bytes.len(), misaligned);
        buffer.copy_from_slice(bytes);
        buffer
    }

    fn new(len: usize, gap: usize) -> Buffer {
        let room = (len + gap).next_multiple_of(PAGE);
        let mapped = room + PAGE;
        // SAFETY: a fresh anonymous mapping; its last page is then closed. Nothing else refers to it.
        let mapping = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapping =
                libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(mapping, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(mapping.byte_add(room), PAGE, libc::PROT_NONE), 0);
            mapping.cast::<u8>()
        };
        let mut buffer = Buffer { mapping, mapped, offset: room - gap - len, len };
        // What a kernel is to write must not be right by chance.
        buffer.fill(0xa5);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `offset` and `len` lie within the writable part of the mapping, which lives as long as self.
        unsafe { std::slice::from_raw_parts(self.mapping.add(self.offset), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.add(self.offset), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
