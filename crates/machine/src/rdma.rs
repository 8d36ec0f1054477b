//! Ports of RDMA devices, from `/sys/class/infiniband`. Takes the counters that it knows by name, and no others: what a
//! driver may add does not become a metric by itself.

use std::path::Path;

use crate::file;
use crate::reading::{RdmaCounter, RdmaPort};

const MOST_DEVICES: usize = 64;
const MOST_PORTS: usize = 8;
/// The unit of `port_xmit_data` and `port_rcv_data`.
const WORD: u64 = 4;

/// What is read besides bytes, by the kernel's names: first of `counters`, then of `hw_counters`. All of them count
/// since the driver was loaded.
pub const COUNTERS: [&str; 29] = [
    "port_xmit_packets",
    "port_rcv_packets",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
    "out_of_sequence",
    "out_of_buffer",
    "packet_seq_err",
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "resp_cqe_error",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "roce_adp_retrans",
    "rx_icrc_encapsulated",
    "retrans_pkts",
    "rx_drops",
];

pub(crate) fn read(sys: &Path) -> Vec<RdmaPort> {
    let root = sys.join("class/infiniband");
    let devices = file::names(&root, MOST_DEVICES);
    devices.iter().flat_map(|device| ports(&root.join(device), device)).collect()
}

fn ports(device: &Path, name: &str) -> Vec<RdmaPort> {
    let folder = device.join("ports");
    let numbers = file::names(&folder, MOST_PORTS);
    let numbers = numbers.iter().filter_map(|number| Some((number, number.parse().ok()?)));
    numbers.map(|(number, port)| one(&folder.join(number), name, port)).collect()
}

fn one(folder: &Path, device: &str, port: u32) -> RdmaPort {
    let plain = |name: &str| file::number(&folder.join("counters").join(name));
    let hardware = |name: &str| file::number(&folder.join("hw_counters").join(name));
    let words = |name: &str| plain(name).map(|words| words.saturating_mul(WORD));
    let counter = |name: &'static str| {
        Some(RdmaCounter { name: name.into(), value: plain(name).or_else(|| hardware(name))? })
    };
    RdmaPort {
        device: device.to_owned(),
        port,
        state: state(folder),
        rate_bits_per_s: rate(folder),
        // Adapters without the counters of InfiniBand (EFA) count bytes.
        sent_bytes: words("port_xmit_data").or_else(|| hardware("tx_bytes")),
        received_bytes: words("port_rcv_data").or_else(|| hardware("rx_bytes")),
        counters: COUNTERS.into_iter().filter_map(counter).collect(),
    }
}

/// "4: ACTIVE" becomes "active".
fn state(folder: &Path) -> String {
    let text = file::text(&folder.join("state")).unwrap_or_default();
    let word = text.split_once(':').map_or("", |(_, word)| word.trim());
    if word.is_empty() { "unknown".to_owned() } else { word.to_ascii_lowercase() }
}

/// "200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)".
fn rate(folder: &Path) -> Option<u64> {
    let text = file::text(&folder.join("rate"))?;
    let mut words = text.split_whitespace();
    let gigabits: f64 = words.next()?.parse().ok()?;
    (words.next() == Some("Gb/sec") && gigabits > 0.0 && gigabits < 1e6).then_some((gigabits * 1e9) as u64)
}
