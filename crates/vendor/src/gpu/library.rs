//! A GPU library opened by `dlopen`, and the functions in it. Look-ups pass by any
//! `dlsym` hook. A handle is never closed: function pointers taken from it live in
//! tables for the process's life.

use std::ffi::{CStr, c_void};

use crate::dl;

/// An open shared library.
#[derive(Debug)]
pub(super) struct Library {
    handle: dl::Handle,
    name: String,
}

impl Library {
    /// Opens a library by name or path, in a scope of its own.
    pub(super) fn open(name: &str) -> Result<Self, String> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// Finds a library that the process has mapped already, and maps nothing.
    pub(super) fn mapped(name: &str) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NOLOAD).ok()
    }

    fn open_with(name: &str, flags: i32) -> Result<Self, String> {
        let handle = dl::open(name, flags)?;
        Ok(Self { handle, name: name.to_owned() })
    }

    /// The name it was opened under.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file that `symbol` comes from, or the opened name where that cannot be told.
    pub(super) fn path_of(&self, symbol: &CStr) -> String {
        let owner = self.symbol(symbol).and_then(dl::owner_of);
        owner.map_or_else(|| self.name.clone(), |owner| owner.path)
    }

    /// The address of a function, or `None` where the library lacks it.
    pub(super) fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        let address = dl::look_up(self.handle, name);
        (!address.is_null()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_in_the_error() {
        let error = Library::open("libairamp-not-there.so.9").unwrap_err();
        assert!(error.contains("libairamp-not-there.so.9"), "{error}");
    }

    #[test]
    fn a_missing_symbol_is_none() {
        let library = Library::open("libc.so.6").unwrap();
        assert!(library.symbol(c"airamp_not_there").is_none());
        assert!(library.symbol(c"getpid").is_some());
    }

    #[test]
    fn looking_for_a_mapped_library_maps_nothing() {
        assert!(Library::mapped("libairamp-not-there.so.9").is_none());
        assert!(Library::mapped("libc.so.6").is_some());
    }
}
