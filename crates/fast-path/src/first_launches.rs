//! Each kernel once, on scratch memory: what a first launch makes the driver do is done, and a
//! launch that fails is a reason to stay out of compression.

use crate::arena::Arena;
use crate::plan::PACKET_ALIGNMENT;
use airamp_codec::{BLOCK, Element, Format, Tag, packet_bytes};
use airamp_kernels::KernelSet;
use airamp_kernels::loader::{Dequantise, DequantiseSum, Packets, Quantise, Reduce};
use airamp_vendor::gpu::{Gpu, GpuError, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

const COUNT: u64 = 128;
/// Where elements and packets lie in the scratch memory.
const PACKET_AT: u64 = 1024;
const OUT_PACKET_AT: u64 = 2048;
const BYTES: usize = 3072;
/// Of an element of the codec's timed run.
const ELEMENT_BYTES: usize = 4;

/// Waits for the end, since only that tells whether the launches went well.
pub(crate) fn run_each_kernel(arena: &Arena, kernels: &KernelSet, format: Format) -> Result<(), GpuError> {
    arena.clear_scratch(BYTES)?;
    Element::ALL.into_iter().try_for_each(|element| run(arena, kernels, element, format))?;
    arena.kernels.synchronize()
}

/// Elements at most that the codec's time is taken with.
const MOST_TIMED: usize = 256 << 10;

/// Nanoseconds that quantising, reducing and dequantising take for a byte of a call, about: of single packets, one
/// after the other. Waits for the end.
pub(crate) fn time_codec(
    arena: &Arena,
    kernels: &KernelSet,
    format: Format,
    gpu: &Gpu,
    scratch_bytes: usize,
) -> Result<f64, GpuError> {
    let packets_at = |count: usize| count * ELEMENT_BYTES;
    let out_at = |count: usize| packets_at(count) + packet_bytes(count).next_multiple_of(PACKET_ALIGNMENT);
    let fits = |count: &usize| out_at(*count) + packet_bytes(*count) <= scratch_bytes;
    let halved = |count: &usize| (*count > BLOCK).then_some(count / 2);
    let Some(count) = std::iter::successors(Some(MOST_TIMED), halved).find(fits) else { return Ok(0.0) };
    let (elements, stream) = (arena.scratch(), &arena.kernels);
    let (begin, end) = (gpu.event()?, gpu.event()?);
    arena.clear_scratch(out_at(count))?;
    begin.record(stream)?;
    let packets =
        Packets { address: elements + packets_at(count) as u64, stride: packet_bytes(count) as u64 };
    let out_packet = elements + out_at(count) as u64;
    run_on(
        kernels,
        Element::F32,
        format,
        stream,
        Scratch { elements, count: count as u64, packets, out_packet },
    )?;
    end.record(stream)?;
    stream.synchronize()?;
    Ok(f64::from(end.elapsed_ms(&begin)?) * 1e6 / (count * ELEMENT_BYTES) as f64)
}

/// Where elements and packets lie.
#[derive(Clone, Copy)]
struct Scratch {
    elements: DevicePtr,
    count: u64,
    packets: Packets,
    out_packet: DevicePtr,
}

/// One packet is quantised, reduced and dequantised.
fn run_on(
    kernels: &KernelSet,
    element: Element,
    format: Format,
    stream: &Stream,
    scratch: Scratch,
) -> Result<(), GpuError> {
    let Scratch { elements, count, packets, out_packet } = scratch;
    let (tag, blocks_per_packet) = (Tag::default(), count / BLOCK as u64);
    let quantise = Quantise { input: elements, count, packets, blocks_per_packet, format, tag, stats: 0 };
    let reduce =
        Reduce { packets, ranks: 1, count, format, average: false, tag, out_tag: tag, out_packet, stats: 0 };
    let dequantise =
        Dequantise { packets, blocks_per_packet, count, format, tag, output: elements, stats: 0 };
    // SAFETY: all of it lies in the scratch memory, which nothing else uses yet, in the order of one stream.
    unsafe {
        kernels.quantise(element, &quantise, stream)?;
        kernels.reduce(element, &reduce, stream)?;
        kernels.dequantise(element, &dequantise, stream)
    }
}

fn run(arena: &Arena, kernels: &KernelSet, element: Element, format: Format) -> Result<(), GpuError> {
    let (elements, stream) = (arena.scratch(), &arena.kernels);
    let packets = Packets { address: elements + PACKET_AT, stride: OUT_PACKET_AT - PACKET_AT };
    let out_packet = elements + OUT_PACKET_AT;
    run_on(kernels, element, format, stream, Scratch { elements, count: COUNT, packets, out_packet })?;
    let tag = Tag::default();
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
    unsafe { kernels.dequantise_sum(element, &sum, stream) }
}
