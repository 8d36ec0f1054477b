//! Finds the vendor's collective library, in four steps (see ARCHITECTURE.md,
//! 'Finding the real library'), and never takes the caller's own object for it.

use crate::dl::{self, Handle};
use std::ffi::{CStr, c_void};
use std::path::Path;

/// The functions that make an object a collective library in our eyes.
const HALLMARKS: [&CStr; 2] = [c"ncclGetUniqueId", c"ncclCommInitRank"];

/// What only this product exports: another copy of it is no vendor.
const OWN_MARK: &CStr = c"airampCallIndex";

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
    /// The address of one of its functions; null where it has none.
    pub fn function(&self, name: &CStr) -> *const c_void {
        beyond_us(self.handle, name)
    }

    /// The library behind a handle, if it is a collective library and none of our copies.
    pub fn behind(handle: Handle, step: Step) -> Option<Self> {
        let [first, second] = HALLMARKS.map(|name| beyond_us(handle, name));
        if first.is_null() || second.is_null() {
            return None;
        }
        let owner = dl::owner_of(first)?;
        Some(Self { step, path: owner.path, base: owner.base, handle })
    }

    /// Takes a reference of our own, so that the library stays whatever the application closes.
    /// False: it cannot be had, as for a library in a namespace of its own.
    pub fn keep_loaded(&self) -> bool {
        let Ok(handle) = dl::open(&self.path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) else {
            return false;
        };
        let same = dl::base_of(dl::look_up(handle, HALLMARKS[0])) == Some(self.base);
        if !same {
            dl::close(handle);
        }
        same
    }
}

/// What `handle` leads to, unless that is ourselves or a copy of us.
fn beyond_us(handle: Handle, name: &CStr) -> *const c_void {
    let address = dl::look_up(handle, name);
    let owner = dl::base_of(address);
    let is_ours = owner.is_some() && owner == dl::own_base();
    let is_copy = owner.is_some() && owner == dl::base_of(dl::look_up(handle, OWN_MARK));
    if is_ours || is_copy { std::ptr::null() } else { address }
}

/// A function of whoever stands between us and the vendor in the search order, such as a
/// profiler that wraps a few functions.
pub fn next_function(name: &CStr) -> *const c_void {
    beyond_us(Handle::NEXT, name)
}

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Steps 1 and 2: nothing is loaded that the application did not load.
    Mapped,
    /// All four steps.
    Any,
}

/// Searches for the vendor. A mapped library that begins at one of `spoken_for` is what the
/// application opened for itself, and is taken only if there is no other. The error says what
/// was tried.
pub fn resolve(reach: Reach, configured: Option<&str>, spoken_for: &[usize]) -> Result<Found, String> {
    let next = Found::behind(Handle::NEXT, Step::Next);
    if let Some(found) = next.or_else(|| mapped(spoken_for)) {
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
fn mapped(spoken_for: &[usize]) -> Option<Found> {
    let mut paths = dl::mapped_paths();
    paths.sort_by_key(|path| !is_named_as_collective_library(path));
    let mut second_choice = None;
    for path in &paths {
        let Ok(handle) = dl::open(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) else {
            continue;
        };
        match Found::behind(handle, Step::Mapped) {
            Some(found) if !spoken_for.contains(&found.base) => return Some(found),
            Some(found) if second_choice.is_none() => second_choice = Some(found),
            _ => dl::close(handle),
        }
    }
    second_choice
}

fn is_named_as_collective_library(path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("libnccl") || name.starts_with("librccl")
}

fn open(name: &str, step: Step) -> Result<Found, String> {
    let handle = dl::open(name, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
    Found::behind(handle, step).ok_or_else(|| format!("{name} is not a collective library of a vendor"))
}
