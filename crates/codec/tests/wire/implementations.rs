//! The fast implementation against the reference, bit for bit. Where the processor has no AVX2 both are
//! the same, and the first test says that the others show nothing.

use airamp_codec::{self as fast, BLOCK, Element, Format, packet_bytes, reference};
use proptest::prelude::*;

use crate::samples::{Random, TAG, any_block_sizes, every_pattern, knife_edges, pack, pattern_bytes, slices};

#[test]
#[cfg(target_arch = "x86_64")]
fn what_is_compared_with_the_reference_is_not_the_reference() {
    if fast::arithmetic() == "reference" {
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!in_ci, "not to be skipped in CI: this processor has no AVX2");
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: this processor has no AVX2: the reference was compared with itself"
        );
    }
}

fn same_packets(element: Element, input: &[u8]) {
    for format in Format::ALL {
        let count = input.len() / element.size();
        let mut expected = vec![0x5a; packet_bytes(count)];
        let mut packet = vec![0xa5; packet_bytes(count)];
        let expected_stats = reference::quantise(element, input, format, TAG, &mut expected);
        let stats = fast::quantise(element, input, format, TAG, &mut packet);
        assert_eq!(packet, expected, "{element:?} {format:?} {}", fast::arithmetic());
        assert_eq!(stats, expected_stats, "{element:?} {format:?}");
        same_results(element, &[&packet], count, format);
    }
}

fn same_results(element: Element, packets: &[&[u8]], count: usize, format: Format) {
    for average in [false, true] {
        let mut expected = vec![0x5a; count * element.size()];
        let mut output = vec![0xa5; count * element.size()];
        reference::dequantise_sum(element, packets, count, format, average, TAG, &mut expected);
        fast::dequantise_sum(element, packets, count, format, average, TAG, &mut output);
        assert_eq!(output, expected, "{element:?} {format:?} {average}");
        let mut expected = vec![0x5a; packet_bytes(count)];
        let mut packet = vec![0xa5; packet_bytes(count)];
        let expected_stats =
            reference::reduce(element, packets, count, format, average, TAG, TAG, &mut expected);
        let stats = fast::reduce(element, packets, count, format, average, TAG, TAG, &mut packet);
        assert_eq!(packet, expected, "{element:?} {format:?} {average}");
        assert_eq!(stats, expected_stats, "{element:?} {format:?} {average}");
    }
}

#[test]
fn every_16_bit_pattern_gives_the_same_bits() {
    let shuffled: Vec<u16> = every_pattern().iter().map(|bits| bits.wrapping_mul(40_503)).collect();
    for element in [Element::F16, Element::Bf16] {
        same_packets(element, &pattern_bytes(&every_pattern()));
        same_packets(element, &pattern_bytes(&shuffled));
    }
}

#[test]
fn blocks_of_every_size_give_the_same_bits() {
    let mut random = Random(13);
    for finite in [true, false] {
        let numbers = any_block_sizes(&mut random, BLOCK * 4000, finite);
        for element in Element::ALL {
            same_packets(element, &pack(element, &numbers));
        }
    }
}

#[test]
fn ties_and_their_neighbours_give_the_same_bits() {
    // Middles of neighbouring codes under a scale of 1, and one step of binary32 to either side.
    let middles = |largest: f32, steps: &[f32]| -> Vec<f32> {
        let near = steps
            .iter()
            .flat_map(|x| [-1i32, 0, 1].map(|step| f32::from_bits(x.to_bits().wrapping_add_signed(step))));
        let near: Vec<f32> = near.flat_map(|x| [x, -x]).collect();
        near.chunks(BLOCK - 1).flat_map(|chunk| chunk.iter().copied().chain([largest])).collect()
    };
    let e4m3: Vec<f32> = (0..0x7e).map(|code| float8_middle(code, reference::float8::from_e4m3)).collect();
    let e5m2: Vec<f32> = (0..0x7b).map(|code| float8_middle(code, reference::float8::from_e5m2)).collect();
    let int8: Vec<f32> = (0..127).map(|i| i as f32 + 0.5).collect();
    for numbers in [middles(448.0, &e4m3), middles(57344.0, &e5m2), middles(127.0, &int8)] {
        same_packets(Element::F32, &pack(Element::F32, &numbers));
    }
}

fn float8_middle(code: u8, value: fn(u8) -> f32) -> f32 {
    (value(code) + value(code + 1)) / 2.0
}

#[test]
fn blocks_on_the_edge_between_e4m3_and_int8_give_the_same_bits() {
    let edges = knife_edges(&mut Random(14), 500).concat();
    same_packets(Element::F32, &pack(Element::F32, &edges.concat()));
}

#[test]
fn all_codes_and_scale_words_give_the_same_values() {
    // Also those that no writer makes: 256 codes in two blocks, every scale word for both.
    for format in Format::ALL {
        for words in every_pattern().chunks(512) {
            let codes = (0..words.len()).flat_map(|i| (0..128).map(move |code| code | (i as u8 & 1) << 7));
            let mut packet = [TAG.call.to_le_bytes(), TAG.part.to_le_bytes()].concat();
            packet.extend(codes);
            packet.extend(pattern_bytes(words));
            for element in Element::ALL {
                same_values(element, &packet, words.len() * BLOCK, format);
            }
        }
    }
}

fn same_values(element: Element, packet: &[u8], count: usize, format: Format) {
    let mut expected = vec![0x5a; count * element.size()];
    let mut output = vec![0xa5; count * element.size()];
    reference::dequantise(element, packet, count, format, TAG, &mut expected);
    fast::dequantise(element, packet, count, format, TAG, &mut output);
    assert_eq!(output, expected, "{element:?} {format:?}");
}

#[test]
fn sums_of_several_ranks_give_the_same_bits() {
    let mut random = Random(15);
    for count in [1, 100, 128, 1000] {
        for format in Format::ALL {
            for element in Element::ALL {
                let packets: Vec<Vec<u8>> = (0..8)
                    .map(|rank| {
                        let numbers = any_block_sizes(&mut random, count, false);
                        let mut packet = vec![0; packet_bytes(count)];
                        reference::quantise(
                            element,
                            &pack(element, &numbers),
                            format,
                            TAG.of_rank(rank),
                            &mut packet,
                        );
                        packet
                    })
                    .collect();
                let packets = slices(&packets);
                for ranks in 1..=8 {
                    same_results(element, &packets[..ranks], count, format);
                }
            }
        }
    }
}

#[test]
fn buffers_of_any_alignment_and_length_give_the_same_bits() {
    let bytes = pack(Element::F32, &any_block_sizes(&mut Random(16), 4 * BLOCK, false));
    for offset in 0..8 {
        for count in 0..=260 {
            for element in Element::ALL {
                same_packets(element, &bytes[offset..][..count * element.size()]);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bits_give_the_same_bits(bits in prop::collection::vec(any::<u32>(), 0..400)) {
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        for element in Element::ALL {
            same_packets(element, &bytes);
        }
    }
}
