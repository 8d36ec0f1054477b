//! What ghosts need of a device: the kernel, and a non-blocking stream of the lowest priority for it. Acquired inside a
//! communicator's creation. There is no blocking stream: one would be ordered with everything that the application puts
//! on its default stream, and make that dearer.

use crate::compression;
use airamp_kernels::{Ghost, Loader};
use airamp_vendor::gpu::{
    Context, Entered, Event, Gpu, GpuError, Kind, Priority, RelaxedCaptures, Stream, Watch,
};
use std::path::PathBuf;

/// Steps of the kernel: about a microsecond on an H200.
const ROUNDS: u32 = 256;
/// Launches by which its time on the device is found, of which the least counts.
const TIMED: usize = 8;

pub(super) struct Device {
    gpu: Gpu,
    context: Context,
    pub(super) ordinal: i32,
    ghost: Ghost,
    stream: Stream,
    done: Event,
    kernel_ns: u64,
}

impl Device {
    /// Loads the kernel, runs it a few times and waits for it.
    pub(super) fn acquire(kind: Kind, ordinal: i32, folder: Option<PathBuf>) -> Result<Self, String> {
        let text = |error: GpuError| error.to_string();
        let gpu = Gpu::attach(kind).map_err(text)?;
        let context = compression::context_of(&gpu, ordinal)?;
        let _relaxed = gpu.relax_captures().map_err(text)?;
        let _entered = gpu.enter(context).map_err(text)?;
        let ghost = Loader::new(folder).load_ghost(&gpu).map_err(|error| error.to_string())?;
        let stream = gpu.stream_with_priority(Priority::Lowest).map_err(text)?;
        let done = gpu.untimed_event().map_err(text)?;
        let kernel_ns = kernel_ns(&gpu, &ghost, &stream).map_err(text)?;
        Ok(Self { gpu: gpu.clone(), context, ordinal, ghost, stream, done, kernel_ns })
    }

    /// How long the kernel takes on the device.
    pub(super) fn kernel_ns(&self) -> u64 {
        self.kernel_ns
    }

    /// Makes the device this thread's, until the guards are dropped. Captures of other threads are left alone.
    pub(super) fn enter(&self) -> Result<(RelaxedCaptures, Entered), GpuError> {
        Ok((self.gpu.relax_captures()?, self.gpu.enter(self.context)?))
    }

    pub(super) fn watch(&self) -> Option<Watch> {
        if self.gpu.kind() == Kind::Hip {
            return None;
        }
        Watch::open(self.gpu.device_uuid(self.ordinal).ok()?)
    }

    pub(super) fn launch(&self) -> Result<(), GpuError> {
        self.ghost.launch(ROUNDS, &self.stream)?;
        self.done.record(&self.stream)
    }

    /// Whether the device has passed the last kernel.
    pub(super) fn is_done(&self) -> Result<bool, GpuError> {
        self.done.is_reached()
    }
}

fn kernel_ns(gpu: &Gpu, ghost: &Ghost, stream: &Stream) -> Result<u64, GpuError> {
    let (begin, end) = (gpu.event()?, gpu.event()?);
    let mut least = f32::MAX;
    for _ in 0..TIMED {
        begin.record(stream)?;
        ghost.launch(ROUNDS, stream)?;
        end.record(stream)?;
        end.synchronize()?;
        least = least.min(end.elapsed_ms(&begin)?);
    }
    Ok((f64::from(least) * 1e6) as u64)
}
