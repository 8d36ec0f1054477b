//! Messages of the application's that have the size of the library's own, which go through the same
//! queue of each pair: one taken for the other would be wrong data.

use airamp_codec::{BLOCK, packet_bytes};
use airamp_vendor::gpu::{Buffer, Stream};
use airamp_vendor_abi::nccl::DataType;

use super::expected::Spec;
use super::tracked::Tracked;
use super::{Equipment, Seen};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::pattern::{Reduction, input};

const COUNT: usize = 20_011;

/// The AllReduce whose messages have that size.
pub(super) fn spec(seed: usize) -> Spec {
    Spec::sum(DataType::FLOAT16, COUNT).seeded(seed)
}

/// The bytes of the library's own messages for such a call.
pub(super) fn message_bytes(ranks: usize) -> usize {
    match ranks {
        2 => packet_bytes(COUNT),
        _ => packet_bytes(COUNT.div_ceil(ranks).next_multiple_of(BLOCK)),
    }
}

/// A message from every rank to every other, each different.
pub(super) struct Messages {
    bytes: usize,
    seed: usize,
    sent: Buffer,
    received: Buffer,
}

impl Messages {
    pub(super) fn new(own: &Equipment, comm: &Tracked, seed: usize) -> Result<Self, RankError> {
        let (ranks, bytes) = (comm.comm.size, message_bytes(comm.comm.size));
        let (sent, received) = (own.gpu.alloc(ranks * bytes)?, own.gpu.alloc(ranks * bytes)?);
        let messages = Self { bytes, seed, sent, received };
        for to in 0..ranks {
            messages.sent.write(to * bytes, &messages.content(comm, comm.comm.rank, to))?;
        }
        messages.received.fill(0, ranks * bytes, 0)?;
        own.gpu.synchronize()?;
        Ok(messages)
    }

    fn content(&self, comm: &Tracked, from: usize, to: usize) -> Vec<u8> {
        let start = 31 * to + 7 * self.seed;
        input(DataType::UINT8, Reduction::Sum, comm.comm.size, from, start, self.bytes)
    }

    fn peers(comm: &Tracked) -> impl Iterator<Item = usize> {
        let own = comm.comm.rank;
        (0..comm.comm.size).filter(move |peer| *peer != own)
    }

    pub(super) fn send(&self, own: &Equipment, comm: &Tracked, stream: &Stream) -> Result<(), RankError> {
        Self::peers(comm).try_for_each(|peer| self.send_to(peer, own, comm, stream))
    }

    pub(super) fn receive(&self, own: &Equipment, comm: &Tracked, stream: &Stream) -> Result<(), RankError> {
        Self::peers(comm).try_for_each(|peer| self.receive_from(peer, own, comm, stream))
    }

    pub(super) fn send_to(
        &self,
        peer: usize,
        own: &Equipment,
        comm: &Tracked,
        stream: &Stream,
    ) -> Result<(), RankError> {
        let (from, comm, stream) = (self.sent.at(peer * self.bytes), comm.comm.raw(), stream.raw());
        invoke!(own.nccl, ncclSend(from, self.bytes, DataType::UINT8, peer as i32, comm, stream))
    }

    pub(super) fn receive_from(
        &self,
        peer: usize,
        own: &Equipment,
        comm: &Tracked,
        stream: &Stream,
    ) -> Result<(), RankError> {
        let (into, comm, stream) = (self.received.at(peer * self.bytes), comm.comm.raw(), stream.raw());
        invoke!(own.nccl, ncclRecv(into, self.bytes, DataType::UINT8, peer as i32, comm, stream))
    }

    pub(super) fn judge(&self, comm: &Tracked, seen: &mut Seen) -> Result<(), RankError> {
        Self::peers(comm).try_for_each(|peer| self.judge_from(peer, comm, seen))
    }

    pub(super) fn judge_from(&self, peer: usize, comm: &Tracked, seen: &mut Seen) -> Result<(), RankError> {
        let mut received = vec![0; self.bytes];
        self.received.read(peer * self.bytes, &mut received)?;
        let right = received == self.content(comm, peer, comm.comm.rank);
        seen.expect(right, || format!("the message of rank {peer} is not the one that it sent"));
        seen.others.add(&received);
        Ok(())
    }
}
