//! Sums of several ranks' packets, and all kernels with their threads in other orders.

use super::*;

/// The packets of `ranks` ranks, one behind the other, and how far apart they begin.
fn packets_of_ranks(
    element: Element,
    format: Format,
    ranks: usize,
    count: usize,
    kind: Option<Kind>,
    numbers: &mut Numbers,
) -> (Buffer, usize) {
    let stride = packet_bytes(count) + 16;
    let mut packets = Buffer::aligned(ranks * stride);
    for (rank, packet) in packets.chunks_mut(stride).enumerate() {
        let input = match kind {
            Some(kind) => inputs::of_kind(kind, element, count, numbers),
            None => inputs::mixed(element, count, numbers),
        };
        reference::quantise(element, &input, format, TAG.of_rank(rank), packet);
    }
    (packets, stride)
}

#[track_caller]
pub(super) fn sums_like_the_codec(
    element: Element,
    format: Format,
    all: Ranks<'_>,
    count: usize,
    offset: usize,
) {
    // A warp has one tile or none; or every second, in shared memory or not.
    let grids = [GRID, Grid { copies: count.is_multiple_of(2), ..Grid::new(1, 64) }];
    sums_on_grids_like_the_codec(&grids, element, format, all, count, offset);
}

/// `dequantise_sum` on the first grid, `reduce` on each.
#[track_caller]
fn sums_on_grids_like_the_codec(
    grids: &[Grid],
    element: Element,
    format: Format,
    all: Ranks<'_>,
    count: usize,
    offset: usize,
) {
    let what =
        format!("{} ranks, {count} elements, average {}, {element:?}, {format:?}", all.ranks, all.average);
    let packets: Vec<&[u8]> = all.packets.chunks(all.stride).collect();

    let mut expected = vec![0; count * element.size()];
    let expected_stats =
        reference::dequantise_sum(element, &packets, count, format, all.average, TAG, &mut expected);
    let mut output = Buffer::misaligned(expected.len(), offset);
    let mut stats = AirampStats::default();
    support::dequantise_sum(grids[0], element, all, format, &mut output, Some(&mut stats));
    assert_same(&output, &expected, &format!("sum: {what}"));
    assert_same_stats(stats, expected_stats, &format!("sum: {what}"));

    let mut expected = vec![0; packet_bytes(count)];
    let expected_stats =
        reference::reduce(element, &packets, count, format, all.average, TAG, OUT_TAG, &mut expected);
    for grid in grids.iter().copied() {
        let mut packet = Buffer::aligned(expected.len());
        let mut stats = AirampStats::default();
        support::reduce(grid, element, all, count, format, &mut packet, Some(&mut stats));
        assert_same(&packet, &expected, &format!("reduce: {what}, {grid:?}"));
        assert_same_stats(stats, expected_stats, &format!("reduce: {what}, {grid:?}"));
    }
}

#[test]
fn sums_of_one_to_eight_ranks_are_the_codecs() {
    let mut numbers = Numbers::new(7);
    each_type_and_format(|element, format| {
        for ranks in 1..=8 {
            for average in [false, true] {
                let count = 1 + numbers.below(4500) as usize;
                let offset = numbers.below(16) as usize / element.size() * element.size();
                let (packets, stride) = packets_of_ranks(element, format, ranks, count, None, &mut numbers);
                let all = Ranks { packets: &packets, stride, ranks: ranks as u32, average };
                sums_like_the_codec(element, format, all, count, offset);
            }
        }
    });
}

#[test]
fn sums_of_every_kind_of_input_are_the_codecs() {
    let mut numbers = Numbers::new(8);
    each_type_and_format(|element, format| {
        for (kind, ranks) in KINDS.into_iter().flat_map(|kind| [(kind, 2), (kind, 3), (kind, 9)]) {
            let (packets, stride) = packets_of_ranks(element, format, ranks, 1024, Some(kind), &mut numbers);
            let all = Ranks { packets: &packets, stride, ranks: ranks as u32, average: false };
            sums_like_the_codec(element, format, all, 1024, 0);
        }
    });
}

#[test]
fn one_block_unlike_all_others_is_added_up_as_the_codec_does() {
    let mut numbers = Numbers::new(12);
    let ranks = 9;
    each_type_and_format(|element, format| {
        for odd in 0..ranks {
            let (mut packets, stride) =
                packets_of_ranks(element, format, ranks, 1024, Some(Kind::Normal), &mut numbers);
            let mut input = inputs::of_kind(Kind::Normal, element, 1024, &mut numbers);
            let kind = [Kind::Spikes, Kind::Huge, Kind::AnyBits][odd % 3];
            let block = 128 * element.size();
            input[3 * odd % 8 * block..][..block].copy_from_slice(&inputs::of_kind(
                kind,
                element,
                128,
                &mut numbers,
            ));
            let packet = &mut packets[odd * stride..][..stride];
            reference::quantise(element, &input, format, TAG.of_rank(odd), packet);
            let all = Ranks { packets: &packets, stride, ranks: ranks as u32, average: odd % 2 == 0 };
            sums_like_the_codec(element, format, all, 1024, 0);
        }
    });
}

#[test]
fn what_a_rank_sends_behind_the_count_goes_nowhere() {
    let mut numbers = Numbers::new(9);
    each_type_and_format(|element, format| {
        let (mut packets, stride) = packets_of_ranks(element, format, 2, 100, None, &mut numbers);
        packets[16 + 100..16 + 128].fill(0x33);
        let all = Ranks { packets: &packets, stride, ranks: 2, average: false };
        sums_like_the_codec(element, format, all, 100, 0);
    });
}

#[test]
fn the_order_of_the_threads_does_not_show() {
    // With a wait too few, a lane finds what another has not written yet, or has written over.
    let mut numbers = Numbers::new(14);
    each_type_and_format(|element, format| {
        // Aligned and not, with several tiles to a warp and a ragged end: other ways through shared memory. So are
        // copies ahead, which a block that is not plain would make do without.
        let (count, offset) = (5 * 1024 + 77, element.size());
        let kind = Some(Kind::Normal);
        let (packets, stride) = packets_of_ranks(element, format, 5, count, kind, &mut numbers);
        let all = Ranks { packets: &packets, stride, ranks: 5, average: false };
        for turns in [Turns::Forward, Turns::Backward, Turns::Shuffled] {
            for (copies, offset) in [(true, offset), (false, 0)] {
                let grid = Grid { turns, copies, ..Grid::new(1, 64) };
                let input = Buffer::of(&inputs::mixed(element, count, &mut numbers), offset);
                quantises_like_the_codec(grid, element, &input, format, &format!("{turns:?}"));
                sums_on_grids_like_the_codec(&[grid], element, format, all, count, offset);

                let first = Buffer::of(&packets[..packet_bytes(count)], 0);
                let mut output = Buffer::misaligned(count * element.size(), offset);
                support::dequantise(grid, element, &first, 0, count.div_ceil(128), format, &mut output, None);
                let (expected, _) = dequantised(element, &first, count, format, count, stride);
                assert_same(&output, &expected, &format!("dequantise, {grid:?}, {element:?}, {format:?}"));
            }
        }
    });
}

#[test]
fn a_foreign_packet_of_the_last_of_many_ranks_is_seen_by_every_warp() {
    let mut numbers = Numbers::new(13);
    // Tags are read by 32 lanes at a time; several tiles for each warp.
    for (ranks, tiles) in [(32, 1), (33, 40), (64, 40)] {
        let (element, format, count) = (Element::Bf16, Format::Auto, tiles * 1024 - 3);
        let (mut packets, stride) = packets_of_ranks(element, format, ranks, count, None, &mut numbers);
        let all = Ranks { packets: &packets, stride, ranks: ranks as u32, average: false };
        sums_like_the_codec(element, format, all, count, 0);
        packets[(ranks - 1) * stride] ^= 1;
        let all = Ranks { packets: &packets, stride, ranks: ranks as u32, average: false };
        sums_like_the_codec(element, format, all, count, 0);
    }
}
