//! Compilers from PyPI, each version once per user in a cache folder. pip does the fetching, of files with the
//! hashes that are known here alone; nothing is installed outside that folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::KernelsError;
use super::targets::Compiler;
use crate::streams::complain;

/// The folder that holds a compiler's package, fetched if need be.
pub(super) fn folder(compiler: &Compiler) -> Result<PathBuf, KernelsError> {
    let named = format!("{}-{}", compiler.package, compiler.version);
    let cache = cache_folder();
    let folder = cache.join(&named);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&cache).map_err(KernelsError::io(&cache))?;
    complain(&format!("airamp: fetching {} {} from PyPI", compiler.package, compiler.version));
    // Under another name until it is whole, so that an interrupted download is not taken for a compiler.
    let partial = cache.join(format!("{named}.{}", std::process::id()));
    let result = fetch(compiler, &partial).and_then(|()| move_into_place(&partial, &folder));
    if result.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    result.map(|()| folder)
}

/// pip takes hashes from a file alone, and then no package whose hash is another one.
fn fetch(compiler: &Compiler, into: &Path) -> Result<(), KernelsError> {
    let package = format!("{}=={}", compiler.package, compiler.version);
    let failed = |reason: String| KernelsError::Package { package: package.clone(), reason };
    let hashes = compiler.sha256.map(|hash| format!(" --hash=sha256:{hash}")).concat();
    let required = tempfile::NamedTempFile::new().map_err(KernelsError::io(std::env::temp_dir()))?;
    fs::write(&required, format!("{package}{hashes}\n")).map_err(KernelsError::io(required.path()))?;
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary=:all:", "--no-compile", "--require-hashes", "--target"])
        .args([into.as_os_str(), OsStr::new("--requirement"), required.path().as_os_str()])
        .output()
        .map_err(|error| failed(format!("python3 does not start: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr);
    Err(failed(reason(&log).to_owned()))
}

/// What pip says behind its warnings, and before the particulars.
fn reason(log: &str) -> &str {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.starts_with("ERROR"));
    error.or_else(|| lines().next_back()).unwrap_or("pip failed and did not say why")
}

/// Whoever comes second finds the folder there, with the same in it.
fn move_into_place(partial: &Path, folder: &Path) -> Result<(), KernelsError> {
    match fs::rename(partial, folder) {
        Err(_) if folder.is_dir() => {
            let _ = fs::remove_dir_all(partial);
            Ok(())
        }
        result => result.map_err(KernelsError::io(folder)),
    }
}

fn cache_folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("airamp").join("compilers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_hash_is_called_so() {
        let log = "WARNING: Retrying\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n    ziglang from PyPI:\n        Got 97\n\n";
        assert_eq!(reason(log), "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES");
        assert_eq!(reason("python3: No module named pip\n"), "python3: No module named pip");
        assert_eq!(reason(""), "pip failed and did not say why");
    }
}
