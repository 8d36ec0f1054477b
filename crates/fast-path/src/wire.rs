//! The exchange of packets between ranks, by the vendor's own collectives and messages.

use airamp_vendor::Functions;
use airamp_vendor_abi::cuda::DevicePtr;
use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult, Stream};
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
#[derive(Clone, Copy)]
pub struct Wire<'a> {
    functions: &'a Functions,
    comm: Comm,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) stream: Stream,
}

fn check(name: &'static str, result: NcclResult) -> Result<(), WireError> {
    if result == NcclResult::SUCCESS { Ok(()) } else { Err(WireError::Refused(name, result.0)) }
}

impl<'a> Wire<'a> {
    /// # Safety
    /// `comm` is a live communicator of these functions with these ranks, `stream` a stream of its
    /// device, and both outlive what is enqueued.
    pub unsafe fn new(
        functions: &'a Functions,
        comm: Comm,
        rank: usize,
        ranks: usize,
        stream: Stream,
    ) -> Self {
        Self { functions, comm, rank, ranks, stream }
    }

    /// Every rank's `bytes`, one after the other, from `all + rank * bytes` of each.
    pub(crate) fn all_gather(&self, all: DevicePtr, bytes: usize) -> Result<(), WireError> {
        let function = self.functions.ncclAllGather.ok_or(WireError::Missing("ncclAllGather"))?;
        let own = all + (self.rank * bytes) as u64;
        let (own, all) = (own as *const c_void, all as *mut c_void);
        // SAFETY: `new`'s caller vouches for communicator and stream, the arena for the memory.
        check("ncclAllGather", unsafe { function(own, all, bytes, DataType::UINT8, self.comm, self.stream) })
    }

    /// Runs what `messages` posts as one group.
    pub(crate) fn group(&self, messages: impl FnOnce() -> Result<(), WireError>) -> Result<(), WireError> {
        let start = self.functions.ncclGroupStart.ok_or(WireError::Missing("ncclGroupStart"))?;
        let end = self.functions.ncclGroupEnd.ok_or(WireError::Missing("ncclGroupEnd"))?;
        // SAFETY: no arguments.
        check("ncclGroupStart", unsafe { start() })?;
        let posted = messages();
        // The group is closed whatever happened in it. SAFETY: as above.
        let ended = check("ncclGroupEnd", unsafe { end() });
        posted.and(ended)
    }

    /// An empty message is none, on both sides.
    pub(crate) fn send(&self, from: DevicePtr, bytes: usize, peer: usize) -> Result<(), WireError> {
        if bytes == 0 {
            return Ok(());
        }
        let function = self.functions.ncclSend.ok_or(WireError::Missing("ncclSend"))?;
        // SAFETY: as in `all_gather`.
        check("ncclSend", unsafe {
            function(from as *const c_void, bytes, DataType::UINT8, peer as c_int, self.comm, self.stream)
        })
    }

    pub(crate) fn recv(&self, to: DevicePtr, bytes: usize, peer: usize) -> Result<(), WireError> {
        if bytes == 0 {
            return Ok(());
        }
        let function = self.functions.ncclRecv.ok_or(WireError::Missing("ncclRecv"))?;
        // SAFETY: as in `all_gather`.
        check("ncclRecv", unsafe {
            function(to as *mut c_void, bytes, DataType::UINT8, peer as c_int, self.comm, self.stream)
        })
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = usize> {
        let rank = self.rank;
        (0..self.ranks).filter(move |peer| *peer != rank)
    }
}
