//! `airamp-rank probe`: what a process on this machine finds, as one JSON object. It
//! runs apart from `airamp` so that a driver that crashes takes only this process along.

use airamp_vendor::gpu::{Gpu, GpuError, Kind};
use serde::Serialize;

use crate::error::RankError;
use crate::nccl::Nccl;

#[derive(Serialize)]
struct Report {
    gpu: GpuReport,
    nccl: NcclReport,
}

#[derive(Default, Serialize)]
struct GpuReport {
    kind: String,
    library: Option<String>,
    driver_version: Option<i32>,
    devices: Vec<DeviceReport>,
    error: Option<String>,
}

#[derive(Serialize)]
struct DeviceReport {
    name: String,
    arch: String,
}

#[derive(Default, Serialize)]
struct NcclReport {
    path: Option<String>,
    version: Option<i32>,
    error: Option<String>,
}

/// Prints the report; what is missing is an `error` in it, not a failure to report.
pub(crate) fn run(asked: Option<Kind>) -> Result<bool, RankError> {
    let opened = asked.map_or_else(Gpu::open_any, Gpu::open);
    let kind = asked.or_else(|| opened.as_ref().ok().map(Gpu::kind)).unwrap_or(Kind::Cuda);
    let report = Report { gpu: gpu_report(opened), nccl: nccl_report(kind) };
    let text = serde_json::to_string(&report).map_err(|error| RankError::Arguments(error.to_string()))?;
    println!("{text}");
    Ok(true)
}

fn gpu_report(opened: Result<Gpu, GpuError>) -> GpuReport {
    let gpu = match opened {
        Ok(gpu) => gpu,
        Err(error) => {
            return GpuReport { kind: "none".into(), error: Some(error.to_string()), ..Default::default() };
        }
    };
    let mut report = GpuReport {
        kind: gpu.kind().to_string(),
        library: Some(gpu.library().to_owned()),
        driver_version: gpu.driver_version().ok(),
        ..Default::default()
    };
    match devices(&gpu) {
        Ok(devices) => report.devices = devices,
        Err(error) => report.error = Some(error.to_string()),
    }
    report
}

fn devices(gpu: &Gpu) -> Result<Vec<DeviceReport>, GpuError> {
    (0..gpu.device_count()?)
        .map(|ordinal| Ok(DeviceReport { name: gpu.device_name(ordinal)?, arch: gpu.architecture(ordinal)? }))
        .collect()
}

fn nccl_report(kind: Kind) -> NcclReport {
    let nccl = match Nccl::open(kind) {
        Ok(nccl) => nccl,
        Err(error) => return NcclReport { error: Some(error.to_string()), ..Default::default() },
    };
    let version = nccl.version();
    let error = version.as_ref().err().map(ToString::to_string);
    NcclReport { path: Some(nccl.path.clone()), version: version.ok(), error }
}
