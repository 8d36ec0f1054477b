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
    let found = match &opened {
        Ok(gpu) => Some(gpu.kind()),
        Err(error) => whose_driver(error),
    };
    let nccl = nccl_report(asked.or(found).unwrap_or(Kind::Cuda));
    let report = Report { gpu: gpu_report(opened), nccl };
    let text = serde_json::to_string(&report).map_err(|error| RankError::Arguments(error.to_string()))?;
    println!("{text}");
    Ok(true)
}

/// Whose driver refused; nobody's where none was found.
fn whose_driver(error: &GpuError) -> Option<Kind> {
    match error {
        GpuError::Call { function, .. } | GpuError::MissingFunction { function, .. } => {
            Some(if function.starts_with("hip") { Kind::Hip } else { Kind::Cuda })
        }
        _ => None,
    }
}

fn gpu_report(opened: Result<Gpu, GpuError>) -> GpuReport {
    let gpu = match opened {
        Ok(gpu) => gpu,
        Err(error) => {
            let kind = whose_driver(&error).map_or("none".to_owned(), |kind| kind.to_string());
            return GpuReport { kind, error: Some(error.to_string()), ..Default::default() };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(function: &'static str) -> GpuReport {
        gpu_report(Err(GpuError::Call { function, code: 100, text: "no device".into() }))
    }

    #[test]
    fn a_driver_that_refuses_is_still_a_driver() {
        assert_eq!(refused("cuInit").kind, "cuda");
        assert_eq!(refused("hipInit").kind, "hip");
        assert_eq!(gpu_report(Err(GpuError::NoLibrary("none".into()))).kind, "none");
    }

    #[test]
    fn no_device_is_said_with_the_number_by_which_doctor_knows_it() {
        assert!(refused("cuInit").error.is_some_and(|error| error.contains("error 100 ")));
    }
}
