//! The wire format of docs/wire-format.md on the CPU: blocks of 128 elements as 8-bit codes with a scale.
//! `reference` is the judge of every other implementation; the functions here give the same bits faster
//! where the processor can. Knows nothing of GPUs, ranks or the network.
//! Called by the emulator in place of the kernels, by the kernels' tests, and by `airamp bench`.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "vector instructions and their loads and stores; each use says why it is sound"
)]
mod avx2;
mod format;
mod packet;
pub mod reference;
mod stats;
mod tag;

pub use format::{Element, Format};
pub use packet::{BLOCK, packet_bytes};
use reference::Reference;
pub use stats::{SAMPLED_EVERY, Stats};
pub use tag::Tag;

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

/// Writes the elements of `input` (raw, little-endian) as one packet at the beginning of `packet`,
/// which then says that it is `tag`.
///
/// # Panics
/// If `packet` is shorter than [`packet_bytes`] or `input` ends within an element.
pub fn quantise(element: Element, input: &[u8], format: Format, tag: Tag, packet: &mut [u8]) -> Stats {
    with_fastest!(packet::quantise, element, input, format, tag, packet)
}

/// Reads the `count` elements of a packet that says it is `tag`; all are NaN if it does not.
///
/// # Panics
/// If `packet` is shorter than [`packet_bytes`] or `output` does not hold exactly `count` elements.
pub fn dequantise(
    element: Element,
    packet: &[u8],
    count: usize,
    format: Format,
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    with_fastest!(packet::dequantise, element, packet, count, format, tag, output)
}

/// Adds up (or averages) the packets of all ranks, in their order: the end of the one-shot.
/// Rank r's is to be `tag.of_rank(r)`; of one that is not, all elements are NaN.
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
    tag: Tag,
    output: &mut [u8],
) -> Stats {
    with_fastest!(packet::dequantise_sum, element, packets, count, format, average, tag, output)
}

/// Adds up (or averages) the packets of all ranks and writes the sum, rounded to `element`, as the
/// packet `out_tag`: the middle of the two-shot. The ranks' packets are as for [`dequantise_sum`].
///
/// # Panics
/// If there is no packet, or one of them or `out_packet` is shorter than [`packet_bytes`].
pub fn reduce(
    element: Element,
    packets: &[&[u8]],
    count: usize,
    format: Format,
    average: bool,
    tag: Tag,
    out_tag: Tag,
    out_packet: &mut [u8],
) -> Stats {
    with_fastest!(packet::reduce, element, packets, count, format, average, tag, out_tag, out_packet)
}
