//! Compiles the C programs and libraries of `tests/hazards` with the system's
//! compiler, once per test process, into a folder beside the artifacts.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::{artifacts, package_dir};

/// What a C source becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Program,
    SharedLibrary,
}

/// A source file of `tests/hazards` and how it is to be built.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CProgram {
    source: &'static str,
    kind: Kind,
    /// Emulated libraries that it names as needed; a run may supply others.
    needs: &'static [&'static str],
    flags: Vec<String>,
}

impl CProgram {
    /// A program that has NCCL and the CUDA runtime among its needed libraries.
    pub fn linked(source: &'static str) -> Self {
        Self {
            source,
            kind: Kind::Program,
            needs: &["-l:libnccl.so.2", "-l:libcudart.so.12"],
            flags: Vec::new(),
        }
    }

    /// A program that loads what it wants at run time, or nothing.
    pub fn unlinked(source: &'static str) -> Self {
        Self { needs: &[], ..Self::linked(source) }
    }

    /// A program that needs NCCL and nothing of the GPU's runtime.
    pub fn linked_with_nccl_alone(source: &'static str) -> Self {
        Self { needs: &["-l:libnccl.so.2"], ..Self::linked(source) }
    }

    pub fn shared_library(mut self) -> Self {
        self.kind = Kind::SharedLibrary;
        self
    }

    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// The path of the finished file, or what the compiler said.
    pub fn try_build(&self) -> Result<PathBuf, String> {
        type Built = Mutex<HashMap<CProgram, Result<PathBuf, String>>>;
        static BUILT: OnceLock<Built> = OnceLock::new();
        let mut built =
            BUILT.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = built.len();
        built.entry(self.clone()).or_insert_with(|| self.compile(number)).clone()
    }

    #[track_caller]
    pub fn build(&self) -> PathBuf {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    fn compile(&self, number: usize) -> Result<PathBuf, String> {
        let out = self.output_path(number);
        let mut command = Command::new("cc");
        command
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"])
            .arg("-pthread")
            .arg("-I")
            .arg(package_dir().join("include"));
        if self.kind == Kind::SharedLibrary {
            command.args(["-shared", "-fPIC"]);
        }
        command.args(&self.flags).arg(package_dir().join("hazards").join(self.source)).arg("-o").arg(&out);
        if !self.needs.is_empty() {
            // Some distributions drop a needed library that nothing refers to.
            command.arg("-Wl,--no-as-needed").arg("-L").arg(artifacts::emulator_dir()).args(self.needs);
        }
        command.arg("-ldl");
        run_compiler(&mut command, self.source)?;
        Ok(out)
    }

    /// Test processes run side by side: the process number keeps them apart.
    fn output_path(&self, number: usize) -> PathBuf {
        let suite = std::env::current_exe().expect("the path of the test executable");
        let suite = suite.file_stem().expect("it has a name").to_owned();
        let dir = artifacts::folder().join("hazard-programs").join(suite);
        fs::create_dir_all(&dir).expect("a folder beside the artifacts");
        let stem = self.source.trim_end_matches(".c");
        let name = match self.kind {
            Kind::Program => format!("{stem}-{number}"),
            Kind::SharedLibrary => format!("lib{stem}-{number}.so"),
        };
        let path = dir.join(name);
        // A program of an earlier run may still be mapped: never write into it.
        let _ = fs::remove_file(&path);
        path
    }
}

/// A folder in which a library goes by the names of NCCL and of the driver.
pub fn vendor_dir(library: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    name_as_vendor(library, dir.path());
    dir
}

/// The same in a folder that there is.
pub fn name_as_vendor(library: &Path, dir: &Path) {
    for name in ["libnccl.so.2", "libcuda.so.1"] {
        symlink(library, dir.join(name)).expect("a link to the vendor");
    }
}

fn run_compiler(command: &mut Command, source: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot run cc for {source}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("cc failed for {source}:\n{}", String::from_utf8_lossy(&output.stderr)))
}
