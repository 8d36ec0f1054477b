//! Each kernel once, on scratch memory: what a first launch makes the driver do is done, and a
//! launch that fails is a reason to stay out of compression.

use crate::arena::Arena;
use airamp_codec::{Element, Format, Tag};
use airamp_kernels::KernelSet;
use airamp_kernels::loader::{Dequantise, DequantiseSum, Packets, Quantise, Reduce};
use airamp_vendor::gpu::GpuError;

const COUNT: u64 = 128;
/// Where elements and packets lie in the scratch memory.
const PACKET_AT: u64 = 1024;
const OUT_PACKET_AT: u64 = 2048;
const BYTES: usize = 3072;

/// Waits for the end, since only that tells whether the launches went well.
pub(crate) fn run_each_kernel(arena: &Arena, kernels: &KernelSet, format: Format) -> Result<(), GpuError> {
    arena.clear_scratch(BYTES)?;
    Element::ALL.into_iter().try_for_each(|element| run(arena, kernels, element, format))?;
    arena.kernels.synchronize()
}

fn run(arena: &Arena, kernels: &KernelSet, element: Element, format: Format) -> Result<(), GpuError> {
    let (elements, stream) = (arena.scratch(), &arena.kernels);
    let packets = Packets { address: elements + PACKET_AT, stride: OUT_PACKET_AT - PACKET_AT };
    let tag = Tag::default();
    let quantise =
        Quantise { input: elements, count: COUNT, packets, blocks_per_packet: 1, format, tag, stats: 0 };
    let reduce = Reduce {
        packets,
        ranks: 1,
        count: COUNT,
        format,
        average: false,
        tag,
        out_tag: tag,
        out_packet: elements + OUT_PACKET_AT,
        stats: 0,
    };
    let dequantise =
        Dequantise { packets, blocks_per_packet: 1, count: COUNT, format, tag, output: elements, stats: 0 };
    let sum = DequantiseSum {
        packets,
        ranks: 1,
        count: COUNT,
        format,
        average: false,
        tag,
        output: elements,
        stats: 0,
    };
    // SAFETY: all of it lies in the scratch memory, which nothing else uses yet, in the order of one
    // stream.
    unsafe {
        kernels.quantise(element, &quantise, stream)?;
        kernels.reduce(element, &reduce, stream)?;
        kernels.dequantise(element, &dequantise, stream)?;
        kernels.dequantise_sum(element, &sum, stream)
    }
}
