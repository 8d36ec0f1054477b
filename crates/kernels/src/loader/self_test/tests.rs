//! The self-test's steps by the reference: what expected.rs has to say.

use super::*;
use airamp_codec::{Stats, reference};

fn counts(stats: Stats) -> [u64; 2] {
    [stats.saturated, stats.non_finite_blocks]
}

/// The same steps by the reference.
fn by_the_reference(element: Element, format: Format) -> Expected {
    let elements = vectors::elements(element);
    let (mut packets, mut quantised) = (Vec::new(), Stats::default());
    let mut output = vec![0; COUNT * element.size()];
    let pieces = elements.chunks(PIECE * element.size()).zip(output.chunks_mut(PIECE * element.size()));
    for (rank, (piece, output)) in pieces.enumerate() {
        let count = piece.len() / element.size();
        let mut packet = vec![0; packet_bytes(count)];
        quantised += reference::quantise(element, piece, format, TAG, &mut packet);
        reference::dequantise(element, &packet, count, format, TAG.of_rank(rank), output);
        packets.push(packet);
    }
    let quantise = digest(&packets.concat());
    for (rank, packet) in packets.iter_mut().enumerate() {
        packet[8..16].copy_from_slice(&TAG.of_rank(rank).part.to_le_bytes());
    }
    let (average, ranks) = (average(format), packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut sum = vec![0; SUMMED * element.size()];
    reference::dequantise_sum(element, &ranks, SUMMED, format, average, TAG, &mut sum);
    let mut reduced = vec![0; packet_bytes(SUMMED)];
    let stats = reference::reduce(element, &ranks, SUMMED, format, average, TAG, OUT_TAG, &mut reduced);
    Expected {
        quantise,
        dequantise: digest(&output),
        dequantise_sum: digest(&sum),
        reduce: digest(&reduced),
        quantised: counts(quantised),
        reduced: counts(stats),
    }
}

#[test]
fn what_is_expected_is_what_the_reference_gives() {
    let mut table = String::new();
    let mut same = true;
    for element in Element::ALL {
        for format in Format::ALL {
            let found = by_the_reference(element, format);
            same &= found == *expected::of(element, format);
            let Expected { quantise, dequantise, dequantise_sum, reduce, quantised, reduced } = found;
            table += &format!(
                "Expected {{ quantise: {quantise:#018x}, dequantise: {dequantise:#018x}, dequantise_sum: \
                 {dequantise_sum:#018x}, reduce: {reduce:#018x}, quantised: {quantised:?}, reduced: \
                 {reduced:?} }},\n"
            );
        }
    }
    assert!(same, "expected.rs is to have:\n{table}");
}

#[test]
fn every_count_is_of_something() {
    let all = || Element::ALL.into_iter().flat_map(|e| Format::ALL.map(|f| expected::of(e, f)));
    assert!(all().any(|expected| expected.quantised[0] > 0), "nothing saturates");
    assert!(all().all(|expected| expected.quantised[1] > 0 && expected.reduced[1] > 0));
}
