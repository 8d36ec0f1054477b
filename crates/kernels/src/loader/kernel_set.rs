//! The kernels of one context, ready to launch: symbols by operation, element and format, and
//! the layout of their arguments. Launching allocates nothing and waits for nothing. Used
//! by the self-test and by the fast path.

use std::ffi::{CString, c_void};

use airamp_codec::{BLOCK, Element, Format, Stats, Tag};
use airamp_vendor::gpu::{Function, Gpu, GpuError, Grid, Module, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

use super::LoadError;
use super::source::Found;

/// Threads in a thread block.
const THREADS: u32 = 256;
/// Blocks of the wire format that a thread block works on at once: eight for each 32 threads.
const BLOCKS_AT_ONCE: u64 = (THREADS / 32 * 8) as u64;
/// Thread blocks per multiprocessor, at most; the kernels loop over what is left. More than fit at a time:
/// where one ends early, another takes its place. Measured on an H200.
const THREAD_BLOCKS: u32 = 64;
/// The same for `reduce`, which has more to do before its first result; a multiple of the three that fit at a time.
/// For code objects that do not copy ahead it was not measured.
const THREAD_BLOCKS_TO_REDUCE: u32 = 6;

/// Bytes of the counters that kernels add to, in device memory, aligned to 8.
pub const STATS_BYTES: usize = 40;

/// The counters as a copy of the device's bytes gives them.
pub fn read_stats(bytes: &[u8; STATS_BYTES]) -> Stats {
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..][..8]);
        u64::from_le_bytes(word)
    };
    Stats {
        saturated: word(0),
        non_finite_blocks: word(1),
        squared_error: f64::from_bits(word(2)),
        signal: f64::from_bits(word(3)),
        foreign: word(4),
    }
}

/// Packets in device memory at equal distances; both numbers are multiples of 16.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    pub address: DevicePtr,
    pub stride: u64,
}

/// `count` elements in pieces of `blocks_per_packet` blocks, each written as a packet.
#[derive(Clone, Copy, Debug)]
pub struct Quantise {
    pub input: DevicePtr,
    pub count: u64,
    pub packets: Packets,
    pub blocks_per_packet: u64,
    pub format: Format,
    /// Of each of the packets.
    pub tag: Tag,
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// The way back. Packet p is to have the tag `tag.of_rank(p)`.
#[derive(Clone, Copy, Debug)]
pub struct Dequantise {
    pub packets: Packets,
    pub blocks_per_packet: u64,
    pub count: u64,
    pub format: Format,
    pub tag: Tag,
    pub output: DevicePtr,
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// The packets of all ranks, each with all `count` elements, added up as elements. Rank r's is to have the
/// tag `tag.of_rank(r)`.
#[derive(Clone, Copy, Debug)]
pub struct DequantiseSum {
    pub packets: Packets,
    pub ranks: u32,
    pub count: u64,
    pub format: Format,
    pub average: bool,
    pub tag: Tag,
    pub output: DevicePtr,
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// The same, written as a packet again.
#[derive(Clone, Copy, Debug)]
pub struct Reduce {
    pub packets: Packets,
    pub ranks: u32,
    pub count: u64,
    pub format: Format,
    pub average: bool,
    pub tag: Tag,
    pub out_tag: Tag,
    pub out_packet: DevicePtr,
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// One operation's kernels, by element and format.
struct Operation {
    functions: [[Function; 4]; 3],
    most_thread_blocks: u32,
}

/// Kernels that are loaded and tried. Dropping it unloads them.
pub struct KernelSet {
    quantise: Operation,
    dequantise: Operation,
    dequantise_sum: Operation,
    reduce: Operation,
    source: String,
    sha256: [u8; 32],
}

impl KernelSet {
    pub(super) fn new(gpu: &Gpu, ordinal: i32, module: &Module, found: Found) -> Result<Self, LoadError> {
        let multiprocessors =
            gpu.multiprocessors(ordinal).map_err(LoadError::while_doing("fitted to the device"))?;
        let operation = |name: &str, per_multiprocessor: u32| -> Result<Operation, LoadError> {
            let of = |element| -> Result<[Function; 4], LoadError> {
                let [e4m3, e5m2, int8, auto] =
                    Format::ALL.map(|format| function(module, name, element, format, &found));
                Ok([e4m3?, e5m2?, int8?, auto?])
            };
            let [f16, bf16, f32] = Element::ALL.map(of);
            let most_thread_blocks = multiprocessors.saturating_mul(per_multiprocessor);
            Ok(Operation { functions: [f16?, bf16?, f32?], most_thread_blocks })
        };
        Ok(Self {
            quantise: operation("quantise", THREAD_BLOCKS)?,
            dequantise: operation("dequantise", THREAD_BLOCKS)?,
            dequantise_sum: operation("dequantise_sum", THREAD_BLOCKS)?,
            reduce: operation("reduce", THREAD_BLOCKS_TO_REDUCE)?,
            source: found.name.clone(),
            sha256: found.sha256,
        })
    }

    /// The blob that the kernels came from, for messages.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    /// # Safety
    /// The addresses are device memory of this context, as large as the counts say, until
    /// the stream has passed the launch, and nothing else uses them out of its order.
    pub unsafe fn quantise(
        &self,
        element: Element,
        call: &Quantise,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let Quantise { input, count, packets, blocks_per_packet, format, tag, stats } = call;
        let arguments = [
            at(input),
            at(count),
            at(&packets.address),
            at(&packets.stride),
            at(blocks_per_packet),
            at(&tag.call),
            at(&tag.part),
            at(stats),
        ];
        // SAFETY: the types are those of the kernel's parameters, and the caller vouches
        // for the memory.
        unsafe { self.quantise.launch(element, *format, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn dequantise(
        &self,
        element: Element,
        call: &Dequantise,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let Dequantise { packets, blocks_per_packet, count, format, tag, output, stats } = call;
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(blocks_per_packet),
            at(count),
            at(&tag.call),
            at(&tag.part),
            at(output),
            at(stats),
        ];
        // SAFETY: as above.
        unsafe { self.dequantise.launch(element, *format, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn dequantise_sum(
        &self,
        element: Element,
        call: &DequantiseSum,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let DequantiseSum { packets, ranks, count, format, average, tag, output, stats } = call;
        let average = u32::from(*average);
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(ranks),
            at(count),
            at(&average),
            at(&tag.call),
            at(&tag.part),
            at(output),
            at(stats),
        ];
        // SAFETY: as above.
        unsafe { self.dequantise_sum.launch(element, *format, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn reduce(&self, element: Element, call: &Reduce, stream: &Stream) -> Result<(), GpuError> {
        let Reduce { packets, ranks, count, format, average, tag, out_tag, out_packet, stats } = call;
        let average = u32::from(*average);
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(ranks),
            at(count),
            at(&average),
            at(&tag.call),
            at(&tag.part),
            at(&out_tag.call),
            at(&out_tag.part),
            at(out_packet),
            at(stats),
        ];
        // SAFETY: as above.
        unsafe { self.reduce.launch(element, *format, *count, stream, &arguments) }
    }
}

impl Operation {
    /// # Safety
    /// `arguments` are the addresses of the kernel's parameters; their memory is as the
    /// callers say.
    unsafe fn launch(
        &self,
        element: Element,
        format: Format,
        count: u64,
        stream: &Stream,
        arguments: &[*const c_void],
    ) -> Result<(), GpuError> {
        if count == 0 {
            return Ok(());
        }
        let needed = count.div_ceil(BLOCK as u64).div_ceil(BLOCKS_AT_ONCE);
        let blocks = needed.min(u64::from(self.most_thread_blocks)) as u32;
        let grid = Grid { blocks, threads: THREADS };
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.functions[element as usize][format as usize].launch(grid, stream, arguments) }
    }
}

fn at<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}

fn function(
    module: &Module,
    operation: &str,
    element: Element,
    format: Format,
    found: &Found,
) -> Result<Function, LoadError> {
    let symbol = format!("airamp_{operation}_{}_{}", element.name(), format.name());
    let name = CString::new(symbol.as_str()).unwrap_or_default();
    module.function(&name).map_err(|error| LoadError::MissingSymbol {
        name: found.name.clone(),
        symbol,
        error,
    })
}
