//! What callers hand to the writer and readers get back: plain values, no references.

use crate::{Datatype, Kind, Path, Ticks};

/// What is known of a communicator when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommunicatorFacts {
    /// Equal on all ranks of the communicator; 0: not known.
    pub name: u64,
    pub parent: u64,
    pub rank: i32,
    pub ranks: i32,
    pub device: i32,
    pub device_uuid: [u8; 16],
    /// The network interface's name, padded with zeros.
    pub nic: [u8; 16],
    pub origin: u8,
    pub vendor_index: u8,
}

/// One call of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The communicator's place, or `CallRecord::NO_SLOT`.
    pub slot: u8,
    pub kind: Kind,
    pub path: Path,
    pub datatype: Datatype,
    pub flags: u8,
    /// Elements.
    pub count: u64,
    pub sequence: u64,
    pub step: u32,
    pub entered: Ticks,
    pub vendor_ticks: u32,
    pub hook_ticks: u32,
    /// 0: not known, or not known yet.
    pub device_ns: u32,
}

impl CallRecord {
    pub const NO_SLOT: u8 = u8::MAX;
    pub const GROUP: u8 = 1;
    pub const SAMPLED: u8 = 2;
    pub const ERROR: u8 = 4;

    /// What is not given is 0.
    pub const fn new(slot: u8, kind: Kind, path: Path, datatype: Datatype, count: u64) -> Self {
        Self {
            slot,
            kind,
            path,
            datatype,
            flags: 0,
            count,
            sequence: 0,
            step: 0,
            entered: Ticks(0),
            vendor_ticks: 0,
            hook_ticks: 0,
            device_ns: 0,
        }
    }
}

/// What the codec met since it was last told; added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodecCounters {
    /// Elements.
    pub saturated: u64,
    /// Blocks with at least one such element.
    pub nonfinite: u64,
    /// Packets.
    pub foreign: u64,
    pub blocks: u64,
}
