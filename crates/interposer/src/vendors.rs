//! The vendor libraries of this process. Place 0 is the one behind our exported names, found in
//! four steps when it is first needed; the others belong to handles that the application opened
//! itself. A vendor, once entered, stays.

use crate::boundary::contain;
use crate::thread::VENDORS;
use crate::{errno, exports, forward, log, startup};
use airamp_vendor::Functions;
use airamp_vendor::dl::{self, Handle};
use airamp_vendor::resolve::{Found, Reach, Step, next_function, resolve};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

type Query = unsafe extern "C" fn(Comm, *mut c_int) -> NcclResult;

const DEFAULT: usize = 0;

pub(crate) struct Vendor {
    pub(crate) functions: Functions,
    /// The place at which this library was first entered: the default vendor and a handle may
    /// lead to the same one, whose groups are then the same.
    pub(crate) library: u8,
    pub(crate) comm_count: Option<Query>,
    pub(crate) comm_user_rank: Option<Query>,
    pub(crate) comm_device: Option<Query>,
    found: Found,
    is_default: bool,
}

static PLACES: [AtomicPtr<Vendor>; VENDORS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VENDORS];

impl Vendor {
    fn open(found: Found, place: usize) -> Self {
        let is_default = place == DEFAULT;
        let address = |name: &CStr| function_of(&found, is_default, name);
        // SAFETY: `found` shows the hallmarks of NCCL and its names follow nccl.h; it stays loaded,
        // by the process's own scope or by a reference that is never given back.
        let functions = unsafe { Functions::load(address) };
        let [comm_count, comm_user_rank, comm_device] =
            [c"ncclCommCount", c"ncclCommUserRank", c"ncclCommCuDevice"].map(|name| query(address(name)));
        let library = place_with(found.base).unwrap_or(place) as u8;
        Self { functions, library, comm_count, comm_user_rank, comm_device, found, is_default }
    }

    /// The address of a function; null if the vendor lacks it.
    pub(crate) fn function(&self, name: &CStr) -> *const c_void {
        function_of(&self.found, self.is_default, name)
    }

    fn announce(&self) {
        if log::is_on(log::Level::Info) {
            let Found { step, path, .. } = &self.found;
            log::info(format_args!("vendor library found by {step}: {path}, version {}", self.version()));
        }
    }

    pub(crate) fn version(&self) -> c_int {
        // SAFETY: null is `None`; else ncclGetVersion of nccl.h has this signature.
        let get: Option<unsafe extern "C" fn(*mut c_int) -> NcclResult> =
            unsafe { std::mem::transmute(self.function(c"ncclGetVersion")) };
        let mut version = 0;
        if let Some(get) = get {
            // SAFETY: the function writes one int.
            unsafe { get(&mut version) };
        }
        version
    }
}

/// Behind our exported names stands first whoever comes next in the search order: a profiler
/// may wrap a few functions of a vendor that the search order does not show.
fn function_of(found: &Found, is_default: bool, name: &CStr) -> *const c_void {
    let next = if is_default { next_function(name) } else { std::ptr::null() };
    if next.is_null() { found.function(name) } else { next }
}

fn query(address: *const c_void) -> Option<Query> {
    // SAFETY: null is `None`; else the three queries of nccl.h share this signature.
    unsafe { std::mem::transmute::<*const c_void, Option<Query>>(address) }
}

#[inline]
fn entered(place: usize) -> Option<&'static Vendor> {
    // SAFETY: once published, a vendor is never freed or changed.
    unsafe { PLACES[place].load(Ordering::Acquire).as_ref() }
}

/// The vendor at a place that [`place_of`] gave, or at place 0, for which it searches.
#[inline]
pub(crate) fn at(place: usize) -> Option<&'static Vendor> {
    let vendor = entered(place);
    if vendor.is_none() && place == DEFAULT { find_default(Reach::Any) } else { vendor }
}

/// The default vendor, if a library that is mapped already can be it.
pub(crate) fn mapped_default() -> Option<&'static Vendor> {
    entered(DEFAULT).or_else(|| find_default(Reach::Mapped))
}

/// The place of the vendor that begins at that address.
fn place_with(base: usize) -> Option<usize> {
    (0..VENDORS).find(|place| entered(*place).is_some_and(|vendor| vendor.found.base == base))
}

#[cold]
fn find_default(reach: Reach) -> Option<&'static Vendor> {
    let _errno = errno::keep();
    contain("the search for the vendor", || search(reach)).flatten()
}

fn search(reach: Reach) -> Option<&'static Vendor> {
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    let configured = startup::ensure().settings.nccl_path.as_ref().map(|path| path.to_string_lossy());
    let by_handle: Vec<usize> = (DEFAULT + 1..VENDORS).filter_map(entered).map(|it| it.found.base).collect();
    let resolved = resolve(reach, configured.as_deref(), &by_handle);
    dl::forget_error();
    match resolved {
        Ok(found) => {
            // One found in the search order is held by that order where this fails.
            found.keep_loaded();
            if publish(DEFAULT, Vendor::open(found, DEFAULT)) {
                let vendor = entered(DEFAULT)?;
                vendor.announce();
                hide_what_it_lacks(vendor);
            }
            entered(DEFAULT)
        }
        Err(reason) => {
            if reach == Reach::Any && !COMPLAINED.swap(true, Ordering::Relaxed) {
                log::error(format_args!("no NCCL or RCCL library was found: {reason}"));
            }
            None
        }
    }
}

/// Enters a vendor. False: another thread was first at that place.
fn publish(place: usize, vendor: Vendor) -> bool {
    let vendor = Box::into_raw(Box::new(vendor));
    let null = std::ptr::null_mut();
    let first = PLACES[place].compare_exchange(null, vendor, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !first {
        // SAFETY: it was made above and published nowhere.
        drop(unsafe { Box::from_raw(vendor) });
    }
    first
}

/// A function that the vendor lacks must look absent, not fail when called.
fn hide_what_it_lacks(vendor: &Vendor) {
    let names = exports::names().chain(forward::names());
    let lacking: Vec<&CStr> = names.filter(|name| vendor.function(name).is_null()).collect();
    let anchor = hide_what_it_lacks as fn(&Vendor) as *const ();
    // SAFETY: the library is linked with nodelete, and we reach our functions by address only.
    match unsafe { airamp_absent_symbols::hide(anchor, &lacking) } {
        Ok(hidden) => log::debug(format_args!("{hidden} functions that the vendor lacks are hidden")),
        Err(error) => log::debug(format_args!("functions that the vendor lacks stay visible: {error}")),
    }
}

/// The place of the vendor whose object begins at `base` and that `handle` leads to; enters it
/// if it is new. `None`: it is no collective library, it cannot be kept loaded, or there are too
/// many. A handle never decides what our exported names lead to.
pub(crate) fn place_of(handle: Handle, base: usize) -> Option<usize> {
    if let Some(place) = place_with(base) {
        return Some(place);
    }
    let free = (DEFAULT + 1..VENDORS).find(|place| entered(*place).is_none())?;
    let found = Found::behind(handle, Step::Handle)?;
    if found.base != base || !found.keep_loaded() {
        return None;
    }
    if !publish(free, Vendor::open(found, free)) {
        // Another thread took the place: look again from the start.
        return place_of(handle, base);
    }
    entered(free)?.announce();
    Some(free)
}

/// The answer where there is no vendor, or no such function in it.
#[cold]
pub(crate) fn missing(function: &str, vendor: Option<&Vendor>) -> NcclResult {
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    if vendor.is_none() {
        return NcclResult::SYSTEM_ERROR;
    }
    if !COMPLAINED.swap(true, Ordering::Relaxed) {
        log::error(format_args!("{function} was called, but the vendor library does not have it"));
    }
    NcclResult::INVALID_USAGE
}
