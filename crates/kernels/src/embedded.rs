//! What is embedded in this library: the prebuilt code objects with their manifest, and the sources that
//! they were built from. `tests/manifest.rs` holds the three together.
//! Called by the loader and by `airamp kernels`.

use std::sync::LazyLock;

use crate::blob::{Blob, Kind};
use crate::manifest::Manifest;

/// The manifest of the embedded code objects.
pub const MANIFEST: &str = include_str!("../blobs/manifest.toml");

/// A file of the kernels' source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub file: &'static str,
    pub text: &'static str,
}

macro_rules! sources {
    ($($file:literal),* $(,)?) => {
        &[$(Source { file: $file, text: include_str!(concat!("../kernels/", $file)) }),*]
    };
}

/// The file that includes all others.
pub const MAIN_SOURCE: &str = "airamp_kernels.cu";

/// Every file of the kernels' source; what only their tests on the CPU need is not among them.
pub fn sources() -> &'static [Source] {
    sources![
        "across_lanes.h",
        "airamp_kernels.cu",
        "code_types.h",
        "codes.h",
        "dequantise.cu",
        "dequantise_sum.cu",
        "element_types.h",
        "elements.h",
        "formats.h",
        "ghost.cu",
        "portability.h",
        "quantise.cu",
        "read_tile.h",
        "reduce.cu",
        "stats.h",
        "tile.h",
        "tiles_ahead.h",
        "write_blocks.h",
        "write_tile.h",
    ]
}

macro_rules! code_objects {
    ($($architecture:literal $kind:ident $file:literal),* $(,)?) => {
        [$(($architecture, Kind::$kind, $file, include_bytes!(concat!("../blobs/", $file)) as &[u8])),*]
    };
}

/// The code objects, each with the hash that the manifest gives for it. One that the manifest does not list
/// is left out: the loader then says that it is missing.
pub fn blobs() -> &'static [Blob] {
    static BLOBS: LazyLock<Vec<Blob>> = LazyLock::new(|| {
        let manifest = Manifest::parse(MANIFEST).unwrap_or_default();
        let files = code_objects![
            "sm_80" Cubin "sm_80.cubin",
            "sm_90" Cubin "sm_90.cubin",
            "sm_100" Cubin "sm_100.cubin",
            "compute_80" Ptx "compute_80.ptx",
            "gfx90a" Hsaco "gfx90a.hsaco",
            "gfx942" Hsaco "gfx942.hsaco",
            "gfx950" Hsaco "gfx950.hsaco",
        ];
        let listed = |(architecture, kind, file, bytes): (&'static str, Kind, &str, &'static [u8])| {
            let entry = manifest.find(architecture, kind).filter(|entry| entry.file == file)?;
            Some(Blob { architecture, kind, bytes, sha256: entry.sha256 })
        };
        files.into_iter().filter_map(listed).collect()
    });
    &BLOBS
}
