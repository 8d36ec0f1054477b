//! What a communicator's compressed calls use on the device: scratch memory with the counters in
//! front, a stream for the kernels, events, and host memory that the counters are copied to. Acquired
//! as a whole before the first such call, so that a call only enqueues; given back as a whole.

use crate::captures::{CAPTURES, Captures};
use crate::layout::SLOTS;
use airamp_codec::Stats;
use airamp_kernels::loader::{STATS_BYTES, read_stats};
use airamp_vendor::gpu::{Buffer, Capture, Event, Gpu, GpuError, PinnedBuffer, Priority, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

/// Bytes in front of the scratch memory, for the counters.
pub(crate) const STATS_ROOM: usize = 256;

pub(crate) struct Arena {
    memory: Buffer,
    /// Quantises and dequantises beside the exchange, which runs on a stream of the caller's.
    pub(crate) kernels: Stream,
    /// The end of the last enqueue: those of one communicator share the memory, whatever streams
    /// and graphs they are on, and the vendor orders only its own work.
    pub(crate) serial: Event,
    /// Lets the kernels wait for a stream of the caller's.
    pub(crate) to_kernels: Event,
    /// What the next exchange of a slot sends is there.
    pub(crate) ready: [Event; SLOTS],
    /// Ends of captured calls, for what comes later in the same capture.
    captured: [Event; CAPTURES],
    captures: Captures,
    read_back: PinnedBuffer,
}

impl Arena {
    /// The end of the last call in that capture. External events make no edge inside a graph.
    pub(crate) fn end_in(&self, capture: &Capture) -> Option<&Event> {
        self.captures.place_of(capture.id).map(|place| &self.captured[place])
    }

    /// Whether there is such an end, and it is no longer known.
    pub(crate) fn has_forgotten(&self, capture: &Capture) -> bool {
        self.captures.has_forgotten(capture.id)
    }

    /// Remembers what `stream` has captured so far as the end of that capture's last call.
    pub(crate) fn remember_end(&self, capture: &Capture, stream: &Stream) -> Result<&Event, GpuError> {
        let event = &self.captured[self.captures.take_place(capture.id)];
        event.record(stream)?;
        Ok(event)
    }

    /// Takes `bytes` of memory on the current device, and everything else. An error gives back what
    /// was taken before it.
    pub(crate) fn acquire(gpu: &Gpu, bytes: usize) -> Result<Self, GpuError> {
        let arena = Self {
            memory: gpu.alloc(bytes)?,
            kernels: gpu.stream_with_priority(Priority::Highest)?,
            serial: gpu.untimed_event()?,
            to_kernels: gpu.untimed_event()?,
            ready: [gpu.untimed_event()?, gpu.untimed_event()?],
            captured: [
                gpu.untimed_event()?,
                gpu.untimed_event()?,
                gpu.untimed_event()?,
                gpu.untimed_event()?,
            ],
            captures: Captures::new(),
            read_back: gpu.alloc_pinned(STATS_BYTES)?,
        };
        arena.memory.fill_async(0, STATS_ROOM.min(bytes), 0, &arena.kernels)?;
        arena.serial.record(&arena.kernels)?;
        Ok(arena)
    }

    pub(crate) fn scratch(&self) -> DevicePtr {
        self.memory.address() + STATS_ROOM as DevicePtr
    }

    /// A byte behind the counters, always 0.
    pub(crate) fn spare_byte(&self) -> DevicePtr {
        self.memory.address() + STATS_ROOM as DevicePtr - 1
    }

    /// Clears the beginning of the scratch memory, in the order of the kernels.
    pub(crate) fn clear_scratch(&self, bytes: usize) -> Result<(), GpuError> {
        self.memory.fill_async(STATS_ROOM, bytes, 0, &self.kernels)
    }

    /// Where the kernels count.
    pub(crate) fn stats(&self) -> DevicePtr {
        self.memory.address()
    }

    pub(crate) fn read_back(&self, stream: &Stream) -> Result<(), GpuError> {
        self.read_back.copy_from_async(0, &self.memory, 0, STATS_BYTES, stream)
    }

    /// The counters as they were copied last. Each is whole; together they may stem from two calls.
    pub(crate) fn last_stats(&self) -> Stats {
        let mut bytes = [0; STATS_BYTES];
        for (index, word) in bytes.chunks_exact_mut(size_of::<u64>()).enumerate() {
            let value = self.read_back.read_u64(index * size_of::<u64>()).unwrap_or(0);
            word.copy_from_slice(&value.to_le_bytes());
        }
        read_stats(&bytes)
    }
}
