//! Where the build left what is tested: side by side in the cargo profile's
//! folder, next to which the test executable itself lies. It builds nothing; a
//! missing artifact ends the test with the command that makes it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::Run;

/// The cargo profile's folder, for example `target/release`.
pub fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of the test executable");
    executable.parent().and_then(Path::parent).expect("test executables lie in <profile>/deps").to_path_buf()
}

/// `libairamp_accel.so`, to be preloaded or named as the NCCL library.
pub fn interposer() -> PathBuf {
    artifact("libairamp_accel.so")
}

/// The command line.
pub fn airamp() -> PathBuf {
    artifact("airamp")
}

/// The daemon.
pub fn airampd() -> PathBuf {
    artifact("airampd")
}

/// The program that is one rank of a conformance or benchmark job.
pub fn rank_program() -> PathBuf {
    artifact("airamp-rank")
}

/// The folder with the emulated `libcuda.so.1`, `libnccl.so.2` and the rest, as
/// a user gets it: from `airamp emulator dir`.
pub fn emulator_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        artifact("libairamp_emulated_cuda.so");
        let outcome = Run::new(airamp()).arg("emulator").arg("dir").run();
        outcome.assert_success();
        PathBuf::from(outcome.stdout_text().trim_end())
    })
}

/// The emulated NCCL by its absolute path.
pub fn emulated_nccl() -> PathBuf {
    emulator_dir().join("libnccl.so.2")
}

fn artifact(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "{} has not been built: run ./x test", path.display());
    path
}
