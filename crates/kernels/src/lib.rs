//! The GPU half of the codec: one CUDA and HIP source (`kernels/`), the code objects prebuilt from it
//! (`blobs/`), their manifest, and the loader that trusts none of them before it has tried them.
//! `docs/kernels.md` says how they are built; `airamp kernels` does it.

pub mod blob;
mod embedded;
pub mod loader;
pub mod manifest;

pub use blob::{Blob, Kind};
pub use embedded::{MAIN_SOURCE, MANIFEST, Source, blobs, sources};
pub use loader::{Ghost, KernelSet, LoadError, Loader};
