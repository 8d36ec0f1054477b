//! The product's kernels, executed by the codec: quantise, dequantise, and both ways of
//! adding packets up, for each type of element.
//!
//! Stricter than a GPU: misaligned packets, overlapping buffers, another size of thread
//! block or an unknown format are faults with a sentence.

mod range;

use airamp_codec::{self as codec, BLOCK, Element, Format, packet_bytes};

use super::{Fault, Kernel, Launch, Touch};
use range::{Range, add_stats, require_disjoint, stats_touch};

/// Threads per block that the kernels are written for.
const THREADS: [u32; 3] = [256, 1, 1];
/// A packet begins at a multiple of this many bytes.
const PACKET_ALIGNMENT: u64 = 16;
/// Packets of a launch that are told apart when looking for races.
const TOLD_APART: u64 = 256;

const QUANTISE: &[usize] = &[8, 8, 8, 8, 8, 4, 8];
const DEQUANTISE: &[usize] = &[8, 8, 8, 8, 4, 8];
const DEQUANTISE_SUM: &[usize] = &[8, 8, 4, 8, 4, 4, 8];
const REDUCE: &[usize] = &[8, 8, 4, 8, 4, 4, 8, 8];

macro_rules! kernels {
    ($($name:literal $parameters:ident $type:ident $element:ident;)*) => {
        pub(super) const KERNELS: &[Kernel] = &[$(Kernel {
            name: $name,
            parameters: $parameters,
            touches: |launch| $type::of(launch).touches(Element::$element),
            run: |launch| {
                require_threads(launch)?;
                $type::of(launch).run(Element::$element)
            },
        }),*];
    };
}

kernels! {
    "airamp_quantise_f16" QUANTISE Quantise F16;
    "airamp_quantise_bf16" QUANTISE Quantise Bf16;
    "airamp_quantise_f32" QUANTISE Quantise F32;
    "airamp_dequantise_f16" DEQUANTISE Dequantise F16;
    "airamp_dequantise_bf16" DEQUANTISE Dequantise Bf16;
    "airamp_dequantise_f32" DEQUANTISE Dequantise F32;
    "airamp_dequantise_sum_f16" DEQUANTISE_SUM DequantiseSum F16;
    "airamp_dequantise_sum_bf16" DEQUANTISE_SUM DequantiseSum Bf16;
    "airamp_dequantise_sum_f32" DEQUANTISE_SUM DequantiseSum F32;
    "airamp_reduce_f16" REDUCE Reduce F16;
    "airamp_reduce_bf16" REDUCE Reduce Bf16;
    "airamp_reduce_f32" REDUCE Reduce F32;
}

fn require_threads(launch: &Launch) -> Result<(), Fault> {
    if launch.block == THREADS {
        return Ok(());
    }
    Err(Fault::address(format!("{:?} threads per block, where the kernel needs {THREADS:?}", launch.block)))
}

fn format(argument: u64) -> Result<Format, Fault> {
    let known = u32::try_from(argument).ok().and_then(Format::from_argument);
    known.ok_or_else(|| Fault::address(format!("there is no wire format {argument}")))
}

/// Packets that lie at equal distances.
#[derive(Clone, Copy)]
struct Packets {
    at: u64,
    stride: u64,
}

impl Packets {
    /// The packet of `count` elements in place `index`.
    fn nth(self, index: u64, count: usize) -> Range {
        let at = self.at.saturating_add(self.stride.saturating_mul(index));
        Range::new(at, packet_bytes(count), PACKET_ALIGNMENT)
    }

    /// The packet of each rank, all of `count` elements.
    fn of_ranks(self, ranks: u64, count: usize) -> impl Iterator<Item = Range> {
        let ranks = if count == 0 { 0 } else { ranks };
        (0..ranks).map(move |rank| self.nth(rank, count))
    }
}

/// A buffer of elements that is cut into pieces, each with its packet.
#[derive(Clone, Copy)]
struct Cut {
    buffer: u64,
    count: u64,
    packets: Packets,
    blocks_per_packet: u64,
}

impl Cut {
    fn elements_per_piece(self) -> u64 {
        self.blocks_per_packet.saturating_mul(BLOCK as u64)
    }

    fn packet_count(self) -> u64 {
        self.count.div_ceil(self.elements_per_piece().max(1))
    }

    fn whole(self, element: Element) -> Range {
        let size = element.size();
        Range::new(self.buffer, (self.count as usize).saturating_mul(size), size as u64)
    }

    /// The elements of each piece with its packet.
    fn pieces(self, element: Element) -> Result<impl Iterator<Item = (usize, Range, Range)>, Fault> {
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

    fn packet_touches(self, touch: fn(u64, usize) -> Touch) -> Vec<Touch> {
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

struct Quantise {
    cut: Cut,
    format: u64,
    stats: u64,
}

impl Quantise {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(2), stride: argument(3) };
        let cut = Cut { buffer: argument(0), count: argument(1), packets, blocks_per_packet: argument(4) };
        Self { cut, format: argument(5), stats: argument(6) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.cut.packet_touches(Touch::write);
        touches.push(self.cut.whole(element).touch(Touch::read));
        touches.extend(stats_touch(self.stats));
        touches
    }

    fn run(&self, element: Element) -> Result<(), Fault> {
        let format = format(self.format)?;
        let input = self.cut.whole(element);
        let mut stats = codec::Stats::default();
        for (_, piece, packet) in self.cut.pieces(element)? {
            require_disjoint(&input, &packet)?;
            stats += codec::quantise(element, piece.read()?, format, packet.write()?);
        }
        add_stats(self.stats, stats)
    }
}

struct Dequantise {
    cut: Cut,
    format: u64,
}

impl Dequantise {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(0), stride: argument(1) };
        let cut = Cut { buffer: argument(5), count: argument(3), packets, blocks_per_packet: argument(2) };
        Self { cut, format: argument(4) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.cut.packet_touches(Touch::read);
        touches.push(self.cut.whole(element).touch(Touch::write));
        touches
    }

    fn run(&self, element: Element) -> Result<(), Fault> {
        let format = format(self.format)?;
        let output = self.cut.whole(element);
        for (count, piece, packet) in self.cut.pieces(element)? {
            require_disjoint(&output, &packet)?;
            codec::dequantise(element, packet.read()?, count, format, piece.write()?);
        }
        Ok(())
    }
}

/// The packets of all ranks, to be added up.
struct Ranks {
    packets: Packets,
    ranks: u64,
    count: u64,
    format: u64,
    average: bool,
}

impl Ranks {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(0), stride: argument(1) };
        let average = argument(5) != 0;
        Self { packets, ranks: argument(2), count: argument(3), format: argument(4), average }
    }

    fn touches(&self) -> Vec<Touch> {
        let packets = self.packets.of_ranks(self.ranks.min(TOLD_APART), self.clamped_count());
        packets.map(|packet| packet.touch(Touch::read)).collect()
    }

    /// For the sizes of touches, which must not overflow whatever was passed.
    fn clamped_count(&self) -> usize {
        self.count.min(1 << 40) as usize
    }

    fn output(&self, at: u64, element: Element) -> Range {
        Range::new(at, self.clamped_count() * element.size(), element.size() as u64)
    }

    /// The packets that are read, none of which may be written to.
    fn inputs(&self, output: &Range) -> Result<Vec<&'static [u8]>, Fault> {
        if self.ranks == 0 && self.count > 0 {
            return Err(Fault::address("a sum over no ranks"));
        }
        let packets = self.packets.of_ranks(self.ranks, self.clamped_count());
        let read = |packet: Range| require_disjoint(&packet, output).and_then(|()| packet.read());
        packets.map(read).collect()
    }
}

struct DequantiseSum {
    ranks: Ranks,
    output: u64,
}

impl DequantiseSum {
    fn of(launch: &Launch) -> Self {
        Self { ranks: Ranks::of(launch), output: launch.unsigned(6) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.ranks.touches();
        touches.push(self.ranks.output(self.output, element).touch(Touch::write));
        touches
    }

    fn run(&self, element: Element) -> Result<(), Fault> {
        let (ranks, format) = (&self.ranks, format(self.ranks.format)?);
        let output = ranks.output(self.output, element);
        let packets = ranks.inputs(&output)?;
        if !packets.is_empty() {
            let count = ranks.count as usize;
            codec::dequantise_sum(element, &packets, count, format, ranks.average, output.write()?);
        }
        Ok(())
    }
}

struct Reduce {
    ranks: Ranks,
    out_packet: u64,
    stats: u64,
}

impl Reduce {
    fn of(launch: &Launch) -> Self {
        Self { ranks: Ranks::of(launch), out_packet: launch.unsigned(6), stats: launch.unsigned(7) }
    }

    fn out_packet(&self) -> Range {
        Range::new(self.out_packet, packet_bytes(self.ranks.clamped_count()), PACKET_ALIGNMENT)
    }

    fn touches(&self, _element: Element) -> Vec<Touch> {
        let mut touches = self.ranks.touches();
        touches.push(self.out_packet().touch(Touch::write));
        touches.extend(stats_touch(self.stats));
        touches
    }

    fn run(&self, element: Element) -> Result<(), Fault> {
        let (ranks, format) = (&self.ranks, format(self.ranks.format)?);
        let out_packet = self.out_packet();
        let packets = ranks.inputs(&out_packet)?;
        if packets.is_empty() {
            return Ok(());
        }
        let count = ranks.count as usize;
        let stats = codec::reduce(element, &packets, count, format, ranks.average, out_packet.write()?);
        add_stats(self.stats, stats)
    }
}
