//! The kernels' own source, compiled for the CPU by the system's C++ compiler and called from tests.
//! Every buffer that a kernel gets begins or ends at a page that may not be touched, so a read or a write beyond
//! it ends the test.

mod buffer;
mod compiled;
pub(crate) mod inputs;

use std::ffi::{CString, c_void};

pub(crate) use buffer::Buffer;
use compiled::library;

use airamp_codec::{Element, Format, Tag};

/// As the kernels have it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AirampStats {
    pub(crate) saturated: u64,
    pub(crate) non_finite_blocks: u64,
    pub(crate) squared_error: f64,
    pub(crate) signal: f64,
    pub(crate) foreign: u64,
}

/// The tag that tests write and expect.
pub(crate) const TAG: Tag = Tag { call: 0x8899_aabb_ccdd_eeff, part: 0xffff_fffe };
/// The tag of a packet that `reduce` writes.
pub(crate) const OUT_TAG: Tag = Tag { call: 5, part: 0x1_0000_0001 };

fn pointer(stats: Option<&mut AirampStats>) -> *mut AirampStats {
    stats.map_or(std::ptr::null_mut(), std::ptr::from_mut)
}

/// In which order the threads of a group go on when one waits; as lanes.h has it.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Turns {
    Forward,
    Backward,
    Shuffled,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) groups: u32,
    pub(crate) threads: u32,
    pub(crate) turns: Turns,
    /// Whether the kernels are those of a GPU that copies into shared memory ahead of use.
    pub(crate) copies: bool,
}

impl Grid {
    pub(crate) const fn new(groups: u32, threads: u32) -> Self {
        Self { groups, threads, turns: Turns::Forward, copies: true }
    }
}

pub(crate) const GRID: Grid = Grid::new(3, 256);

type Quantise =
    unsafe extern "C" fn(u32, u32, *const c_void, u64, *mut c_void, u64, u64, u64, u64, *mut AirampStats);
type Dequantise =
    unsafe extern "C" fn(u32, u32, *const c_void, u64, u64, u64, u64, u64, *mut c_void, *mut AirampStats);
type DequantiseSum = unsafe extern "C" fn(
    u32,
    u32,
    *const c_void,
    u64,
    u32,
    u64,
    u32,
    u64,
    u64,
    *mut c_void,
    *mut AirampStats,
);
type Reduce = unsafe extern "C" fn(
    u32,
    u32,
    *const c_void,
    u64,
    u32,
    u64,
    u32,
    u64,
    u64,
    u64,
    u64,
    *mut c_void,
    *mut AirampStats,
);

pub(crate) fn quantise(
    grid: Grid,
    element: Element,
    input: &Buffer,
    format: Format,
    packets: &mut Buffer,
    stride: usize,
    blocks: usize,
    stats: Option<&mut AirampStats>,
) {
    let count = (input.len() / element.size()) as u64;
    // SAFETY: the library is compiled from cpu/lanes.cpp, whose launcher has these parameters; the buffers
    // are as long as the count and the stride say.
    unsafe {
        let launch: Quantise = std::mem::transmute(launcher("quantise", element, format, grid));
        let (input, packets) = (input.as_ptr().cast(), packets.as_mut_ptr().cast());
        launch(
            grid.groups,
            grid.threads,
            input,
            count,
            packets,
            stride as u64,
            blocks as u64,
            TAG.call,
            TAG.part,
            pointer(stats),
        );
    }
}

pub(crate) fn dequantise(
    grid: Grid,
    element: Element,
    packets: &Buffer,
    stride: usize,
    blocks: usize,
    format: Format,
    output: &mut Buffer,
    stats: Option<&mut AirampStats>,
) {
    let count = (output.len() / element.size()) as u64;
    // SAFETY: as in `quantise`.
    unsafe {
        let launch: Dequantise = std::mem::transmute(launcher("dequantise", element, format, grid));
        let (packets, output) = (packets.as_ptr().cast(), output.as_mut_ptr().cast());
        launch(
            grid.groups,
            grid.threads,
            packets,
            stride as u64,
            blocks as u64,
            count,
            TAG.call,
            TAG.part,
            output,
            pointer(stats),
        );
    }
}

/// The packets of some ranks, one behind the other.
#[derive(Clone, Copy)]
pub(crate) struct Ranks<'a> {
    pub(crate) packets: &'a Buffer,
    pub(crate) stride: usize,
    pub(crate) ranks: u32,
    pub(crate) average: bool,
}

pub(crate) fn dequantise_sum(
    grid: Grid,
    element: Element,
    all: Ranks<'_>,
    format: Format,
    output: &mut Buffer,
    stats: Option<&mut AirampStats>,
) {
    let count = (output.len() / element.size()) as u64;
    // SAFETY: as in `quantise`.
    unsafe {
        let launch: DequantiseSum = std::mem::transmute(launcher("dequantise_sum", element, format, grid));
        let (packets, output) = (all.packets.as_ptr().cast(), output.as_mut_ptr().cast());
        let (stride, average) = (all.stride as u64, u32::from(all.average));
        launch(
            grid.groups,
            grid.threads,
            packets,
            stride,
            all.ranks,
            count,
            average,
            TAG.call,
            TAG.part,
            output,
            pointer(stats),
        );
    }
}

pub(crate) fn reduce(
    grid: Grid,
    element: Element,
    all: Ranks<'_>,
    count: usize,
    format: Format,
    out_packet: &mut Buffer,
    stats: Option<&mut AirampStats>,
) {
    // SAFETY: as in `quantise`.
    unsafe {
        let launch: Reduce = std::mem::transmute(launcher("reduce", element, format, grid));
        let (packets, out) = (all.packets.as_ptr().cast(), out_packet.as_mut_ptr().cast());
        let (stride, average, count) = (all.stride as u64, u32::from(all.average), count as u64);
        launch(
            grid.groups,
            grid.threads,
            packets,
            stride,
            all.ranks,
            count,
            average,
            TAG.call,
            TAG.part,
            OUT_TAG.call,
            OUT_TAG.part,
            out,
            pointer(stats),
        );
    }
}

/// The launcher of a kernel, whose threads will take turns as the grid has it.
fn launcher(kernel: &str, element: Element, format: Format, grid: Grid) -> *mut c_void {
    // SAFETY: the function of that name in cpu/lanes.cpp has this parameter.
    unsafe {
        let take_turns: unsafe extern "C" fn(Turns) =
            std::mem::transmute(function("airamp_take_turns", grid.copies));
        take_turns(grid.turns);
    }
    function(&format!("launch_airamp_{kernel}_{}_{}", element.name(), format.name()), grid.copies)
}

fn function(name: &str, copies: bool) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
    let address = unsafe { libc::dlsym(library(copies) as *mut c_void, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?} is not in the kernels' source");
    address
}
