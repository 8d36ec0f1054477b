//! GPUs, as their driver counts them.

use airamp_machine::Device;

use crate::metrics::family::{Family, Section, counter, gauge, info};
use crate::metrics::look::Look;
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Devices",
    about: "`AIRAMP_DEVICE_METRICS=0` leaves them out. What the driver does not answer is no series, never zero. \
            Join with the ranks by `device_uuid` of `airamp_device_info` and `airamp_rank_info`.",
    families: FAMILIES,
};

const DEVICE: &[&str] = &["device"];

const FAMILIES: &[Family] = &[
    info("airamp_device", "The device behind a number.", |look, out| {
        for device in &look.node.machine.devices {
            let pci = device.pci.as_deref().unwrap_or_default();
            out.add(
                &[&device.index.to_string(), device.maker.name(), &device.uuid, &device.name, pci],
                1_u64,
            );
        }
    })
    .labels(&["device", "maker", "device_uuid", "name", "pci"]),
    gauge("airamp_device_lost", "1 when the driver no longer reaches the device.", |look, out| {
        each(look, out, |device| device.lost);
    })
    .labels(DEVICE),
    gauge("airamp_device_memory_used_bytes", "Device memory in use.", |look, out| {
        each(look, out, |device| device.memory_used_bytes);
    })
    .labels(DEVICE)
    .unit("bytes"),
    gauge("airamp_device_memory_size_bytes", "Device memory that there is.", |look, out| {
        each(look, out, |device| device.memory_total_bytes);
    })
    .labels(DEVICE)
    .unit("bytes"),
    gauge("airamp_device_sm_clock_hertz", "Clock of the multiprocessors.", |look, out| {
        each(look, out, |device| device.sm_clock_hz);
    })
    .labels(DEVICE)
    .unit("hertz"),
    gauge("airamp_device_memory_clock_hertz", "Clock of the device memory.", |look, out| {
        each(look, out, |device| device.memory_clock_hz);
    })
    .labels(DEVICE)
    .unit("hertz"),
    gauge("airamp_device_power_watts", "Power drawn.", |look, out| each(look, out, |device| device.power_w))
        .labels(DEVICE)
        .unit("watts"),
    gauge("airamp_device_power_limit_watts", "Power that it may draw.", |look, out| {
        each(look, out, |device| device.power_limit_w);
    })
    .labels(DEVICE)
    .unit("watts"),
    gauge("airamp_device_temperature_celsius", "Temperature of the chip.", |look, out| {
        each(look, out, |device| device.temperature_c);
    })
    .labels(DEVICE)
    .unit("celsius"),
    gauge(
        "airamp_device_throttled",
        "1 for each reason why the clocks are lower than asked for.",
        |look, out| {
            for device in &look.node.machine.devices {
                for reason in device.throttle.iter().flatten() {
                    out.add(&[&device.index.to_string(), reason], 1_u64);
                }
            }
        },
    )
    .labels(&["device", "reason"]),
    gauge("airamp_device_busy_ratio", "Share of time in which a kernel ran, 0 to 1.", |look, out| {
        each(look, out, |device| device.utilisation);
    })
    .labels(DEVICE)
    .unit("ratio"),
    gauge(
        "airamp_device_memory_busy_ratio",
        "Share of time in which device memory was used, 0 to 1.",
        |look, out| {
            each(look, out, |device| device.memory_utilisation);
        },
    )
    .labels(DEVICE)
    .unit("ratio"),
    counter("airamp_device_ecc_errors", "Memory errors, corrected and uncorrected.", |look, out| {
        both(look, out, ["corrected", "uncorrected"], |device| {
            [device.ecc_corrected, device.ecc_uncorrected]
        });
    })
    .labels(&["device", "severity"]),
    counter("airamp_device_xid_errors", "Xid errors since the daemon watches.", |look, out| {
        each(look, out, |device| device.xids);
    })
    .labels(DEVICE),
    gauge("airamp_device_last_xid", "Number of the last Xid error since the daemon watches.", |look, out| {
        each(look, out, |device| device.last_xid);
    })
    .labels(DEVICE),
    counter("airamp_device_nvlink_bytes", "Payload bytes over all NVLinks.", |look, out| {
        both(look, out, DIRECTIONS, |device| [device.nvlink_sent_bytes, device.nvlink_received_bytes]);
    })
    .labels(&["device", "direction"])
    .unit("bytes"),
    counter("airamp_device_nvlink_errors", "Errors of all NVLinks.", |look, out| {
        each(look, out, |device| device.nvlink_errors);
    })
    .labels(DEVICE),
    gauge("airamp_device_nvlinks_active", "NVLinks that are up.", |look, out| {
        each(look, out, |device| device.nvlinks_active);
    })
    .labels(DEVICE),
    counter("airamp_device_pcie_bytes", "Bytes over PCIe.", |look, out| {
        both(look, out, DIRECTIONS, |device| [device.pcie_sent_bytes, device.pcie_received_bytes]);
    })
    .labels(&["device", "direction"])
    .unit("bytes"),
    counter("airamp_device_pcie_replays", "Packets that PCIe had to send again.", |look, out| {
        each(look, out, |device| device.pcie_replays);
    })
    .labels(DEVICE),
];

const DIRECTIONS: [&str; 2] = ["sent", "received"];

fn each<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Device) -> V) {
    for device in &look.node.machine.devices {
        out.add(&[&device.index.to_string()], value(device));
    }
}

fn both(look: &Look<'_>, out: &mut Samples<'_>, names: [&str; 2], values: fn(&Device) -> [Option<u64>; 2]) {
    for device in &look.node.machine.devices {
        for (name, value) in names.into_iter().zip(values(device)) {
            out.add(&[&device.index.to_string(), name], value);
        }
    }
}
