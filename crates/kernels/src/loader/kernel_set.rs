//! The kernels of one context, ready to launch: symbols by operation and element, and
//! the layout of their arguments. Launching allocates nothing and waits for nothing. Used
//! by the self-test and by the fast path.

use std::ffi::{CString, c_void};

use airamp_codec::{BLOCK, Element, Format, Stats};
use airamp_vendor::gpu::{Function, Gpu, GpuError, Grid, Module, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

use super::LoadError;
use super::source::Found;

/// Threads in a thread block.
const THREADS: u32 = 256;
/// Blocks of the wire format that a thread block works on at once: eight for each 32 threads.
const BLOCKS_AT_ONCE: u64 = (THREADS / 32 * 8) as u64;
/// Thread blocks that a multiprocessor can hold at the same time; the kernels loop
/// over what is left.
const RESIDENT: u32 = 8;

/// Bytes of the counters that kernels add to, in device memory, aligned to 8.
pub const STATS_BYTES: usize = 32;

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
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// The way back.
#[derive(Clone, Copy, Debug)]
pub struct Dequantise {
    pub packets: Packets,
    pub blocks_per_packet: u64,
    pub count: u64,
    pub format: Format,
    pub output: DevicePtr,
}

/// The packets of all ranks, each with all `count` elements, added up as elements.
#[derive(Clone, Copy, Debug)]
pub struct DequantiseSum {
    pub packets: Packets,
    pub ranks: u32,
    pub count: u64,
    pub format: Format,
    pub average: bool,
    pub output: DevicePtr,
}

/// The same, written as a packet again.
#[derive(Clone, Copy, Debug)]
pub struct Reduce {
    pub packets: Packets,
    pub ranks: u32,
    pub count: u64,
    pub format: Format,
    pub average: bool,
    pub out_packet: DevicePtr,
    /// Counters to add to, or 0.
    pub stats: DevicePtr,
}

/// One operation's kernels, by element.
type PerElement = [Function; 3];

/// Kernels that are loaded and tried. Dropping it unloads them.
pub struct KernelSet {
    quantise: PerElement,
    dequantise: PerElement,
    dequantise_sum: PerElement,
    reduce: PerElement,
    most_thread_blocks: u32,
    source: String,
    sha256: [u8; 32],
}

impl KernelSet {
    pub(super) fn new(gpu: &Gpu, ordinal: i32, module: &Module, found: Found) -> Result<Self, LoadError> {
        let per_element = |operation: &str| -> Result<PerElement, LoadError> {
            let [f16, bf16, f32] = Element::ALL.map(|element| function(module, operation, element, &found));
            Ok([f16?, bf16?, f32?])
        };
        let multiprocessors =
            gpu.multiprocessors(ordinal).map_err(LoadError::while_doing("fitted to the device"))?;
        Ok(Self {
            quantise: per_element("quantise")?,
            dequantise: per_element("dequantise")?,
            dequantise_sum: per_element("dequantise_sum")?,
            reduce: per_element("reduce")?,
            most_thread_blocks: multiprocessors.saturating_mul(RESIDENT),
            source: found.name,
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
        let Quantise { input, count, packets, blocks_per_packet, format, stats } = call;
        let format = *format as u32;
        let arguments = [
            at(input),
            at(count),
            at(&packets.address),
            at(&packets.stride),
            at(blocks_per_packet),
            at(&format),
            at(stats),
        ];
        // SAFETY: the types are those of the kernel's parameters, and the caller vouches
        // for the memory.
        unsafe { self.launch(&self.quantise, element, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn dequantise(
        &self,
        element: Element,
        call: &Dequantise,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let Dequantise { packets, blocks_per_packet, count, format, output } = call;
        let format = *format as u32;
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(blocks_per_packet),
            at(count),
            at(&format),
            at(output),
        ];
        // SAFETY: as above.
        unsafe { self.launch(&self.dequantise, element, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn dequantise_sum(
        &self,
        element: Element,
        call: &DequantiseSum,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        let DequantiseSum { packets, ranks, count, format, average, output } = call;
        let (format, average) = (*format as u32, u32::from(*average));
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(ranks),
            at(count),
            at(&format),
            at(&average),
            at(output),
        ];
        // SAFETY: as above.
        unsafe { self.launch(&self.dequantise_sum, element, *count, stream, &arguments) }
    }

    /// # Safety
    /// As for [`Self::quantise`].
    pub unsafe fn reduce(&self, element: Element, call: &Reduce, stream: &Stream) -> Result<(), GpuError> {
        let Reduce { packets, ranks, count, format, average, out_packet, stats } = call;
        let (format, average) = (*format as u32, u32::from(*average));
        let arguments = [
            at(&packets.address),
            at(&packets.stride),
            at(ranks),
            at(count),
            at(&format),
            at(&average),
            at(out_packet),
            at(stats),
        ];
        // SAFETY: as above.
        unsafe { self.launch(&self.reduce, element, *count, stream, &arguments) }
    }

    /// # Safety
    /// `arguments` are the addresses of the kernel's parameters; their memory is as the
    /// callers say.
    unsafe fn launch(
        &self,
        kernels: &PerElement,
        element: Element,
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
        unsafe { kernels[element as usize].launch(grid, stream, arguments) }
    }
}

fn at<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}

fn function(
    module: &Module,
    operation: &str,
    element: Element,
    found: &Found,
) -> Result<Function, LoadError> {
    let symbol = format!("airamp_{operation}_{}", element.name());
    let name = CString::new(symbol.as_str()).unwrap_or_default();
    module.function(&name).map_err(|error| LoadError::MissingSymbol {
        name: found.name.clone(),
        symbol,
        error,
    })
}
