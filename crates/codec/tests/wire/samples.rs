//! Numbers for the tests, the same in every run, and elements to and from the numbers they stand for.

use airamp_codec::{BLOCK, Element, Format, Stats, Tag, packet_bytes, reference};
use half::{bf16, f16};

/// The tag of every packet here.
pub(crate) const TAG: Tag = Tag { call: 0x0123_4567_89ab_cdef, part: 0x77 };

/// Where the codes begin.
pub(crate) const CODES: usize = 16;

/// Copies of packets with the tags of ranks 0, 1 and so on.
pub(crate) fn of_ranks(packets: &[&[u8]]) -> Vec<Vec<u8>> {
    let tagged = |(rank, packet): (usize, &&[u8])| {
        let mut packet = packet.to_vec();
        packet[8..CODES].copy_from_slice(&TAG.of_rank(rank).part.to_le_bytes());
        packet
    };
    packets.iter().enumerate().map(tagged).collect()
}

pub(crate) fn slices(packets: &[Vec<u8>]) -> Vec<&[u8]> {
    packets.iter().map(Vec::as_slice).collect()
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Within (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// From N(0, 1), by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Numbers, rounded to elements, as the bytes of a buffer.
pub(crate) fn pack(element: Element, numbers: &[f32]) -> Vec<u8> {
    match element {
        Element::F16 => numbers.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Element::Bf16 => numbers.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        Element::F32 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

pub(crate) fn unpack(element: Element, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks().0.iter().copied();
    match element {
        Element::F16 => halves().map(|x| f16::from_le_bytes(x).to_f32()).collect(),
        Element::Bf16 => halves().map(|x| bf16::from_le_bytes(x).to_f32()).collect(),
        Element::F32 => bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
    }
}

/// The packet that the reference makes of the elements in `input`.
pub(crate) fn packet(element: Element, input: &[u8], format: Format) -> (Vec<u8>, Stats) {
    let mut packet = vec![0xa5; packet_bytes(input.len() / element.size())];
    let stats = reference::quantise(element, input, format, TAG, &mut packet);
    (packet, stats)
}

/// What comes back from the packet of `input`.
pub(crate) fn round_trip(element: Element, input: &[u8], format: Format) -> Vec<u8> {
    let count = input.len() / element.size();
    let mut output = vec![0xa5; input.len()];
    reference::dequantise(element, &packet(element, input, format).0, count, format, TAG, &mut output);
    output
}

/// The scale word of a block of a packet of `count` elements.
pub(crate) fn scale_word(packet: &[u8], count: usize, block: usize) -> u16 {
    let at = CODES + count.div_ceil(BLOCK) * BLOCK + 2 * block;
    u16::from_le_bytes([packet[at], packet[at + 1]])
}

pub(crate) fn scale(word: u16) -> f32 {
    bf16::from_bits(word & 0x7fff).to_f32()
}

/// All 65536 bit patterns of a 16-bit element.
pub(crate) fn every_pattern() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// Those bit patterns as the bytes of a buffer, in an order of the caller's.
pub(crate) fn pattern_bytes(patterns: &[u16]) -> Vec<u8> {
    patterns.iter().flat_map(|bits| bits.to_le_bytes()).collect()
}

/// Random binary32 numbers, finite ones only if `finite`; the blocks differ widely in size.
pub(crate) fn any_block_sizes(random: &mut Random, count: usize, finite: bool) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let exponent = random.below(255) as u32;
        let spread = 1 + random.below(40) as u32;
        for _ in 0..BLOCK.min(count - numbers.len()) {
            let bits = random.bits() as u32;
            let here = exponent.saturating_sub(bits % spread);
            let number = f32::from_bits((bits & 0x8000_0000) | (here << 23) | (random.bits() as u32 >> 9));
            let odd_one = !finite && random.below(200) == 0;
            numbers.push(if odd_one { f32::from_bits(0x7f80_0000 | bits) } else { number });
        }
    }
    numbers
}

/// Blocks at which `auto` changes its mind, in pairs: they differ in one bit of their second element, have
/// the same scales, and take different formats.
pub(crate) fn knife_edges(random: &mut Random, pairs: usize) -> Vec<[Vec<f32>; 2]> {
    let blocks = (0..100 * pairs).map(|_| (0..BLOCK).map(|_| random.normal() as f32).collect());
    let found: Vec<[Vec<f32>; 2]> = blocks.filter_map(knife_edge).take(pairs).collect();
    assert_eq!(found.len(), pairs, "too few of the blocks have an edge");
    found
}

fn knife_edge(mut block: Vec<f32>) -> Option<[Vec<f32>; 2]> {
    const LARGEST: f32 = 12.0;
    block[0] = LARGEST;
    let mut with_second = |bits: u32| {
        block[1] = f32::from_bits(bits);
        block.clone()
    };
    let takes_int8 = |block: &[f32]| {
        let packet = packet(Element::F32, &pack(Element::F32, block), Format::Auto).0;
        scale_word(&packet, block.len(), 0) & 0x8000 != 0
    };
    let (mut low, mut high) = (0, LARGEST.to_bits());
    if takes_int8(&with_second(low)) || !takes_int8(&with_second(high)) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if takes_int8(&with_second(middle)) { high = middle } else { low = middle }
    }
    Some([with_second(low), with_second(high)])
}
