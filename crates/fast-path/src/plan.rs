//! How a compressed AllReduce is cut into steps. Pure: the same answer on every rank, from the
//! count, the number of ranks and the size of the arena alone, all of which are agreed.

use crate::arena::STATS_ROOM;
use airamp_codec::{BLOCK, packet_bytes};

/// A stream takes about a thousand launches ahead of the device; one more blocks the launching thread,
/// which a collective must never do.
const MOST_PENDING: usize = 1000;
/// What a step launches on one stream at most: quantise, copy, reduce and dequantise on the lane's (see
/// `steps`), two kernels of the vendor's on the caller's. Records and waits do not count.
const LAUNCHES_PER_STEP: usize = 4;

/// Steps of one call at most.
pub const MOST_STEPS: usize = 240;

/// One launch more copies the counters.
const _: () = assert!(MOST_STEPS * LAUNCHES_PER_STEP < MOST_PENDING);

/// Chunks that are in flight at once: one on the wire, one in the kernels.
pub(crate) const SLOTS: usize = 2;

/// Packets shorter than this are not worth a step of their own.
const LEAST_CHUNK_BLOCKS: usize = 256;

/// Blocks for each rank up to which the received packets of a chunk have a place in the arena. Those of
/// a chunk with more always fit into its part of the output.
const SMALL_PACKET_BLOCKS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two ranks: exchange everything once, both add up.
    OneShot,
    /// Scatter the shards, reduce, gather the results.
    TwoShot,
}

impl Algorithm {
    pub(crate) fn of(ranks: usize) -> Self {
        if ranks <= 2 { Self::OneShot } else { Self::TwoShot }
    }
}

/// Why a call cannot be compressed, for a reason that is the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    #[error("a single rank has nobody to exchange with")]
    SingleRank,
    #[error("the call is empty")]
    Empty,
    #[error("the arena is too small for one step")]
    ArenaTooSmall,
    #[error("the call would take more than {MOST_STEPS} steps")]
    TooLong,
}

/// The shape of one call: `steps` chunks, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub algorithm: Algorithm,
    pub count: usize,
    pub ranks: usize,
    pub steps: usize,
    /// Elements of a chunk that one packet holds: all of it, or one rank's shard.
    pub packet_elements: usize,
}

/// Elements `start .. start + elements` of the call, exchanged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: usize,
    pub(crate) elements: usize,
    /// Elements of each packet but the last that is not empty; whole blocks.
    pub(crate) packet_elements: usize,
}

/// What an exchange does with its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Each rank gets its shard from all.
    Scatter,
    /// All get what each rank has.
    Gather,
}

impl Plan {
    pub fn new(count: usize, ranks: usize, arena_bytes: usize) -> Result<Self, Unsuitable> {
        if ranks < 2 {
            return Err(Unsuitable::SingleRank);
        }
        if count == 0 {
            return Err(Unsuitable::Empty);
        }
        let algorithm = Algorithm::of(ranks);
        let most = largest_packet(algorithm, ranks, arena_bytes);
        let packets = packets_per_chunk(algorithm, ranks);
        if most * packets < LEAST_CHUNK_BLOCKS * BLOCK {
            return Err(Unsuitable::ArenaTooSmall);
        }
        let steps = count.div_ceil(most * packets);
        if steps > MOST_STEPS {
            return Err(Unsuitable::TooLong);
        }
        // Even chunks: the last one is not a straggler.
        let packet_elements = count.div_ceil(steps).div_ceil(packets).next_multiple_of(BLOCK);
        Ok(Self { algorithm, count, ranks, steps, packet_elements })
    }

    /// Bytes of all packets that stand for the call's elements on one way over the wire.
    pub fn wire_bytes(&self) -> usize {
        let packets = packets_per_chunk(self.algorithm, self.ranks);
        (0..self.steps).map(|step| packets * self.chunk(step).stride()).sum()
    }

    pub(crate) fn chunk(&self, step: usize) -> Chunk {
        let packets = packets_per_chunk(self.algorithm, self.ranks);
        let start = step * self.packet_elements * packets;
        let elements = (self.packet_elements * packets).min(self.count.saturating_sub(start));
        let packet_elements = elements.div_ceil(packets).next_multiple_of(BLOCK);
        Chunk { start, elements, packet_elements }
    }

    /// Exchanges of the call, in their order: two chunks are under way, so that the kernels of one
    /// run beside the exchange of the other.
    pub(crate) fn exchanges(&self) -> usize {
        match self.algorithm {
            Algorithm::OneShot => self.steps,
            Algorithm::TwoShot => 2 * self.steps,
        }
    }

    /// What the exchange at that place does, and with which chunk.
    pub(crate) fn exchange(&self, place: usize) -> (Phase, usize) {
        if self.algorithm == Algorithm::OneShot {
            return (Phase::Gather, place);
        }
        let first = place / (2 * SLOTS) * SLOTS;
        let together = SLOTS.min(self.steps - first);
        let place = place - 2 * first;
        let phase = if place < together { Phase::Scatter } else { Phase::Gather };
        (phase, first + place % together)
    }

    /// Bytes of a slot of the arena: a chunk's packets, and in the two-shot room for a small one's
    /// received packets.
    pub(crate) fn slot_bytes(&self) -> usize {
        let small = small_packet_bytes(self.algorithm);
        self.ranks * (packet_bytes(self.packet_elements) + small)
    }
}

impl Chunk {
    /// Bytes of a full packet, and the distance from one to the next.
    pub(crate) fn stride(self) -> usize {
        packet_bytes(self.packet_elements)
    }

    pub(crate) fn blocks_per_packet(self) -> usize {
        self.packet_elements / BLOCK
    }

    /// Elements that belong to that rank's shard; the last ranks' may be empty.
    pub(crate) fn shard_elements(self, rank: usize) -> usize {
        self.packet_elements.min(self.elements.saturating_sub(rank * self.packet_elements))
    }

    /// Bytes of the packet that holds that rank's shard; none for an empty one.
    pub(crate) fn shard_bytes(self, rank: usize) -> usize {
        packet_bytes(self.shard_elements(rank))
    }

    /// Whether the chunk's part of the output holds one packet from each rank, wherever it begins.
    pub(crate) fn receives_in_output(self, element_bytes: usize, ranks: usize) -> bool {
        self.elements * element_bytes >= ranks * self.stride() + PACKET_ALIGNMENT
    }
}

/// Packets begin at multiples of this.
pub(crate) const PACKET_ALIGNMENT: usize = 16;

/// Packets into which a chunk is cut.
fn packets_per_chunk(algorithm: Algorithm, ranks: usize) -> usize {
    match algorithm {
        Algorithm::OneShot => 1,
        Algorithm::TwoShot => ranks,
    }
}

fn small_packet_bytes(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::OneShot => 0,
        Algorithm::TwoShot => packet_bytes(SMALL_PACKET_BLOCKS * BLOCK),
    }
}

/// Bytes of the largest packet that calls exchange.
pub(crate) fn largest_packet_bytes(ranks: usize, arena_bytes: usize) -> usize {
    packet_bytes(largest_packet(Algorithm::of(ranks), ranks, arena_bytes))
}

/// Bytes of the smallest arena with which so many ranks can make a call.
pub fn least_arena_bytes(ranks: usize) -> usize {
    let algorithm = Algorithm::of(ranks);
    let blocks = LEAST_CHUNK_BLOCKS.div_ceil(packets_per_chunk(algorithm, ranks));
    STATS_ROOM + SLOTS * ranks * (packet_bytes(blocks * BLOCK) + small_packet_bytes(algorithm))
}

/// Elements of the largest packet with which everything fits into the arena.
fn largest_packet(algorithm: Algorithm, ranks: usize, arena_bytes: usize) -> usize {
    let room = arena_bytes.saturating_sub(STATS_ROOM) / (SLOTS * ranks);
    let room = room.saturating_sub(small_packet_bytes(algorithm));
    let mut blocks = room / (BLOCK + 2);
    while blocks > 0 && packet_bytes(blocks * BLOCK) > room {
        blocks -= 1;
    }
    blocks * BLOCK
}

#[cfg(test)]
mod tests;
