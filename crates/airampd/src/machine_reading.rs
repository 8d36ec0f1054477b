//! Puts what was read of the machine's hardware into a look, field for field.

use airamp_machine::{Device, Nic, RdmaPort, Reading, Tcp};
use airamp_observer::view;

pub(crate) fn fill(node: &mut view::Node, reading: Reading) {
    node.devices = reading.devices.into_iter().map(device).collect();
    node.nics = reading.nics.into_iter().map(nic).collect();
    node.rdma_ports = reading.rdma_ports.into_iter().map(rdma_port).collect();
    node.tcp = tcp(reading.tcp);
    node.machine_notes = reading.notes;
    node.devices_age_s = reading.devices_age_s;
    node.nics_age_s = reading.nics_age_s;
}

fn device(from: Device) -> view::Device {
    view::Device {
        maker: from.maker.name().into(),
        index: from.index,
        uuid: from.uuid,
        name: from.name,
        pci: from.pci,
        lost: from.lost,
        memory_used_bytes: from.memory_used,
        memory_total_bytes: from.memory_total,
        sm_clock_hz: from.sm_clock_hz,
        memory_clock_hz: from.memory_clock_hz,
        power_w: from.power_w,
        power_limit_w: from.power_limit_w,
        temperature_c: from.temperature_c,
        throttle: from.throttle.map(|reasons| reasons.into_iter().map(Into::into).collect()),
        ecc_corrected: from.ecc_corrected,
        ecc_uncorrected: from.ecc_uncorrected,
        last_xid: from.last_xid,
        xids: from.xids,
        nvlink_sent_bytes: from.nvlink_sent_bytes,
        nvlink_received_bytes: from.nvlink_received_bytes,
        nvlink_errors: from.nvlink_errors,
        nvlinks_active: from.nvlinks_active,
        utilisation: from.utilisation,
        memory_utilisation: from.memory_utilisation,
        pcie_sent_bytes: from.pcie_sent_bytes,
        pcie_received_bytes: from.pcie_received_bytes,
        pcie_replays: from.pcie_replays,
    }
}

fn nic(from: Nic) -> view::Nic {
    view::Nic {
        name: from.name,
        state: from.state,
        speed_bits_per_s: from.speed_bits_per_s,
        sent_bytes: from.sent_bytes,
        received_bytes: from.received_bytes,
        sent_packets: from.sent_packets,
        received_packets: from.received_packets,
        send_errors: from.send_errors,
        receive_errors: from.receive_errors,
        send_drops: from.send_drops,
        receive_drops: from.receive_drops,
    }
}

fn rdma_port(from: RdmaPort) -> view::RdmaPort {
    let counter = |(name, value): (&'static str, u64)| view::RdmaCounter { name: name.into(), value };
    view::RdmaPort {
        device: from.device,
        port: from.port,
        state: from.state,
        rate_bits_per_s: from.rate_bits_per_s,
        sent_bytes: from.sent_bytes,
        received_bytes: from.received_bytes,
        counters: from.counters.into_iter().map(counter).collect(),
    }
}

fn tcp(from: Tcp) -> view::Tcp {
    view::Tcp {
        sent_segments: from.sent_segments,
        retransmitted_segments: from.retransmitted_segments,
        received_segments: from.received_segments,
        receive_errors: from.receive_errors,
        timeouts: from.timeouts,
    }
}
