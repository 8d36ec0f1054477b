//! `errno` as the application left it, whatever our own work in between does to it.

use std::ffi::c_int;

/// Puts `errno` back when it goes.
pub(crate) struct Kept(c_int);

pub(crate) fn keep() -> Kept {
    Kept(get())
}

pub(crate) fn get() -> c_int {
    // SAFETY: errno is this thread's own variable.
    unsafe { *libc::__errno_location() }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
