//! Where the build left what is tested: side by side in `release`, whichever
//! profile the test executable itself was built with. It builds nothing; a
//! missing artifact ends the test with the command that makes it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::Run;

/// For example `target/release`.
pub fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of the test executable");
    let beside = executable.parent().expect("an executable lies in a folder");
    // Test executables lie in <profile>/deps, programs in <profile>.
    let profile = if beside.ends_with("deps") { beside.parent() } else { Some(beside) };
    let target = profile.and_then(Path::parent).expect("the folder of a profile lies in the target folder");
    target.join("release")
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

/// A program or library by its name.
pub fn artifact(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "{} has not been built: run ./x build", path.display());
    path
}
