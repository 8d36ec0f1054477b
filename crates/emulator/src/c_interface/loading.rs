//! What happens when one of the libraries is loaded: whose interface it has, and which
//! functions are made absent. Reports names in the settings that the library does not
//! have, since a fault with such a name would silently never come.

use std::ffi::{CStr, CString, c_void};

use crate::gpu::process::{self, Vendor};
use crate::gpu::report;
use crate::{environment, nccl};

/// The constructor of both libraries: says whose interface this is, and makes the functions
/// absent that the settings and the emulated version of NCCL do not have.
pub fn loaded_as(vendor: Vendor) {
    process::set_vendor(vendor);
    report_unknown_calls("AIRAMP_EMU_FAIL_CALL");
    report_unknown_calls("AIRAMP_EMU_SLOW_CALL");
    let set = environment::text("AIRAMP_EMU_HIDE_SYMBOLS");
    for name in set.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if CString::new(name).is_ok_and(|name| hide(&[&name]) == Some(0)) {
            report(&format!("AIRAMP_EMU_HIDE_SYMBOLS: the library has no function {name:?}"));
        }
    }
    hide(&nccl::symbols_to_hide());
}

/// How many of the names were found. `None`: none could be hidden, and that was told.
fn hide(names: &[&CStr]) -> Option<usize> {
    // SAFETY: both libraries are linked so that they are never unloaded, and that nobody
    // finds these functions is what is wanted.
    let hidden = unsafe { airamp_absent_symbols::hide(loaded_as as *const (), names) };
    let told = |error| report(&format!("symbols cannot be hidden: {error}"));
    hidden.map_err(told).ok()
}

/// Entries are `function:…`, separated by commas.
fn report_unknown_calls(setting: &str) {
    let set = environment::text(setting);
    let names = set.split(',').filter_map(|entry| entry.split(':').next());
    for name in names.filter(|name| !name.is_empty()) {
        if !name.starts_with("nccl") || !is_exported(name) {
            report(&format!("{setting}: there is no function {name:?}"));
        }
    }
}

/// Whether the library that this code is in exports the function.
fn is_exported(name: &str) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: `dladdr` fills the structure for an address of our own code; the name it
    // gives is that of this library, which is loaded already and stays so.
    unsafe {
        let mut own: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(loaded_as as *const c_void, &mut own) == 0 {
            return true;
        }
        let library = libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        library.is_null() || !libc::dlsym(library, name.as_ptr()).is_null()
    }
}
