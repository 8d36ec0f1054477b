//! The kernels of one call around its exchanges, and where its packets lie.
//!
//! Two chunks are under way, each in a slot of the arena. Two-shot: a chunk is quantised into its
//! slot (q) and scattered (S) into its own part of the output, which is not yet defined out of place and
//! quantised already in place; reduced (r) into this rank's place in the slot, gathered there (G), and
//! dequantised (d). The caller's stream runs S0 S1 G0 G1 S2 S3 G2 G3 …, the lane's stream beside it
//! q0 q1 r0 r1 d0 q2 d1 q3 r2 r3 …, so that every kernel but the first runs beside an exchange of the
//! other slot. One-shot: gather and add up, in the same way. Three-shot: two exchanges and two reductions before
//! the gather (`three_shot`). With one slot everything goes in turn, q0 S0 r0 G0 d0 q1 ….

use crate::dry_run::Piece;
use crate::enqueue::Post;
use crate::error::FastPathError;
use crate::lane::Lane;
use crate::order::Order;
use crate::plan::{Chunk, PACKET_ALIGNMENT, Phase, Plan};
use crate::shape::Algorithm;
use crate::tag;
use airamp_codec::Tag;
use airamp_kernels::loader::{Dequantise, DequantiseSum, Packets, Quantise, Reduce};
use airamp_vendor_abi::cuda::DevicePtr;

/// One call of a lane, with what its steps share.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) order: &'a Order<'a>,
    pub(crate) post: &'a Post<'a>,
    pub(crate) plan: &'a Plan,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(order: &'a Order<'a>, post: &'a Post<'a>) -> Self {
        Self { lane: post.lane, order, post, plan: &post.plan }
    }

    /// What precedes the exchange at `place`.
    pub(crate) fn before(&self, place: usize) -> Result<(), FastPathError> {
        if place == 0 {
            self.begin_measured()?;
            (0..self.plan.slots()).try_for_each(|step| self.quantise(step))?;
        }
        let (_, step) = self.plan.exchange(place);
        Ok(self.order.await_kernels(self.slot(step))?)
    }

    /// What follows the exchange at `place`.
    pub(crate) fn after(&self, place: usize) -> Result<(), FastPathError> {
        self.order.await_exchange()?;
        let (phase, step) = self.plan.exchange(place);
        match (self.plan.shape.algorithm, phase) {
            (_, Phase::WithinNode) => return self.reduce_within_node(step),
            (Algorithm::ThreeShot, Phase::Scatter) => return self.reduce_across_nodes(step),
            (_, Phase::Scatter) => return self.reduce(step),
            (Algorithm::OneShot, Phase::Gather) => self.add_up(step)?,
            (_, Phase::Gather) => self.dequantise(step)?,
        }
        self.quantise(step + self.plan.slots())
    }

    fn slot(&self, step: usize) -> usize {
        step % self.plan.slots()
    }

    /// Fills the step's slot, if there is such a step.
    fn quantise(&self, step: usize) -> Result<(), FastPathError> {
        if step >= self.plan.steps {
            return Ok(());
        }
        let chunk = self.plan.chunk(step);
        let (first, phase) = match self.plan.shape.algorithm {
            Algorithm::OneShot => (self.lane.wire.rank, Phase::Gather),
            Algorithm::TwoShot => (0, Phase::Scatter),
            Algorithm::ThreeShot => (0, Phase::WithinNode),
        };
        let work = Quantise {
            input: self.post.call.input + self.offset(chunk.start),
            count: chunk.elements as u64,
            packets: packets(self.packet(step, first), chunk),
            blocks_per_packet: chunk.blocks_per_packet() as u64,
            format: self.lane.format,
            tag: self.own_tag(step, phase),
            stats: self.lane.arena.stats(),
        };
        // SAFETY: the caller of `enqueue` vouches for the input, the plan for the scratch; the order is
        // that of the stream and of the events around it.
        unsafe { self.lane.kernels.quantise(self.post.call.element, &work, self.order.kernels()) }?;
        match self.plan.shape.algorithm {
            Algorithm::OneShot => {}
            Algorithm::TwoShot => self.copy_own(step, chunk)?,
            Algorithm::ThreeShot => self.copy_own_place(step)?,
        }
        Ok(self.order.kernels_done(self.slot(step))?)
    }

    /// Puts our own packet where those of the others will arrive.
    fn copy_own(&self, step: usize, chunk: Chunk) -> Result<(), FastPathError> {
        let own = self.lane.wire.rank;
        let (from, to) = (self.packet(step, own), self.received(step, own));
        let bytes = chunk.shard_bytes(own);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as in `quantise`; what the output held of this chunk has been quantised or is not
        // defined yet.
        Ok(unsafe { self.lane.gpu.copy_async(to, from, bytes, self.order.kernels()) }?)
    }

    fn reduce(&self, step: usize) -> Result<(), FastPathError> {
        let received = packets(self.received(step, 0), self.plan.chunk(step));
        self.reduce_to_own(step, received, self.plan.ranks.all())
    }

    /// Adds up what all have of this rank's shard, and gives it to the gather.
    pub(crate) fn reduce_to_own(
        &self,
        step: usize,
        packets: Packets,
        summands: usize,
    ) -> Result<(), FastPathError> {
        let (own, chunk) = (self.lane.wire.rank, self.plan.chunk(step));
        let work = Reduce {
            packets,
            ranks: summands as u32,
            count: chunk.shard_elements(own) as u64,
            format: self.lane.format,
            average: self.post.call.average,
            tag: self.tag(step, Phase::Scatter),
            out_tag: self.own_tag(step, Phase::Gather),
            out_packet: self.packet(step, own),
            stats: self.lane.arena.stats(),
        };
        // SAFETY: as in `copy_own`.
        unsafe { self.lane.kernels.reduce(self.post.call.element, &work, self.order.kernels()) }?;
        self.reduced(step)
    }

    /// The chunk's next exchange has what it sends.
    pub(crate) fn reduced(&self, step: usize) -> Result<(), FastPathError> {
        Ok(self.order.kernels_done(self.slot(step))?)
    }

    /// Live, the whole chunk is one piece.
    fn dequantise(&self, step: usize) -> Result<(), FastPathError> {
        let pieces = self.plan.pieces(step, self.post.call.element.size());
        pieces.into_iter().try_for_each(|piece| {
            self.dequantise_piece(step, &piece)?;
            self.keep_sample(step, &piece)
        })
    }

    fn dequantise_piece(&self, step: usize, piece: &Piece) -> Result<(), FastPathError> {
        let chunk = self.plan.chunk(step);
        let work = Dequantise {
            packets: packets(self.packet(step, piece.first_packet), chunk),
            blocks_per_packet: chunk.blocks_per_packet() as u64,
            count: piece.elements as u64,
            format: self.lane.format,
            tag: self.tag(step, Phase::Gather).of_rank(piece.first_packet),
            output: self.result(step, piece),
            stats: self.lane.arena.stats(),
        };
        // SAFETY: as in `quantise`, and for the output.
        Ok(unsafe { self.lane.kernels.dequantise(self.post.call.element, &work, self.order.kernels()) }?)
    }

    fn add_up(&self, step: usize) -> Result<(), FastPathError> {
        let (chunk, piece) = (self.plan.chunk(step), self.plan.whole(step));
        let work = DequantiseSum {
            packets: packets(self.packet(step, 0), chunk),
            ranks: self.plan.ranks.all() as u32,
            count: chunk.elements as u64,
            format: self.lane.format,
            average: self.post.call.average,
            tag: self.tag(step, Phase::Gather),
            output: self.result(step, &piece),
            stats: self.lane.arena.stats(),
        };
        // SAFETY: as in `dequantise`.
        unsafe { self.lane.kernels.dequantise_sum(self.post.call.element, &work, self.order.kernels()) }?;
        self.keep_sample(step, &piece)
    }

    /// The tag of the first sender's packet.
    pub(crate) fn tag(&self, step: usize, phase: Phase) -> Tag {
        tag::of(self.post, step, phase)
    }

    /// Of this rank's packets: kernels number those that they add up.
    pub(crate) fn own_tag(&self, step: usize, phase: Phase) -> Tag {
        let (own, ranks) = (self.lane.wire.rank, self.plan.ranks);
        let sender = match (self.plan.shape.algorithm, phase) {
            (_, Phase::WithinNode) => ranks.place_of(own),
            (Algorithm::ThreeShot, Phase::Scatter) => ranks.node_of(own),
            _ => own,
        };
        self.tag(step, phase).of_rank(sender)
    }

    /// Bytes from the beginning of the caller's buffers to an element.
    pub(crate) fn offset(&self, elements: usize) -> u64 {
        elements as u64 * self.post.call.element.size() as u64
    }

    /// The packet of that rank in the step's slot.
    pub(crate) fn packet(&self, step: usize, rank: usize) -> DevicePtr {
        let slot = self.slot(step) as u64 * self.plan.slot_bytes() as u64;
        self.lane.arena.scratch() + slot + self.in_set(step, rank)
    }

    /// Where the packet from that rank arrives in a scatter.
    pub(crate) fn received(&self, step: usize, rank: usize) -> DevicePtr {
        let chunk = self.plan.chunk(step);
        let in_output = chunk.receives_in_output(self.post.call.element.size(), self.plan.ranks.all());
        let set = if in_output && !self.plan.dry {
            let output = self.post.call.output + self.offset(chunk.start);
            output.next_multiple_of(PACKET_ALIGNMENT as u64)
        } else {
            self.packet(step, self.plan.ranks.all())
        };
        set + self.in_set(step, rank)
    }

    /// The distance to a rank's packet from the first in a set.
    fn in_set(&self, step: usize, rank: usize) -> u64 {
        rank as u64 * self.plan.chunk(step).stride() as u64
    }
}

pub(crate) fn packets(address: DevicePtr, chunk: Chunk) -> Packets {
    Packets { address, stride: chunk.stride() as u64 }
}
