//! What lies where in the arena, for packets of some size. Pure.
//!
//! Two slots, one for each chunk under way (one where they take turns). A slot begins with a chunk's packets. Live, the two-shot and the three-shot add room
//! for a small chunk's received packets; those of a larger one lie in the application's output. Dry, they have
//! room for all received packets, which then is where the result goes, in pieces that fit. In the one-shot
//! the result of a dry run lies behind both slots: it is there only as long as the kernels' stream needs it.

use crate::arena::STATS_ROOM;
use crate::plan::Chunk;
use crate::ranks::Ranks;
use crate::shape::{Algorithm, Shape};
use airamp_codec::{BLOCK, packet_bytes};

/// Chunks that are in flight at once: one on the wire, one in the kernels; one alone in shapes that take turns, and in calls
/// that would be too long otherwise.
pub(crate) const SLOTS: usize = 2;
/// Blocks for each rank up to which the received packets of a chunk have a place in the arena. Those of
/// a chunk with more always fit into its part of the output.
const SMALL_PACKET_BLOCKS: usize = 2;
/// Bytes of an element at most.
const ELEMENT_BYTES: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    pub(crate) ranks: Ranks,
    /// Whether one chunk has a place at a time.
    pub(crate) in_turn: bool,
    pub(crate) dry: bool,
}

impl Layout {
    /// As the shape would have it.
    pub(crate) fn new(shape: Shape, ranks: Ranks, dry: bool) -> Self {
        Self { shape, ranks, in_turn: shape.in_turn, dry }
    }

    /// Chunks that have a place at the same time.
    pub(crate) fn slots(&self) -> usize {
        if self.in_turn { 1 } else { SLOTS }
    }

    /// Whether a chunk is cut into a packet for each rank.
    fn scatters(&self) -> bool {
        self.shape.algorithm != Algorithm::OneShot
    }

    /// Packets into which a chunk is cut.
    pub(crate) fn packets_per_chunk(&self) -> usize {
        if self.scatters() { self.ranks.all() } else { 1 }
    }

    pub(crate) fn slot_bytes(&self, packet_elements: usize) -> usize {
        let packets = self.ranks.all() * packet_bytes(packet_elements);
        match (self.scatters(), self.dry) {
            (false, _) => packets,
            (true, false) => packets + self.ranks.all() * small_packet_bytes(),
            (true, true) => packets + self.result_bytes(packet_elements),
        }
    }

    /// Bytes that a dry run has for a chunk's received packets, if any, and then for a piece of its result:
    /// at least one packet's elements, whatever their type.
    fn result_bytes(&self, packet_elements: usize) -> usize {
        let result = packet_elements * ELEMENT_BYTES;
        if self.scatters() { result.max(self.ranks.all() * packet_bytes(packet_elements)) } else { result }
    }

    /// Packets of a chunk whose elements are a piece of a dry run's result.
    pub(crate) fn packets_per_piece(&self, chunk: Chunk, element_bytes: usize) -> usize {
        let fit = self.result_bytes(chunk.packet_elements) / (chunk.packet_elements * element_bytes);
        fit.clamp(1, self.packets_per_chunk())
    }

    /// Pieces into which the result of a dry run's chunk is cut at most, whatever its elements and its length: with seven ranks
    /// seven, since the room of seven packets holds one as elements of four bytes.
    pub(crate) fn most_pieces(&self) -> usize {
        let ranks = self.ranks.all();
        if self.scatters() { ranks.div_ceil((ranks / ELEMENT_BYTES).max(1)) } else { 1 }
    }

    /// All that packets of that size need.
    pub(crate) fn arena_bytes(&self, packet_elements: usize) -> usize {
        let behind = if self.dry && !self.scatters() { self.result_bytes(packet_elements) } else { 0 };
        STATS_ROOM + self.slots() * self.slot_bytes(packet_elements) + behind
    }

    /// Elements of the largest packet with which everything fits into the arena.
    pub(crate) fn largest_packet(&self, arena_bytes: usize) -> usize {
        let room = arena_bytes.saturating_sub(STATS_ROOM) / self.slots();
        // No packet is shorter than its codes and scales.
        let (mut fits, mut exceeds) = (0, room / (self.ranks.all().max(1) * (BLOCK + 2)) + 1);
        while exceeds - fits > 1 {
            let blocks = fits + (exceeds - fits) / 2;
            *(if self.arena_bytes(blocks * BLOCK) <= arena_bytes { &mut fits } else { &mut exceeds }) =
                blocks;
        }
        fits * BLOCK
    }
}

fn small_packet_bytes() -> usize {
    packet_bytes(SMALL_PACKET_BLOCKS * BLOCK)
}
