//! The vendor libraries of this process. Place 0 is the one behind our exported names, found
//! in four steps at the first call; the others belong to handles that the application opened
//! itself. A vendor, once entered, stays.

use crate::boundary::contain;
use crate::thread::VENDORS;
use crate::{exports, forward, log, startup};
use airamp_vendor::Functions;
use airamp_vendor::dl::{self, Handle};
use airamp_vendor::resolve::{Found, Reach, Step, resolve};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

type Query = unsafe extern "C" fn(Comm, *mut c_int) -> NcclResult;

pub(crate) struct Vendor {
    pub(crate) functions: Functions,
    pub(crate) found: Found,
    pub(crate) comm_count: Option<Query>,
    pub(crate) comm_user_rank: Option<Query>,
}

static PLACES: [AtomicPtr<Vendor>; VENDORS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VENDORS];
static COMPLAINED: AtomicBool = AtomicBool::new(false);

impl Vendor {
    fn open(found: Found) -> Self {
        // A reference of our own: the application may close its handle.
        let _ = dl::open(&found.path, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        // SAFETY: `found` shows the hallmarks of NCCL, its names follow nccl.h, and the reference
        // above, never given back, keeps it loaded.
        let functions = unsafe { Functions::load(|name| found.function(name)) };
        Self {
            comm_count: query(&found, c"ncclCommCount"),
            comm_user_rank: query(&found, c"ncclCommUserRank"),
            functions,
            found,
        }
    }

    fn version(&self) -> c_int {
        let address = self.found.function(c"ncclGetVersion");
        // SAFETY: null is `None`; else ncclGetVersion of nccl.h has this signature.
        let get: Option<unsafe extern "C" fn(*mut c_int) -> NcclResult> =
            unsafe { std::mem::transmute(address) };
        let mut version = 0;
        if let Some(get) = get {
            // SAFETY: the function writes one int.
            unsafe { get(&mut version) };
        }
        version
    }
}

fn query(found: &Found, name: &CStr) -> Option<Query> {
    let address = found.function(name);
    // SAFETY: null is `None`; else the two queries of nccl.h share this signature.
    unsafe { std::mem::transmute::<*const c_void, Option<Query>>(address) }
}

/// The vendor at a place that [`place_of`] gave, or place 0: the default vendor.
#[inline]
pub(crate) fn at(place: usize) -> Option<&'static Vendor> {
    // SAFETY: once published, a vendor is never freed or changed.
    let vendor = unsafe { PLACES[place].load(Ordering::Acquire).as_ref() };
    if vendor.is_none() && place == 0 { guarded_default(Reach::Any) } else { vendor }
}

/// The default vendor, if a library that is mapped already can be it.
pub(crate) fn mapped_default() -> Option<&'static Vendor> {
    // SAFETY: as in `at`.
    let vendor = unsafe { PLACES[0].load(Ordering::Acquire).as_ref() };
    vendor.or_else(|| guarded_default(Reach::Mapped))
}

/// The search, for callers outside the boundary too.
#[cold]
fn guarded_default(reach: Reach) -> Option<&'static Vendor> {
    contain("the search for the vendor", || find_default(reach)).flatten()
}

fn find_default(reach: Reach) -> Option<&'static Vendor> {
    let state = startup::ensure();
    let configured = state.settings.nccl_path.as_ref().map(|path| path.to_string_lossy());
    let resolved = resolve(reach, configured.as_deref());
    dl::forget_error();
    match resolved {
        Ok(found) => Some(enter_default(found)),
        Err(reason) if reach == Reach::Any => {
            if !COMPLAINED.swap(true, Ordering::Relaxed) {
                log::error(format_args!("no NCCL or RCCL library was found: {reason}"));
            }
            None
        }
        Err(_) => None,
    }
}

fn enter_default(found: Found) -> &'static Vendor {
    let vendor: &'static mut Vendor = Box::leak(Box::new(Vendor::open(found)));
    let null = std::ptr::null_mut();
    match PLACES[0].compare_exchange(null, vendor, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: another thread published it first; it is never freed or changed.
        Err(others) => unsafe { &*others },
        Ok(_) => {
            // SAFETY: just published from this very box, never changed since.
            let vendor = unsafe { &*PLACES[0].load(Ordering::Acquire) };
            announce(vendor);
            hide_what_it_lacks(vendor);
            vendor
        }
    }
}

fn announce(vendor: &Vendor) {
    let Found { step, path, .. } = &vendor.found;
    log::info(format_args!("vendor library found by {step}: {path}, version {}", vendor.version()));
}

/// A function that the vendor lacks must look absent, not fail when called.
fn hide_what_it_lacks(vendor: &Vendor) {
    let names = exports::names().chain(forward::names());
    let lacking: Vec<&CStr> = names.filter(|name| vendor.found.function(name).is_null()).collect();
    let anchor = hide_what_it_lacks as fn(&Vendor) as *const ();
    // SAFETY: the library is linked with nodelete, and we reach our functions by address only.
    match unsafe { airamp_absent_symbols::hide(anchor, &lacking) } {
        Ok(hidden) => log::debug(format_args!("{hidden} functions that the vendor lacks are hidden")),
        Err(error) => log::debug(format_args!("functions that the vendor lacks stay visible: {error}")),
    }
}

/// The place of the vendor whose object begins at `base` and that `handle` leads to; enters it
/// if it is new. `None`: it is no collective library, or there are too many.
pub(crate) fn place_of(handle: Handle, base: usize) -> Option<usize> {
    mapped_default();
    for (place, vendor) in PLACES.iter().enumerate() {
        // SAFETY: as in `at`.
        match unsafe { vendor.load(Ordering::Acquire).as_ref() } {
            Some(vendor) if vendor.found.base == base => return Some(place),
            Some(_) => {}
            None => return enter(place, handle, base),
        }
    }
    None
}

fn enter(place: usize, handle: Handle, base: usize) -> Option<usize> {
    let found = Found::behind(handle, Step::Handle).filter(|found| found.base == base)?;
    let vendor: *mut Vendor = Box::leak(Box::new(Vendor::open(found)));
    let null = std::ptr::null_mut();
    if PLACES[place].compare_exchange(null, vendor, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // Another thread took the place: look again from the start.
        return place_of(handle, base);
    }
    // SAFETY: published just now, never freed or changed.
    announce(unsafe { &*vendor });
    Some(place)
}

/// The answer where there is no vendor, or no such function in it.
#[cold]
pub(crate) fn missing(function: &'static str, place: usize) -> NcclResult {
    if at(place).is_none() {
        return NcclResult::SYSTEM_ERROR;
    }
    log::error(format_args!("{function} was called, but the vendor library does not have it"));
    NcclResult::INVALID_USAGE
}
