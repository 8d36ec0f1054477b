//! How this library came into the process: preloaded, to watch whatever NCCL the program uses; or
//! named as the NCCL library itself, by a handle or as a needed library. Decided once, at load.

use airamp_vendor::dl;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static PRELOADED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}

pub(crate) fn decide() {
    let path = dl::own_path().unwrap_or_default();
    let by_variable = || names(&std::env::var("LD_PRELOAD").unwrap_or_default(), &path);
    let by_file = || names(&std::fs::read_to_string("/etc/ld.so.preload").unwrap_or_default(), &path);
    PRELOADED.store(by_variable() || by_file(), Ordering::Relaxed);
}

/// Whether a list of libraries to preload names the object at `path`: the linker keeps the name
/// that it was given, or the path where it found it.
fn names(list: &str, path: &str) -> bool {
    let file = |path| Path::new(path).file_name().unwrap_or(OsStr::new(""));
    list.split([':', ' ', '\n', '\t']).any(|entry| !entry.is_empty() && file(entry) == file(path))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_preloaded_library_is_found_by_its_file_name() {
        let ours = "/opt/airamp/libairamp_accel.so";
        assert!(names("/opt/airamp/libairamp_accel.so", ours));
        assert!(names("libother.so libairamp_accel.so", ours));
        assert!(names("libother.so:/opt/airamp/./libairamp_accel.so", ours));
        assert!(!names("", ours));
        assert!(!names("libother.so", ours));
    }
}
