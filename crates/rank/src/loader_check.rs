//! `airamp-rank kernels`: loads the kernels for one device, tries them there and says how
//! it went, with the device memory that was free before, meanwhile and afterwards. It
//! runs apart from `airamp`, which links no GPU code.

use std::path::PathBuf;

use airamp_kernels::Loader;
use airamp_vendor::gpu::{Gpu, Kind};
use clap::Args;
use serde::Serialize;

use crate::error::RankError;
use crate::lane;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The device to load them for.
    #[arg(long, default_value_t = 0)]
    device: i32,
    /// A folder of blobs with its manifest, instead of AIRAMP_KERNEL_DIR or the embedded ones.
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    architecture: String,
    /// The blob that was loaded, and its SHA-256.
    blob: Option<String>,
    sha256: Option<String>,
    error: Option<String>,
    free_before: usize,
    free_loaded: Option<usize>,
    free_after: usize,
}

/// Prints the report; kernels that cannot be had are an `error` in it and a failure.
pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let gpu = Gpu::open(kind)?;
    gpu.set_device(arguments.device)?;
    let mut report = Report {
        architecture: gpu.architecture(arguments.device)?,
        blob: None,
        sha256: None,
        error: None,
        free_before: gpu.memory_info()?.free,
        free_loaded: None,
        free_after: 0,
    };
    match Loader::new(arguments.folder.clone().or_else(lane::kernel_folder)).load(&gpu) {
        Ok(kernels) => {
            report.free_loaded = Some(gpu.memory_info()?.free);
            report.blob = Some(kernels.source().to_owned());
            report.sha256 = Some(hexadecimal(kernels.sha256()));
        }
        Err(error) => report.error = Some(error.to_string()),
    }
    report.free_after = gpu.memory_info()?.free;
    let text = serde_json::to_string(&report).map_err(|error| RankError::Arguments(error.to_string()))?;
    println!("{text}");
    Ok(report.error.is_none())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
