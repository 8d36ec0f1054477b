//! AMD's devices, from amdgpu's files in sysfs. Written from the kernel's documentation and tried on made-up trees:
//! it never ran on the hardware. What a generation names differently is `None`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::desk::Desk;
use crate::file;
use crate::reading::{Device, Maker};

const MOST_DEVICES: usize = 64;
const MOST_NAMES: usize = 1024;
const MOST_BLOCKS: usize = 64;
const VENDOR: &str = "0x1002";

/// Answers the desk until it closes.
pub(crate) fn serve(desk: &Desk<Vec<Device>>, sys: &Path) {
    while desk.next() {
        desk.publish(read(sys));
    }
}

fn read(sys: &Path) -> Vec<Device> {
    let folder = sys.join("class/drm");
    let mut cards: Vec<(u32, PathBuf)> = file::names(&folder, MOST_NAMES)
        .into_iter()
        // "card0" is a device; "card0-HDMI-A-1" is one of its plugs.
        .filter_map(|name| {
            Some((name.strip_prefix("card")?.parse().ok()?, folder.join(&name).join("device")))
        })
        .filter(|(_, device)| file::word(&device.join("vendor")).as_deref() == Some(VENDOR))
        .collect();
    cards.sort_unstable();
    let numbered = (0..).zip(cards.into_iter().take(MOST_DEVICES));
    numbered.map(|(index, (_, device))| one(index, &device)).collect()
}

fn one(index: u32, device: &Path) -> Device {
    let count = |name: &str| file::number(&device.join(name));
    let share =
        |name: &str| count(name).filter(|percent| *percent <= 100).map(|percent| percent as f64 / 100.0);
    let sensors = sensors(device);
    let sensor = |name: &str| file::number(&sensors.as_ref()?.join(name));
    let watts = |name: &str| sensor(name).map(|microwatts| microwatts as f64 / 1e6);
    let errors = memory_errors(device);
    Device {
        uuid: file::word(&device.join("unique_id")).unwrap_or_default(),
        name: file::text(&device.join("product_name")).map(|name| name.trim().to_owned()).unwrap_or_default(),
        pci: address(device),
        memory_used_bytes: count("mem_info_vram_used"),
        memory_total_bytes: count("mem_info_vram_total"),
        sm_clock_hz: sensor("freq1_input"),
        memory_clock_hz: sensor("freq2_input"),
        power_w: watts("power1_average").or_else(|| watts("power1_input")),
        power_limit_w: watts("power1_cap"),
        temperature_c: sensors.as_deref().and_then(temperature),
        ecc_corrected: errors.map(|(corrected, _)| corrected),
        ecc_uncorrected: errors.map(|(_, uncorrected)| uncorrected),
        utilisation: share("gpu_busy_percent"),
        memory_utilisation: share("mem_busy_percent"),
        pcie_replays: count("pcie_replay_count"),
        // `pcie_bw` is not read: it takes a second to measure.
        ..Device::unknown(Maker::Amd, index)
    }
}

fn sensors(device: &Path) -> Option<PathBuf> {
    let folder = device.join("hwmon");
    file::names(&folder, MOST_NAMES).first().map(|name| folder.join(name))
}

/// The hottest spot where there is one (accelerators have no other), else the first sensor; in thousandths of a degree.
fn temperature(sensors: &Path) -> Option<f64> {
    let labelled = |number: u32| file::word(&sensors.join(format!("temp{number}_label")));
    let hottest = (1..=3).find(|number| labelled(*number).as_deref() == Some("junction")).unwrap_or(1);
    let thousandths = file::number(&sensors.join(format!("temp{hottest}_input")))?;
    Some(thousandths as f64 / 1e3)
}

/// Corrected and uncorrected errors of all blocks: each file says "ue: 0" and "ce: 2".
fn memory_errors(device: &Path) -> Option<(u64, u64)> {
    let folder = device.join("ras");
    let blocks = file::names(&folder, MOST_BLOCKS);
    let texts = blocks
        .iter()
        .filter(|name| name.ends_with("_err_count"))
        .filter_map(|name| file::text(&folder.join(name)));
    texts
        .filter_map(|text| Some((error_count(&text, "ce:")?, error_count(&text, "ue:")?)))
        .reduce(|sum, block| (sum.0.saturating_add(block.0), sum.1.saturating_add(block.1)))
}

fn error_count(text: &str, kind: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix(kind)?.trim().parse().ok())
}

/// The device's folder is called by its address on the bus.
fn address(device: &Path) -> Option<String> {
    let name = fs::canonicalize(device).ok()?.file_name()?.to_str()?.to_ascii_lowercase();
    name.contains(':').then_some(name)
}
