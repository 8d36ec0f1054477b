//! All that a communicator's compressed calls use on the device: scratch memory, a stream for
//! the kernels, events. Acquired as a whole before the first such call, so that a call only
//! enqueues; given back as a whole.

use crate::plan::SLOTS;
use airamp_vendor::gpu::{Buffer, Event, Gpu, GpuError, Priority, Stream};

pub struct StreamArena {
    pub(crate) memory: Buffer,
    /// Quantises and dequantises beside the exchange, which runs on the caller's stream.
    pub(crate) kernels: Stream,
    /// The end of the last call: calls of one communicator share the memory, whatever streams
    /// they are on, and NCCL orders only its own work.
    pub(crate) serial: Event,
    /// The caller's stream has reached the call.
    pub(crate) start: Event,
    /// What the next exchange sends is there.
    pub(crate) ready: [Event; SLOTS],
    /// An exchange has ended.
    pub(crate) exchanged: [Event; SLOTS],
    /// The last kernel of the call has ended.
    pub(crate) done: Event,
}

impl StreamArena {
    /// Takes `bytes` of memory on the current device, and everything else.
    pub fn acquire(gpu: &Gpu, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            memory: gpu.alloc(bytes)?,
            kernels: gpu.stream_with_priority(Priority::Highest)?,
            serial: gpu.untimed_event()?,
            start: gpu.untimed_event()?,
            ready: [gpu.untimed_event()?, gpu.untimed_event()?],
            exchanged: [gpu.untimed_event()?, gpu.untimed_event()?],
            done: gpu.untimed_event()?,
        })
    }

    pub fn bytes(&self) -> usize {
        self.memory.len()
    }
}
