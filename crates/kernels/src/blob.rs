//! A prebuilt code object as it lies in the repository and is embedded in the library.
//! Plain data: `blobs()` lists them, the loader checks them and hands them to the driver.

/// What a code object is, and so what its file name ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// NVIDIA machine code.
    Cubin,
    /// NVIDIA's portable assembly text, ending in a NUL byte.
    Ptx,
    /// AMD machine code.
    Hsaco,
}

impl Kind {
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Cubin => "cubin",
            Self::Ptx => "ptx",
            Self::Hsaco => "hsaco",
        }
    }
}

/// One code object with the hash that the manifest gives for it.
#[derive(Clone, Copy, Debug)]
pub struct Blob {
    /// `sm_90`, `gfx942`, or `compute_80` for PTX.
    pub architecture: &'static str,
    pub kind: Kind,
    pub bytes: &'static [u8],
    pub sha256: [u8; 32],
}
