//! Shows the code objects of a manifest: what each is for, its size, what its kernels take, its hash.

use std::path::Path;

use airamp_kernels::Kind;
use airamp_kernels::manifest::BlobEntry;
use serde::Serialize;

use super::build::hex;
use super::code_object;
use super::verify::Set;
use crate::cli::CommandError;
use crate::streams;

#[derive(Serialize)]
struct Listed {
    architecture: String,
    file: String,
    bytes: Option<usize>,
    sha256: String,
    kernels: Vec<ListedKernel>,
}

#[derive(Serialize)]
struct ListedKernel {
    symbol: String,
    registers: Option<u32>,
    stack_bytes: Option<u32>,
}

#[derive(Serialize)]
struct Listing {
    code_objects: Vec<Listed>,
}

pub(super) fn execute(dir: Option<&Path>, json: bool) -> Result<(), CommandError> {
    let set = Set::open(dir)?;
    let entries = set.manifest.blobs.iter().zip(&set.blobs);
    let code_objects: Vec<Listed> =
        entries.map(|(entry, bytes)| listed(entry, bytes.as_deref().ok())).collect();
    let text = if json {
        format!("{}\n", serde_json::json!(Listing { code_objects }))
    } else {
        table(&code_objects)
    };
    Ok(streams::print(&text)?)
}

fn listed(entry: &BlobEntry, bytes: Option<&[u8]>) -> Listed {
    let kinds = [Kind::Cubin, Kind::Ptx, Kind::Hsaco];
    let kind = kinds.into_iter().find(|kind| entry.file.ends_with(&format!(".{}", kind.extension())));
    // What cannot be read has no kernels to show; `verify` says what is wrong with it.
    let kernels = kind.zip(bytes).and_then(|(kind, bytes)| code_object::kernels(bytes, kind).ok());
    let kernel = |kernel: code_object::Kernel| ListedKernel {
        symbol: kernel.symbol,
        registers: kernel.registers,
        stack_bytes: kernel.stack_bytes,
    };
    Listed {
        architecture: entry.architecture.clone(),
        file: entry.file.clone(),
        bytes: bytes.map(<[u8]>::len),
        sha256: hex(&entry.sha256),
        kernels: kernels.unwrap_or_default().into_iter().map(kernel).collect(),
    }
}

fn table(code_objects: &[Listed]) -> String {
    let head = ["architecture", "bytes", "kernels", "registers", "stack", "sha256"].map(str::to_owned);
    [row(&head)].into_iter().chain(code_objects.iter().map(|object| row(&cells(object)))).collect()
}

fn cells(object: &Listed) -> [String; 6] {
    let most = |of: fn(&ListedKernel) -> Option<u32>| {
        let most = object.kernels.iter().filter_map(of).max();
        most.map_or_else(|| "-".to_owned(), |most| most.to_string())
    };
    [
        object.architecture.clone(),
        object.bytes.map_or_else(|| "missing".to_owned(), |bytes| bytes.to_string()),
        object.kernels.len().to_string(),
        most(|kernel| kernel.registers),
        most(|kernel| kernel.stack_bytes),
        object.sha256.clone(),
    ]
}

fn row([architecture, bytes, kernels, registers, stack, sha256]: &[String; 6]) -> String {
    format!("{architecture:<12} {bytes:>9} {kernels:>8} {registers:>10} {stack:>6}  {sha256}\n")
}
