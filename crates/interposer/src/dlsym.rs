//! `dlsym`, hooked: who asks a handle for an NCCL function gets our wrapper of it.
//!
//! Every other name reaches the real `dlsym` by a jump, since glibc reads the caller
//! from the return address; so do the pseudo handles, for which the caller matters.
//! The hook itself is in each processor's own instructions, and calls in here.

#[cfg_attr(target_arch = "x86_64", path = "dlsym/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "dlsym/aarch64.rs")]
mod processor;

use crate::boundary::{self, Moment};
use crate::{errno, exports, role, startup, thread, vendors};
use airamp_vendor::dl::{self, Handle};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

static REAL: AtomicUsize = AtomicUsize::new(0);

/// The address of the real `dlsym`, kept for the next call; 0 if there is none, which no glibc shows.
extern "C" fn find_real() -> usize {
    let real = dl::real_dlsym().map_or(0, |real| real as usize);
    REAL.store(real, Ordering::Release);
    real
}

/// The vendor that our exports show when they are looked up: for a preloaded library one that is
/// mapped already; for one that was named as NCCL, one that is opened if need be.
fn shown_vendor() -> Option<&'static vendors::Vendor> {
    if role::is_preloaded() { vendors::mapped_default() } else { vendors::at(0) }
}

fn lies_in_us(address: *const c_void) -> bool {
    !address.is_null() && dl::base_of(address) == dl::own_base()
}

/// For RTLD_DEFAULT: our exports must not show where the process has no NCCL at all. For both
/// pseudo handles: what the vendor lacks is hidden before the linker looks.
unsafe extern "C" fn is_absent(handle: *mut c_void, name: *const c_char) -> bool {
    let _errno = errno::keep();
    // SAFETY: dlsym's caller passes a NUL-terminated name.
    let name = unsafe { CStr::from_ptr(name) };
    let absent = || {
        let shown = shown_vendor().is_some() || !role::is_preloaded();
        !shown && handle == libc::RTLD_DEFAULT && lies_in_us(dl::look_up(Handle::DEFAULT, name))
    };
    let absent = boundary::ours("dlsym", Moment::Before, absent).unwrap_or(false);
    if absent {
        look_up_in_libc(name);
    }
    absent
}

/// Asks an object that does not have it, so that `dlerror` tells.
fn look_up_in_libc(name: &CStr) {
    if let Ok(libc) = dl::open("libc.so.6", libc::RTLD_LAZY | libc::RTLD_NOLOAD) {
        dl::look_up(libc, name);
    }
}

/// A name of NCCL's, asked of a real handle.
unsafe extern "C" fn by_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: dlsym's caller passes a live handle and a NUL-terminated name.
    let (handle, name) = unsafe { (Handle::from_raw(handle), CStr::from_ptr(name)) };
    let real = dl::look_up(handle, name);
    let _errno = errno::keep();
    if real.is_null() || thread::with(thread::Thread::is_inside_vendor) {
        return real.cast_mut();
    }
    let answer = boundary::ours("dlsym", Moment::Before, || wrapper_for(handle, name, real));
    let answer = answer.flatten().map_or(real, |wrapper| wrapper.cast());
    if !answer.is_null() {
        dl::forget_error();
    }
    answer.cast_mut()
}

/// What to answer in place of `real`, if anything.
fn wrapper_for(handle: Handle, name: &CStr, real: *const c_void) -> Option<*const ()> {
    if startup::ensure().settings.disable {
        return None;
    }
    if lies_in_us(real) {
        return Some(own_export(handle, name).cast());
    }
    exports::wrapper_of(name, 0)?;
    exports::wrapper_of(name, vendors::place_of(handle, dl::base_of(real)?)?)
}

/// A handle that leads to our own export: it shows what the vendor has. A vendor is opened for
/// who named us as the NCCL library, not for who merely searched the whole program.
fn own_export(handle: Handle, name: &CStr) -> *const c_void {
    let named_us = dl::own_handle().is_some_and(|own| own == handle);
    let vendor = if named_us { vendors::at(0) } else { shown_vendor() };
    if vendor.is_none() && !named_us && role::is_preloaded() {
        look_up_in_libc(name);
        return std::ptr::null();
    }
    // What the vendor lacks is hidden by now.
    dl::look_up(handle, name)
}
