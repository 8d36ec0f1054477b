//! Code objects made by hand, with symbols and no code: all that the emulator looks at. A
//! folder of them with its manifest is what `AIRAMP_KERNEL_DIR` names.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use airamp_kernels::manifest::Manifest;
use sha2::{Digest, Sha256};

use crate::package_dir;

const EM_CUDA: u16 = 190;
const EM_AMDGPU: u16 = 224;

/// Every architecture with a blob of its own, and the flags of its ELF file.
const MACHINES: [(&str, u16, u32); 6] = [
    ("sm_80", EM_CUDA, 80),
    ("sm_90", EM_CUDA, 90),
    ("sm_100", EM_CUDA, 100),
    ("gfx90a", EM_AMDGPU, 0x3f),
    ("gfx942", EM_AMDGPU, 0x4c),
    ("gfx950", EM_AMDGPU, 0x4f),
];

/// The symbols of the product's kernels.
pub fn kernel_symbols() -> Vec<String> {
    let operations = ["quantise", "dequantise", "dequantise_sum", "reduce"];
    let symbols = operations.iter().flat_map(|operation| {
        ["f16", "bf16", "f32"].iter().flat_map(move |element| {
            ["e4m3", "e5m2", "int8", "auto"]
                .iter()
                .map(move |format| format!("airamp_{operation}_{element}_{format}"))
        })
    });
    symbols.collect()
}

/// A folder of blobs with a manifest that lists them, both to be spoiled at will.
pub struct BlobFolder {
    dir: tempfile::TempDir,
    listed: Vec<(String, String, String)>,
}

impl BlobFolder {
    /// A blob with all kernels for every architecture.
    pub fn whole() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut folder = Self { dir, listed: Vec::new() };
        let symbols = kernel_symbols();
        for (architecture, machine, flags) in MACHINES {
            let extension = if machine == EM_CUDA { "cubin" } else { "hsaco" };
            let file = format!("{architecture}.{extension}");
            folder.put(architecture, &file, &elf(machine, flags, &symbols));
        }
        folder.put("compute_80", "compute_80.ptx", &ptx(&symbols));
        folder
    }

    /// A copy of the blobs that are in the repository.
    pub fn real() -> Self {
        let from = package_dir().join("../crates/kernels/blobs");
        let text = fs::read_to_string(from.join("manifest.toml")).expect("the repository's manifest");
        let manifest = Manifest::parse(&text).expect("the repository's manifest");
        let mut folder = Self { dir: tempfile::tempdir().expect("a temporary folder"), listed: Vec::new() };
        for blob in manifest.blobs {
            let bytes = fs::read(from.join(&blob.file)).expect("a blob of the repository");
            folder.put(&blob.architecture, &blob.file, &bytes);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a blob and lists it with its right hash.
    pub fn put(&mut self, architecture: &str, file: &str, bytes: &[u8]) {
        fs::write(self.file(file), bytes).expect("a file in a temporary folder");
        self.listed.retain(|(_, listed, _)| listed != file);
        self.listed.push((architecture.to_owned(), file.to_owned(), sha256(bytes)));
        self.write_manifest();
    }

    /// Writes a blob without the kernel `missing`.
    pub fn put_without(&mut self, architecture: &str, file: &str, missing: &str) {
        let symbols: Vec<String> = kernel_symbols().into_iter().filter(|symbol| symbol != missing).collect();
        let (_, machine, flags) =
            MACHINES.into_iter().find(|(name, ..)| *name == architecture).expect("a known architecture");
        self.put(architecture, file, &elf(machine, flags, &symbols));
    }

    /// Changes a file behind the manifest's back.
    pub fn spoil(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.file(file)).expect("a blob");
        change(&mut bytes);
        fs::write(self.file(file), bytes).expect("a file in a temporary folder");
    }

    /// Takes a blob out of the manifest and leaves its file.
    pub fn unlist(&mut self, file: &str) {
        self.listed.retain(|(_, listed, _)| listed != file);
        self.write_manifest();
    }

    fn write_manifest(&self) {
        let mut text = String::new();
        for (architecture, file, sha256) in &self.listed {
            write!(
                text,
                "[[blob]]\nfile = \"{file}\"\narchitecture = \"{architecture}\"\nsha256 = \"{sha256}\"\n\n"
            )
            .expect("a string takes any text");
        }
        fs::write(self.file("manifest.toml"), text).expect("a file in a temporary folder");
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ptx(symbols: &[String]) -> Vec<u8> {
    let mut text = ".version 7.0\n.target sm_80\n.address_size 64\n".to_owned();
    for symbol in symbols {
        writeln!(text, ".visible .entry {symbol}()\n{{ ret; }}").expect("a string takes any text");
    }
    text.push('\0');
    text.into_bytes()
}

/// A minimal ELF file with one text section and the given kernels.
fn elf(machine: u16, flags: u32, kernels: &[String]) -> Vec<u8> {
    let (mut names, mut table) = (vec![0u8], vec![0u8; 24]);
    for kernel in kernels {
        // CUDA's kernels are functions; AMD's are known by the object that describes each.
        let (name, kind) = if machine == EM_CUDA { (kernel.clone(), 2) } else { (format!("{kernel}.kd"), 1) };
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([0x10 | kind, 0, 1, 0]);
        table.extend([0; 16]);
        names.extend(name.bytes().chain([0]));
    }
    let (text_at, table_at) = (64u64, 80u64);
    let names_at = table_at + table.len() as u64;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, machine].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 0, sections_at].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(flags.to_le_bytes());
    file.extend([64u16, 56, 0, 64, 4, 3].iter().flat_map(|n| n.to_le_bytes()));
    file.resize(table_at as usize, 0);
    file.extend(&table);
    file.extend(&names);
    file.resize(sections_at as usize, 0);
    let mut section = |kind: u32, flags: u64, at: u64, len: usize, link: u32, entry: u64| {
        file.extend([0u32, kind].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([flags, 0, at, len as u64].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([link, u32::from(entry > 0)].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([8u64, entry].iter().flat_map(|n| n.to_le_bytes()));
    };
    section(0, 0, 0, 0, 0, 0);
    section(1, 6, text_at, 16, 0, 0);
    section(2, 0, table_at, table.len(), 3, 24);
    section(3, 0, names_at, names.len(), 0, 0);
    file
}
