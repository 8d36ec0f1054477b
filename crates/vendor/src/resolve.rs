//! Finds the vendor's collective library, in four steps (see ARCHITECTURE.md,
//! 'Finding the real library'), and never takes the caller's own object for it.

use crate::dl::{self, Handle};
use std::ffi::{CStr, c_void};
use std::path::Path;

/// The functions that make an object a collective library in our eyes.
const HALLMARKS: [&CStr; 2] = [c"ncclGetUniqueId", c"ncclCommInitRank"];

/// Names that the last step tries.
const DEFAULT_NAMES: [&str; 2] = ["libnccl.so.2", "librccl.so.1"];

/// Which step found the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Next,
    Mapped,
    Configured,
    Opened,
    /// Named by the application itself, through a handle.
    Handle,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Next => "step 1, RTLD_NEXT",
            Self::Mapped => "step 2, already mapped",
            Self::Configured => "step 3, AIRAMP_NCCL_PATH",
            Self::Opened => "step 4, opened by name",
            Self::Handle => "the application's own handle",
        })
    }
}

/// A collective library that is not ourselves.
#[derive(Clone, Debug)]
pub struct Found {
    pub step: Step,
    pub path: String,
    pub base: usize,
    handle: Handle,
}

impl Found {
    /// The address of one of its functions; null where it has none, or where the
    /// look-up would lead back to us.
    pub fn function(&self, name: &CStr) -> *const c_void {
        let address = dl::look_up(self.handle, name);
        let ours = dl::own_base().is_some() && dl::base_of(address) == dl::own_base();
        if ours { std::ptr::null() } else { address }
    }

    /// The library behind a handle of the application's, if it is a collective library.
    pub fn behind(handle: Handle, step: Step) -> Option<Self> {
        let mut found = Self { step, path: String::new(), base: 0, handle };
        let [first, second] = HALLMARKS.map(|name| found.function(name));
        if first.is_null() || second.is_null() {
            return None;
        }
        let owner = dl::owner_of(first)?;
        found.path = owner.path;
        found.base = owner.base;
        Some(found)
    }
}

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Steps 1 and 2: nothing is loaded that the application did not load.
    Mapped,
    /// All four steps.
    Any,
}

/// Searches for the vendor. The error says what was tried.
pub fn resolve(reach: Reach, configured: Option<&str>) -> Result<Found, String> {
    if let Some(found) = Found::behind(Handle::NEXT, Step::Next).or_else(mapped) {
        return Ok(found);
    }
    if reach == Reach::Mapped {
        return Err("no NCCL or RCCL library is loaded in this process".into());
    }
    let mut tried = Vec::new();
    let configured = configured.into_iter().map(|path| (path, Step::Configured));
    for (name, step) in configured.chain(DEFAULT_NAMES.map(|name| (name, Step::Opened))) {
        match open(name, step) {
            Ok(found) => return Ok(found),
            Err(error) => tried.push(error),
        }
    }
    Err(format!("none is loaded; {}", tried.join("; ")))
}

/// Step 2. Libraries named as NCCL or RCCL come first; then whatever else holds one, such as
/// a framework with NCCL linked into it.
fn mapped() -> Option<Found> {
    let mut paths = dl::mapped_paths();
    paths.sort_by_key(|path| !is_named_as_collective_library(path));
    paths.iter().find_map(|path| {
        let handle = dl::open(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD).ok()?;
        let found = Found::behind(handle, Step::Mapped);
        if found.is_none() {
            dl::close(handle);
        }
        found
    })
}

fn is_named_as_collective_library(path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("libnccl") || name.starts_with("librccl")
}

fn open(name: &str, step: Step) -> Result<Found, String> {
    let handle = dl::open(name, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
    Found::behind(handle, step).ok_or_else(|| format!("{name} is not a collective library of a vendor"))
}
