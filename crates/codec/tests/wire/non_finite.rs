//! What is finite stays finite; what is not stays so, in its own element and nowhere else.

use airamp_codec::{BLOCK, Element, Format, packet_bytes, reference};

use crate::samples::{
    Random, TAG, any_block_sizes, every_pattern, of_ranks, pack, packet, pattern_bytes, round_trip, slices,
    unpack,
};

/// The largest numbers of each sign and the least, in every mixture a block can have.
fn huge_and_tiny(element: Element) -> Vec<f32> {
    let largest = match element {
        Element::F16 => 65504.0,
        Element::Bf16 => f32::from_bits(0x7f7f_0000),
        Element::F32 => f32::MAX,
    };
    let mut numbers = vec![largest; BLOCK];
    numbers.extend([-largest; BLOCK]);
    numbers.extend((0..BLOCK).map(|i| if i % 2 == 0 { largest } else { -largest / 3.0 }));
    numbers.extend((0..BLOCK).map(|i| if i % 3 == 0 { largest } else { f32::from_bits(i as u32) }));
    numbers.extend((0..BLOCK).map(|i| largest * (1.0 - i as f32 * 2f32.powi(-11))));
    numbers.extend((0..BLOCK).map(|i| f32::from_bits(i as u32)));
    numbers
}

fn finite_patterns(element: Element) -> Vec<u8> {
    let exponent = if element == Element::F16 { 0x7c00 } else { 0x7f80 };
    let finite: Vec<u16> =
        every_pattern().into_iter().map(|bits| if bits & exponent == exponent { 0 } else { bits }).collect();
    pattern_bytes(&finite)
}

fn finite_inputs(element: Element) -> Vec<Vec<u8>> {
    let any = any_block_sizes(&mut Random(9), BLOCK * 1000, true);
    let in_range = any.iter().map(|x| x.clamp(-65504.0, 65504.0)).collect::<Vec<f32>>();
    let numbers = if element == Element::F16 { in_range } else { any };
    let mut inputs = vec![pack(element, &huge_and_tiny(element))];
    match element {
        // Rounding the largest binary32 numbers to bf16 gives infinity; the patterns cover that type.
        Element::Bf16 => inputs.push(finite_patterns(element)),
        Element::F16 => inputs.extend([finite_patterns(element), pack(element, &numbers)]),
        Element::F32 => inputs.push(pack(element, &numbers)),
    }
    inputs
}

fn assert_finite(element: Element, format: Format, output: &[u8]) {
    for (i, x) in unpack(element, output).iter().enumerate() {
        assert!(x.is_finite(), "{element:?} {format:?}: element {i} is {x}");
    }
}

#[test]
fn no_finite_input_comes_back_non_finite() {
    for element in Element::ALL {
        for input in finite_inputs(element) {
            for format in Format::ALL {
                assert_eq!(packet(element, &input, format).1.non_finite_blocks, 0);
                assert_finite(element, format, &round_trip(element, &input, format));
            }
        }
    }
}

#[test]
fn no_average_of_finite_inputs_is_non_finite() {
    for element in Element::ALL {
        for input in finite_inputs(element) {
            let count = input.len() / element.size();
            for format in Format::ALL {
                let (packet, _) = packet(element, &input, format);
                for ranks in [1, 2, 3, 5, 7, 8, 64] {
                    let packets = of_ranks(&vec![&packet[..]; ranks]);
                    let packets = slices(&packets);
                    let mut output = vec![0; input.len()];
                    reference::dequantise_sum(element, &packets, count, format, true, TAG, &mut output);
                    assert_finite(element, format, &output);
                    let mut reduced = vec![0; packet_bytes(count)];
                    let stats =
                        reference::reduce(element, &packets, count, format, true, TAG, TAG, &mut reduced);
                    assert_eq!(stats.non_finite_blocks, 0);
                    reference::dequantise(element, &reduced, count, format, TAG, &mut output);
                    assert_finite(element, format, &output);
                }
            }
        }
    }
}

#[test]
fn a_non_finite_element_stays_so_and_leaves_its_neighbours_alone() {
    let mut random = Random(10);
    let clean: Vec<f32> = (0..BLOCK).map(|_| random.normal() as f32).collect();
    for element in Element::ALL {
        for format in Format::ALL {
            // Where blocks are marked, one with such an element is E4M3.
            let its_codes = if format == Format::E5M2 { Format::E5M2 } else { Format::E4M3 };
            let expected = unpack(element, &round_trip(element, &pack(element, &clean), its_codes));
            for (at, odd_one) in
                [(0, f32::NAN), (31, f32::INFINITY), (64, f32::NEG_INFINITY), (127, -f32::NAN)]
            {
                let mut numbers = clean.clone();
                numbers[at] = odd_one;
                let (_, stats) = packet(element, &pack(element, &numbers), format);
                assert_eq!(stats.non_finite_blocks, 1);
                let back = unpack(element, &round_trip(element, &pack(element, &numbers), format));
                assert!(back[at].is_nan());
                check_neighbours(&clean, &expected, &back, at);
            }
        }
    }
}

/// The lost element may have set the scale, or tipped the choice; its neighbours stay near all the same.
fn check_neighbours(clean: &[f32], expected: &[f32], back: &[f32], at: usize) {
    let worst = |back: &[f32]| {
        let errors = clean.iter().zip(back).enumerate().filter(|(i, _)| *i != at);
        errors.map(|(_, (x, back))| (x - back).abs()).fold(0.0, f32::max)
    };
    assert!(worst(back).is_finite());
    assert!(worst(back) <= worst(expected) * 4.0);
}

#[test]
fn a_block_of_nothing_but_non_finite_elements_comes_back_as_nan_beside_exact_zeros() {
    for element in Element::ALL {
        for format in Format::ALL {
            let mut numbers = [f32::INFINITY; BLOCK];
            numbers[50] = 0.0;
            let back = unpack(element, &round_trip(element, &pack(element, &numbers), format));
            assert!(back.iter().enumerate().all(|(i, x)| if i == 50 { *x == 0.0 } else { x.is_nan() }));
        }
    }
}

#[test]
fn nan_is_written_with_the_same_bits_whatever_came_in() {
    let numbers: Vec<f32> =
        [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff, 0x7f80_0000].map(f32::from_bits).into();
    for format in Format::ALL {
        for (element, nan) in
            [(Element::F16, 0x7fffu32), (Element::Bf16, 0x7fff), (Element::F32, 0x7fff_ffff)]
        {
            let output = round_trip(element, &pack(element, &numbers), format);
            let nan = &nan.to_le_bytes()[..element.size()];
            assert!(output.chunks(element.size()).all(|bytes| bytes == nan), "{element:?} {format:?}");
        }
    }
}

#[test]
fn a_non_finite_element_of_one_rank_is_non_finite_in_the_result_and_in_no_other_element() {
    let mut odd = vec![1.0f32; 300];
    odd[200] = f32::INFINITY;
    for element in Element::ALL {
        for format in Format::ALL {
            let (clean, _) = packet(element, &pack(element, &[1.0; 300]), format);
            let (odd, _) = packet(element, &pack(element, &odd), format);
            let mut reduced = vec![0; packet_bytes(300)];
            let packets = of_ranks(&[&clean, &odd, &clean]);
            let packets = slices(&packets);
            assert_eq!(
                reference::reduce(element, &packets, 300, format, false, TAG, TAG, &mut reduced)
                    .non_finite_blocks,
                1
            );
            let mut output = vec![0; 300 * element.size()];
            reference::dequantise(element, &reduced, 300, format, TAG, &mut output);
            for (i, x) in unpack(element, &output).iter().enumerate() {
                assert_eq!(x.is_finite(), i != 200, "{element:?} {format:?}: element {i} is {x}");
            }
        }
    }
}

#[test]
fn a_sum_beyond_the_range_of_the_element_type_is_non_finite_as_in_a_plain_sum() {
    let (packet, _) = packet(Element::F16, &pack(Element::F16, &[60000.0, 1.0]), Format::Int8);
    let packets = of_ranks(&[&packet, &packet]);
    let packets = slices(&packets);
    let mut output = vec![0; 4];
    reference::dequantise_sum(Element::F16, &packets, 2, Format::Int8, false, TAG, &mut output);
    assert_eq!(unpack(Element::F16, &output)[0], f32::INFINITY);
    let mut reduced = vec![0; packet_bytes(2)];
    reference::reduce(Element::F16, &packets, 2, Format::Int8, false, TAG, TAG, &mut reduced);
    reference::dequantise(Element::F16, &reduced, 2, Format::Int8, TAG, &mut output);
    let back = unpack(Element::F16, &output);
    assert!(back[0].is_nan() && back[1].is_finite());
}
