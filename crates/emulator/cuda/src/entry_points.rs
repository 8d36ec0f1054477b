//! `cuGetProcAddress` and its runtime twin: looks functions up in this library's own
//! symbol table, so that what was hidden there is not found here either.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use airamp_emulator::c_interface::{code, offer, put, remembered, text};
use airamp_emulator::gpu::Answer;
use airamp_vendor_abi::cuda::CudaError;

/// Whether the function was found, in the numbers of both interfaces.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: u64,
    status: *mut c_int,
) -> CudaError {
    // SAFETY: the caller passes a C string and pointers that are null or can be written.
    code(|| unsafe { put_function(name, function, status) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: u64,
) -> CudaError {
    // SAFETY: as above.
    code(|| unsafe { put_function(name, function, std::ptr::null_mut()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    function: *mut *mut c_void,
    _flags: u64,
    status: *mut c_int,
) -> CudaError {
    // The runtime reports a missing function by the status alone.
    remembered(|| {
        // SAFETY: as above.
        match unsafe { put_function(name, function, status) } {
            Err(CudaError::NOT_FOUND) => Ok(()),
            other => other,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaGetDriverEntryPointByVersion(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    flags: u64,
    status: *mut c_int,
) -> CudaError {
    // SAFETY: passes on what the caller vouches for.
    unsafe { cudaGetDriverEntryPoint(name, function, flags, status) }
}

/// # Safety
/// `name` is null or a C string; the other pointers are null or can be written.
unsafe fn put_function(name: *const c_char, function: *mut *mut c_void, status: *mut c_int) -> Answer<()> {
    // SAFETY: the caller vouches for all three.
    unsafe {
        offer(function, std::ptr::null_mut());
        offer(status, NOT_FOUND);
        let found = find(text(name)?).ok_or(CudaError::NOT_FOUND)?;
        offer(status, FOUND);
        put(function, found)
    }
}

/// The newest form of a function: the headers give its plain name to that one.
fn find(name: &str) -> Option<*mut c_void> {
    let library = this_library()? as *mut c_void;
    let forms = [format!("{name}_v2"), name.to_owned()];
    forms.into_iter().find_map(|form| {
        let form = CString::new(form).ok()?;
        // SAFETY: the handle is this library's own and the name a C string.
        let found = unsafe { libc::dlsym(library, form.as_ptr()) };
        (!found.is_null()).then_some(found)
    })
}

/// A handle of the file that this code was loaded from.
fn this_library() -> Option<usize> {
    static HANDLE: OnceLock<Option<usize>> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        // SAFETY: `dladdr` fills the structure for an address of our own code, and the
        // name it gives is that of a loaded library.
        let handle = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(this_library as *const c_void, &mut info) == 0 {
                return None;
            }
            libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD)
        };
        (!handle.is_null()).then_some(handle as usize)
    })
}
