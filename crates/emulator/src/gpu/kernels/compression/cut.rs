//! Where the packets of a launch lie: at equal distances, one per rank or one per piece of a buffer.

use airamp_codec::{BLOCK, Element, packet_bytes};

use super::range::Range;
use super::{Fault, PACKET_ALIGNMENT, TOLD_APART, Touch};

/// Packets that lie at equal distances.
#[derive(Clone, Copy)]
pub(super) struct Packets {
    pub(super) at: u64,
    pub(super) stride: u64,
}

impl Packets {
    /// The packet of `count` elements in place `index`.
    pub(super) fn nth(self, index: u64, count: usize) -> Range {
        let at = self.at.saturating_add(self.stride.saturating_mul(index));
        Range::new(at, packet_bytes(count), PACKET_ALIGNMENT)
    }

    /// The packet of each rank, all of `count` elements.
    pub(super) fn of_ranks(self, ranks: u64, count: usize) -> impl Iterator<Item = Range> {
        let ranks = if count == 0 { 0 } else { ranks };
        (0..ranks).map(move |rank| self.nth(rank, count))
    }
}

/// A buffer of elements that is cut into pieces, each with its packet.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) buffer: u64,
    pub(super) count: u64,
    pub(super) packets: Packets,
    pub(super) blocks_per_packet: u64,
}

impl Cut {
    fn elements_per_piece(self) -> u64 {
        self.blocks_per_packet.saturating_mul(BLOCK as u64)
    }

    fn packet_count(self) -> u64 {
        self.count.div_ceil(self.elements_per_piece().max(1))
    }

    pub(super) fn whole(self, element: Element) -> Range {
        let size = element.size();
        Range::new(self.buffer, (self.count as usize).saturating_mul(size), size as u64)
    }

    /// The elements of each piece with its packet.
    pub(super) fn pieces(
        self,
        element: Element,
    ) -> Result<impl Iterator<Item = (usize, Range, Range)>, Fault> {
        let (per_piece, size) = (self.elements_per_piece(), element.size() as u64);
        if self.count > 0 && per_piece == 0 {
            return Err(Fault::address("packets of no blocks for a buffer with elements"));
        }
        // Out of range before it is out of patience.
        self.whole(element).read()?;
        Ok((0..self.packet_count()).map(move |index| {
            let first = index * per_piece;
            let count = per_piece.min(self.count - first) as usize;
            let piece = Range::new(self.buffer + first * size, count * size as usize, size);
            (count, piece, self.packets.nth(index, count))
        }))
    }

    pub(super) fn packet_touches(self, touch: fn(u64, usize) -> Touch) -> Vec<Touch> {
        let number = self.packet_count();
        let one = packet_bytes(self.elements_per_piece().min(self.count).min(1 << 40) as usize);
        if number > TOLD_APART || self.elements_per_piece() == 0 {
            let all = self.packets.stride.saturating_mul(number).min(1 << 46);
            return vec![touch(self.packets.at, all as usize)];
        }
        let packet = |index: u64| {
            let rest = self.count - index * self.elements_per_piece();
            let len = packet_bytes(rest.min(1 << 40) as usize).min(one);
            touch(self.packets.nth(index, 0).at, len)
        };
        (0..number).map(packet).collect()
    }
}
