//! Every kernel on a few blocks, against the reference: each type and format, with ragged
//! ends, both alignments, and the values that conversions get wrong. One allocation and
//! one stream, both given back.

use airamp_codec::{self as codec, Element, Format, packet_bytes};
use airamp_vendor::gpu::{Buffer, Gpu, GpuError, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

use super::kernel_set::{Dequantise, DequantiseSum, KernelSet, Packets, Quantise, Reduce, STATS_BYTES};
use super::{LoadError, read_stats, vectors};

/// Elements of a rank: four blocks and a ragged one.
const COUNT: usize = vectors::COUNT;
const RANKS: usize = 3;
/// Three packets, of which the last is ragged.
const BLOCKS_PER_PACKET: usize = 2;
const PIECE: usize = BLOCKS_PER_PACKET * codec::BLOCK;
/// What memory holds before a kernel writes it; what it must not write still does then.
const UNTOUCHED: u8 = 0x5a;
/// Room behind a result in which nothing may be written.
const MARGIN: usize = 64;

/// The parts of the one allocation, each large enough for every case.
const STATS: usize = 0;
const ELEMENTS: usize = 256;
const PACKETS: usize = 4096;
const RESULT: usize = 8192;
const BYTES: usize = 12288;

/// Runs the whole test on the current device.
pub(super) fn run(gpu: &Gpu, kernels: &KernelSet) -> Result<(), LoadError> {
    let failed = LoadError::while_doing("tried on the device");
    let device = Device::new(gpu).map_err(&failed)?;
    for element in Element::ALL {
        let inputs: Vec<Vec<u8>> = (0..RANKS).map(|rank| vectors::elements(element, rank as u64)).collect();
        for format in Format::ALL {
            let case = Case { device: &device, kernels, element, format, inputs: &inputs };
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

    fn clear(&self, offset: usize, bytes: usize, value: u8) -> Result<(), GpuError> {
        self.buffer.fill_async(offset, bytes, value, &self.stream)
    }

    fn download(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, GpuError> {
        let mut read = vec![0; bytes];
        // SAFETY: the bytes outlive the wait for the stream.
        unsafe { self.buffer.read_async(offset, &mut read, &self.stream)? };
        self.stream.synchronize()?;
        Ok(read)
    }

    /// Whether a result is as expected, and what lies behind it untouched.
    fn holds(&self, offset: usize, expected: &[u8]) -> Result<bool, GpuError> {
        let found = self.download(offset, expected.len() + MARGIN)?;
        let (result, margin) = found.split_at(expected.len());
        Ok(result == expected && margin.iter().all(|byte| *byte == UNTOUCHED))
    }

    /// Whether the two counts, which are exact, are as expected.
    fn has_counted(&self, expected: codec::Stats) -> Result<bool, GpuError> {
        let found = self.download(STATS, STATS_BYTES)?;
        let found = read_stats(&std::array::from_fn(|index| found[index]));
        let counts = |stats: codec::Stats| (stats.saturated, stats.non_finite_blocks);
        Ok(counts(found) == counts(expected))
    }
}

/// One type of element in one format.
struct Case<'a> {
    device: &'a Device,
    kernels: &'a KernelSet,
    element: Element,
    format: Format,
    inputs: &'a [Vec<u8>],
}

/// Whether a kernel gave the reference's bits.
type Verdict = Result<bool, GpuError>;
/// A kernel's name and its trial.
type Step<'a> = (&'static str, fn(&Case<'a>) -> Verdict);

impl<'a> Case<'a> {
    /// The kernel that gives a wrong result, if one does.
    fn wrong_kernel(&self) -> Result<Option<String>, GpuError> {
        let steps: [Step<'a>; 4] = [
            ("quantise", Self::quantise),
            ("dequantise", Self::dequantise),
            ("dequantise_sum", Self::dequantise_sum),
            ("reduce", Self::reduce),
        ];
        for (name, step) in steps {
            if !step(self)? {
                let (element, format) = (self.element.name(), self.format.name());
                return Ok(Some(format!("airamp_{name}_{element} in {format}")));
            }
        }
        Ok(None)
    }

    /// Every second case has its elements where no access wider than one fits.
    fn elements(&self) -> usize {
        match self.format {
            Format::E4M3 | Format::Int8 => ELEMENTS,
            Format::E5M2 | Format::Auto => ELEMENTS + self.element.size(),
        }
    }

    fn average(&self) -> bool {
        matches!(self.format, Format::E5M2 | Format::Int8)
    }

    fn quantise(&self) -> Verdict {
        let (device, element, format) = (self.device, self.element, self.format);
        device.upload(self.elements(), &self.inputs[0])?;
        device.clear(STATS, STATS_BYTES, 0)?;
        device.clear(PACKETS, RESULT - PACKETS, UNTOUCHED)?;
        let call = Quantise {
            input: device.address(self.elements()),
            count: COUNT as u64,
            packets: self.pieces(),
            blocks_per_packet: BLOCKS_PER_PACKET as u64,
            format,
            stats: device.address(STATS),
        };
        // SAFETY: all of it lies within the test's own buffer, in one stream's order.
        unsafe { self.kernels.quantise(element, &call, &device.stream)? };
        let (packets, stats) = self.reference_pieces();
        Ok(device.holds(PACKETS, &packets)? && device.has_counted(stats)?)
    }

    fn dequantise(&self) -> Verdict {
        let (device, element, format) = (self.device, self.element, self.format);
        let (packets, _) = self.reference_pieces();
        device.upload(PACKETS, &packets)?;
        device.clear(ELEMENTS, PACKETS - ELEMENTS, UNTOUCHED)?;
        let call = Dequantise {
            packets: self.pieces(),
            blocks_per_packet: BLOCKS_PER_PACKET as u64,
            count: COUNT as u64,
            format,
            output: device.address(self.elements()),
        };
        // SAFETY: as above.
        unsafe { self.kernels.dequantise(element, &call, &device.stream)? };
        let mut expected = vec![0; COUNT * element.size()];
        for (index, piece) in expected.chunks_mut(PIECE * element.size()).enumerate() {
            let packet = &packets[index * packet_bytes(PIECE)..];
            codec::dequantise(element, packet, piece.len() / element.size(), format, piece);
        }
        device.holds(self.elements(), &expected)
    }

    fn dequantise_sum(&self) -> Verdict {
        let (device, element, format) = (self.device, self.element, self.format);
        let packets = self.upload_ranks()?;
        device.clear(ELEMENTS, PACKETS - ELEMENTS, UNTOUCHED)?;
        let call = DequantiseSum {
            packets: self.ranks(),
            ranks: RANKS as u32,
            count: COUNT as u64,
            format,
            average: self.average(),
            output: device.address(self.elements()),
        };
        // SAFETY: as above.
        unsafe { self.kernels.dequantise_sum(element, &call, &device.stream)? };
        let mut expected = vec![0; COUNT * element.size()];
        codec::dequantise_sum(element, &slices(&packets), COUNT, format, self.average(), &mut expected);
        device.holds(self.elements(), &expected)
    }

    fn reduce(&self) -> Verdict {
        let (device, element, format) = (self.device, self.element, self.format);
        let packets = self.upload_ranks()?;
        device.clear(STATS, STATS_BYTES, 0)?;
        device.clear(RESULT, BYTES - RESULT, UNTOUCHED)?;
        let call = Reduce {
            packets: self.ranks(),
            ranks: RANKS as u32,
            count: COUNT as u64,
            format,
            average: self.average(),
            out_packet: device.address(RESULT),
            stats: device.address(STATS),
        };
        // SAFETY: as above.
        unsafe { self.kernels.reduce(element, &call, &device.stream)? };
        let mut expected = vec![0; packet_bytes(COUNT)];
        let stats = codec::reduce(element, &slices(&packets), COUNT, format, self.average(), &mut expected);
        Ok(device.holds(RESULT, &expected)? && device.has_counted(stats)?)
    }

    fn pieces(&self) -> Packets {
        Packets { address: self.device.address(PACKETS), stride: packet_bytes(PIECE) as u64 }
    }

    fn ranks(&self) -> Packets {
        Packets { address: self.device.address(PACKETS), stride: packet_bytes(COUNT) as u64 }
    }

    /// Rank 0's elements, piece by piece, as the reference writes them.
    fn reference_pieces(&self) -> (Vec<u8>, codec::Stats) {
        let (mut packets, mut stats) = (Vec::new(), codec::Stats::default());
        for piece in self.inputs[0].chunks(PIECE * self.element.size()) {
            let mut packet = vec![0; packet_bytes(piece.len() / self.element.size())];
            stats += codec::quantise(self.element, piece, self.format, &mut packet);
            packets.extend(packet);
        }
        (packets, stats)
    }

    fn upload_ranks(&self) -> Result<Vec<Vec<u8>>, GpuError> {
        let packet = |input: &Vec<u8>| {
            let mut packet = vec![0; packet_bytes(COUNT)];
            codec::quantise(self.element, input, self.format, &mut packet);
            packet
        };
        let packets: Vec<Vec<u8>> = self.inputs.iter().map(packet).collect();
        self.device.upload(PACKETS, &packets.concat())?;
        Ok(packets)
    }
}

fn slices(packets: &[Vec<u8>]) -> Vec<&[u8]> {
    packets.iter().map(Vec::as_slice).collect()
}
