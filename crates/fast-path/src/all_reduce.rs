//! The compressed AllReduce: enqueues the steps of a plan. No host synchronisation, no
//! allocation; what it can fail on was acquired before. Whoever calls it has decided that every
//! rank does the same.
//!
//! The exchange runs on the caller's stream, the kernels beside it on the arena's: while one
//! chunk is on the wire, the next is quantised and the last one dequantised.

use crate::arena::StreamArena;
use crate::plan::{Algorithm, Plan, SLOTS};
use crate::wire::{Wire, WireError};
use airamp_codec::{Element, Format, packet_bytes};
use airamp_kernels::loader::{Dequantise, DequantiseSum, KernelSet, Packets, Quantise, Reduce};
use airamp_vendor::gpu::{GpuError, Stream};
use airamp_vendor_abi::cuda::DevicePtr;

#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the call needs {needed} bytes of scratch, the arena has {available}")]
    Scratch { needed: usize, available: usize },
}

/// One AllReduce of the application's.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub input: DevicePtr,
    pub output: DevicePtr,
    pub element: Element,
    pub format: Format,
    pub average: bool,
    /// Device counters to add to, or 0.
    pub stats: DevicePtr,
}

/// What the steps of one call share.
struct Steps<'a> {
    arena: &'a StreamArena,
    kernels: &'a KernelSet,
    wire: &'a Wire<'a>,
    stream: &'a Stream,
    plan: &'a Plan,
    call: &'a Call,
}

/// Enqueues the call on `stream`, which is the wire's.
///
/// # Safety
/// Input and output are device memory of the plan's count of elements, equal or apart, until the
/// stream has passed the call.
pub unsafe fn enqueue(
    arena: &StreamArena,
    kernels: &KernelSet,
    wire: &Wire<'_>,
    stream: &Stream,
    plan: &Plan,
    call: &Call,
) -> Result<(), FastPathError> {
    let (needed, available) = (plan.scratch_bytes(), arena.bytes());
    if needed > available {
        return Err(FastPathError::Scratch { needed, available });
    }
    let steps = Steps { arena, kernels, wire, stream, plan, call };
    steps.begin()?;
    match plan.algorithm {
        Algorithm::OneShot => steps.one_shot()?,
        Algorithm::TwoShot => steps.two_shot()?,
    }
    steps.end()
}

impl Steps<'_> {
    /// The kernels wait for the caller's stream and for the call before.
    fn begin(&self) -> Result<(), FastPathError> {
        let arena = self.arena;
        arena.start.record(self.stream)?;
        arena.kernels.wait(&arena.start)?;
        Ok(arena.kernels.wait(&arena.serial)?)
    }

    fn end(&self) -> Result<(), FastPathError> {
        let arena = self.arena;
        arena.done.record(&arena.kernels)?;
        self.stream.wait(&arena.done)?;
        Ok(arena.serial.record(self.stream)?)
    }

    /// Hands what the kernels have made so far to the exchange of `step`.
    fn hand_over(&self, step: usize) -> Result<(), FastPathError> {
        Ok(self.arena.ready[step % SLOTS].record(&self.arena.kernels)?)
    }

    /// Lets the kernels go on when the exchange of `step` has ended.
    fn take_over(&self, step: usize) -> Result<(), FastPathError> {
        let exchanged = &self.arena.exchanged[step % SLOTS];
        exchanged.record(self.stream)?;
        Ok(self.arena.kernels.wait(exchanged)?)
    }

    fn one_shot(&self) -> Result<(), FastPathError> {
        self.quantise_whole(0)?;
        for step in 0..self.plan.steps {
            self.hand_over(step)?;
            self.stream.wait(&self.arena.ready[step % SLOTS])?;
            let bytes = packet_bytes(self.plan.chunk(step).elements);
            self.wire.all_gather(self.gathered(step), bytes)?;
            if step + 1 < self.plan.steps {
                self.quantise_whole(step + 1)?;
            }
            self.take_over(step)?;
            self.add_up(step)?;
        }
        Ok(())
    }

    fn two_shot(&self) -> Result<(), FastPathError> {
        let steps = self.plan.steps;
        self.quantise_shards(0)?;
        self.hand_over(0)?;
        for step in 0..=steps {
            self.stream.wait(&self.arena.ready[step % SLOTS])?;
            self.wire.group(|| self.exchange(step))?;
            if step + 1 < steps {
                self.quantise_shards(step + 1)?;
            }
            self.take_over(step)?;
            if step < steps {
                self.reduce(step)?;
                self.hand_over(step + 1)?;
            }
            if step > 0 {
                self.dequantise(step - 1)?;
            }
        }
        Ok(())
    }

    /// Scatters the chunk of this step and gathers the results of the one before.
    fn exchange(&self, step: usize) -> Result<(), WireError> {
        let own = self.wire.rank;
        if step < self.plan.steps {
            for peer in self.wire.peers() {
                self.wire.send(self.at(self.sent(step), peer), self.shard_bytes(step, peer), peer)?;
                self.wire.recv(self.at(self.received(step), peer), self.shard_bytes(step, own), peer)?;
            }
        }
        if let Some(before) = step.checked_sub(1) {
            for peer in self.wire.peers() {
                self.wire.send(self.at(self.gathered(before), own), self.shard_bytes(before, own), peer)?;
                self.wire.recv(self.at(self.gathered(before), peer), self.shard_bytes(before, peer), peer)?;
            }
        }
        Ok(())
    }

    fn quantise_whole(&self, step: usize) -> Result<(), FastPathError> {
        let chunk = self.plan.chunk(step);
        let bytes = packet_bytes(chunk.elements) as u64;
        let own = self.gathered(step) + self.wire.rank as u64 * bytes;
        self.quantise(step, Packets { address: own, stride: bytes })
    }

    /// One packet for each rank; our own goes where the others' will arrive.
    fn quantise_shards(&self, step: usize) -> Result<(), FastPathError> {
        let own = self.wire.rank;
        self.quantise(step, self.packets(self.sent(step)))?;
        let (from, to) = (self.at(self.sent(step), own), self.at(self.received(step), own));
        let base = self.arena.memory.address();
        let (from, to) = ((from - base) as usize, (to - base) as usize);
        let (memory, bytes) = (&self.arena.memory, self.shard_bytes(step, own));
        Ok(memory.copy_from_async(to, memory, from, bytes, &self.arena.kernels)?)
    }

    fn quantise(&self, step: usize, packets: Packets) -> Result<(), FastPathError> {
        let chunk = self.plan.chunk(step);
        let work = Quantise {
            input: self.call.input + self.offset(chunk.start),
            count: chunk.elements as u64,
            packets,
            blocks_per_packet: self.plan.blocks_per_packet() as u64,
            format: self.call.format,
            stats: self.call.stats,
        };
        // SAFETY: the caller vouches for the input, the plan for the scratch; the order is that of
        // the stream and of the events around it.
        Ok(unsafe { self.kernels.quantise(self.call.element, &work, &self.arena.kernels) }?)
    }

    fn reduce(&self, step: usize) -> Result<(), FastPathError> {
        let own = self.wire.rank;
        let work = Reduce {
            packets: self.packets(self.received(step)),
            ranks: self.wire.ranks as u32,
            count: self.plan.shard_elements(self.plan.chunk(step), own) as u64,
            format: self.call.format,
            average: self.call.average,
            out_packet: self.at(self.gathered(step), own),
            stats: self.call.stats,
        };
        // SAFETY: as in `quantise`.
        Ok(unsafe { self.kernels.reduce(self.call.element, &work, &self.arena.kernels) }?)
    }

    fn dequantise(&self, step: usize) -> Result<(), FastPathError> {
        let chunk = self.plan.chunk(step);
        let work = Dequantise {
            packets: self.packets(self.gathered(step)),
            blocks_per_packet: self.plan.blocks_per_packet() as u64,
            count: chunk.elements as u64,
            format: self.call.format,
            output: self.call.output + self.offset(chunk.start),
        };
        // SAFETY: as in `quantise`, and for the output.
        Ok(unsafe { self.kernels.dequantise(self.call.element, &work, &self.arena.kernels) }?)
    }

    fn add_up(&self, step: usize) -> Result<(), FastPathError> {
        let chunk = self.plan.chunk(step);
        let work = DequantiseSum {
            packets: Packets { address: self.gathered(step), stride: packet_bytes(chunk.elements) as u64 },
            ranks: self.wire.ranks as u32,
            count: chunk.elements as u64,
            format: self.call.format,
            average: self.call.average,
            output: self.call.output + self.offset(chunk.start),
        };
        // SAFETY: as in `dequantise`.
        Ok(unsafe { self.kernels.dequantise_sum(self.call.element, &work, &self.arena.kernels) }?)
    }

    /// Bytes from the beginning of the caller's buffers to an element.
    fn offset(&self, elements: usize) -> u64 {
        let size = match self.call.element {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
        };
        elements as u64 * size
    }

    fn shard_bytes(&self, step: usize, rank: usize) -> usize {
        packet_bytes(self.plan.shard_elements(self.plan.chunk(step), rank))
    }

    fn packets(&self, address: DevicePtr) -> Packets {
        Packets { address, stride: self.plan.packet_bytes() as u64 }
    }

    fn at(&self, set: DevicePtr, rank: usize) -> DevicePtr {
        set + (rank * self.plan.packet_bytes()) as u64
    }

    fn gathered(&self, step: usize) -> DevicePtr {
        self.set(step, 0)
    }

    fn sent(&self, step: usize) -> DevicePtr {
        self.set(step, 1)
    }

    fn received(&self, step: usize) -> DevicePtr {
        self.set(step, 2)
    }

    /// Where a set of one packet per rank lies in the arena.
    fn set(&self, step: usize, kind: usize) -> DevicePtr {
        let set_bytes = self.plan.ranks * self.plan.packet_bytes();
        self.arena.memory.address() + ((kind * SLOTS + step % SLOTS) * set_bytes) as u64
    }
}
