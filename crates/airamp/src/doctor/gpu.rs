//! GPU, driver, architecture and NCCL, as `airamp-rank probe` sees them in a process of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::child::run_within;
use super::report::Check;
use crate::artifacts::{self, Artifact, MissingArtifact};

/// Drivers of machines with many GPUs take seconds to start.
const LIMIT: Duration = Duration::from_secs(60);

/// Architectures for which compression will have kernels; NVIDIA's later ones take the portable form.
const OLDEST_SM: u32 = 80;
const AMD: [&str; 3] = ["gfx90a", "gfx942", "gfx950"];

/// How the drivers of both vendors say that there is a driver and no GPU.
const NO_DEVICE: &str = "error 100 ";
const NO_GPU_ADVICE: &str = "check CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES and the device's permissions, \
                             or work without one: `airamp run --emulate`";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Probe {
    gpu: Gpu,
    nccl: Nccl,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Gpu {
    kind: String,
    library: Option<String>,
    driver_version: Value,
    devices: Vec<Device>,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Device {
    name: String,
    arch: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nccl {
    path: Option<String>,
    version: Value,
    error: Option<String>,
}

/// `nccl_path` is the library that the settings name, if they do.
pub(super) fn checks(nccl_path: Option<&Path>) -> Vec<Check> {
    match probe(nccl_path).map(|probe| with_nccl_of_this_python(probe, nccl_path)) {
        Ok(probe) => {
            let mut checks = vec![driver(&probe.gpu)];
            checks.extend(devices(&probe.gpu));
            checks.push(nccl(&probe.nccl, nccl_path));
            checks
        }
        Err(check) => vec![check],
    }
}

/// Where a program finds no NCCL by itself, `airamp run` and `airamp bench` name it that one.
fn with_nccl_of_this_python(mut found: Probe, named: Option<&Path>) -> Probe {
    if found.nccl.path.is_some() || named.is_some() {
        return found;
    }
    if let Some(Ok(second)) = artifacts::nccl_of_this_python().map(|path| probe(Some(&path))) {
        found.nccl = second.nccl;
    }
    found
}

fn probe(nccl_path: Option<&Path>) -> Result<Probe, Check> {
    let program = artifacts::find(Artifact::RankProgram)
        .map_err(|error| Check::warning("gpu", error.found(), MissingArtifact::ADVICE))?;
    let problem = |found: String| {
        Check::problem("gpu", format!("the probe {found}"), "check the driver (nvidia-smi, rocm-smi)")
    };
    let mut command = Command::new(program);
    command.args(["probe", "--json"]);
    command.envs(nccl_path.map(|path| ("AIRAMP_RANK_NCCL", path)));
    let finished = run_within(LIMIT, &mut command).map_err(|error| problem(error.to_string()))?;
    let object = finished.stdout.lines().find(|line| line.starts_with('{')).unwrap_or(&finished.stdout);
    serde_json::from_str(object).map_err(|error| {
        problem(format!("ended with {}, not with an answer ({error}): {}", finished.status, finished.stderr))
    })
}

fn driver(gpu: &Gpu) -> Check {
    let library = gpu.library.as_ref().map(|path| format!(" ({path})")).unwrap_or_default();
    let kind = match gpu.kind.as_str() {
        "cuda" => "CUDA",
        "hip" => "HIP",
        _ => {
            let why = gpu.error.as_deref().map_or("no GPU runtime found".into(), once_for_all);
            let advice = "install the vendor's driver, or work without one: `airamp run --emulate`";
            return Check::warning("driver", why, advice);
        }
    };
    match &gpu.error {
        Some(error) if error.contains(NO_DEVICE) => {
            Check::warning("driver", format!("{kind}{library} shows no GPU: {error}"), NO_GPU_ADVICE)
        }
        Some(error) => {
            let found = format!("{kind}{library} does not work: {error}");
            Check::problem("driver", found, "check the driver and the device's permissions")
        }
        None => {
            Check::ok("driver", format!("{kind} {}{library}", driver_version(&gpu.kind, &gpu.driver_version)))
        }
    }
}

fn devices(gpu: &Gpu) -> Vec<Check> {
    let is_there = matches!(gpu.kind.as_str(), "cuda" | "hip") && gpu.error.is_none();
    if is_there && gpu.devices.is_empty() {
        return vec![Check::warning("gpu", "the driver shows no GPU", NO_GPU_ADVICE)];
    }
    gpu.devices.iter().enumerate().map(|(index, device)| one_device(index, device)).collect()
}

fn one_device(index: usize, device: &Device) -> Check {
    let found = format!("{index}: {} ({})", device.name, device.arch);
    if has_kernels(&device.arch) {
        return Check::ok("gpu", found);
    }
    let advice = "calls pass through unchanged; compression will stay off on this architecture";
    Check::warning("gpu", format!("{found} is not an architecture that we know"), advice)
}

fn has_kernels(arch: &str) -> bool {
    let sm = arch.strip_prefix("sm_").map(|number| number.trim_end_matches(char::is_alphabetic));
    match sm {
        Some(number) => number.parse().is_ok_and(|number: u32| number >= OLDEST_SM),
        // AMD adds features to the name: gfx90a:sramecc+:xnack-.
        None => AMD.contains(&arch.split(':').next().unwrap_or_default()),
    }
}

fn nccl(nccl: &Nccl, named: Option<&Path>) -> Check {
    match (&nccl.path, &nccl.error) {
        (Some(path), None) => Check::ok("nccl", format!("{} ({path})", nccl_version(&nccl.version))),
        (Some(path), Some(error)) => Check::problem(
            "nccl",
            format!("{path}: {error}"),
            "check that it is a whole NCCL or RCCL library",
        ),
        (None, error) => {
            let why = error.as_deref().map_or("no NCCL or RCCL found".into(), once_for_all);
            if let Some(path) = named {
                let found = format!("{}, which AIRAMP_NCCL_PATH names, is not usable: {why}", path.display());
                let advice = "set AIRAMP_NCCL_PATH (nccl_path in the settings file) to an NCCL or RCCL \
                              library, or unset it";
                return Check::problem("nccl", found, advice);
            }
            let advice = "a program that brings its own (PyTorch does) needs nothing; otherwise install it, \
                          add its folder to LD_LIBRARY_PATH, or set AIRAMP_NCCL_PATH";
            Check::warning("nccl", why, advice)
        }
    }
}

/// A loader's refusals, as "a: why; b: why", with each reason once: "a, b: why".
fn once_for_all(refusals: &str) -> String {
    let mut told: Vec<(String, &str)> = Vec::new();
    for refusal in refusals.split("; ") {
        // What follows the name of the library.
        let name = refusal.rfind(".so").unwrap_or(refusal.len());
        let reason = refusal[name..].find(": ").map_or(refusal.len(), |colon| name + colon);
        let (subject, reason) = refusal.split_at(reason);
        match told.iter_mut().find(|(_, known)| *known == reason && !reason.is_empty()) {
            Some((subjects, _)) => subjects.extend([", ", subject]),
            None => told.push((subject.to_owned(), reason)),
        }
    }
    told.into_iter().map(|(subjects, reason)| format!("{subjects}{reason}")).collect::<Vec<_>>().join("; ")
}

/// CUDA 12.4 is 12040, HIP 6.4.43484 is 60443484. Shorter numbers of HIP have had several meanings.
fn driver_version(kind: &str, version: &Value) -> String {
    let parts = |number: u64| match kind {
        "hip" if number < 10_000_000 => format!("of version number {number}"),
        "hip" => format!("{}.{}.{}", number / 10_000_000, number / 100_000 % 100, number % 100_000),
        _ => format!("{}.{}", number / 1000, number % 1000 / 10),
    };
    shown_version(version, parts)
}

/// NCCL 2.28.9 is 22809; before 2.9 it was numbered as 2708 for 2.7.8.
fn nccl_version(version: &Value) -> String {
    shown_version(version, |number| match number {
        ..10_000 => format!("{}.{}.{}", number / 1000, number / 100 % 10, number % 100),
        _ => format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100),
    })
}

fn shown_version(version: &Value, parts: impl Fn(u64) -> String) -> String {
    match (version.as_u64(), version.as_str()) {
        (Some(number), _) => parts(number),
        (None, Some(text)) => text.to_owned(),
        (None, None) => "of unknown version".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;
    use serde_json::json;

    fn gpu(value: Value) -> Gpu {
        serde_json::from_value(value).expect("a GPU")
    }

    #[test]
    fn libraries_that_are_absent_for_one_reason_share_it() {
        let absent = "cannot open shared object file: No such file or directory";
        let text =
            format!("no GPU driver library: libcuda.so.1: {absent}; libcuda.so: {absent}; libhip.so: is old");
        let told = once_for_all(&text);
        assert_eq!(
            told,
            format!("no GPU driver library: libcuda.so.1, libcuda.so: {absent}; libhip.so: is old")
        );
        assert_eq!(once_for_all(&told), told);
        assert_eq!(once_for_all("nothing there; nothing there"), "nothing there; nothing there");
    }

    #[test]
    fn architectures_that_compression_will_know() {
        for (arch, known) in [
            ("sm_80", true),
            ("sm_90a", true),
            ("sm_120", true),
            ("sm_75", false),
            ("gfx942:sramecc+:xnack-", true),
            ("gfx1100", false),
            ("", false),
        ] {
            assert_eq!(has_kernels(arch), known, "{arch}");
        }
    }

    #[test]
    fn versions_are_shown_as_people_write_them() {
        assert_eq!(driver_version("cuda", &json!(12040)), "12.4");
        assert_eq!(driver_version("hip", &json!(60_443_484)), "6.4.43484");
        assert_eq!(driver_version("hip", &json!(12090)), "of version number 12090");
        assert_eq!(nccl_version(&json!(22809)), "2.28.9");
        assert_eq!(nccl_version(&json!(2708)), "2.7.8");
        assert_eq!(nccl_version(&json!("2.28")), "2.28");
        assert_eq!(nccl_version(&Value::Null), "of unknown version");
    }

    #[test]
    fn no_gpu_is_a_warning_and_a_broken_driver_a_problem() {
        assert_eq!(driver(&gpu(json!({"kind": "none", "error": "nothing there"}))).status, Status::Warning);
        assert_eq!(driver(&gpu(json!({"kind": "cuda", "error": "mismatch"}))).status, Status::Problem);
        assert_eq!(driver(&gpu(json!({"kind": "cuda", "driver_version": 12040}))).status, Status::Ok);
    }

    #[test]
    fn a_driver_without_a_gpu_is_not_to_be_installed_again() {
        let error = "cuInit failed: error 100 (no CUDA-capable device is detected)";
        let check = driver(&gpu(json!({"kind": "cuda", "library": "libcuda.so.1", "error": error})));
        assert_eq!(check.status, Status::Warning);
        assert_eq!(check.advice.as_deref(), Some(NO_GPU_ADVICE));
    }

    #[test]
    fn a_driver_that_shows_no_gpu_is_a_warning() {
        let checks = devices(&gpu(json!({"kind": "hip"})));
        assert_eq!(checks.iter().map(|check| check.status).collect::<Vec<_>>(), [Status::Warning]);
    }
}
