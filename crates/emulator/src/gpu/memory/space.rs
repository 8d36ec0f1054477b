//! The allocations of one device: which ranges are live, which were freed, and who
//! touched them last.

use std::collections::BTreeMap;
use std::sync::Arc;

use airamp_vendor_abi::cuda::CudaError;

use super::mapping::Mapping;
use crate::environment;
use crate::gpu::{Answer, Fault};

/// What CUDA's allocations are aligned to; the same again stays free between two of
/// them, so that running past the end of one is not inside the next.
const ALIGNMENT: u64 = 512;
/// Freed ranges that are remembered.
const REMEMBERED: usize = 1 << 16;

/// A past access to an allocation that a later one may be in conflict with.
#[derive(Clone, Debug)]
pub(in crate::gpu) struct Access {
    pub(in crate::gpu) start: u64,
    pub(in crate::gpu) end: u64,
    pub(in crate::gpu) write: bool,
    pub(in crate::gpu) atomic: bool,
    pub(in crate::gpu) timeline: usize,
    pub(in crate::gpu) number: u64,
    pub(in crate::gpu) device: i32,
    pub(in crate::gpu) who: Arc<str>,
}

struct Allocation {
    len: u64,
    accesses: Vec<Access>,
}

pub(in crate::gpu) struct AddressSpace {
    ordinal: i32,
    total: u64,
    used: u64,
    mapping: Option<Mapping>,
    cursor: u64,
    live: BTreeMap<u64, Allocation>,
    freed: BTreeMap<u64, u64>,
}

impl AddressSpace {
    pub(in crate::gpu) fn new(ordinal: i32) -> Self {
        Self {
            ordinal,
            total: environment::number("AIRAMP_EMU_MEMORY_BYTES"),
            used: 0,
            mapping: None,
            cursor: 0,
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
        }
    }

    pub(super) fn alloc(&mut self, len: usize) -> Answer<u64> {
        let charged = charged(len as u64).ok_or(CudaError::OUT_OF_MEMORY)?;
        if charged > self.total - self.used {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        if self.mapping.is_none() {
            self.mapping = Some(Mapping::new(self.ordinal)?);
        }
        let at = self.find_gap(charged + ALIGNMENT).ok_or(CudaError::OUT_OF_MEMORY)?;
        self.forget_freed(at, at + charged);
        self.cursor = at + charged + ALIGNMENT;
        self.used += charged;
        let allocation = Allocation { len: len as u64, accesses: Vec::new() };
        self.live.insert(at, allocation);
        Ok(at)
    }

    /// The first gap from the cursor on, then from the start: what was freed last is
    /// given out again last.
    fn find_gap(&self, len: u64) -> Option<u64> {
        let mapping = self.mapping.as_ref()?;
        let first = self.cursor.max(mapping.start);
        let from = |first| self.gap_after(first, len, mapping.end);
        from(first).or_else(|| from(mapping.start))
    }

    fn gap_after(&self, first: u64, len: u64, end: u64) -> Option<u64> {
        let mut at = first;
        if let Some((base, allocation)) = self.live.range(..first).next_back() {
            at = at.max(span_end(*base, allocation));
        }
        for (base, allocation) in self.live.range(first..) {
            if at + len <= *base {
                break;
            }
            at = span_end(*base, allocation);
        }
        (at + len <= end).then_some(at)
    }

    fn forget_freed(&mut self, start: u64, end: u64) {
        // Freed ranges do not overlap each other, so that the first one below ends it.
        let below = |freed: &BTreeMap<u64, u64>| freed.range(..end).next_back().map(|(b, len)| (*b, *len));
        while let Some((base, len)) = below(&self.freed)
            && base + len > start
        {
            self.freed.remove(&base);
        }
    }

    pub(super) fn free(&mut self, ptr: u64) -> Result<(), Fault> {
        let Some(allocation) = self.live.remove(&ptr) else {
            return Err(Fault::new(CudaError::INVALID_VALUE, self.describe_bad_free(ptr)));
        };
        let charged = charged(allocation.len).unwrap_or(allocation.len);
        self.used -= charged;
        if let Some(mapping) = &self.mapping {
            mapping.discard(ptr, charged);
        }
        if self.freed.len() == REMEMBERED {
            self.freed.pop_first();
        }
        self.freed.insert(ptr, allocation.len);
        Ok(())
    }

    fn describe_bad_free(&self, ptr: u64) -> String {
        if let Some(len) = self.freed.get(&ptr) {
            return format!("double free of {ptr:#x}, an allocation of {len} bytes");
        }
        match self.holder(ptr) {
            Some((base, _)) => {
                let inside = ptr - base;
                format!("free of {ptr:#x}, which is {inside} bytes inside the allocation at {base:#x}")
            }
            None => format!("free of {ptr:#x}, which was never allocated"),
        }
    }

    pub(super) fn resolve(&self, ptr: u64, len: usize) -> Result<*mut u8, Fault> {
        let refused = |message| Err(Fault::address(message));
        let Some((base, allocation)) = self.holder(ptr) else {
            return refused(self.describe_stray(ptr, len));
        };
        if (ptr - base).saturating_add(len as u64) > allocation.len {
            let (inside, size) = (ptr - base, allocation.len);
            return refused(format!(
                "access to {len} bytes at {ptr:#x} runs past the end of an allocation: it starts {inside} bytes into {size}"
            ));
        }
        let mapping = self.mapping.as_ref().expect("an allocation has pages");
        Ok(mapping.bytes(ptr))
    }

    fn describe_stray(&self, ptr: u64, len: usize) -> String {
        let below = self.freed.range(..=ptr).next_back();
        match below.filter(|(base, size)| ptr < *base + (**size).max(1)) {
            Some((base, size)) => format!(
                "use after free: access to {len} bytes at {ptr:#x}, {} bytes into an allocation of {size} bytes that was freed",
                ptr - base
            ),
            None => format!("access to {len} bytes at {ptr:#x}, where nothing is allocated"),
        }
    }

    /// The allocation in which `ptr` lies; its end counts, for ranges of no bytes.
    fn holder(&self, ptr: u64) -> Option<(u64, &Allocation)> {
        let (base, allocation) = self.live.range(..=ptr).next_back()?;
        (ptr <= base + allocation.len).then_some((*base, allocation))
    }

    pub(super) fn range_of(&self, ptr: u64) -> Option<(u64, usize)> {
        let (base, allocation) = self.holder(ptr)?;
        (ptr < base + allocation.len).then_some((base, allocation.len as usize))
    }

    pub(super) fn info(&self) -> (u64, u64) {
        (self.total - self.used, self.total)
    }

    /// The accesses to the allocation that holds `ptr`.
    pub(in crate::gpu) fn accesses(&mut self, ptr: u64) -> Option<&mut Vec<Access>> {
        let (base, allocation) = self.live.range_mut(..=ptr).next_back()?;
        (ptr < base + allocation.len).then_some(&mut allocation.accesses)
    }
}

fn charged(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(ALIGNMENT)
}

fn span_end(base: u64, allocation: &Allocation) -> u64 {
    base + allocation.len.next_multiple_of(ALIGNMENT) + ALIGNMENT
}
