//! The kernels' source as a library: compiled by the system's C++ compiler, once with copies ahead of use and
//! once without, and opened once per test process. With the compiler's check for undefined behaviour, which
//! ends the process at the first; where the check cannot be had, it says so.

use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What nothing in the kernels may do: among it shifts too far, signed overflow, misaligned access, an index beyond
/// an array, and a conversion to an integer that has no such number, which each GPU does in its own way.
const CHECKS: [&str; 2] = ["-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"];

/// The library's handle, as an address.
pub(crate) fn library(copies: bool) -> usize {
    static LIBRARIES: [OnceLock<usize>; 2] = [OnceLock::new(), OnceLock::new()];
    *LIBRARIES[usize::from(copies)].get_or_init(|| {
        let path = CString::new(compile(copies).into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: opening a library that was just built here and has no constructors of its own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "dlopen of {path:?} failed");
        handle as usize
    })
}

fn compile(copies: bool) -> PathBuf {
    let out =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{copies}-{}.so", std::process::id()));
    let checked = compiled(copies, &CHECKS, &out);
    if checked.status.success() {
        return out;
    }
    let plain = compiled(copies, &[], &out);
    assert!(plain.status.success(), "the kernels do not compile:\n{}", said(&plain));
    // The check's runtime is a package of its own on some systems.
    skip_outside_ci(&format!("undefined behaviour in the kernels is not looked for:\n{}", said(&checked)));
    out
}

fn compiled(copies: bool, checks: &[&str], out: &Path) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/cpu/lanes.cpp");
    let compiler = Command::new("c++")
        // Contraction would turn products and sums into fused ones and give other bits.
        .args(["-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared"])
        // Clang leaves a library's checks to the program: missing here, and not when it is opened.
        .args(["-Wall", "-Wextra", "-Werror", "-Wl,-z,defs"])
        .args(checks)
        .arg(format!("-DHAS_COPIES={}", u8::from(copies)))
        .args(["-o".as_ref(), out, &source])
        .output();
    compiler.unwrap_or_else(|error| panic!("no C++ compiler ({error}): apt-get install g++"))
}

fn said(compiler: &Output) -> String {
    String::from_utf8_lossy(&compiler.stderr).into_owned()
}

/// Says so past the capture of a passing test's output; in CI it is a failure.
fn skip_outside_ci(reason: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!in_ci, "not to be skipped in CI: {reason}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
