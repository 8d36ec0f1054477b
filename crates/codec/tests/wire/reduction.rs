//! The order and rounding of a sum over ranks, against the same sum done by hand.

use airamp_codec::{BLOCK, Element, Format, packet_bytes, reference};

use crate::samples::{CODES, Random, TAG, any_block_sizes, of_ranks, pack, packet, slices, unpack};

struct Job {
    packets: Vec<Vec<u8>>,
    /// What each rank's packet decodes to, in binary32.
    decoded: Vec<Vec<f32>>,
    count: usize,
}

impl Job {
    fn new(format: Format, ranks: usize, seed: u64) -> Job {
        let count = 3 * BLOCK + 17;
        let mut random = Random(seed);
        let (mut packets, mut decoded) = (Vec::new(), Vec::new());
        for _ in 0..ranks {
            let numbers: Vec<f32> =
                any_block_sizes(&mut random, count, true).iter().map(|x| x * 1e-3).collect();
            let (packet, _) = packet(Element::F32, &pack(Element::F32, &numbers), format);
            let mut output = vec![0; count * 4];
            reference::dequantise(Element::F32, &packet, count, format, TAG, &mut output);
            decoded.push(unpack(Element::F32, &output));
            packets.push(packet);
        }
        let packets = of_ranks(&slices(&packets));
        Job { packets, decoded, count }
    }

    fn packets(&self) -> Vec<&[u8]> {
        slices(&self.packets)
    }

    /// From the left, in binary32; every product is rounded before it is added.
    fn sum_by_hand(&self, average: bool) -> Vec<f32> {
        let factor = if average { 1.0 / self.decoded.len() as f32 } else { 1.0 };
        let column = |i: usize| self.decoded.iter().map(move |rank| rank[i] * factor);
        (0..self.count).map(|i| column(i).reduce(|sum, x| sum + x).expect("a rank")).collect()
    }
}

#[test]
fn the_one_shot_is_the_sum_of_the_decoded_values_from_the_left() {
    for format in Format::ALL {
        for ranks in 1..=8 {
            for average in [false, true] {
                let job = Job::new(format, ranks, 11);
                let mut output = vec![0; job.count * 4];
                reference::dequantise_sum(
                    Element::F32,
                    &job.packets(),
                    job.count,
                    format,
                    average,
                    TAG,
                    &mut output,
                );
                assert_eq!(output, pack(Element::F32, &job.sum_by_hand(average)), "{format:?} {ranks}");
            }
        }
    }
}

#[test]
fn the_two_shot_writes_the_sum_as_a_block_again() {
    for format in Format::ALL {
        for ranks in 1..=8 {
            let job = Job::new(format, ranks, 12);
            let mut reduced = vec![0xa5; packet_bytes(job.count)];
            let stats = reference::reduce(
                Element::F32,
                &job.packets(),
                job.count,
                format,
                true,
                TAG,
                TAG,
                &mut reduced,
            );
            let sum = pack(Element::F32, &job.sum_by_hand(true));
            assert_eq!((reduced, stats), packet(Element::F32, &sum, format), "{format:?} {ranks}");
        }
    }
}

#[test]
fn the_sum_is_rounded_to_the_element_type_before_it_is_written_again() {
    let count = 100 * BLOCK;
    let mut random = Random(18);
    for element in [Element::F16, Element::Bf16] {
        for format in Format::ALL {
            let [left, right] = [(); 2].map(|()| {
                let numbers: Vec<f32> = (0..count).map(|_| random.normal() as f32).collect();
                packet(element, &pack(element, &numbers), format).0
            });
            let packets = of_ranks(&[&left, &right]);
            let packets = slices(&packets);
            let mut reduced = vec![0; packet_bytes(count)];
            reference::reduce(element, &packets, count, format, false, TAG, TAG, &mut reduced);
            let mut sum = vec![0; count * element.size()];
            reference::dequantise_sum(element, &packets, count, format, false, TAG, &mut sum);
            assert_eq!(reduced, packet(element, &sum, format).0, "{element:?} {format:?}");
        }
    }
}

#[test]
fn what_a_rank_sent_beyond_the_count_does_not_reach_the_result() {
    let count = BLOCK + 3;
    for format in Format::ALL {
        let (clean, _) = packet(Element::F32, &pack(Element::F32, &[0.5; BLOCK + 3]), format);
        let mut dirty = clean.clone();
        dirty[CODES + count..CODES + 2 * BLOCK].fill(0x7f);
        let [from_clean, from_dirty] = [&clean, &dirty].map(|other| {
            let packets = of_ranks(&[&clean, other]);
            let packets = slices(&packets);
            let mut reduced = vec![0; packet_bytes(count)];
            let stats =
                reference::reduce(Element::F32, &packets, count, format, false, TAG, TAG, &mut reduced);
            (reduced, stats)
        });
        assert_eq!(from_dirty, from_clean, "{format:?}");
    }
}

#[test]
fn an_empty_reduction_is_legal() {
    let mut nothing: Vec<u8> = Vec::new();
    assert_eq!(packet_bytes(0), 0);
    for format in Format::ALL {
        reference::dequantise_sum(Element::F32, &[&[], &[]], 0, format, true, TAG, &mut nothing);
        let stats = reference::reduce(Element::F32, &[&[], &[]], 0, format, false, TAG, TAG, &mut nothing);
        assert_eq!(stats, airamp_codec::Stats::default());
    }
}
