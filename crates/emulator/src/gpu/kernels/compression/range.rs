//! Ranges of device memory that a kernel was given, checked when they are used; and the
//! counters to which launches add.

use std::sync::atomic::{AtomicU64, Ordering};

use airamp_codec::Stats;

use crate::gpu::kernels::elements_at;
use crate::gpu::{Fault, Touch, memory};

/// `AirampStats`: three counts and two sums of eight bytes.
const STATS_BYTES: usize = 40;

/// Bytes that a kernel reads or writes.
pub(super) struct Range {
    pub(super) at: u64,
    len: usize,
    alignment: u64,
}

impl Range {
    pub(super) fn new(at: u64, len: usize, alignment: u64) -> Self {
        Self { at, len, alignment }
    }

    pub(super) fn touch(&self, touch: fn(u64, usize) -> Touch) -> Touch {
        touch(self.at, self.len.min(1 << 46))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.len == 0 || self.at.is_multiple_of(self.alignment) {
            return Ok(());
        }
        let (at, alignment) = (self.at, self.alignment);
        Err(Fault::address(format!("misaligned address {at:#x}: not a multiple of {alignment}")))
    }

    pub(super) fn read(&self) -> Result<&'static [u8], Fault> {
        self.check()?;
        // SAFETY: bytes are valid in any state. The stream's order keeps writers of other
        // launches away while this one runs, and within it reading and writing are kept
        // apart by `require_disjoint`.
        Ok(unsafe { elements_at(self.at, self.len)? })
    }

    pub(super) fn write(&self) -> Result<&'static mut [u8], Fault> {
        self.check()?;
        // SAFETY: as above, and a kernel holds one written range at a time.
        unsafe { elements_at(self.at, self.len) }
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.len as u64)
    }
}

/// What a kernel reads and what it writes may not overlap: a GPU would give anything.
pub(super) fn require_disjoint(read: &Range, written: &Range) -> Result<(), Fault> {
    if read.len == 0 || written.len == 0 || read.end() <= written.at || written.end() <= read.at {
        return Ok(());
    }
    Err(Fault::address(format!("a kernel reads and writes the same memory at {:#x}", written.at)))
}

/// What a launch does to the counters, if it was given any.
pub(super) fn stats_touch(at: u64) -> Option<Touch> {
    (at != 0).then(|| Touch::add(at, STATS_BYTES))
}

/// Adds to the counters, beside other launches that may do the same.
pub(super) fn add_stats(at: u64, stats: Stats) -> Result<(), Fault> {
    if at == 0 {
        return Ok(());
    }
    if !at.is_multiple_of(8) {
        return Err(Fault::address(format!("misaligned address {at:#x}: not a multiple of 8")));
    }
    let words = memory::resolve(at, STATS_BYTES)?.cast::<u64>();
    // SAFETY: `resolve` vouches for five aligned words, which launches only use atomically.
    let word = |index| unsafe { AtomicU64::from_ptr(words.add(index)) };
    word(0).fetch_add(stats.saturated, Ordering::Relaxed);
    word(1).fetch_add(stats.non_finite_blocks, Ordering::Relaxed);
    add_f64(word(2), stats.squared_error);
    add_f64(word(3), stats.signal);
    word(4).fetch_add(stats.foreign, Ordering::Relaxed);
    Ok(())
}

fn add_f64(to: &AtomicU64, value: f64) {
    let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
    // The closure never declines.
    let _previous = to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}
