//! Compiles the embedded source for each target and writes code objects and manifest into a folder. The
//! same source, compilers and options give the same bytes, wherever and whenever.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use airamp_kernels::loader::file;
use airamp_kernels::manifest::Manifest;
use airamp_kernels::{Kind, sources};
use sha2::{Digest, Sha256};

use super::code_object::{self, Kernel};
use super::hip::Clang;
use super::nvrtc::Nvrtc;
use super::targets::{CLANG, Compiler, NVRTC, TARGETS, Target, chosen};
use super::{KernelsError, packages};
use crate::streams::complain;

pub(super) const MANIFEST: &str = "manifest.toml";

pub(super) fn execute(out: &Path, only: &[String]) -> Result<(), KernelsError> {
    let targets = chosen(only)?;
    fs::create_dir_all(out).map_err(KernelsError::io(out))?;
    let built = build_all(&targets)?;
    for (target, bytes) in targets.iter().zip(&built) {
        let path = out.join(target.file());
        fs::write(&path, bytes).map_err(KernelsError::io(path))?;
    }
    let path = out.join(MANIFEST);
    let entries = entries(&targets, &built, &kept(&path, out))?;
    fs::write(&path, manifest(&entries)).map_err(KernelsError::io(&path))?;
    let (count, all) = (targets.len(), TARGETS.len());
    complain(&format!("airamp: {count} of {all} code objects built into {}", out.display()));
    Ok(())
}

fn build_all(targets: &[&Target]) -> Result<Vec<Vec<u8>>, KernelsError> {
    let (mut nvrtc, mut clang) = (None, None);
    let mut built = Vec::new();
    for target in targets {
        let bytes = match target.kind {
            Kind::Cubin | Kind::Ptx => {
                let compiler = match nvrtc.take() {
                    Some(compiler) => compiler,
                    None => Nvrtc::open(&packages::folder(&NVRTC)?)?,
                };
                nvrtc.insert(compiler).build(target)?
            }
            Kind::Hsaco => {
                let compiler = match clang.take() {
                    Some(compiler) => compiler,
                    None => Clang::new(&packages::folder(&CLANG)?)?,
                };
                clang.insert(compiler).build(target)?
            }
        };
        complain(&format!("airamp: {} {} bytes", target.file(), bytes.len()));
        built.push(bytes);
    }
    Ok(built)
}

/// What a manifest in that folder says of code objects made from this very source, which stay in it.
fn kept(path: &Path, out: &Path) -> Vec<(&'static Target, Vec<u8>)> {
    let text = file::manifest(path).unwrap_or_default();
    let old = Manifest::parse(&text).unwrap_or_default();
    if old.sources != current_sources() {
        return Vec::new();
    }
    let still_there = |target: &'static Target| {
        let entry = old.find(target.architecture, target.kind)?;
        let bytes = file::code_object(&out.join(&entry.file)).ok()?;
        (Sha256::digest(&bytes)[..] == entry.sha256 && entry.file == target.file()).then_some((target, bytes))
    };
    TARGETS.iter().filter_map(still_there).collect()
}

fn current_sources() -> Vec<airamp_kernels::manifest::SourceEntry> {
    let entry = |source: &airamp_kernels::Source| airamp_kernels::manifest::SourceEntry {
        file: source.file.into(),
        sha256: Sha256::digest(source.text).into(),
    };
    sources().iter().map(entry).collect()
}

/// The manifest's table of each code object, in the order of the targets.
fn entries(
    targets: &[&Target],
    built: &[Vec<u8>],
    kept: &[(&Target, Vec<u8>)],
) -> Result<Vec<String>, KernelsError> {
    let new = targets.iter().zip(built).map(|(target, bytes)| (*target, bytes));
    let new: Vec<(&Target, &Vec<u8>)> = new.collect();
    let old = kept.iter().map(|(target, bytes)| (*target, bytes));
    let mut entries = Vec::new();
    for target in &TARGETS {
        let same = |(other, _): &(&Target, &Vec<u8>)| other.architecture == target.architecture;
        if let Some((_, bytes)) = new.iter().copied().chain(old.clone()).find(same) {
            entries.push(blob_entry(target, bytes)?);
        }
    }
    Ok(entries)
}

fn blob_entry(target: &Target, bytes: &[u8]) -> Result<String, KernelsError> {
    let wrong = |reason| KernelsError::CodeObject { architecture: target.architecture.into(), reason };
    let kernels = code_object::kernels(bytes, target.kind).map_err(wrong)?;
    let wrong = |reason: &str| {
        Err(KernelsError::CodeObject { architecture: target.architecture.into(), reason: reason.into() })
    };
    if kernels.is_empty() {
        return wrong("it has no kernel");
    }
    if let Some(spilling) = kernels.iter().find(|kernel| kernel.stack_bytes.unwrap_or(0) != 0) {
        return wrong(&format!(
            "{} spills registers: {:?} bytes of stack",
            spilling.symbol, spilling.stack_bytes
        ));
    }
    Ok(blob_table(target, bytes, &kernels))
}

fn blob_table(target: &Target, bytes: &[u8], kernels: &[Kernel]) -> String {
    let mut table = format!(
        "[[blob]]\narchitecture = \"{}\"\nkind = \"{}\"\nfile = \"{}\"\nbytes = {}\nsha256 = \"{}\"\n",
        target.architecture,
        target.kind.extension(),
        target.file(),
        bytes.len(),
        hex(&Sha256::digest(bytes)),
    );
    table.push_str("symbols = [\n");
    for kernel in kernels {
        let _ = writeln!(table, "    \"{}\",", kernel.symbol);
    }
    table.push_str("]\n");
    if let Some(registers) = kernels.iter().filter_map(|kernel| kernel.registers).max() {
        let _ = writeln!(table, "most_registers = {registers}\nstack_bytes = 0");
    }
    table
}

fn manifest(entries: &[String]) -> String {
    let mut text = String::from("# Written by `airamp kernels build`; `airamp kernels verify` checks it.\n");
    let _ = writeln!(text, "sources_sha256 = \"{}\"\n", hex(&all_sources()));
    for (name, compiler) in [("cuda", Compiler::of(Kind::Cubin)), ("hip", Compiler::of(Kind::Hsaco))] {
        let options = compiler.options.iter().map(|option| format!("\"{option}\""));
        let _ = writeln!(
            text,
            "[compiler.{name}]\npackage = \"{}\"\nversion = \"{}\"\noptions = [{}]\n",
            compiler.package,
            compiler.version,
            options.collect::<Vec<_>>().join(", "),
        );
    }
    for entry in entries {
        text.push_str(entry);
        text.push('\n');
    }
    for source in current_sources() {
        let _ =
            writeln!(text, "[[source]]\nfile = \"{}\"\nsha256 = \"{}\"\n", source.file, hex(&source.sha256));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// One hash over the names and hashes of all sources, in their order.
fn all_sources() -> [u8; 32] {
    let mut hash = Sha256::new();
    for source in current_sources() {
        hash.update(format!("{}  {}\n", hex(&source.sha256), source.file));
    }
    hash.finalize().into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
