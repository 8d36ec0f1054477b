//! How a compressed AllReduce is cut into steps. Pure: the same answer on every rank, from the
//! count, the ranks and their nodes, the size of the arena and the shape alone, all of which are agreed.

use crate::layout::Layout;
use crate::ranks::Ranks;
use crate::shape::{Algorithm, Shape};
use airamp_codec::{BLOCK, packet_bytes};

/// A stream takes about a thousand launches ahead of the device; one more blocks the launching thread,
/// which a collective must never do.
const MOST_PENDING: usize = 1000;
/// What copies the counters and, in a dry run, the samples, of which few lie across a border.
const OTHER_LAUNCHES: usize = 20;

/// Steps of one call at most, whatever its shape.
pub const MOST_STEPS: usize = 480;
/// Steps at most for the sake of small chunks. A call that is longer than so many large ones has more.
const WANTED_STEPS: usize = 240;

/// Steps of a call at most: the fewer, the more each launches. A call is dequantised at once, a dry run in several pieces
/// (see `dry_run`).
pub(crate) fn most_steps(layout: &Layout) -> usize {
    let pieces = if layout.dry { layout.most_pieces() } else { 1 };
    ((MOST_PENDING - OTHER_LAUNCHES - 1) / (launches_beside_pieces(layout) + pieces)).min(MOST_STEPS)
}

/// What a step launches on one stream at most, but for dequantising: quantise, copy and reduce on the lane's (see
/// `steps`), of which the one-shot has the first alone; the three-shot also reduces the packets of its own node, for each of
/// the nodes. The vendor's on the caller's stream, one for each exchange, are no more. Records and waits do not count.
fn launches_beside_pieces(layout: &Layout) -> usize {
    match layout.shape.algorithm {
        Algorithm::OneShot => 1,
        Algorithm::TwoShot => 3,
        Algorithm::ThreeShot => 3 + layout.ranks.nodes(),
    }
}

/// Chunks shorter than this are not worth a step of their own.
const LEAST_CHUNK_BLOCKS: usize = 256;

/// Why a call cannot be compressed, for a reason that is the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    #[error("a single rank has nobody to exchange with")]
    SingleRank,
    #[error("the call is empty")]
    Empty,
    #[error("the arena is too small for one step")]
    ArenaTooSmall,
    #[error("the call, or its dry run, would take more steps than one of its shape may have")]
    TooLong,
    #[error("so many ranks do not use that shape")]
    ForeignShape,
}

/// The steps of one call: `steps` chunks, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub shape: Shape,
    pub count: usize,
    pub ranks: Ranks,
    pub steps: usize,
    /// Elements of a chunk that one packet holds: all of it, or one rank's shard.
    pub packet_elements: usize,
    /// Whether one chunk is under way at a time instead of two.
    pub(crate) in_turn: bool,
    /// Whether everything stays in the arena, so that input and output are left as they are.
    pub dry: bool,
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
    /// Each rank gets, from those of its node, the shards of all ranks that have its place in their nodes.
    WithinNode,
    /// Each rank gets its shard from all, or from those that have its place in the other nodes.
    Scatter,
    /// All get what each rank has.
    Gather,
}

impl Plan {
    pub fn new(
        count: usize,
        ranks: impl Into<Ranks>,
        arena_bytes: usize,
        shape: Shape,
    ) -> Result<Self, Unsuitable> {
        Self::make(count, ranks.into(), arena_bytes, shape, false)
    }

    /// The plan of a dry run. It needs more of the arena, so its chunks may be smaller.
    pub fn dry(
        count: usize,
        ranks: impl Into<Ranks>,
        arena_bytes: usize,
        shape: Shape,
    ) -> Result<Self, Unsuitable> {
        Self::make(count, ranks.into(), arena_bytes, shape, true)
    }

    fn make(
        count: usize,
        ranks: Ranks,
        arena_bytes: usize,
        shape: Shape,
        dry: bool,
    ) -> Result<Self, Unsuitable> {
        if ranks.all() < 2 {
            return Err(Unsuitable::SingleRank);
        }
        if count == 0 {
            return Err(Unsuitable::Empty);
        }
        if !Shape::candidates(ranks).contains(&shape) {
            return Err(Unsuitable::ForeignShape);
        }
        let layout = Layout::new(shape, ranks, dry);
        match Self::cut(count, layout, arena_bytes) {
            // Its chunks are larger.
            Err(Unsuitable::TooLong) => Self::cut(count, Layout { in_turn: true, ..layout }, arena_bytes),
            cut => cut,
        }
    }

    fn cut(count: usize, layout: Layout, arena_bytes: usize) -> Result<Self, Unsuitable> {
        let Layout { shape, ranks, in_turn, dry } = layout;
        let packets = layout.packets_per_chunk();
        let least = least_packet_blocks(&layout) * BLOCK;
        let most_live = Layout { dry: false, ..layout }.largest_packet(arena_bytes);
        let most = if dry { layout.largest_packet(arena_bytes) } else { most_live };
        if most_live < least || most == 0 {
            return Err(Unsuitable::ArenaTooSmall);
        }
        let fewest = count.div_ceil(most * packets);
        if fewest > most_steps(&layout) {
            return Err(Unsuitable::TooLong);
        }
        let part = most_live.div_ceil(shape.parts.max(1) as usize).next_multiple_of(BLOCK);
        let wanted = part.max(least).min(most);
        let steps = count.div_ceil(wanted * packets).min(WANTED_STEPS.min(most_steps(&layout)).max(fewest));
        // Even chunks: the last one is not a straggler.
        let packet_elements = count.div_ceil(steps).div_ceil(packets).next_multiple_of(BLOCK);
        let steps = count.div_ceil(packet_elements * packets);
        Ok(Self { shape, count, ranks, steps, packet_elements, in_turn, dry })
    }

    /// Chunks whose kernels run beside the exchange of another: all of them, or none where they take turns.
    pub fn overlapping_chunks(&self) -> usize {
        if self.in_turn { 0 } else { self.steps }
    }

    /// Bytes of all packets that stand for the call's elements on one way over the wire.
    pub fn wire_bytes(&self) -> usize {
        let packets = self.layout().packets_per_chunk();
        (0..self.steps).map(|step| packets * self.chunk(step).stride()).sum()
    }

    /// Bytes that this rank sends to its peers for one call. The vendor's AllGather sends every packet but one on.
    /// All chunks but the last are alike, so that two of them tell it.
    pub fn sent_bytes(&self, rank: usize) -> usize {
        let Some(last) = self.steps.checked_sub(1) else { return 0 };
        let of_chunk = |step| self.chunk(step).sent_bytes(self.shape.algorithm, rank, self.ranks.all());
        of_chunk(0) * last + of_chunk(last)
    }

    /// Blocks that this rank's kernels write for one call: those of the input, and of what it reduces.
    pub fn blocks(&self, rank: usize) -> usize {
        let Some(last) = self.steps.checked_sub(1) else { return 0 };
        let of_chunk = |step| {
            let chunk = self.chunk(step);
            let reduced = |rank| chunk.shard_elements(rank).div_ceil(BLOCK);
            chunk.elements.div_ceil(BLOCK)
                + match self.shape.algorithm {
                    Algorithm::OneShot => 0,
                    Algorithm::TwoShot => reduced(rank),
                    Algorithm::ThreeShot => reduced(rank) + self.same_place(rank).map(reduced).sum::<usize>(),
                }
        };
        of_chunk(0) * last + of_chunk(last)
    }

    pub(crate) fn chunk(&self, step: usize) -> Chunk {
        let packets = self.layout().packets_per_chunk();
        let start = step * self.packet_elements * packets;
        let elements = (self.packet_elements * packets).min(self.count.saturating_sub(start));
        let packet_elements = elements.div_ceil(packets).next_multiple_of(BLOCK);
        Chunk { start, elements, packet_elements }
    }

    /// The ranks that have that one's place in their nodes, itself too.
    pub(crate) fn same_place(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        let (ranks, place) = (self.ranks, self.ranks.place_of(rank));
        (0..ranks.nodes()).map(move |node| ranks.at(node, place))
    }

    /// The ranks of that one's node, itself too.
    pub(crate) fn same_node(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        let (ranks, node) = (self.ranks, self.ranks.node_of(rank));
        (0..ranks.per_node()).map(move |place| ranks.at(node, place))
    }

    /// Exchanges of the call, in their order: two chunks are under way, so that the kernels of one
    /// run beside the exchange of the other, or one alone.
    pub(crate) fn exchanges(&self) -> usize {
        self.shape.algorithm.phases().len() * self.steps
    }

    /// What the exchange at that place does, and with which chunk.
    pub(crate) fn exchange(&self, place: usize) -> (Phase, usize) {
        let phases = self.shape.algorithm.phases();
        if phases.len() == 1 {
            return (Phase::Gather, place);
        }
        let first = place / (phases.len() * self.slots()) * self.slots();
        let together = self.slots().min(self.steps - first);
        let mut place = place - phases.len() * first;
        let mut phase = 0;
        while place >= together {
            (place, phase) = (place - together, phase + 1);
        }
        (phases[phase], first + place)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout { shape: self.shape, ranks: self.ranks, in_turn: self.in_turn, dry: self.dry }
    }

    pub(crate) fn slots(&self) -> usize {
        self.layout().slots()
    }

    /// Bytes of a slot of the arena.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.layout().slot_bytes(self.packet_elements)
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

    fn sent_bytes(self, algorithm: Algorithm, rank: usize, ranks: usize) -> usize {
        let gathered = (ranks - 1) * self.stride();
        match algorithm {
            Algorithm::OneShot => gathered,
            // Within the node goes all but the shards of this rank's place, across nodes these but its own.
            Algorithm::TwoShot | Algorithm::ThreeShot => {
                let full = self.elements / self.packet_elements.max(1);
                let scattered = full * self.stride() + self.shard_bytes(full);
                gathered + scattered - self.shard_bytes(rank)
            }
        }
    }

    /// Whether the chunk's part of the output holds one packet from each rank, wherever it begins.
    pub(crate) fn receives_in_output(self, element_bytes: usize, ranks: usize) -> bool {
        self.elements * element_bytes >= ranks * self.stride() + PACKET_ALIGNMENT
    }
}

/// Packets begin at multiples of this.
pub(crate) const PACKET_ALIGNMENT: usize = 16;

fn least_packet_blocks(layout: &Layout) -> usize {
    LEAST_CHUNK_BLOCKS.div_ceil(layout.packets_per_chunk())
}

/// Bytes of the largest packet that calls of whatever shape exchange.
pub(crate) fn largest_packet_bytes(ranks: Ranks, arena_bytes: usize) -> usize {
    let of = |shape: &Shape| {
        let layout = Layout { in_turn: true, ..Layout::new(*shape, ranks, false) };
        packet_bytes(layout.largest_packet(arena_bytes))
    };
    Shape::candidates(ranks).iter().map(of).max().unwrap_or(0)
}

/// With so many chunks most of a call's kernels run beside an exchange.
const OVERLAPPING: usize = 4;

/// The first of the variants for special calls that cuts so many elements into chunks which overlap. None where one of
/// the others already does.
pub(crate) fn fitting_variant(count: usize, ranks: Ranks, arena_bytes: usize) -> Option<u8> {
    let overlaps = |shape: &Shape| {
        !shape.in_turn
            && Plan::new(count, ranks, arena_bytes, *shape).is_ok_and(|plan| plan.steps >= OVERLAPPING)
    };
    let first = Shape::candidates(ranks).iter().position(overlaps)?;
    let (tried, _) = Shape::variants(ranks);
    u8::try_from(first).ok().filter(|first| *first >= tried)
}

/// Bytes of the smallest arena with which so many ranks can make a call of the usual shape.
pub fn least_arena_bytes(ranks: impl Into<Ranks>) -> usize {
    let ranks = ranks.into();
    let layout = Layout::new(Shape::usual(ranks), ranks, false);
    layout.arena_bytes(least_packet_blocks(&layout) * BLOCK)
}

#[cfg(test)]
mod tests;
