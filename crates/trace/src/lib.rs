//! The calls of one rank, in their order and with their times, as a file (docs/traces.md): read without trust, written,
//! and made up from a recipe. No addresses, no data, nothing of the program but its calls. `airamp record` writes such
//! files, `airamp replay` and `airamp-rank replay` play them, `airamp pattern` judges by them.

#![forbid(unsafe_code)]

mod read;
pub mod synthesise;
mod write;

pub use read::{TraceError, read, read_file};
pub use write::{write, write_file};

/// The version of the file that is written and read.
pub const VERSION: u32 = 1;
/// What a file may hold. A longer recording ends there and says how much it lost.
pub const MOST_CALLS: usize = 1 << 20;
pub const MOST_COMMUNICATORS: usize = 256;

/// The calls of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub version: u32,
    /// Where it comes from: "synthesised: RECIPE" or "recorded: …". At most 512 characters, none of them control.
    pub source: String,
    pub communicators: Vec<Communicator>,
    /// In the order of their times.
    pub calls: Vec<Call>,
    /// Calls that the recording did not get.
    pub lost: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    pub ranks: u32,
    /// This file's rank in it.
    pub rank: u32,
    /// Equal in the files of all its ranks; 0: not known.
    pub name: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Since the job's first call in any of its files.
    pub at_ns: u64,
    /// A place in `Trace::communicators`.
    pub communicator: u16,
    /// The number of an `airamp_telemetry::Kind`.
    pub kind: u8,
    /// The number of an `airamp_telemetry::Datatype`.
    pub datatype: u8,
    /// Elements, as the call names them.
    pub count: u64,
    /// Of these elements; not in the file.
    pub bytes: u64,
    /// Whether it was part of a group.
    pub group: bool,
    /// Whether it was captured in a graph, and not carried out then.
    pub captured: bool,
    /// The device's time for it, where it was measured.
    pub device_ns: Option<u32>,
}

impl Trace {
    /// From the first call to the last.
    pub fn duration_ns(&self) -> u64 {
        let ends = (self.calls.first(), self.calls.last());
        if let (Some(first), Some(last)) = ends { last.at_ns.saturating_sub(first.at_ns) } else { 0 }
    }
}

/// Bytes of `count` elements; a datatype that is not NCCL's counts one for each.
pub fn bytes_of(datatype: u8, count: u64) -> u64 {
    const SIZES: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    count.saturating_mul(SIZES.get(usize::from(datatype)).copied().unwrap_or(1))
}
