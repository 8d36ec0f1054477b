//! Which software and hardware it is: the versions that a report is worth nothing without.

use std::ffi::CStr;
use std::fs;

use airamp_observer::view::Node;
use serde_json::{Value, json};

pub(super) fn of(node: &Node, doctor: &Value) -> Value {
    let mut libraries: Vec<&String> = node.jobs.iter().flat_map(|job| &job.versions).collect();
    libraries.sort();
    libraries.dedup();
    let mut vendors: Vec<&String> =
        node.jobs.iter().map(|job| &job.vendor).filter(|name| !name.is_empty()).collect();
    vendors.sort();
    vendors.dedup();
    json!({
        "airamp": env!("CARGO_PKG_VERSION"),
        "libraries_in_jobs": libraries,
        "nccl_in_jobs": vendors,
        "nccl_of_this_machine": found(doctor, "nccl"),
        "driver": found(doctor, "driver"),
        "gpus": found(doctor, "gpu"),
        "kernel": line_of("/proc/sys/kernel/osrelease"),
        "operating_system": operating_system(),
        "libc": libc_version(),
        "processor": std::env::consts::ARCH,
    })
}

/// What the doctor's checks of this name say.
fn found(doctor: &Value, name: &str) -> Vec<Value> {
    let checks = doctor["checks"].as_array();
    checks
        .into_iter()
        .flatten()
        .filter(|check| check["name"] == name)
        .map(|check| check["found"].clone())
        .collect()
}

fn line_of(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn operating_system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn libc_version() -> Option<String> {
    // SAFETY: gnu_get_libc_version has no preconditions and returns a C string that is never freed.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_str().ok().map(|version| format!("glibc {version}"))
}
