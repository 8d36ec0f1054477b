//! The product's kernels, executed by the codec: quantise, dequantise, and both ways of
//! adding packets up, for each type of element and each format.
//!
//! Stricter than a GPU: misaligned packets, overlapping buffers or another size of thread
//! block are faults with a sentence.

mod cut;
mod range;

use airamp_codec::{self as codec, Element, Format, Tag, packet_bytes};

use super::{Fault, Kernel, Launch, Touch};
use cut::{Cut, Packets};
use range::{Range, add_stats, require_disjoint, stats_touch};

/// Threads per block that the kernels are written for.
const THREADS: [u32; 3] = [256, 1, 1];
/// A packet begins at a multiple of this many bytes.
const PACKET_ALIGNMENT: u64 = 16;
/// Packets of a launch that are told apart when looking for races.
const TOLD_APART: u64 = 256;

const QUANTISE: &[usize] = &[8, 8, 8, 8, 8, 8, 8, 8];
const DEQUANTISE: &[usize] = &[8, 8, 8, 8, 8, 8, 8, 8];
const DEQUANTISE_SUM: &[usize] = &[8, 8, 4, 8, 4, 8, 8, 8, 8];
const REDUCE: &[usize] = &[8, 8, 4, 8, 4, 8, 8, 8, 8, 8, 8];

macro_rules! kernel {
    ($operation:literal $parameters:ident $type:ident, $t:literal $element:ident, $f:literal $format:ident) => {
        Kernel {
            name: concat!("airamp_", $operation, "_", $t, "_", $f),
            parameters: $parameters,
            touches: |launch| $type::of(launch).touches(Element::$element),
            run: |launch| {
                require_threads(launch)?;
                $type::of(launch).run(Element::$element, Format::$format)
            },
        }
    };
}

macro_rules! each_format {
    ($operation:literal $parameters:ident $type:ident, $t:literal $element:ident) => {
        [
            kernel!($operation $parameters $type, $t $element, "e4m3" E4M3),
            kernel!($operation $parameters $type, $t $element, "e5m2" E5M2),
            kernel!($operation $parameters $type, $t $element, "int8" Int8),
            kernel!($operation $parameters $type, $t $element, "auto" Auto),
        ]
    };
}

macro_rules! each_kernel {
    ($($operation:literal $parameters:ident $type:ident;)*) => {
        [$(
            each_format!($operation $parameters $type, "f16" F16),
            each_format!($operation $parameters $type, "bf16" Bf16),
            each_format!($operation $parameters $type, "f32" F32),
        )*]
    };
}

pub(super) const KERNELS: &[[Kernel; 4]] = &each_kernel! {
    "quantise" QUANTISE Quantise;
    "dequantise" DEQUANTISE Dequantise;
    "dequantise_sum" DEQUANTISE_SUM DequantiseSum;
    "reduce" REDUCE Reduce;
};

fn require_threads(launch: &Launch) -> Result<(), Fault> {
    if launch.block == THREADS {
        return Ok(());
    }
    Err(Fault::address(format!("{:?} threads per block, where the kernel needs {THREADS:?}", launch.block)))
}

/// The tag whose two words begin at argument `index`.
fn tag(launch: &Launch, index: usize) -> Tag {
    Tag { call: launch.unsigned(index), part: launch.unsigned(index + 1) }
}

struct Quantise {
    cut: Cut,
    tag: Tag,
    stats: u64,
}

impl Quantise {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(2), stride: argument(3) };
        let cut = Cut { buffer: argument(0), count: argument(1), packets, blocks_per_packet: argument(4) };
        Self { cut, tag: tag(launch, 5), stats: argument(7) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.cut.packet_touches(Touch::write);
        touches.push(self.cut.whole(element).touch(Touch::read));
        touches.extend(stats_touch(self.stats));
        touches
    }

    fn run(&self, element: Element, format: Format) -> Result<(), Fault> {
        let input = self.cut.whole(element);
        let mut stats = codec::Stats::default();
        for (_, piece, packet) in self.cut.pieces(element)? {
            require_disjoint(&input, &packet)?;
            stats += codec::quantise(element, piece.read()?, format, self.tag, packet.write()?);
        }
        add_stats(self.stats, stats)
    }
}

struct Dequantise {
    cut: Cut,
    tag: Tag,
    stats: u64,
}

impl Dequantise {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(0), stride: argument(1) };
        let cut = Cut { buffer: argument(6), count: argument(3), packets, blocks_per_packet: argument(2) };
        Self { cut, tag: tag(launch, 4), stats: argument(7) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.cut.packet_touches(Touch::read);
        touches.push(self.cut.whole(element).touch(Touch::write));
        touches.extend(stats_touch(self.stats));
        touches
    }

    fn run(&self, element: Element, format: Format) -> Result<(), Fault> {
        let output = self.cut.whole(element);
        let mut stats = codec::Stats::default();
        for (index, (count, piece, packet)) in self.cut.pieces(element)?.enumerate() {
            require_disjoint(&output, &packet)?;
            let tag = self.tag.of_rank(index);
            stats += codec::dequantise(element, packet.read()?, count, format, tag, piece.write()?);
        }
        add_stats(self.stats, stats)
    }
}

/// The packets of all ranks, to be added up.
struct Ranks {
    packets: Packets,
    ranks: u64,
    count: u64,
    average: bool,
    tag: Tag,
}

impl Ranks {
    fn of(launch: &Launch) -> Self {
        let argument = |index| launch.unsigned(index);
        let packets = Packets { at: argument(0), stride: argument(1) };
        let average = argument(4) != 0;
        let (ranks, count, tag) = (argument(2), argument(3), tag(launch, 5));
        Self { packets, ranks, count, average, tag }
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
    stats: u64,
}

impl DequantiseSum {
    fn of(launch: &Launch) -> Self {
        Self { ranks: Ranks::of(launch), output: launch.unsigned(7), stats: launch.unsigned(8) }
    }

    fn touches(&self, element: Element) -> Vec<Touch> {
        let mut touches = self.ranks.touches();
        touches.push(self.ranks.output(self.output, element).touch(Touch::write));
        touches.extend(stats_touch(self.stats));
        touches
    }

    fn run(&self, element: Element, format: Format) -> Result<(), Fault> {
        let ranks = &self.ranks;
        let output = ranks.output(self.output, element);
        let packets = ranks.inputs(&output)?;
        if packets.is_empty() {
            return Ok(());
        }
        let (count, average, tag) = (ranks.count as usize, ranks.average, ranks.tag);
        let stats = codec::dequantise_sum(element, &packets, count, format, average, tag, output.write()?);
        add_stats(self.stats, stats)
    }
}

struct Reduce {
    ranks: Ranks,
    out_tag: Tag,
    out_packet: u64,
    stats: u64,
}

impl Reduce {
    fn of(launch: &Launch) -> Self {
        let (out_packet, stats) = (launch.unsigned(9), launch.unsigned(10));
        Self { ranks: Ranks::of(launch), out_tag: tag(launch, 7), out_packet, stats }
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

    fn run(&self, element: Element, format: Format) -> Result<(), Fault> {
        let ranks = &self.ranks;
        let out_packet = self.out_packet();
        let packets = ranks.inputs(&out_packet)?;
        if packets.is_empty() {
            return Ok(());
        }
        let (count, average, tag) = (ranks.count as usize, ranks.average, ranks.tag);
        let (out_tag, out) = (self.out_tag, out_packet.write()?);
        let stats = codec::reduce(element, &packets, count, format, average, tag, out_tag, out);
        add_stats(self.stats, stats)
    }
}
