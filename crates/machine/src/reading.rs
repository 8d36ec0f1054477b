//! What was read, in plain values, which are also the JSON in which they are shown. `None` is a question that the hardware, the driver or our rights do not answer;
//! it is never zero. Counters are those of the kernel or the driver: they count since it started.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A word of a fixed vocabulary: borrowed by who read it here, owned by who parsed it.
pub type Word = Cow<'static, str>;

/// One look at the machine, each half with its age.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub devices: Vec<Device>,
    pub nics: Vec<Nic>,
    pub rdma_ports: Vec<RdmaPort>,
    pub tcp: Tcp,
    /// Why a list is empty or shortened, one sentence each; empty when all is as it should be.
    #[serde(rename = "machine_notes")]
    pub notes: Vec<String>,
    /// How long ago `devices` were read; `None`: not once yet.
    pub devices_age_s: Option<f64>,
    /// The same of `nics`, `rdma_ports` and `tcp`.
    pub nics_age_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    #[default]
    Nvidia,
    Amd,
}

impl Maker {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub maker: Maker,
    /// The number by which the driver's own tools call it.
    pub index: u32,
    /// As the driver spells it ("GPU-…"); on AMD the 16 hexadecimal digits of `unique_id`. Empty: not known.
    pub uuid: String,
    pub name: String,
    /// "0000:3b:00.0", lower case.
    pub pci: Option<String>,
    /// The driver no longer reaches it; all other fields are `None`.
    pub lost: bool,
    pub memory_used_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub sm_clock_hz: Option<u64>,
    pub memory_clock_hz: Option<u64>,
    pub power_w: Option<f64>,
    pub power_limit_w: Option<f64>,
    pub temperature_c: Option<f64>,
    /// Why the clocks are lower than asked for, names of `THROTTLE_REASONS`; empty: they are not.
    pub throttle: Option<Vec<Word>>,
    pub ecc_corrected: Option<u64>,
    pub ecc_uncorrected: Option<u64>,
    /// The last Xid since we watch; `None`: none yet, or watching is not permitted (`xids` tells which).
    pub last_xid: Option<u64>,
    /// Xids seen since we watch.
    pub xids: Option<u64>,
    /// All links together, payload only.
    pub nvlink_sent_bytes: Option<u64>,
    pub nvlink_received_bytes: Option<u64>,
    pub nvlink_errors: Option<u64>,
    pub nvlinks_active: Option<u32>,
    /// Share of the last sample period in which a kernel ran, 0 to 1.
    pub utilisation: Option<f64>,
    /// Share in which device memory was read or written, 0 to 1.
    pub memory_utilisation: Option<f64>,
    /// The driver lets these two begin again at zero.
    pub pcie_sent_bytes: Option<u64>,
    pub pcie_received_bytes: Option<u64>,
    pub pcie_replays: Option<u64>,
}

impl Device {
    /// A device of which nothing else is known.
    pub(crate) fn unknown(maker: Maker, index: u32) -> Self {
        Self { maker, index, ..Self::default() }
    }
}

/// A network interface, as the kernel counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    pub name: String,
    /// The kernel's word: "up", "down", "unknown", …
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

/// One port of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// "mlx5_0"
    pub device: String,
    pub port: u32,
    /// "active", "down", …
    pub state: String,
    pub rate_bits_per_s: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Other counters that this port has, by the kernel's names: those of `RDMA_COUNTERS` and no others.
    pub counters: Vec<RdmaCounter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaCounter {
    pub name: Word,
    pub value: u64,
}

/// TCP of the whole node (of the network namespace in which we run).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    pub sent_segments: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    pub received_segments: Option<u64>,
    pub receive_errors: Option<u64>,
    pub timeouts: Option<u64>,
}
