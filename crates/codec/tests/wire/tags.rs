//! Every packet says what it is, and one that says something else is never read as numbers.

use airamp_codec::{self as fast, Element, Format, Stats, Tag, packet_bytes, reference};

use crate::samples::{CODES, TAG, of_ranks, pack, packet, slices, unpack};

const COUNT: usize = 300;

type Sum = fn(Element, &[&[u8]], usize, Format, bool, Tag, &mut [u8]) -> Stats;
type Reduce = fn(Element, &[&[u8]], usize, Format, bool, Tag, Tag, &mut [u8]) -> Stats;

fn ones(element: Element, format: Format) -> Vec<u8> {
    packet(element, &pack(element, &[1.0; COUNT]), format).0
}

fn each_case(mut test: impl FnMut(Element, Format)) {
    for element in Element::ALL {
        for format in Format::ALL {
            test(element, format);
        }
    }
}

#[test]
fn a_packet_begins_with_its_tag() {
    each_case(|element, format| {
        let packet = ones(element, format);
        assert_eq!(packet.len(), 16 + (3 * 130usize).next_multiple_of(16));
        assert_eq!(packet[..CODES], [TAG.call.to_le_bytes(), TAG.part.to_le_bytes()].concat());
    });
}

#[test]
fn a_packet_of_another_call_or_part_reads_as_nan_throughout() {
    each_case(|element, format| {
        let packet = ones(element, format);
        for expected in [Tag { call: TAG.call ^ 1 << 63, ..TAG }, Tag { part: TAG.part ^ 1, ..TAG }] {
            for dequantise in [reference::dequantise, fast::dequantise] {
                let mut output = vec![0; COUNT * element.size()];
                let stats = dequantise(element, &packet, COUNT, format, expected, &mut output);
                assert_eq!(stats, Stats { foreign: 1, ..Stats::default() });
                assert!(unpack(element, &output).iter().all(|x| x.is_nan()), "{element:?} {format:?}");
            }
        }
    });
}

#[test]
fn one_foreign_packet_among_the_ranks_spoils_the_whole_sum_and_is_counted() {
    each_case(|element, format| {
        let ones = ones(element, format);
        let mut packets = of_ranks(&[&ones, &ones, &ones, &ones]);
        packets.swap(1, 2);
        let packets = slices(&packets);
        let both: [(Sum, Reduce); 2] =
            [(reference::dequantise_sum, reference::reduce), (fast::dequantise_sum, fast::reduce)];
        for (sum, reduce) in both {
            let mut output = vec![0; COUNT * element.size()];
            let stats = sum(element, &packets, COUNT, format, false, TAG, &mut output);
            assert_eq!(stats.foreign, 2);
            assert!(unpack(element, &output).iter().all(|x| x.is_nan()), "{element:?} {format:?}");

            let (mut reduced, out) = (vec![0; packet_bytes(COUNT)], Tag { call: 3, part: 4 });
            let stats = reduce(element, &packets, COUNT, format, false, TAG, out, &mut reduced);
            assert_eq!((stats.foreign, stats.non_finite_blocks), (2, 3));
            assert_eq!(reference::dequantise(element, &reduced, COUNT, format, out, &mut output).foreign, 0);
            assert!(unpack(element, &output).iter().all(|x| x.is_nan()), "{element:?} {format:?}");
        }
    });
}
