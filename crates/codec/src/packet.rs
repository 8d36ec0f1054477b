//! The walk over packets, written once for every implementation of the block arithmetic: where tag, codes,
//! scale words and padding lie, ragged tails, and the order of a reduction.
//! It does no arithmetic on elements itself, apart from the samples in `Stats`.

use crate::format::{Element, Format};
use crate::stats::{SAMPLED_EVERY, Stats};
use crate::tag::{TAG_BYTES, Tag};

/// Elements per block.
pub const BLOCK: usize = 128;

/// The elements of one block as binary32.
pub(crate) type Values = [f32; BLOCK];
pub(crate) type BlockCodes = [u8; BLOCK];

/// Bytes of a packet of `count` elements; no elements are no packet.
pub const fn packet_bytes(count: usize) -> usize {
    match count.div_ceil(BLOCK) {
        0 => 0,
        blocks => TAG_BYTES + (blocks * (BLOCK + 2)).next_multiple_of(16),
    }
}

/// What writing one block gives besides its codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) scale_word: u16,
    pub(crate) saturated: u32,
    pub(crate) non_finite: bool,
}

/// The arithmetic of one block. Every implementation gives the same bits.
pub(crate) trait Arithmetic: Copy {
    /// The elements of `input` (at most a block) as binary32, and +0 behind them.
    fn load(self, element: Element, input: &[u8], values: &mut Values);
    fn write(self, values: &Values, format: Format, codes: &mut BlockCodes) -> Written;
    /// The decoded values, each within the range of `element` or NaN.
    fn read(self, codes: &BlockCodes, scale_word: u16, format: Format, element: Element, values: &mut Values);
    fn multiply(self, values: &mut Values, factor: f32);
    fn add(self, sum: &mut Values, values: &Values);
    /// Each value rounded to `element` and widened again.
    fn round(self, element: Element, values: &mut Values);
    /// The first values rounded to `element`, as many as `output` holds.
    fn store(self, element: Element, values: &Values, output: &mut [u8]);
}

pub(crate) fn quantise(
    arithmetic: impl Arithmetic,
    element: Element,
    input: &[u8],
    format: Format,
    tag: Tag,
    packet: &mut [u8],
) -> Stats {
    assert!(input.len().is_multiple_of(element.size()), "the input ends within an element");
    let count = input.len() / element.size();
    let mut values = [0.0; BLOCK];
    let mut writer = Writer::new(arithmetic, element, format, tag, count, packet);
    for piece in input.chunks(BLOCK * element.size()) {
        arithmetic.load(element, piece, &mut values);
        writer.write(&values);
    }
    writer.stats
}

pub(crate) fn dequantise(
    arithmetic: impl Arithmetic,
    element: Element,
    packet: &[u8],
    count: usize,
    format: Format,
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    dequantise_sum(arithmetic, element, &[packet], count, format, false, tag, output)
}

pub(crate) fn dequantise_sum(
    arithmetic: impl Arithmetic,
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    assert_eq!(output.len(), count * element.size(), "the output has another count of elements");
    let ranks = Ranks::new(arithmetic, element, packets, count, format, average, tag);
    let mut sum = [0.0; BLOCK];
    for (block, piece) in output.chunks_mut(BLOCK * element.size()).enumerate() {
        ranks.sum(block, &mut sum);
        arithmetic.store(element, &sum, piece);
    }
    Stats { foreign: ranks.foreign(), ..Stats::default() }
}

pub(crate) fn reduce(
    arithmetic: impl Arithmetic,
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    tag: Tag,
    out_tag: Tag,
    out_packet: &mut [u8],
) -> Stats {
    let ranks = Ranks::new(arithmetic, element, packets, count, format, average, tag);
    let mut writer = Writer::new(arithmetic, element, format, out_tag, count, out_packet);
    let mut sum = [0.0; BLOCK];
    for block in 0..count.div_ceil(BLOCK) {
        ranks.sum(block, &mut sum);
        arithmetic.round(element, &mut sum);
        // What other ranks sent behind the count is not ours to pass on.
        sum[BLOCK.min(count - block * BLOCK)..].fill(0.0);
        writer.write(&sum);
    }
    Stats { foreign: ranks.foreign(), ..writer.stats }
}

/// Writes the blocks of one packet in order.
struct Writer<'packet, A> {
    arithmetic: A,
    element: Element,
    format: Format,
    codes: &'packet mut [u8],
    scale_words: &'packet mut [u8],
    block: usize,
    stats: Stats,
}

impl<'packet, A: Arithmetic> Writer<'packet, A> {
    fn new(
        arithmetic: A,
        element: Element,
        format: Format,
        tag: Tag,
        count: usize,
        packet: &'packet mut [u8],
    ) -> Writer<'packet, A> {
        let packet = &mut packet[..packet_bytes(count)];
        let (header, rest) = packet.split_at_mut(TAG_BYTES.min(packet.len()));
        header.copy_from_slice(&tag.to_bytes()[..header.len()]);
        let (codes, rest) = rest.split_at_mut(count.div_ceil(BLOCK) * BLOCK);
        let (scale_words, padding) = rest.split_at_mut(count.div_ceil(BLOCK) * 2);
        padding.fill(0);
        Writer { arithmetic, element, format, codes, scale_words, block: 0, stats: Stats::default() }
    }

    fn write(&mut self, values: &Values) {
        let codes = &mut self.codes.as_chunks_mut::<BLOCK>().0[self.block];
        let written = self.arithmetic.write(values, self.format, codes);
        self.scale_words[2 * self.block..][..2].copy_from_slice(&written.scale_word.to_le_bytes());
        self.stats.saturated += u64::from(written.saturated);
        self.stats.non_finite_blocks += u64::from(written.non_finite);
        if self.block.is_multiple_of(SAMPLED_EVERY) {
            self.sample(values, written.scale_word);
        }
        self.block += 1;
    }

    fn sample(&mut self, values: &Values, scale_word: u16) {
        let mut decoded = [0.0; BLOCK];
        let codes = &self.codes.as_chunks::<BLOCK>().0[self.block];
        self.arithmetic.read(codes, scale_word, self.format, self.element, &mut decoded);
        for (value, decoded) in values.iter().zip(decoded).filter(|(value, _)| value.is_finite()) {
            let value = f64::from(*value);
            self.stats.squared_error += (f64::from(decoded) - value).powi(2);
            self.stats.signal += value.powi(2);
        }
    }
}

/// The packets of all ranks, to be added up block by block.
struct Ranks<'packets, A> {
    arithmetic: A,
    element: Element,
    packets: &'packets [&'packets [u8]],
    count: usize,
    format: Format,
    factor: Option<f32>,
    tag: Tag,
}

impl<'packets, A: Arithmetic> Ranks<'packets, A> {
    fn new(
        arithmetic: A,
        element: Element,
        packets: &'packets [&'packets [u8]],
        count: usize,
        format: Format,
        average: bool,
        tag: Tag,
    ) -> Ranks<'packets, A> {
        assert!(!packets.is_empty(), "a reduction needs the packet of at least one rank");
        for packet in packets {
            assert!(
                packet.len() >= packet_bytes(count),
                "a packet is shorter than its count of elements needs"
            );
        }
        let factor = average.then(|| 1.0 / packets.len() as f32);
        Ranks { arithmetic, element, packets, count, format, factor, tag }
    }

    /// Packets with another tag than their place asks for. Where there are no elements there are no packets.
    fn foreign(&self) -> u64 {
        let foreign = (0..self.packets.len()).filter(|rank| self.count > 0 && self.is_foreign(*rank));
        foreign.count() as u64
    }

    fn is_foreign(&self, rank: usize) -> bool {
        !self.tag.of_rank(rank).is_of(self.packets[rank])
    }

    fn sum(&self, block: usize, sum: &mut Values) {
        self.read(0, block, sum);
        let mut values = [0.0; BLOCK];
        for rank in 1..self.packets.len() {
            self.read(rank, block, &mut values);
            self.arithmetic.add(sum, &values);
        }
    }

    fn read(&self, rank: usize, block: usize, values: &mut Values) {
        if self.is_foreign(rank) {
            values.fill(f32::NAN);
            return;
        }
        let (codes, scale_words) =
            self.packets[rank][TAG_BYTES..].split_at(self.count.div_ceil(BLOCK) * BLOCK);
        let codes = &codes.as_chunks::<BLOCK>().0[block];
        let scale_word = u16::from_le_bytes(scale_words.as_chunks::<2>().0[block]);
        self.arithmetic.read(codes, scale_word, self.format, self.element, values);
        if let Some(factor) = self.factor {
            self.arithmetic.multiply(values, factor);
        }
    }
}
