//! How a compressed AllReduce is cut into steps. Pure: the same answer on every rank, from the
//! count, the number of ranks and the size of the arena alone, all of which are agreed.

use airamp_codec::{BLOCK, packet_bytes};

/// Steps of one call at most. Each enqueues about ten operations, and a device that holds a
/// thousand pending ones blocks the launching thread, which a collective must never do.
pub const MOST_STEPS: usize = 96;

/// Chunks that are in flight at once: one on the wire, one in the kernels.
pub const SLOTS: usize = 2;

/// Packets shorter than this are not worth a step of their own.
const LEAST_CHUNK_BLOCKS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two ranks: exchange everything once, both add up.
    OneShot,
    /// Scatter the shards, reduce, gather the results.
    TwoShot,
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

/// The shape of one call: `steps` chunks of `chunk_elements`, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub algorithm: Algorithm,
    pub count: usize,
    pub ranks: usize,
    pub steps: usize,
    /// Elements of a chunk that one packet holds: all of it, or one rank's shard.
    pub packet_elements: usize,
}

/// Elements `start .. start + elements` of the call, exchanged in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub start: usize,
    pub elements: usize,
}

impl Plan {
    pub fn new(count: usize, ranks: usize, arena_bytes: usize) -> Result<Self, Unsuitable> {
        let algorithm = match ranks {
            0 | 1 => return Err(Unsuitable::SingleRank),
            2 => Algorithm::OneShot,
            _ => Algorithm::TwoShot,
        };
        if count == 0 {
            return Err(Unsuitable::Empty);
        }
        let most = largest_packet(algorithm, ranks, arena_bytes);
        let packets_per_chunk = packets_per_chunk(algorithm, ranks);
        if most * packets_per_chunk < LEAST_CHUNK_BLOCKS * BLOCK {
            return Err(Unsuitable::ArenaTooSmall);
        }
        let steps = count.div_ceil(most * packets_per_chunk);
        if steps > MOST_STEPS {
            return Err(Unsuitable::TooLong);
        }
        // Even chunks: the last one is not a straggler.
        let packet_elements = count.div_ceil(steps).div_ceil(packets_per_chunk).next_multiple_of(BLOCK);
        Ok(Self { algorithm, count, ranks, steps, packet_elements })
    }

    /// Bytes of one packet, and the distance from one to the next.
    pub fn packet_bytes(&self) -> usize {
        packet_bytes(self.packet_elements)
    }

    pub fn blocks_per_packet(&self) -> usize {
        self.packet_elements / BLOCK
    }

    pub fn chunk_elements(&self) -> usize {
        self.packet_elements * packets_per_chunk(self.algorithm, self.ranks)
    }

    pub fn chunk(&self, step: usize) -> Chunk {
        let start = (step * self.chunk_elements()).min(self.count);
        Chunk { start, elements: self.chunk_elements().min(self.count - start) }
    }

    /// Elements of a chunk that belong to that rank's shard.
    pub fn shard_elements(&self, chunk: Chunk, rank: usize) -> usize {
        let start = (rank * self.packet_elements).min(chunk.elements);
        self.packet_elements.min(chunk.elements - start)
    }

    /// Bytes of scratch that the call uses.
    pub fn scratch_bytes(&self) -> usize {
        SLOTS * buffers(self.algorithm) * self.ranks * self.packet_bytes()
    }
}

/// Packets into which a chunk is cut.
fn packets_per_chunk(algorithm: Algorithm, ranks: usize) -> usize {
    match algorithm {
        Algorithm::OneShot => 1,
        Algorithm::TwoShot => ranks,
    }
}

/// Sets of one packet per rank that each chunk in flight needs.
fn buffers(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::OneShot => 1,
        // What is sent, what is received, what is gathered.
        Algorithm::TwoShot => 3,
    }
}

/// Elements of the largest packet with which everything fits into the arena.
fn largest_packet(algorithm: Algorithm, ranks: usize, arena_bytes: usize) -> usize {
    let room = arena_bytes / (SLOTS * buffers(algorithm) * ranks);
    let mut blocks = room / packet_bytes(BLOCK).min(130);
    while blocks > 0 && packet_bytes(blocks * BLOCK) > room {
        blocks -= 1;
    }
    blocks * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: usize = 16 << 20;

    fn counts() -> impl Iterator<Item = usize> {
        [1, 2, 127, 128, 129, 1000, 65_537, 1 << 20, (1 << 22) + 1, 33_554_432, 100_000_007].into_iter()
    }

    #[test]
    fn every_element_is_in_one_chunk_and_one_shard() {
        for (count, ranks) in counts().flat_map(|count| (2..=9).map(move |ranks| (count, ranks))) {
            let plan = Plan::new(count, ranks, ARENA).unwrap();
            let mut next = 0;
            for step in 0..plan.steps {
                let chunk = plan.chunk(step);
                assert_eq!(chunk.start, next);
                next += chunk.elements;
                let shards: usize = (0..ranks).map(|rank| plan.shard_elements(chunk, rank)).sum();
                let whole = if plan.algorithm == Algorithm::TwoShot { shards } else { chunk.elements };
                assert_eq!(whole, chunk.elements);
            }
            assert_eq!(next, count);
        }
    }

    #[test]
    fn the_scratch_never_exceeds_the_arena() {
        for (count, ranks) in counts().flat_map(|count| (2..=64).map(move |ranks| (count, ranks))) {
            for arena in [1 << 20, 4 << 20, ARENA, 64 << 20] {
                if let Ok(plan) = Plan::new(count, ranks, arena) {
                    assert!(plan.scratch_bytes() <= arena, "{plan:?}");
                    assert!(plan.steps <= MOST_STEPS);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_done_says_why() {
        assert_eq!(Plan::new(100, 1, ARENA), Err(Unsuitable::SingleRank));
        assert_eq!(Plan::new(0, 4, ARENA), Err(Unsuitable::Empty));
        assert_eq!(Plan::new(100, 4, 1 << 10), Err(Unsuitable::ArenaTooSmall));
        assert_eq!(Plan::new(1 << 40, 4, ARENA), Err(Unsuitable::TooLong));
    }

    #[test]
    fn chunks_are_even() {
        let plan = Plan::new(33_554_432, 4, ARENA).unwrap();
        let sizes: Vec<usize> = (0..plan.steps).map(|step| plan.chunk(step).elements).collect();
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 4 * BLOCK * plan.steps);
    }
}
