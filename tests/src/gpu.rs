//! Programs of tests/gpu where there is no GPU: on the emulator, from a pack, with stand-ins for what the machine lacks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::packages::repository;
use crate::{End, Outcome, Run, artifacts, emulator_dir};

/// Generous, for two busy cores.
pub const LIMIT: Duration = Duration::from_secs(120);

pub const NO_GPU: End = End::Code(77);

pub fn folder() -> PathBuf {
    repository().join("tests/gpu")
}

pub fn program(name: &str) -> Run {
    let path = folder().join(name);
    let run = match path.extension() {
        Some(_) => Run::new("/usr/bin/env").arg("python3").arg(path),
        None => Run::new(path),
    };
    run.env("PYTHONDONTWRITEBYTECODE", "1").time_limit(LIMIT)
}

/// On the emulator, with one device, so that ranks share it; `bin` has the binaries.
pub fn emulated(name: &str, bin: &Path) -> Run {
    program(name)
        .library_dir(emulator_dir())
        .env("AIRAMP_RANK_NCCL", emulator_dir().join("libnccl.so.2"))
        .env("AIRAMP_EMU_DEVICES", "1")
        .env("AIRAMP_BIN", bin)
}

/// Stand-ins for MPS and tc before all else, and where the one counts and the other keeps its rate.
pub fn with_stand_ins(run: Run, work: &Path) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", format!("{}:{path}", folder().join("stand-ins").display()))
        .env("STAND_IN", work.join("mps"))
        .env("LOOPBACK", work.join("loopback"))
}

/// A pack, unpacked; once for this program.
pub fn packed() -> &'static Path {
    static PACKED: OnceLock<TempDir> = OnceLock::new();
    let folder = PACKED.get_or_init(|| {
        let work = tempfile::tempdir().expect("a temporary folder");
        let file = work.path().join("pack.tar.gz");
        program("pack").arg(&file).env("AIRAMP_BIN", artifacts::folder()).run().assert_success();
        let tar = Run::new("/usr/bin/env").args(["tar", "-xzf"]).arg(&file).arg("-C").arg(work.path());
        tar.run().assert_success();
        work
    });
    folder.path()
}

/// A folder of binaries whose `airamp` is a script.
pub fn with_airamp(script: &str) -> TempDir {
    let bin = tempfile::tempdir().expect("a temporary folder");
    for name in ["airamp-rank", "libairamp_accel.so"] {
        symlink(artifacts::artifact(name), bin.path().join(name)).expect("a link");
    }
    let text = script.replace("REAL", &artifacts::airamp().display().to_string());
    let path = bin.path().join("airamp");
    fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script that runs");
    bin
}

pub fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", path.display()))
}

/// The verdict of each check of a part.
pub fn verdicts(part: &Value) -> Vec<&str> {
    let checks = part["checks"].as_array().expect("checks");
    checks.iter().map(|check| check["verdict"].as_str().expect("a verdict")).collect()
}

/// A part that wants PyTorch, with ranks, a torch and a sanitizer that are made up.
pub fn made_up(words: &[&str], out: &Path, silent: bool) -> Outcome {
    let run = with_stand_ins(program("stand-ins/conduct.py"), out).args(words).arg("--output").arg(out);
    if silent { run.env("SILENT", "yes").run() } else { run.run() }
}
