//! Copies and fills: what each direction requires, when the host waits, and when host
//! memory is read.
//!
//! A copy from ordinary host memory is staged when it is enqueued and one to it is
//! waited for; page-locked memory is read and written when the device gets there.

use std::sync::Arc;

use airamp_vendor_abi::cuda::{
    CudaError, MEMCPY_DEFAULT, MEMCPY_DEVICE_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE,
    MEMCPY_HOST_TO_HOST, STREAM_LEGACY,
};

use super::memory::{self, Place};
use super::stream;
use super::work::{NodeKind, Operation, Run, Touch, Work};
use super::{Answer, Fault, capture};

/// One copy, as the application asked for it. The direction is a `cudaMemcpyKind`.
#[derive(Clone, Copy)]
pub struct Copy {
    pub to: u64,
    pub from: u64,
    pub len: usize,
    pub direction: i32,
}

#[derive(Clone, Copy)]
struct Placed {
    to: (u64, Place),
    from: (u64, Place),
    len: usize,
}

/// An address that a worker thread dereferences on behalf of the application.
#[derive(Clone, Copy)]
struct Address(u64);

/// Copies behind what is on the stream.
pub fn asynchronous(stream: usize, copy: Copy) -> Answer<()> {
    let placed = copy.place()?;
    if placed.len == 0 {
        return stream::find(stream)?.device.check();
    }
    let work = placed.work(placed.from.1 == Place::Host);
    stream::submit_work(stream, work)?;
    if placed.to.1 == Place::Host && !stream::is_capturing(stream)? {
        return stream::synchronize(stream);
    }
    Ok(())
}

/// Copies on the default stream and, unless both ends are on devices, waits.
pub fn synchronous(copy: Copy) -> Answer<()> {
    let legacy = stream::find(STREAM_LEGACY)?;
    capture::refuse_synchronization(&legacy)?;
    capture::refuse_unsafe_call()?;
    let placed = copy.place()?;
    if placed.len == 0 {
        return legacy.device.check();
    }
    stream::submit_work(STREAM_LEGACY, placed.work(false))?;
    let on_devices = |place| matches!(place, Place::Device(_));
    if on_devices(placed.to.1) && on_devices(placed.from.1) {
        return Ok(());
    }
    stream::synchronize(STREAM_LEGACY)
}

/// Fills `count` elements with a pattern of one, two or four bytes.
pub fn fill(stream: usize, to: u64, pattern: &[u8], count: usize) -> Answer<()> {
    if memory::place(to) == Place::Host && count > 0 || !to.is_multiple_of(pattern.len() as u64) {
        return Err(CudaError::INVALID_VALUE);
    }
    let len = count.checked_mul(pattern.len()).ok_or(CudaError::INVALID_VALUE)?;
    if len == 0 {
        return stream::find(stream)?.device.check();
    }
    let pattern: Arc<[u8]> = pattern.into();
    let prepare = move || -> Run {
        let pattern = Arc::clone(&pattern);
        Box::new(move || {
            let bytes = memory::resolve(to, len)?;
            // SAFETY: `resolve` vouches for `len` writable bytes, and only this operation
            // uses them now unless the application races with itself.
            let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, len) };
            bytes.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(&pattern));
            Ok(())
        })
    };
    let operation = Operation {
        label: format!("memset of {len} bytes"),
        touches: vec![Touch::write(to, len)],
        prepare: Arc::new(prepare),
    };
    stream::submit_work(stream, Work::Operation(NodeKind::Memset, operation))
}

impl Copy {
    fn place(self) -> Answer<Placed> {
        let (to, from) = (memory::place(self.to), memory::place(self.from));
        let (to_host, from_host) = match self.direction {
            MEMCPY_HOST_TO_HOST => (true, true),
            MEMCPY_HOST_TO_DEVICE => (false, true),
            MEMCPY_DEVICE_TO_HOST => (true, false),
            MEMCPY_DEVICE_TO_DEVICE => (false, false),
            MEMCPY_DEFAULT => (to == Place::Host, from == Place::Host),
            _ => return Err(CudaError::INVALID_VALUE),
        };
        // Page-locked memory can be reached from both sides.
        let fits = |place, host| match place {
            Place::Pinned => true,
            Place::Host => host,
            Place::Device(_) => !host,
        };
        if self.len > 0 && !(fits(to, to_host) && fits(from, from_host)) {
            return Err(CudaError::INVALID_VALUE);
        }
        if self.len > 0 && (self.to == 0 || self.from == 0) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Placed { to: (self.to, to), from: (self.from, from), len: self.len })
    }
}

impl Placed {
    fn work(self, staged: bool) -> Work {
        let operation = Operation {
            label: format!("memcpy of {} bytes", self.len),
            touches: vec![Touch::write(self.to.0, self.len), Touch::read(self.from.0, self.len)],
            prepare: Arc::new(move || self.prepare(staged)),
        };
        Work::Operation(NodeKind::Memcpy, operation)
    }

    fn prepare(self, staged: bool) -> Run {
        if !staged {
            return Box::new(move || self.run(self.source()?));
        }
        match self.stage() {
            Ok(stage) => Box::new(move || self.run(Address(stage.as_ptr() as u64))),
            Err(fault) => Box::new(|| Err(fault)),
        }
    }

    /// What the copy reads, as it is now. A target that is too small is found first: the
    /// length may be a mistake.
    fn stage(self) -> Result<Vec<u8>, Fault> {
        self.target()?;
        let mut stage = Vec::new();
        stage.try_reserve_exact(self.len).map_err(|_| {
            let message = format!("the host has no memory for a copy of {} bytes", self.len);
            Fault::new(CudaError::OUT_OF_MEMORY, message)
        })?;
        // SAFETY: the application vouches for its own memory during the call that
        // submits the copy (or launches the graph), which this is part of.
        stage.extend_from_slice(unsafe { std::slice::from_raw_parts(self.from.0 as *const u8, self.len) });
        Ok(stage)
    }

    fn target(self) -> Result<*mut u8, Fault> {
        match self.to.1 {
            Place::Host => Ok(self.to.0 as *mut u8),
            _ => memory::resolve(self.to.0, self.len),
        }
    }

    fn source(self) -> Result<Address, Fault> {
        match self.from.1 {
            Place::Host => Ok(Address(self.from.0)),
            _ => Ok(Address(memory::resolve(self.from.0, self.len)? as u64)),
        }
    }

    fn run(self, source: Address) -> Result<(), Fault> {
        let target = self.target()?;
        // SAFETY: device and page-locked ranges were just resolved; for ordinary host
        // memory the application vouches until the call that waits for this copy returns.
        unsafe { std::ptr::copy(source.0 as *const u8, target, self.len) };
        Ok(())
    }
}
