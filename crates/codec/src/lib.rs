//! The wire format of docs/wire-format.md on the CPU: blocks of 128 elements as 8-bit codes with a scale.
//! `reference` is the judge of every other implementation; the functions here give the same bits faster
//! where the processor can. Knows nothing of GPUs, ranks or the network.
//! Called by the emulator in place of the kernels, by the kernels' tests, and by `airamp bench`.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
// Vector instructions and their loads and stores; each use says why it is sound.
#[allow(unsafe_code)]
mod avx2;
mod format;
mod packet;
pub mod reference;
mod stats;

pub use format::{Element, Format};
pub use packet::{BLOCK, packet_bytes};
use reference::Reference;
pub use stats::{SAMPLED_EVERY, Stats};

/// Which arithmetic the functions of this crate use on this processor.
pub fn arithmetic() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if avx2::Avx2::detect().is_some() {
        return "AVX2";
    }
    "reference"
}

/// Calls the function with the fastest arithmetic that this processor has.
macro_rules! with_fastest {
    ($function:path, $($argument:expr),*) => {{
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = avx2::Avx2::detect() {
            return $function(avx2, $($argument),*);
        }
        $function(Reference, $($argument),*)
    }};
}

/// Writes the elements of `input` (raw, little-endian) as one packet at the beginning of `packet`.
///
/// # Panics
/// If `packet` is shorter than [`packet_bytes`] or `input` ends within an element.
pub fn quantise(element: Element, input: &[u8], format: Format, packet: &mut [u8]) -> Stats {
    with_fastest!(packet::quantise, element, input, format, packet)
}

/// Reads the `count` elements of a packet.
///
/// # Panics
/// If `packet` is shorter than [`packet_bytes`] or `output` does not hold exactly `count` elements.
pub fn dequantise(element: Element, packet: &[u8], count: usize, format: Format, output: &mut [u8]) {
    with_fastest!(packet::dequantise, element, packet, count, format, output);
}

/// Adds up (or averages) the packets of all ranks, in their order: the end of the one-shot.
///
/// # Panics
/// If there is no packet, one is shorter than [`packet_bytes`], or `output` does not hold exactly
/// `count` elements.
pub fn dequantise_sum(
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    output: &mut [u8],
) {
    with_fastest!(packet::dequantise_sum, element, packets, count, format, average, output);
}

/// Adds up (or averages) the packets of all ranks and writes the sum, rounded to `element`, as a packet:
/// the middle of the two-shot.
///
/// # Panics
/// If there is no packet, or one of them or `out_packet` is shorter than [`packet_bytes`].
pub fn reduce(
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    out_packet: &mut [u8],
) -> Stats {
    with_fastest!(packet::reduce, element, packets, count, format, average, out_packet)
}
