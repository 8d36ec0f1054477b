//! All that compression can fail on, on one rank alone: kernels, memory, streams, events. Taken inside a
//! communicator's creation, before the rank says that it can compress. Agrees on nothing.

use super::{Fresh, kernels, terms};
use crate::communicators::Pin;
use crate::thread::Thread;
use crate::{startup, vendors};
use airamp_agreement::Term;
use airamp_codec::Format;
use airamp_fast_path::{FastPathError, Lane, LaneParts, Unsuitable};
use airamp_kernels::loader::LoadError;
use airamp_settings::{Settings, WireFormat};
use airamp_telemetry::Reason;
use airamp_vendor::gpu::{Context, Gpu, GpuError};

/// What a rank compresses with, and what of it must be equal on all ranks.
pub(super) struct Acquired {
    pub(super) lane: Lane,
    pub(super) terms: Vec<Term>,
}

/// Why a rank has nothing to compress with: as its calls are counted, and in words.
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) text: String,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(text: T) -> Self {
        Self { reason: Reason::Other, text: text.into() }
    }
}

pub(super) fn acquire(thread: &Thread, settings: &Settings, fresh: Fresh) -> Result<Acquired, Refusal> {
    let text = |error: GpuError| error.to_string();
    let entry = fresh.known.entry;
    let (rank, ranks) = (entry.rank().unsigned_abs() as usize, entry.nranks().unsigned_abs() as usize);
    let vendor = vendors::at(usize::from(fresh.known.entry.vendor())).ok_or("there is no vendor")?;
    let kind = startup::gpu_kind().ok_or("there is no GPU runtime")?;
    let gpu = Gpu::attach(kind).map_err(text)?;
    let device = device_of(thread, vendor, fresh)?;
    let context = context_of(&gpu, device)?;
    let _entered = gpu.enter(context).map_err(text)?;
    let kernels = kernels::of_context(&gpu, device, context, settings.kernel_dir.as_deref())
        .map_err(without_kernels)?;
    let arena_bytes = usize::try_from(settings.arena_bytes).map_err(|error| error.to_string())?;
    let (functions, comm, format) = (&vendor.functions, fresh.comm, format_of(settings.wire_format));
    let (gpu_of_lane, lean_messages) = (gpu.clone(), settings.lean_messages);
    let parts = LaneParts {
        gpu: gpu_of_lane,
        context,
        kernels,
        functions,
        comm,
        rank,
        ranks,
        arena_bytes,
        format,
        lean_messages,
    };
    let lane = thread.inside_vendor(|| Lane::acquire(parts)).map_err(without_lane)?;
    let architecture = gpu.architecture(device).map_err(text)?;
    let (folder, captures, version) = (settings.kernel_dir.as_deref(), lane.can_capture(), vendor.version());
    Ok(Acquired { lane, terms: terms::of_device(&architecture, folder, captures, version) })
}

fn without_kernels(error: LoadError) -> Refusal {
    let is_memory = error.gpu().is_some_and(GpuError::is_out_of_memory);
    Refusal { reason: if is_memory { Reason::Memory } else { Reason::Kernels }, text: error.to_string() }
}

/// A lane takes memory, and runs each kernel once.
fn without_lane(error: FastPathError) -> Refusal {
    let is_memory = match &error {
        FastPathError::Gpu(error) => error.is_out_of_memory(),
        error => matches!(error, FastPathError::Unsuitable(Unsuitable::ArenaTooSmall)),
    };
    Refusal { reason: if is_memory { Reason::Memory } else { Reason::Kernels }, text: error.to_string() }
}

pub(crate) fn device_of(thread: &Thread, vendor: &vendors::Vendor, fresh: Fresh) -> Result<i32, String> {
    let _pin: Pin = fresh.known.pin().ok_or("the communicator is ending")?;
    let query = vendor.comm_device.ok_or("the vendor does not tell a communicator's device")?;
    let mut device = -1;
    // SAFETY: the pin keeps the communicator; the query writes one int.
    let result = thread.inside_vendor(|| unsafe { query(fresh.comm, &mut device) });
    if result.is_accepted() { Ok(device) } else { Err(format!("ncclCommCuDevice returned {}", result.0)) }
}

/// The context in which the application uses that device: the current one, if it is that device's. Not kept alive by
/// us: where it is gone, so is the communicator.
pub(crate) fn context_of(gpu: &Gpu, device: i32) -> Result<Context, String> {
    let text = |error: GpuError| error.to_string();
    if let Some(context) = gpu.current_context().map_err(text)?
        && gpu.current_device().map_err(text)? == device
    {
        return Ok(context);
    }
    gpu.primary_context(device).map_err(text)
}

fn format_of(format: WireFormat) -> Format {
    match format {
        WireFormat::E4m3 => Format::E4M3,
        WireFormat::E5m2 => Format::E5M2,
        WireFormat::Int8 => Format::Int8,
        WireFormat::Auto => Format::Auto,
    }
}
