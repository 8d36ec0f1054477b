//! Memory between two pages that nobody may touch.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;
/// What is in a buffer before anything is written: what a kernel is to write must not be right by chance.
const UNWRITTEN: u8 = 0xa5;

/// `len` bytes at any alignment wanted, at one end of some pages; up to the next multiple of 16 they are away from
/// the page that cannot be touched. What is left of the pages is not the kernels', and found as it was.
pub(crate) struct Buffer {
    mapping: *mut u8,
    mapped: usize,
    offset: usize,
    len: usize,
}

impl Buffer {
    /// A buffer that ends right before the page, and so is aligned as its length is.
    pub(crate) fn ending_at_a_page(len: usize) -> Buffer {
        Self::new(len, len, |room| room - len)
    }

    /// A buffer that begins right behind a page.
    pub(crate) fn beginning_at_a_page(len: usize) -> Buffer {
        Self::new(len, len, |_| 0)
    }

    /// A buffer that begins at a multiple of 16 bytes.
    pub(crate) fn aligned(len: usize) -> Buffer {
        Self::misaligned(len, 0)
    }

    /// A buffer that begins `bytes` behind a multiple of 16 bytes, at either end of its pages.
    pub(crate) fn misaligned(len: usize, bytes: usize) -> Buffer {
        let padded = (bytes + len).next_multiple_of(16);
        if at_the_front() {
            Self::new(len, padded, |_| bytes)
        } else {
            Self::new(len, padded, |room| room - padded + bytes)
        }
    }

    pub(crate) fn of(bytes: &[u8], misaligned: usize) -> Buffer {
        let mut buffer = Self::misaligned(bytes.len(), misaligned);
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// `place` says where in the room, which is pages with `padded` bytes at least.
    fn new(len: usize, padded: usize, place: impl FnOnce(usize) -> usize) -> Buffer {
        let room = padded.next_multiple_of(PAGE);
        let mapped = PAGE + room + PAGE;
        // SAFETY: a fresh anonymous mapping, filled, whose first and last page are then closed. Nothing else refers
        // to it.
        let mapping = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapping =
                libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(mapping, libc::MAP_FAILED);
            let mapping = mapping.cast::<u8>();
            mapping.add(PAGE).write_bytes(UNWRITTEN, room);
            for closed in [mapping, mapping.add(PAGE + room)] {
                assert_eq!(libc::mprotect(closed.cast(), PAGE, libc::PROT_NONE), 0);
            }
            mapping
        };
        Buffer { mapping, mapped, offset: PAGE + place(room), len }
    }

    /// Whether what lies beside the buffer, and may be touched, is as it was.
    fn beside_is_unwritten(&self) -> bool {
        let (before, after) = (self.offset - PAGE, self.mapped - PAGE - self.offset - self.len);
        // SAFETY: both parts lie in the mapping between the closed pages, and outside of the buffer.
        let parts = unsafe {
            let start = self.mapping.add(PAGE);
            [
                std::slice::from_raw_parts(start, before),
                std::slice::from_raw_parts(start.add(before + self.len), after),
            ]
        };
        parts.into_iter().flatten().all(|byte| *byte == UNWRITTEN)
    }
}

/// One or the other, without a rhythm that could fit that of a test; in each test the same in every run.
fn at_the_front() -> bool {
    thread_local!(static STATE: Cell<u32> = const { Cell::new(0x9e37_79b9) });
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    STATE.set(state);
    state & 1 != 0
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
        assert!(std::thread::panicking() || self.beside_is_unwritten(), "written beside a buffer");
        // SAFETY: the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
