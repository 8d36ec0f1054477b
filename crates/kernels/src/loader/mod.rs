//! The kernel loader: from a device's architecture to kernels that have proved, on that
//! device, that they give the reference's bits. Every step that fails says which, and
//! leaves nothing behind.
//!
//! Launches nothing but its own test, on a stream of its own, and disturbs no capture.
//! Called before a rank pledges; on an error the caller warns and stays out of compression.

mod architecture;
mod expected;
pub mod file;
mod ghost;
pub mod image;
mod kernel_set;
mod self_test;
mod source;
mod vectors;

use std::path::PathBuf;

use airamp_vendor::gpu::{Gpu, GpuError, Module};
use sha2::{Digest, Sha256};

use crate::blob::Kind;
use image::Image;
use source::Found;

pub use ghost::Ghost;
pub use kernel_set::{
    Dequantise, DequantiseSum, KernelSet, Packets, Quantise, Reduce, STATS_BYTES, read_stats,
};

/// Why there are no kernels for a device.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("unknown architecture: there are no kernels for {0}")]
    UnknownArchitecture(String),
    #[error("missing kernel blob: {0}")]
    Missing(String),
    #[error("kernel blob {} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("kernel manifest {} cannot be used: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error("truncated kernel blob: {0} ends before what its own header announces")]
    Truncated(String),
    #[error("damaged kernel blob: {0} does not have the SHA-256 that its manifest gives")]
    Damaged(String),
    #[error("foreign kernel blob: {name} is {found}, where one for {wanted} belongs")]
    Foreign { name: String, found: String, wanted: &'static str },
    #[error("the driver refuses kernel blob {name}: {error}")]
    Refused { name: String, error: GpuError },
    #[error("kernel blob {name} has no kernel {symbol}: {error}")]
    MissingSymbol { name: String, symbol: String, error: GpuError },
    #[error("self-test mismatch: {0} does not give the reference's bits on this device")]
    SelfTest(String),
    #[error("the kernels cannot be {doing}: {error}")]
    Gpu { doing: &'static str, error: GpuError },
}

impl LoadError {
    /// What the driver said, where it was the driver that failed.
    pub fn gpu(&self) -> Option<&GpuError> {
        match self {
            Self::Refused { error, .. } | Self::MissingSymbol { error, .. } | Self::Gpu { error, .. } => {
                Some(error)
            }
            _ => None,
        }
    }

    fn while_doing(doing: &'static str) -> impl Fn(GpuError) -> Self {
        move |error| Self::Gpu { doing, error }
    }
}

/// Where kernels are taken from.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    folder: Option<PathBuf>,
}

impl Loader {
    /// From `folder` with its manifest (`AIRAMP_KERNEL_DIR`), or the embedded ones.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Loads the kernels into the context that is current and tries them there.
    pub fn load(&self, gpu: &Gpu) -> Result<KernelSet, LoadError> {
        let _relaxed = gpu.relax_captures().map_err(LoadError::while_doing("loaded beside captures"))?;
        let ordinal = gpu.current_device().map_err(LoadError::while_doing("loaded: no current device"))?;
        let device = gpu.architecture(ordinal).map_err(LoadError::while_doing("chosen"))?;
        let Some((wanted, kind)) = architecture::blob_for(&device) else {
            return Err(LoadError::UnknownArchitecture(device));
        };
        let found = self.find(wanted, kind)?;
        check(&found, wanted, kind)?;
        let set = KernelSet::new(gpu, ordinal, &module(gpu, &found)?, found)?;
        self_test::run(gpu, &set)?;
        Ok(set)
    }

    fn find(&self, architecture: &'static str, kind: Kind) -> Result<Found, LoadError> {
        match &self.folder {
            Some(folder) => source::in_folder(folder, architecture, kind),
            None => source::embedded(architecture, kind),
        }
    }
}

/// Whole, unchanged, and for the right architecture; the most telling reason first.
fn check(found: &Found, wanted: &'static str, kind: Kind) -> Result<(), LoadError> {
    let name = || found.name.clone();
    let intact = Sha256::digest(&found.bytes)[..] == found.sha256[..];
    match image::inspect(&found.bytes, kind) {
        Image::Truncated => Err(LoadError::Truncated(name())),
        Image::Whole(found) if found != wanted => Err(LoadError::Foreign { name: name(), found, wanted }),
        _ if !intact => Err(LoadError::Damaged(name())),
        Image::Unknown(found) => Err(LoadError::Foreign { name: name(), found, wanted }),
        Image::Whole(_) => Ok(()),
    }
}

fn module(gpu: &Gpu, found: &Found) -> Result<Module, LoadError> {
    // A copy, since drivers expect the alignment of an allocation.
    let image = found.bytes.to_vec();
    // SAFETY: `check` has found the image whole.
    unsafe { gpu.load_module(&image) }.map_err(|error| LoadError::Refused { name: found.name.clone(), error })
}
