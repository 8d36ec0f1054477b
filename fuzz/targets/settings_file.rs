//! Any bytes as a settings file: no panic, few warnings of one line each, every number inside its bounds.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use airamp_settings::{Environment, resolve};
use libfuzzer_sys::fuzz_target;

/// In memory where there is such a place, since the file is written for every input.
static FILE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder =
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = folder.path().join("airamp.conf");
    (folder, path)
});

fuzz_target!(|bytes: &[u8]| {
    let path = &FILE.1;
    fs::write(path, bytes).expect("the input can be written");
    airamp_fuzz::check(&resolve(&Environment::default(), path));
});
