//! Network interfaces, RDMA ports and TCP, as the kernel counts them.

use airamp_machine::{Nic, RdmaPort};

use crate::metrics::family::{Family, Section, counter, gauge};
use crate::metrics::look::Look;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Network",
    about: "`AIRAMP_NIC_METRICS=0` leaves them out. TCP is counted for the whole node: the kernel does not count \
            retransmissions by interface.",
    families: FAMILIES,
};

const DIRECTIONS: [&str; 2] = ["sent", "received"];
const NIC: &[&str] = &["nic", "direction"];
const PORT: &[&str] = &["port", "direction"];

const FAMILIES: &[Family] = &[
    gauge("airamp_nic_up", "1 for an interface that is up.", |look, out| {
        for nic in &look.node.machine.nics {
            out.add(&[&nic.name], nic.state == "up");
        }
    })
    .labels(&["nic"]),
    gauge(
        "airamp_nic_speed_bytes_per_second",
        "What the interface can carry in one direction.",
        |look, out| {
            for nic in &look.node.machine.nics {
                out.add(&[&nic.name], nic.speed_bits_per_s.map(|bits| bits / 8));
            }
        },
    )
    .labels(&["nic"])
    .unit("bytes_per_second"),
    counter("airamp_nic_bytes", "Bytes over the interface.", |look, out| {
        nics(look, out, |nic| [nic.sent_bytes, nic.received_bytes]);
    })
    .labels(NIC)
    .unit("bytes"),
    counter("airamp_nic_packets", "Packets over the interface.", |look, out| {
        nics(look, out, |nic| [nic.sent_packets, nic.received_packets]);
    })
    .labels(NIC),
    counter("airamp_nic_errors", "Packets with errors.", |look, out| {
        nics(look, out, |nic| [nic.send_errors, nic.receive_errors]);
    })
    .labels(NIC),
    counter("airamp_nic_drops", "Packets dropped.", |look, out| {
        nics(look, out, |nic| [nic.send_drops, nic.receive_drops]);
    })
    .labels(NIC),
    gauge("airamp_rdma_up", "1 for an RDMA port that is active.", |look, out| {
        for port in &look.node.machine.rdma_ports {
            out.add(&[&port_label(port)], port.state.eq_ignore_ascii_case("active"));
        }
    })
    .labels(&["port"]),
    gauge("airamp_rdma_speed_bytes_per_second", "What the port can carry in one direction.", |look, out| {
        for port in &look.node.machine.rdma_ports {
            out.add(&[&port_label(port)], port.rate_bits_per_s.map(|bits| bits / 8));
        }
    })
    .labels(&["port"])
    .unit("bytes_per_second"),
    counter("airamp_rdma_bytes", "Bytes over the RDMA port.", |look, out| {
        for port in &look.node.machine.rdma_ports {
            for (direction, bytes) in DIRECTIONS.into_iter().zip([port.sent_bytes, port.received_bytes]) {
                out.add(&[&port_label(port), direction], bytes);
            }
        }
    })
    .labels(PORT)
    .unit("bytes"),
    counter(
        "airamp_rdma_events",
        "Further counters of the port, by the kernel's name for them.",
        |look, out| {
            for port in &look.node.machine.rdma_ports {
                for counter in &port.counters {
                    out.add(&[&port_label(port), &counter.name], counter.value);
                }
            }
        },
    )
    .labels(&["port", "event"]),
    counter("airamp_tcp_segments", "TCP segments of the node.", |look, out| {
        let tcp = &look.node.machine.tcp;
        for (direction, segments) in DIRECTIONS.into_iter().zip([tcp.sent_segments, tcp.received_segments]) {
            out.add(&[direction], segments);
        }
    })
    .labels(&["direction"]),
    counter("airamp_tcp_retransmitted_segments", "TCP segments that the node sent again.", |look, out| {
        out.add(&[], look.node.machine.tcp.retransmitted_segments);
    }),
    counter("airamp_tcp_receive_errors", "TCP segments received with errors.", |look, out| {
        out.add(&[], look.node.machine.tcp.receive_errors);
    }),
    counter("airamp_tcp_timeouts", "Times that TCP waited in vain for an answer.", |look, out| {
        out.add(&[], look.node.machine.tcp.timeouts);
    }),
];

fn nics(look: &Look<'_>, out: &mut Samples<'_>, values: fn(&Nic) -> [Option<u64>; 2]) {
    for nic in &look.node.machine.nics {
        for (direction, value) in DIRECTIONS.into_iter().zip(values(nic)) {
            out.add(&[&nic.name, direction], value);
        }
    }
}

/// As `mlx5_0/1`.
fn port_label(port: &RdmaPort) -> String {
    format!("{}/{}", port.device, port.port)
}
