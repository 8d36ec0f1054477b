//! What the ranks should come to, by the codec on the host: every rank knows everybody's input.

use airamp_codec::{Format, Tag, dequantise, dequantise_sum, packet_bytes, quantise, reduce};
use airamp_fast_path::{Algorithm, Ranks};

use super::stage::{Stage, Tensor};
use crate::lane::ranks_per_node;
use crate::numbers::decode;

/// The sum of all ranks' tensors. Chunks and shards begin with a block, so that cutting changes no bit.
pub(super) fn by_codec(stage: &Stage, tensor: &Tensor, algorithm: Algorithm) -> Vec<u8> {
    reduced(stage, tensor, algorithm, false)
}

pub(super) fn reduced(stage: &Stage, tensor: &Tensor, algorithm: Algorithm, average: bool) -> Vec<u8> {
    let Tensor { element, count, .. } = *tensor;
    let (format, tag) = (Format::Auto, Tag::default());
    let packet = || vec![0; packet_bytes(count)];
    let of_rank = |rank| {
        let mut packet = packet();
        quantise(element, &stage.input_of(rank, tensor), format, tag.of_rank(rank), &mut packet);
        packet
    };
    let packets: Vec<Vec<u8>> = (0..stage.session.comm.size).map(of_rank).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut output = vec![0; tensor.bytes()];
    match algorithm {
        Algorithm::OneShot => {
            dequantise_sum(element, &packets, count, format, average, tag, &mut output);
        }
        Algorithm::TwoShot => {
            let mut sum = packet();
            reduce(element, &packets, count, format, average, tag, tag, &mut sum);
            dequantise(element, &sum, count, format, tag, &mut output);
        }
        Algorithm::ThreeShot => {
            let per_node = Ranks::new(packets.len(), ranks_per_node()).per_node();
            let summed = |packets: &[&[u8]], node: usize| {
                let (mut sum, first) = (packet(), node * per_node);
                reduce(
                    element,
                    packets,
                    count,
                    format,
                    average,
                    tag.of_rank(first),
                    tag.of_rank(node),
                    &mut sum,
                );
                sum
            };
            let nodes = packets.chunks(per_node).enumerate();
            let nodes: Vec<Vec<u8>> = nodes.map(|(node, packets)| summed(packets, node)).collect();
            let nodes: Vec<&[u8]> = nodes.iter().map(Vec::as_slice).collect();
            dequantise(element, &summed(&nodes, 0), count, format, tag, &mut output);
        }
    }
    output
}

/// Sums of squares over the elements that a trial samples.
#[derive(Debug)]
pub(super) struct Deviation {
    pub(super) squared_error: f64,
    pub(super) signal: f64,
}

impl Deviation {
    pub(super) fn of(tensor: &Tensor, ours: &[u8], exact: &[u8]) -> Self {
        let mut deviation = Self { squared_error: 0.0, signal: 0.0 };
        for index in sampled(tensor.count) {
            let value = |bytes: &[u8]| decode(tensor.datatype, &bytes[index * tensor.element.size()..]);
            deviation.squared_error += (value(ours) - value(exact)).powi(2);
            deviation.signal += value(exact).powi(2);
        }
        deviation
    }
}

/// All elements of a short call, and 1,024 at the beginning of each eighth of a longer one.
fn sampled(count: usize) -> impl Iterator<Item = usize> {
    let eighth = move |part: usize| (part as u128 * count as u128 / 8) as usize;
    (0..count).filter(move |index| {
        let part = (0..8).rev().find(|part| eighth(*part) <= *index).unwrap_or(0);
        count <= 8192 || index - eighth(part) < 1024
    })
}
