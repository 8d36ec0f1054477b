//! The clang in zig's package, as a compiler of HIP for AMD GPUs without ROCm. clang wants a linker of
//! the name `lld` in its path; zig has one under another name, so a script stands in between.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use airamp_kernels::{MAIN_SOURCE, sources};

use super::KernelsError;
use super::targets::{CLANG, Target};

const ZIG: &str = "ziglang/zig";
const LINKER: &str = "#!/bin/sh
[ \"$1\" = -flavor ] && shift 2
exec \"$AIRAMP_ZIG\" ld.lld \"$@\"
";

pub(super) struct Clang {
    zig: PathBuf,
    work: tempfile::TempDir,
}

impl Clang {
    pub(super) fn new(package: &Path) -> Result<Self, KernelsError> {
        let work = tempfile::tempdir().map_err(KernelsError::io(std::env::temp_dir()))?;
        write(&work.path().join("lld"), LINKER)?;
        let linker = work.path().join("lld");
        fs::set_permissions(&linker, Permissions::from_mode(0o755)).map_err(KernelsError::io(&linker))?;
        for source in sources() {
            write(&work.path().join(source.file), source.text)?;
        }
        Ok(Self { zig: package.join(ZIG), work })
    }

    pub(super) fn build(&self, target: &Target) -> Result<Vec<u8>, KernelsError> {
        let folder = self.work.path();
        let output = Command::new(&self.zig)
            .current_dir(folder)
            .env("PATH", path_with(folder))
            .env("AIRAMP_ZIG", &self.zig)
            .arg("clang")
            .args(CLANG.options)
            .arg(format!("--offload-arch={}", target.architecture))
            .args(["-o", &target.file(), MAIN_SOURCE])
            .output()
            .map_err(KernelsError::io(&self.zig))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(KernelsError::Compiler { architecture: target.architecture, log });
        }
        let built = folder.join(target.file());
        fs::read(&built).map_err(KernelsError::io(built))
    }
}

fn path_with(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}

fn write(path: &Path, text: &str) -> Result<(), KernelsError> {
    fs::write(path, text).map_err(KernelsError::io(path))
}
