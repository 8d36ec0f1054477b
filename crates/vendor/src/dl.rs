//! The dynamic linker, past any hook: look-ups here never pass through a `dlsym`
//! that a preloaded library (ours included) has put in front of glibc's.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

pub type DlsymFn = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// glibc's `dlsym` under each version it has carried, oldest first: every glibc has that one. Asking for one that is not
/// there makes glibc before 2.34 allocate an error, and who wraps `malloc` may be looking for the real one just now.
#[cfg(target_arch = "x86_64")]
const DLSYM_VERSIONS: [&CStr; 2] = [c"GLIBC_2.2.5", c"GLIBC_2.34"];
#[cfg(target_arch = "aarch64")]
const DLSYM_VERSIONS: [&CStr; 2] = [c"GLIBC_2.17", c"GLIBC_2.34"];

static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);

/// The next `dlsym` after the object this code is linked into.
///
/// Called from constructors and from inside `dlsym` itself: beyond the linker's own lock, which a
/// thread may take again, it needs nothing.
pub fn real_dlsym() -> Option<DlsymFn> {
    let mut address = REAL_DLSYM.load(Ordering::Acquire);
    if address == 0 {
        address = DLSYM_VERSIONS.iter().map(|version| versioned_dlsym(version)).find(|found| *found != 0)?;
        REAL_DLSYM.store(address, Ordering::Release);
    }
    // SAFETY: the address came from dlvsym for "dlsym", which has this signature in every version.
    Some(unsafe { std::mem::transmute::<usize, DlsymFn>(address) })
}

fn versioned_dlsym(version: &CStr) -> usize {
    // SAFETY: both strings are NUL-terminated; RTLD_NEXT is valid from any loaded object.
    unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) as usize }
}

/// A handle of the dynamic linker's: an open library, or one of the two pseudo handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(usize);

impl Handle {
    /// Everything after the object that this code is linked into.
    pub const NEXT: Self = Self(usize::MAX);
    /// The default search order of this object.
    pub const DEFAULT: Self = Self(0);

    /// # Safety
    /// `handle` must be what `dlopen` gave, not closed since, or a pseudo handle.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(handle as usize)
    }
}

/// Looks `name` up through `handle`; null if it is not there.
pub fn look_up(handle: Handle, name: &CStr) -> *const c_void {
    match real_dlsym() {
        // SAFETY: a `Handle` is live or a pseudo handle, by its construction.
        Some(dlsym) => unsafe { dlsym(handle.0 as *mut c_void, name.as_ptr()) },
        None => std::ptr::null(),
    }
}

/// Where the object that contains an address begins, and its path.
pub struct Owner {
    pub base: usize,
    pub path: String,
}

/// The base of the object that contains `address`; allocates nothing.
pub fn base_of(address: *const c_void) -> Option<usize> {
    dladdr(address).map(|info| info.dli_fbase as usize)
}

pub fn owner_of(address: *const c_void) -> Option<Owner> {
    let info = dladdr(address)?;
    // SAFETY: dladdr gives a NUL-terminated name that lives as long as the object.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Owner { base: info.dli_fbase as usize, path: path.to_string_lossy().into_owned() })
}

fn dladdr(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: Dl_info is plain data for which zeroes are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address and writes `info` only.
    let found = unsafe { libc::dladdr(address, &mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}

/// The base of the object that this code is linked into.
pub fn own_base() -> Option<usize> {
    base_of(own_base as fn() -> Option<usize> as *const c_void)
}

/// The path of the object that this code is linked into, as the linker knows it.
pub fn own_path() -> Option<String> {
    owner_of(own_base as fn() -> Option<usize> as *const c_void).map(|owner| owner.path)
}

/// The handle of the object that this code is linked into, if it is a library.
pub fn own_handle() -> Option<Handle> {
    let handle = open(&own_path()?, libc::RTLD_LAZY | libc::RTLD_NOLOAD).ok()?;
    // The reference that the look-up took: an object that runs this code stays without it.
    close(handle);
    Some(handle)
}

/// `dlopen`; a null handle becomes the linker's own words.
pub fn open(path: &str, flags: c_int) -> Result<Handle, String> {
    let Ok(name) = CString::new(path) else {
        return Err(format!("{path:?} contains a NUL byte"));
    };
    // SAFETY: `name` is NUL-terminated; loading a library runs its constructors, as the caller wants.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if !handle.is_null() {
        return Ok(Handle(handle as usize));
    }
    // SAFETY: dlerror returns null or a NUL-terminated string that is valid until the next call.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return Err(format!("{path} is not loaded"));
    }
    // SAFETY: as above.
    Err(unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned())
}

/// Clears this thread's pending error, so that a search of ours that came up empty does not
/// show in the application's next `dlerror`.
pub fn forget_error() {
    // SAFETY: dlerror has no preconditions.
    unsafe { libc::dlerror() };
}

/// Gives back a handle from [`open`] through which nothing was kept.
pub fn close(handle: Handle) {
    // SAFETY: a handle from dlopen; a pseudo handle is refused by dlclose with an error.
    unsafe { libc::dlclose(handle.0 as *mut c_void) };
}

/// Paths of all objects mapped in this process, in the linker's order.
pub fn mapped_paths() -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    // SAFETY: the callback matches the C prototype, and `paths` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_path), (&raw mut paths).cast()) };
    paths
}

unsafe extern "C" fn note_path(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info, and `mapped_paths` passed the vector.
    let (info, paths) = unsafe { (&*info, &mut *paths.cast::<Vec<String>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the linker keeps the name NUL-terminated while the object is mapped.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
        if !name.is_empty() {
            paths.push(name.into_owned());
        }
    }
    0
}
