//! Link options of the shared library, and a number for the code that it is made of.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    // Function pointers into us are handed out by `dlsym`, and fork handlers are
    // registered: the library must outlive any `dlclose`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=AIRAMP_BUILD={}", build());
}

/// The same for the same sources, wherever and how often they are built.
fn build() -> String {
    let crates = Path::new("..");
    let mut parts = BTreeSet::new();
    parts_of("interposer", crates, &mut parts);
    let mut files = vec![crates.join("../Cargo.lock")];
    parts.iter().for_each(|part| files_below(&crates.join(part).join("src"), &mut files));
    let mut digest = Sha256::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        digest.update(format!("{} {}\n", file.display(), text.len()));
        digest.update(text);
    }
    digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of a crate of ours, and of those that it depends on.
fn parts_of(part: &str, crates: &Path, parts: &mut BTreeSet<String>) {
    if !parts.insert(part.to_owned()) {
        return;
    }
    let manifest = crates.join(part).join("Cargo.toml");
    println!("cargo::rerun-if-changed={}", manifest.display());
    let text =
        fs::read_to_string(&manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        if let Some(name) = line.strip_prefix("airamp-") {
            let end = name.find(['.', ' ', '=']).unwrap_or(name.len());
            parts_of(&name[..end], crates, parts);
        }
    }
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    // A file that comes or goes changes the time of its folder.
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}
