//! Devices and network of the node, field for field as crate `machine` reads them. The observer leaves them
//! empty; `airampd` fills them in.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// nvidia or amd.
    pub maker: Word,
    /// The number by which the driver's own tools call it.
    pub index: u32,
    /// As in `Rank::device_uuid`; empty where not known.
    pub uuid: String,
    pub name: String,
    pub pci: Option<String>,
    /// The driver no longer reaches it; the rest is null.
    pub lost: bool,
    pub memory_used_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub sm_clock_hz: Option<u64>,
    pub memory_clock_hz: Option<u64>,
    pub power_w: Option<f64>,
    pub power_limit_w: Option<f64>,
    pub temperature_c: Option<f64>,
    /// Why the clocks are lower than asked for; empty when they are not.
    pub throttle: Option<Vec<Word>>,
    pub ecc_corrected: Option<u64>,
    pub ecc_uncorrected: Option<u64>,
    pub last_xid: Option<u64>,
    pub xids: Option<u64>,
    pub nvlink_sent_bytes: Option<u64>,
    pub nvlink_received_bytes: Option<u64>,
    pub nvlink_errors: Option<u64>,
    pub nvlinks_active: Option<u32>,
    /// 0 to 1.
    pub utilisation: Option<f64>,
    pub memory_utilisation: Option<f64>,
    pub pcie_sent_bytes: Option<u64>,
    pub pcie_received_bytes: Option<u64>,
    pub pcie_replays: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    pub name: String,
    /// The kernel's word: up, down, unknown, …
    pub state: String,
    pub speed_bits_per_s: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub sent_packets: Option<u64>,
    pub received_packets: Option<u64>,
    pub send_errors: Option<u64>,
    pub receive_errors: Option<u64>,
    pub send_drops: Option<u64>,
    pub receive_drops: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaPort {
    pub device: String,
    pub port: u32,
    pub state: String,
    pub rate_bits_per_s: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub counters: Vec<RdmaCounter>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaCounter {
    pub name: Word,
    pub value: u64,
}

/// TCP of the whole node: the kernel does not count retransmissions by interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tcp {
    pub sent_segments: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    pub received_segments: Option<u64>,
    pub receive_errors: Option<u64>,
    pub timeouts: Option<u64>,
}
