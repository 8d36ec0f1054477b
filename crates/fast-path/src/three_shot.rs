//! The three-shot between quantising and gathering, for nodes of several ranks. Rank (a, l) stands for place l of node a.
//!
//! Within the node, (a, l) gets from each (a, k) the shards of all (b, l), b by b, beside its own; of each b they are
//! reduced to what node a has of that shard. That goes to (b, l), and what the nodes have of this rank's own shard is
//! reduced again. So only 1/g of what a rank sent within its node leaves it.
//!
//! Received packets lie as in the two-shot; those that come across lie in the slot, in the packets of the next place, which
//! have been sent: they need no copy of the own one beside them, since the node's sum of it is written there.

use crate::error::FastPathError;
use crate::plan::Phase;
use crate::steps::{Steps, packets};
use crate::wire::WireError;
use airamp_kernels::loader::{Packets, Reduce};
use airamp_vendor_abi::cuda::DevicePtr;

impl Steps<'_> {
    /// Puts our own packets where those of the node's other ranks will arrive: all between the first and the last of them
    /// at once, since a launch takes longer than to copy the rest of it.
    pub(crate) fn copy_own_place(&self, step: usize) -> Result<(), FastPathError> {
        let (ranks, chunk) = (self.plan.ranks, self.plan.chunk(step));
        let first = ranks.place_of(self.lane.wire.rank);
        let (from, to) = (self.packet(step, first), self.received(step, first));
        let bytes = (ranks.at(ranks.nodes() - 1, 0) + 1) * chunk.stride();
        // SAFETY: as in `copy_own`.
        Ok(unsafe { self.lane.gpu.copy_async(to, from, bytes, self.order.kernels()) }?)
    }

    /// What this node has of the shards of all ranks with this rank's place.
    pub(crate) fn reduce_within_node(&self, step: usize) -> Result<(), FastPathError> {
        let (own, ranks, chunk) = (self.lane.wire.rank, self.plan.ranks, self.plan.chunk(step));
        for owner in self.plan.same_place(own) {
            let work = Reduce {
                packets: packets(self.received(step, ranks.at(ranks.node_of(owner), 0)), chunk),
                ranks: ranks.per_node() as u32,
                count: chunk.shard_elements(owner) as u64,
                format: self.lane.format,
                average: self.post.call.average,
                tag: self.tag(step, Phase::WithinNode),
                out_tag: self.own_tag(step, Phase::Scatter),
                out_packet: if owner == own { self.across(step, own) } else { self.packet(step, owner) },
                stats: self.lane.arena.stats(),
            };
            // SAFETY: as in `copy_own`; what the slot held has been sent or copied.
            unsafe { self.lane.kernels.reduce(self.post.call.element, &work, self.order.kernels()) }?;
        }
        self.reduced(step)
    }

    /// What all nodes have of this rank's shard.
    pub(crate) fn reduce_across_nodes(&self, step: usize) -> Result<(), FastPathError> {
        let (ranks, chunk) = (self.plan.ranks, self.plan.chunk(step));
        let stride = (ranks.per_node() * chunk.stride()) as u64;
        let received = Packets { address: self.across(step, 0), stride };
        self.reduce_to_own(step, received, ranks.nodes())
    }

    /// To each rank of the node the shards of all ranks with its place.
    pub(crate) fn scatter_within_node(&self, step: usize) -> Result<(), WireError> {
        let (wire, home, chunk) = (&self.lane.wire, self.order.home(), self.plan.chunk(step));
        let (own, ranks) = (wire.rank, self.plan.ranks);
        for peer in self.plan.same_node(own).filter(|peer| *peer != own) {
            for (theirs, ours) in self.plan.same_place(peer).zip(self.plan.same_place(own)) {
                let from_peer = ranks.at(ranks.node_of(ours), ranks.place_of(peer));
                wire.send(self.packet(step, theirs), chunk.shard_bytes(theirs), peer, home)?;
                wire.recv(self.received(step, from_peer), chunk.shard_bytes(ours), peer, home)?;
            }
        }
        Ok(())
    }

    /// To each rank with this one's place what this node has of its shard.
    pub(crate) fn scatter_across_nodes(&self, step: usize) -> Result<(), WireError> {
        let (wire, home, chunk) = (&self.lane.wire, self.order.home(), self.plan.chunk(step));
        for peer in self.plan.same_place(wire.rank).filter(|peer| *peer != wire.rank) {
            wire.send(self.packet(step, peer), chunk.shard_bytes(peer), peer, home)?;
            wire.recv(self.across(step, peer), chunk.shard_bytes(wire.rank), peer, home)?;
        }
        Ok(())
    }

    /// Where the packet from that rank's node arrives across nodes.
    fn across(&self, step: usize, rank: usize) -> DevicePtr {
        let ranks = self.plan.ranks;
        let next = (ranks.place_of(self.lane.wire.rank) + 1) % ranks.per_node();
        self.packet(step, ranks.at(ranks.node_of(rank), next))
    }
}
