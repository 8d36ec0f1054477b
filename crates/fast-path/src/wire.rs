//! The vendor's operations by which packets travel, on one communicator.

use airamp_vendor::Functions;
use airamp_vendor_abi::cuda::{self, DevicePtr};
use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult, RedOp};
use std::ffi::{c_int, c_void};

/// The vendor refused an operation, or lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("the vendor has no {0}")]
    Missing(&'static str),
    #[error("{0} returned {1}")]
    Refused(&'static str, c_int),
}

/// One rank's end of a communicator.
pub(crate) struct Wire {
    pub(crate) functions: &'static Functions,
    pub(crate) comm: Comm,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// A byte on the device that is reduced beside messages; without one they go alone.
    pub(crate) beside: Option<DevicePtr>,
}

fn check(name: &'static str, result: NcclResult) -> Result<(), WireError> {
    if result == NcclResult::SUCCESS { Ok(()) } else { Err(WireError::Refused(name, result.0)) }
}

/// Runs what `operations` posts as one group, which is closed whatever happens in it.
pub(crate) fn group(
    functions: &Functions,
    operations: impl FnOnce() -> Result<(), WireError>,
) -> Result<(), WireError> {
    let start = functions.ncclGroupStart.ok_or(WireError::Missing("ncclGroupStart"))?;
    let end = functions.ncclGroupEnd.ok_or(WireError::Missing("ncclGroupEnd"))?;
    // SAFETY: no arguments.
    check("ncclGroupStart", unsafe { start() })?;
    let posted = operations();
    // SAFETY: as above.
    let ended = check("ncclGroupEnd", unsafe { end() });
    posted.and(ended)
}

impl Wire {
    /// Refuses a vendor that lacks an operation, before anybody relies on it.
    pub(crate) fn check(&self) -> Result<(), WireError> {
        let functions = self.functions;
        let needed = [
            ("ncclGroupStart", functions.ncclGroupStart.is_some()),
            ("ncclGroupEnd", functions.ncclGroupEnd.is_some()),
            ("ncclAllGather", functions.ncclAllGather.is_some()),
            ("ncclSend", functions.ncclSend.is_some() || self.ranks == 2),
            ("ncclRecv", functions.ncclRecv.is_some() || self.ranks == 2),
            ("ncclReduce", functions.ncclReduce.is_some() || self.beside.is_none()),
        ];
        let missing = needed.iter().find(|(_, is_there)| !is_there);
        missing.map_or(Ok(()), |(name, _)| Err(WireError::Missing(name)))
    }

    /// What messages are posted beside in their group, if anything. NCCL runs a whole group in the kernel of its first
    /// collective that has one of its own, as few bytes do, and messages alone in one whose larger stack takes device
    /// memory for each thread that can be resident.
    pub(crate) fn accompany(&self, stream: cuda::Stream) -> Result<(), WireError> {
        let Some(byte) = self.beside else { return Ok(()) };
        let function = self.functions.ncclReduce.ok_or(WireError::Missing("ncclReduce"))?;
        let (from, to) = (byte as *const c_void, byte as *mut c_void);
        // SAFETY: as in `all_gather`; in place, on a byte of the arena that nothing else uses.
        check("ncclReduce", unsafe {
            function(from, to, 1, DataType::UINT8, RedOp::SUM, 0, self.comm, stream)
        })
    }

    /// Every rank's `bytes`, one after the other, from `all + rank * bytes` of each.
    pub(crate) fn all_gather(
        &self,
        all: DevicePtr,
        bytes: usize,
        stream: cuda::Stream,
    ) -> Result<(), WireError> {
        let function = self.functions.ncclAllGather.ok_or(WireError::Missing("ncclAllGather"))?;
        let own = all + self.rank as u64 * bytes as u64;
        let (own, all) = (own as *const c_void, all as *mut c_void);
        // SAFETY: who made the lane vouches for the communicator, the caller of `enqueue` for the
        // stream, the plan for the memory, which is the arena's.
        check("ncclAllGather", unsafe { function(own, all, bytes, DataType::UINT8, self.comm, stream) })
    }

    /// An empty message is none, on both sides.
    pub(crate) fn send(
        &self,
        from: DevicePtr,
        bytes: usize,
        peer: usize,
        stream: cuda::Stream,
    ) -> Result<(), WireError> {
        if bytes == 0 {
            return Ok(());
        }
        let function = self.functions.ncclSend.ok_or(WireError::Missing("ncclSend"))?;
        // SAFETY: as in `all_gather`.
        check("ncclSend", unsafe {
            function(from as *const c_void, bytes, DataType::UINT8, peer as c_int, self.comm, stream)
        })
    }

    pub(crate) fn recv(
        &self,
        to: DevicePtr,
        bytes: usize,
        peer: usize,
        stream: cuda::Stream,
    ) -> Result<(), WireError> {
        if bytes == 0 {
            return Ok(());
        }
        let function = self.functions.ncclRecv.ok_or(WireError::Missing("ncclRecv"))?;
        // SAFETY: as in `all_gather`.
        check("ncclRecv", unsafe {
            function(to as *mut c_void, bytes, DataType::UINT8, peer as c_int, self.comm, stream)
        })
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = usize> {
        let rank = self.rank;
        (0..self.ranks).filter(move |peer| *peer != rank)
    }
}
