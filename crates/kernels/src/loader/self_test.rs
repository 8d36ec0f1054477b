//! Every kernel on a few blocks, against the reference: each type and format, with ragged
//! ends, both alignments, foreign packets, and the values that conversions get wrong. One
//! allocation and one stream, both given back.

use airamp_codec::{BLOCK, Element, Format, Tag, packet_bytes};
use airamp_vendor::gpu::{Buffer, Gpu, GpuError, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

use super::expected::{self, Expected, digest};
use super::kernel_set::{Dequantise, DequantiseSum, KernelSet, Packets, Quantise, Reduce, STATS_BYTES};
use super::{LoadError, read_stats, vectors};

const COUNT: usize = vectors::COUNT;
/// The elements are cut into this many packets, which then stand for as many ranks.
const RANKS: usize = 3;
/// More than the kernels have in hand at once, so that they take their short way and their long one.
const BLOCKS_PER_PACKET: usize = 9;
const PIECE: usize = BLOCKS_PER_PACKET * BLOCK;
/// What the last packet holds, and as much of the others is added up.
const SUMMED: usize = COUNT - (RANKS - 1) * PIECE;
/// Bytes of a packet.
const PACKET: usize = packet_bytes(PIECE);
const TAG: Tag = Tag { call: 0x0123_4567_89ab_cdef, part: 0xffff_ffff };
const OUT_TAG: Tag = Tag { call: 0xfedc_ba98_7654_3210, part: 7 };
/// What memory holds before a kernel writes it; what it must not write still does then.
const UNTOUCHED: u8 = 0x5a;
/// Room behind a result in which nothing may be written.
const MARGIN: usize = 64;

/// The parts of the one allocation, each large enough for every case.
const STATS: usize = 0;
const ELEMENTS: usize = 256;
const PACKETS: usize = 16384;
const RESULT: usize = 24576;
const BYTES: usize = 28672;
const _: () = {
    assert!(SUMMED.div_ceil(BLOCK) == BLOCKS_PER_PACKET, "packets of one size");
    assert!(ELEMENTS + 4 + COUNT * 4 + MARGIN <= PACKETS);
    assert!(PACKETS + RANKS * PACKET + MARGIN <= RESULT);
    assert!(RESULT + PACKET + MARGIN <= BYTES);
};

/// Runs the whole test on the current device.
pub(super) fn run(gpu: &Gpu, kernels: &KernelSet) -> Result<(), LoadError> {
    let failed = LoadError::while_doing("tried on the device");
    let device = Device::new(gpu).map_err(&failed)?;
    for element in Element::ALL {
        let elements = vectors::elements(element);
        for format in Format::ALL {
            let case = Case { device: &device, kernels, element, format, elements: &elements };
            if let Some(kernel) = case.wrong_kernel().map_err(&failed)? {
                return Err(LoadError::SelfTest(kernel));
            }
        }
    }
    Ok(())
}

/// The memory and the stream of the test.
struct Device {
    stream: Stream,
    buffer: Buffer,
}

/// What a kernel left behind, nothing in the margin, and the exact counters.
#[derive(PartialEq, Eq)]
struct Outcome {
    digest: u64,
    /// Saturated, non-finite, foreign.
    counts: [u64; 3],
}

impl Device {
    fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        let stream = gpu.stream(true)?;
        Ok(Self { stream, buffer: gpu.alloc(BYTES)? })
    }

    fn address(&self, offset: usize) -> DevicePtr {
        self.buffer.address() + offset as DevicePtr
    }

    fn upload(&self, offset: usize, bytes: &[u8]) -> Result<(), GpuError> {
        // SAFETY: the bytes outlive the wait for the stream.
        unsafe { self.buffer.write_async(offset, bytes, &self.stream)? };
        self.stream.synchronize()
    }

    /// Clears the counters and the part between two offsets, where a result will be.
    fn clear(&self, from: usize, to: usize) -> Result<(), GpuError> {
        self.buffer.fill_async(STATS, STATS_BYTES, 0, &self.stream)?;
        self.buffer.fill_async(from, to - from, UNTOUCHED, &self.stream)
    }

    fn download(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, GpuError> {
        let mut read = vec![0; bytes];
        // SAFETY: the bytes outlive the wait for the stream.
        unsafe { self.buffer.read_async(offset, &mut read, &self.stream)? };
        self.stream.synchronize()?;
        Ok(read)
    }

    /// The result of `bytes` at `offset`; `None` if something was written behind it.
    fn outcome(&self, offset: usize, bytes: usize) -> Result<Option<Outcome>, GpuError> {
        let found = self.download(offset, bytes + MARGIN)?;
        let (result, margin) = found.split_at(bytes);
        let stats = self.download(STATS, STATS_BYTES)?;
        let stats = read_stats(&std::array::from_fn(|index| stats[index]));
        let counts = [stats.saturated, stats.non_finite_blocks, stats.foreign];
        let clean = margin.iter().all(|byte| *byte == UNTOUCHED);
        Ok(clean.then(|| Outcome { digest: digest(result), counts }))
    }
}

/// One type of element in one format.
struct Case<'a> {
    device: &'a Device,
    kernels: &'a KernelSet,
    element: Element,
    format: Format,
    elements: &'a [u8],
}

/// Whether a kernel gave the reference's bits.
type Verdict = Result<bool, GpuError>;
/// A kernel's name and its trial.
type Step<'a> = (&'static str, fn(&Case<'a>, &Expected) -> Verdict);

impl<'a> Case<'a> {
    /// The kernel that gives a wrong result, if one does. Each goes on with the packets that the first made.
    fn wrong_kernel(&self) -> Result<Option<String>, GpuError> {
        let steps: [Step<'a>; 4] = [
            ("quantise", Self::quantise),
            ("dequantise", Self::dequantise),
            ("dequantise_sum", Self::dequantise_sum),
            ("reduce", Self::reduce),
        ];
        for (name, step) in steps {
            if !step(self, expected::of(self.element, self.format))? {
                let (element, format) = (self.element.name(), self.format.name());
                return Ok(Some(format!("airamp_{name}_{element}_{format}")));
            }
        }
        Ok(None)
    }

    fn quantise(&self, expected: &Expected) -> Verdict {
        let device = self.device;
        device.upload(place(self.element, self.format), self.elements)?;
        device.clear(PACKETS, RESULT)?;
        let call = Quantise {
            input: device.address(place(self.element, self.format)),
            count: COUNT as u64,
            packets: self.packets(),
            blocks_per_packet: BLOCKS_PER_PACKET as u64,
            format: self.format,
            tag: TAG,
            stats: device.address(STATS),
        };
        // SAFETY: all of it lies within the test's own buffer, in one stream's order.
        unsafe { self.kernels.quantise(self.element, &call, &device.stream)? };
        let [saturated, non_finite] = expected.quantised;
        let wanted = Outcome { digest: expected.quantise, counts: [saturated, non_finite, 0] };
        Ok(device.outcome(PACKETS, RANKS * PACKET)? == Some(wanted))
    }

    /// All packets have the tag of the first here: the other two are foreign.
    fn dequantise(&self, expected: &Expected) -> Verdict {
        let device = self.device;
        device.clear(ELEMENTS, PACKETS)?;
        let call = Dequantise {
            packets: self.packets(),
            blocks_per_packet: BLOCKS_PER_PACKET as u64,
            count: COUNT as u64,
            format: self.format,
            tag: TAG,
            output: device.address(place(self.element, self.format)),
            stats: device.address(STATS),
        };
        // SAFETY: as above.
        unsafe { self.kernels.dequantise(self.element, &call, &device.stream)? };
        let wanted = Outcome { digest: expected.dequantise, counts: [0, 0, 2] };
        Ok(device.outcome(place(self.element, self.format), COUNT * self.element.size())? == Some(wanted))
    }

    fn dequantise_sum(&self, expected: &Expected) -> Verdict {
        let device = self.device;
        self.tag_as_ranks()?;
        device.clear(ELEMENTS, PACKETS)?;
        let call = DequantiseSum {
            packets: self.packets(),
            ranks: RANKS as u32,
            count: SUMMED as u64,
            format: self.format,
            average: average(self.format),
            tag: TAG,
            output: device.address(place(self.element, self.format)),
            stats: device.address(STATS),
        };
        // SAFETY: as above.
        unsafe { self.kernels.dequantise_sum(self.element, &call, &device.stream)? };
        let wanted = Outcome { digest: expected.dequantise_sum, counts: [0; 3] };
        Ok(device.outcome(place(self.element, self.format), SUMMED * self.element.size())? == Some(wanted))
    }

    fn reduce(&self, expected: &Expected) -> Verdict {
        let device = self.device;
        device.clear(RESULT, BYTES)?;
        let call = Reduce {
            packets: self.packets(),
            ranks: RANKS as u32,
            count: SUMMED as u64,
            format: self.format,
            average: average(self.format),
            tag: TAG,
            out_tag: OUT_TAG,
            out_packet: device.address(RESULT),
            stats: device.address(STATS),
        };
        // SAFETY: as above.
        unsafe { self.kernels.reduce(self.element, &call, &device.stream)? };
        let [saturated, non_finite] = expected.reduced;
        let wanted = Outcome { digest: expected.reduce, counts: [saturated, non_finite, 0] };
        Ok(device.outcome(RESULT, PACKET)? == Some(wanted))
    }

    fn packets(&self) -> Packets {
        Packets { address: self.device.address(PACKETS), stride: PACKET as u64 }
    }

    /// Gives each packet the tag of its rank.
    fn tag_as_ranks(&self) -> Result<(), GpuError> {
        for rank in 0..RANKS {
            let part = TAG.of_rank(rank).part.to_le_bytes();
            self.device.upload(PACKETS + rank * PACKET + 8, &part)?;
        }
        Ok(())
    }
}

/// Where the elements lie: in every second case where no access wider than one fits.
fn place(element: Element, format: Format) -> usize {
    match format {
        Format::E4M3 | Format::Int8 => ELEMENTS,
        Format::E5M2 | Format::Auto => ELEMENTS + element.size(),
    }
}

fn average(format: Format) -> bool {
    matches!(format, Format::E5M2 | Format::Int8)
}

#[cfg(test)]
mod tests;
