//! A library of the emulator as a program sees it: a file, and functions by name.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;

pub(crate) struct Library(*mut c_void);

impl Library {
    /// Opens `name` from the folder of the build that this test belongs to.
    pub(crate) fn open(name: &str) -> Self {
        let program = std::env::current_exe().expect("the test's program");
        let build: PathBuf = program.ancestors().nth(2).expect("the build's folder").join(name);
        assert!(build.exists(), "{} is missing: run ./x test", build.display());
        let path = CString::new(build.into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the library's own initialisation is safe at any time.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "the library loads");
        Self(handle)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        !self.address(name).is_null()
    }

    pub(crate) fn address(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: a handle that is never closed, and a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    /// Calls a function whose parameters are all integers or pointers.
    pub(crate) fn call(&self, name: &str, arguments: &[usize]) -> c_int {
        let address = self.address(name);
        assert!(!address.is_null(), "{name} is exported");
        let mut all = [0usize; 12];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = all;
        type Any = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> c_int;
        // SAFETY: integers and pointers are passed alike, in order, and a function does not
        // look at those that it does not have; each test passes what the header asks for.
        unsafe {
            let function: Any = std::mem::transmute(address);
            function(a, b, c, d, e, f, g, h, i, j, k, l)
        }
    }

    /// The same, for a call that has to succeed.
    pub(crate) fn must(&self, name: &str, arguments: &[usize]) {
        assert_eq!(self.call(name, arguments), 0, "{name}");
    }

    /// Calls a function that writes a handle or a number to its first parameter.
    pub(crate) fn make(&self, name: &str, arguments: &[usize]) -> usize {
        let mut made = 0usize;
        let mut all = vec![&raw mut made as usize];
        all.extend(arguments);
        self.must(name, &all);
        made
    }
}
