//! The kernels' own source, run on the CPU, gives the bits of the codec: every type, every format, ragged
//! counts, any alignment, several packets, several ranks, Sum and Avg.

#[path = "kernels_on_the_cpu/sums.rs"]
mod sums;
mod support;

use airamp_codec::{Element, Format, Stats, packet_bytes, reference};
use support::inputs::{self, KINDS, Kind, Numbers};
use support::{AirampStats, Buffer, GRID, Grid, OUT_TAG, Ranks, TAG, Turns};

/// Around the sizes of a lane's run, a block, a tile (8 blocks), and of a group of threads.
const COUNTS: [usize; 16] = [0, 1, 3, 4, 8, 127, 128, 129, 255, 1000, 1023, 1024, 1025, 2176, 8192, 9001];

fn each_type_and_format(mut test: impl FnMut(Element, Format)) {
    for element in Element::ALL {
        for format in Format::ALL {
            test(element, format);
        }
    }
}

fn quantised(element: Element, input: &[u8], format: Format) -> (Vec<u8>, Stats) {
    let mut packet = vec![0xff; packet_bytes(input.len() / element.size())];
    let stats = reference::quantise(element, input, format, TAG, &mut packet);
    (packet, stats)
}

/// Quantises on both and compares packet and stats.
#[track_caller]
fn quantises_like_the_codec(grid: Grid, element: Element, input: &Buffer, format: Format, what: &str) {
    let (expected, expected_stats) = quantised(element, input, format);
    let mut packet = Buffer::aligned(expected.len());
    let mut stats = AirampStats::default();
    let blocks = (input.len() / element.size()).div_ceil(128).max(1);
    support::quantise(grid, element, input, format, &mut packet, 0, blocks, Some(&mut stats));
    assert_same(&packet, &expected, &format!("{what}, {element:?}, {format:?}"));
    assert_same_stats(stats, expected_stats, &format!("{what}, {element:?}, {format:?}"));
}

#[track_caller]
fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len());
    let differing = found.iter().zip(expected).position(|(a, b)| a != b);
    if let Some(at) = differing {
        panic!("{what}: byte {at} of {} is {:#04x}, not {:#04x}", found.len(), found[at], expected[at]);
    }
}

#[track_caller]
fn assert_same_stats(found: AirampStats, expected: Stats, what: &str) {
    assert_eq!(found.saturated, expected.saturated, "saturated: {what}");
    assert_eq!(found.non_finite_blocks, expected.non_finite_blocks, "non-finite blocks: {what}");
    assert_eq!(found.foreign, expected.foreign, "foreign: {what}");
    for (found, expected) in [(found.squared_error, expected.squared_error), (found.signal, expected.signal)]
    {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} and not {expected}: {what}");
    }
}

#[test]
fn quantise_gives_the_codecs_packet_for_every_kind_of_input() {
    let mut numbers = Numbers::new(1);
    each_type_and_format(|element, format| {
        for kind in KINDS {
            let input = Buffer::of(&inputs::of_kind(kind, element, 2500, &mut numbers), 0);
            quantises_like_the_codec(GRID, element, &input, format, &format!("{kind:?}"));
        }
    });
}

#[test]
fn quantise_gives_the_codecs_packet_for_every_count() {
    let mut numbers = Numbers::new(2);
    each_type_and_format(|element, format| {
        for count in COUNTS {
            let elements = inputs::mixed(element, count, &mut numbers);
            for place in [Buffer::ending_at_a_page, Buffer::beginning_at_a_page] {
                let mut input = place(elements.len());
                input.copy_from_slice(&elements);
                quantises_like_the_codec(GRID, element, &input, format, &format!("{count} elements"));
            }
        }
    });
}

#[test]
fn quantise_takes_an_input_of_any_alignment() {
    let mut numbers = Numbers::new(3);
    each_type_and_format(|element, format| {
        for offset in (0..16).step_by(element.size()) {
            let input = Buffer::of(&inputs::mixed(element, 2100, &mut numbers), offset);
            quantises_like_the_codec(GRID, element, &input, format, &format!("{offset} bytes off"));
        }
    });
}

#[test]
fn every_16_bit_pattern_is_quantised_as_the_codec_does() {
    // Neighbours share a block, so that every pattern meets the scale of its own magnitude.
    let patterns: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for element in [Element::F16, Element::Bf16] {
        for format in Format::ALL {
            let input = Buffer::of(&patterns, 0);
            quantises_like_the_codec(Grid::new(1, 256), element, &input, format, "all patterns");
        }
    }
}

#[test]
fn the_grid_does_not_show_in_the_packet() {
    let mut numbers = Numbers::new(4);
    each_type_and_format(|element, format| {
        let input = Buffer::of(&inputs::mixed(element, 5000, &mut numbers), 0);
        for grid in [Grid::new(1, 32), Grid::new(7, 64)] {
            quantises_like_the_codec(grid, element, &input, format, &format!("{grid:?}"));
        }
    });
}

#[test]
fn a_block_of_huge_elements_counts_its_saturated_ones() {
    // Binary32's largest numbers are the ones for which the scale cannot be as large as it should.
    let mut saturated = 0;
    for format in Format::ALL {
        let input = Buffer::of(&f32::MAX.to_le_bytes().repeat(300), 0);
        quantises_like_the_codec(GRID, Element::F32, &input, format, "FLT_MAX");
        saturated += quantised(Element::F32, &input, format).1.saturated;
    }
    assert!(saturated > 0, "nothing saturated, so nothing was tested");
}

/// Whether the codec writes this block as INT8 under `auto`.
fn is_int8(element: Element, block: &[u8]) -> bool {
    quantised(element, block, Format::Auto).0[16 + 129] & 0x80 != 0
}

/// The block with the element at `at` halfway on its way to zero, and on, as long as that leaves the choice
/// between E4M3 and INT8 as it is; beside it, the one a bit further, for which it is not. `None` if even zero
/// leaves it.
fn on_the_edge(element: Element, block: &[u8], at: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let with = |magnitude: u32| {
        let mut block = block.to_vec();
        let place = &mut block[at * element.size()..][..element.size()];
        let sign = place[element.size() - 1] & 0x80;
        place.copy_from_slice(&magnitude.to_le_bytes()[..element.size()]);
        place[element.size() - 1] |= sign;
        block
    };
    let mut bytes = [0; 4];
    bytes[..element.size()].copy_from_slice(&block[at * element.size()..][..element.size()]);
    bytes[element.size() - 1] &= 0x7f;
    let (mut same, mut other) = (u32::from_le_bytes(bytes), 0);
    let choice = is_int8(element, block);
    if is_int8(element, &with(other)) == choice {
        return None;
    }
    while same - other > 1 {
        let middle = other + (same - other) / 2;
        if is_int8(element, &with(middle)) == choice { same = middle } else { other = middle }
    }
    Some((with(same), with(other)))
}

#[test]
fn the_choice_between_e4m3_and_int8_changes_where_the_codecs_does() {
    // Each element in turn is brought to the edge of the choice, where one more or less in one code decides.
    let mut numbers = Numbers::new(10);
    for element in Element::ALL {
        let mut edges = Vec::new();
        for _ in 0..60 {
            let mut block = inputs::of_kind(Kind::Spikes, element, 128, &mut numbers);
            for at in 0..128 {
                if let Some((same, other)) = on_the_edge(element, &block, at) {
                    edges.extend_from_slice(&same);
                    edges.extend(other);
                    block = same;
                }
            }
        }
        assert!(edges.len() > 100 * 128 * element.size(), "too few edges to tell anything");
        let input = Buffer::of(&edges, 0);
        quantises_like_the_codec(GRID, element, &input, Format::Auto, "on the edge");
    }
}

#[test]
fn blocks_of_one_magnitude_are_chosen_for_as_the_codec_does() {
    // The least scale belongs to them, so that the multiple of it is every element's code: also such that
    // are at the edge of the choice although each lane has as much as the others.
    for element in [Element::F32, Element::Bf16] {
        let of_code = |code: u16| {
            let bits = (f32::from(code) * f32::from_bits((127 - 110) << 23)).to_le_bytes();
            bits[4 - element.size()..].repeat(128)
        };
        let input: Vec<u8> = (1..=127).flat_map(of_code).collect();
        let choices = |block: &[u8]| is_int8(element, block);
        assert!(input.chunks(128 * element.size()).map(choices).is_sorted(), "one edge");
        assert_eq!((choices(&of_code(16)), choices(&of_code(17))), (false, true));
        let tiles = input.repeat(8);
        quantises_like_the_codec(GRID, element, &Buffer::of(&tiles, 0), Format::Auto, "in turn");
        // And whole tiles of one code, in which all blocks choose alike.
        let tiles: Vec<u8> = (1..=127).flat_map(|code| of_code(code).repeat(8)).collect();
        quantises_like_the_codec(GRID, element, &Buffer::of(&tiles, 0), Format::Auto, "in tiles");
    }
}

/// A buffer cut into packets of `blocks` blocks, by the codec.
fn cut_by_the_codec(element: Element, input: &[u8], format: Format, blocks: usize, stride: usize) -> Vec<u8> {
    let pieces = input.chunks(blocks * 128 * element.size());
    let mut packets = vec![0xa5; pieces.len() * stride];
    for (piece, packet) in pieces.zip(packets.chunks_mut(stride)) {
        reference::quantise(element, piece, format, TAG, packet);
    }
    packets
}

#[test]
fn a_buffer_is_cut_into_packets_that_the_codec_would_write() {
    let mut numbers = Numbers::new(5);
    each_type_and_format(|element, format| {
        for (count, blocks) in [(5000, 1), (5000, 8), (5000, 9), (5000, 1000), (128 * 24, 12), (10, 3)] {
            let input = Buffer::of(&inputs::mixed(element, count, &mut numbers), 0);
            let stride = packet_bytes(blocks.min(count.div_ceil(128)) * 128) + 32;
            let expected = cut_by_the_codec(element, &input, format, blocks, stride);
            let what = format!("{count} elements, {blocks} blocks each, {element:?}, {format:?}");

            let mut packets = Buffer::aligned(expected.len());
            support::quantise(GRID, element, &input, format, &mut packets, stride, blocks, None);
            assert_same(&packets, &expected, &what);

            let mut output = Buffer::aligned(input.len());
            for (rank, packet) in packets.chunks_mut(stride).enumerate() {
                packet[8..16].copy_from_slice(&TAG.of_rank(rank).part.to_le_bytes());
            }
            let (expected, foreign) = dequantised(element, &packets, count, format, blocks, stride);
            assert_eq!(foreign, 0);
            support::dequantise(GRID, element, &packets, stride, blocks, format, &mut output, None);
            assert_same(&output, &expected, &what);
        }
    });
}

fn dequantised(
    element: Element,
    packets: &[u8],
    count: usize,
    format: Format,
    blocks: usize,
    stride: usize,
) -> (Vec<u8>, u64) {
    let mut output = vec![0; count * element.size()];
    let mut foreign = 0;
    let pieces = output.chunks_mut(blocks * 128 * element.size()).zip(packets.chunks(stride));
    for (rank, (piece, packet)) in pieces.enumerate() {
        let (count, tag) = (piece.len() / element.size(), TAG.of_rank(rank));
        foreign += reference::dequantise(element, packet, count, format, tag, piece).foreign;
    }
    (output, foreign)
}

#[test]
fn a_foreign_packet_is_read_as_nan_and_counted_once() {
    let mut numbers = Numbers::new(11);
    each_type_and_format(|element, format| {
        // Several tiles to a packet, and of the four packets only the first has the tag of its place.
        let (count, blocks) = (4 * 20 * 128 - 5, 20);
        let stride = packet_bytes(blocks * 128);
        let input = Buffer::of(&inputs::mixed(element, count, &mut numbers), 0);
        let mut packets = Buffer::aligned(4 * stride);
        support::quantise(GRID, element, &input, format, &mut packets, stride, blocks, None);
        let mut output = Buffer::aligned(input.len());
        let mut stats = AirampStats::default();
        support::dequantise(GRID, element, &packets, stride, blocks, format, &mut output, Some(&mut stats));
        let (expected, foreign) = dequantised(element, &packets, count, format, blocks, stride);
        assert_same(&output, &expected, &format!("{element:?}, {format:?}"));
        assert_eq!((stats.foreign, foreign), (3, 3));

        let all = Ranks { packets: &packets, stride, ranks: 4, average: false };
        sums::sums_like_the_codec(element, format, all, blocks * 128 - 5, 0);
    });
}

#[test]
fn every_bit_of_a_tag_counts() {
    let (mut packet, _) = quantised(Element::F16, &[0; 600], Format::Auto);
    for bit in 0..128 {
        packet[bit / 8] ^= 1 << (bit % 8);
        let (mut output, mut stats) = (Buffer::aligned(600), AirampStats::default());
        let read = Buffer::of(&packet, 0);
        support::dequantise(GRID, Element::F16, &read, 0, 3, Format::Auto, &mut output, Some(&mut stats));
        assert_eq!(stats.foreign, 1, "bit {bit}");
        assert!(output.as_chunks().0.iter().all(|bits| half::f16::from_le_bytes(*bits).is_nan()));
        packet[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn dequantise_gives_the_codecs_elements_for_every_count_and_alignment() {
    let mut numbers = Numbers::new(6);
    each_type_and_format(|element, format| {
        for count in COUNTS {
            let offset = numbers.below(16) as usize / element.size() * element.size();
            let (packet, _) = quantised(element, &inputs::mixed(element, count, &mut numbers), format);
            let blocks = count.div_ceil(128).max(1);
            let mut output = Buffer::misaligned(count * element.size(), offset);
            let read = Buffer::of(&packet, 0);
            support::dequantise(GRID, element, &read, 0, blocks, format, &mut output, None);
            let (expected, _) = dequantised(element, &packet, count, format, blocks, packet.len().max(1));
            assert_same(
                &output,
                &expected,
                &format!("{count} elements, {offset} off, {element:?}, {format:?}"),
            );
        }
    });
}

#[test]
fn every_code_a_writer_makes_is_read_as_the_codec_reads_it() {
    each_type_and_format(|element, format| {
        // Two blocks of all codes at each of several scales, ends of the range included.
        let scales = [0x0880, 0x3f80, 0x3fff, 0x4b31, 0x7792];
        let mut packet = [TAG.call.to_le_bytes(), TAG.part.to_le_bytes()].concat();
        for _ in scales {
            packet.extend(0..=255u8);
        }
        for scale in scales {
            for mark in [0, 0x8000] {
                let mark = if format == Format::Auto { mark } else { 0 };
                packet.extend(u16::to_le_bytes(scale | mark));
            }
        }
        packet.resize(packet_bytes(scales.len() * 256), 0);
        let count = scales.len() * 256;
        let mut output = Buffer::aligned(count * element.size());
        support::dequantise(GRID, element, &Buffer::of(&packet, 0), 0, 10, format, &mut output, None);
        let (expected, _) = dequantised(element, &packet, count, format, 10, packet.len());
        assert_same(&output, &expected, &format!("{element:?}, {format:?}"));
    });
}
