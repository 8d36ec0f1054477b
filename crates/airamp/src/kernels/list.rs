//! Shows the code objects of a manifest: what each is for, its size, what its kernels take, its hash.

use std::path::Path;

use airamp_kernels::Kind;
use airamp_kernels::manifest::BlobEntry;
use serde::Serialize;

use super::KernelsError;
use super::build::hex;
use super::code_object;
use super::verify::Set;

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

pub(super) fn execute(dir: Option<&Path>, json: bool) -> Result<(), KernelsError> {
    let set = Set::open(dir)?;
    let entries = set.manifest.blobs.iter().zip(&set.blobs);
    let code_objects: Vec<Listed> = entries.map(|(entry, bytes)| listed(entry, bytes.as_deref())).collect();
    if json {
        println!("{}", serde_json::json!(Listing { code_objects }));
    } else {
        print_table(&code_objects);
    }
    Ok(())
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

fn print_table(code_objects: &[Listed]) {
    println!(
        "{:<12} {:>9} {:>8} {:>10} {:>6}  sha256",
        "architecture", "bytes", "kernels", "registers", "stack"
    );
    for object in code_objects {
        let most = |of: fn(&ListedKernel) -> Option<u32>| {
            let most = object.kernels.iter().filter_map(of).max();
            most.map_or_else(|| "-".to_owned(), |most| most.to_string())
        };
        println!(
            "{:<12} {:>9} {:>8} {:>10} {:>6}  {}",
            object.architecture,
            object.bytes.map_or_else(|| "missing".to_owned(), |bytes| bytes.to_string()),
            object.kernels.len(),
            most(|kernel| kernel.registers),
            most(|kernel| kernel.stack_bytes),
            object.sha256,
        );
    }
}
