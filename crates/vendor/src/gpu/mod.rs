//! CUDA's driver API and HIP behind one `Gpu` interface, opened at run time.
//!
//! Three layers: `raw` (a table of function pointers, missing = `None`), `driver`
//! (the same calls as `Result`s), and owned types in the other modules. Links against no
//! vendor library, never panics where one is missing, and allocates nothing where it
//! enqueues. Called by the rank program, the kernel loader and the fast path; `probe` is
//! called by the interposer, and only looks.

mod capture;
mod context;
mod driver;
mod graph;
mod library;
mod memory;
mod module;
mod probe;
mod queue;
mod raw;
mod watch;

use std::fmt;
use std::sync::Arc;

pub use capture::{Capture, CaptureQuestion, CaptureStatus};
pub use context::{Context, Entered, RelaxedCaptures};
pub use driver::GpuError;
pub use graph::GraphExec;
pub use memory::{Buffer, PinnedBuffer};
pub use module::{Function, Grid, Module};
pub use probe::{ProbeError, Runtime, probe};
pub use queue::{Event, Priority, Stream};
pub use watch::{Hindrance, Watch};

use airamp_vendor_abi::cuda::{self, DevicePtr};

use driver::Driver;
use library::Library;

/// Whose runtime it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cuda,
    Hip,
}

impl Kind {
    /// The names under which the driver library is looked for, best first.
    fn driver_libraries(self) -> &'static [&'static str] {
        match self {
            Self::Cuda => &["libcuda.so.1", "libcuda.so"],
            Self::Hip => &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        })
    }
}

/// What is free and what there is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    pub free: usize,
    pub total: usize,
}

/// An opened and initialised GPU driver.
#[derive(Clone)]
pub struct Gpu {
    driver: Arc<Driver>,
}

impl Gpu {
    /// Opens the driver library of `kind` and initialises it.
    pub fn open(kind: Kind) -> Result<Self, GpuError> {
        let driver = Driver::open(kind)?;
        driver.init(0)?;
        Ok(Self { driver: Arc::new(driver) })
    }

    /// The driver that the application has loaded and initialised already: loads no
    /// library and initialises nothing.
    pub fn attach(kind: Kind) -> Result<Self, GpuError> {
        Ok(Self { driver: Arc::new(Driver::attach(kind)?) })
    }

    /// Opens whichever driver exists here, CUDA's first.
    pub fn open_any() -> Result<Self, GpuError> {
        let cuda = match Self::open(Kind::Cuda) {
            Err(GpuError::NoLibrary(tried)) => tried,
            opened => return opened,
        };
        Self::open(Kind::Hip).map_err(|error| match error {
            // Neither is there: the usual machine without a GPU, so name both.
            GpuError::NoLibrary(hip) => GpuError::NoLibrary(format!("{cuda}; {hip}")),
            other => other,
        })
    }

    pub fn kind(&self) -> Kind {
        self.driver.kind()
    }

    /// The path of the library that the calls go to.
    pub fn library(&self) -> &str {
        self.driver.library()
    }

    pub fn driver_version(&self) -> Result<i32, GpuError> {
        let mut version = 0;
        self.driver.driver_version(&mut version)?;
        Ok(version)
    }

    pub fn device_count(&self) -> Result<i32, GpuError> {
        let mut count = 0;
        self.driver.device_count(&mut count)?;
        Ok(count)
    }

    pub fn device_name(&self, ordinal: i32) -> Result<String, GpuError> {
        self.driver.device_name_of(ordinal)
    }

    /// The device's own name, the same in every process.
    pub fn device_uuid(&self, ordinal: i32) -> Result<[u8; 16], GpuError> {
        self.driver.uuid_of(ordinal)
    }

    /// The code-object architecture, as `sm_90` or `gfx942`.
    pub fn architecture(&self, ordinal: i32) -> Result<String, GpuError> {
        self.driver.architecture_of(ordinal)
    }

    /// Makes the device (its primary context) current on this thread.
    pub fn set_device(&self, ordinal: i32) -> Result<(), GpuError> {
        self.driver.make_current(ordinal)
    }

    /// The device of the context that is current on this thread.
    pub fn current_device(&self) -> Result<i32, GpuError> {
        let mut ordinal = 0;
        self.driver.current_device(&mut ordinal)?;
        Ok(ordinal)
    }

    /// The context that is current on this thread; `None` where nothing is.
    pub fn current_context(&self) -> Result<Option<Context>, GpuError> {
        self.driver.context()
    }

    /// A number of the context that no other one of this process has or had, at its place either; `None` where it is gone, or
    /// where the driver gives none: before CUDA 12, and HIP.
    pub fn context_id(&self, context: Context) -> Option<u64> {
        self.driver.id_of_context(context).ok()
    }

    /// The context of the device that is in use there already, current on this thread or not. It lives as long as those
    /// who use the device; nothing is made current.
    pub fn primary_context(&self, ordinal: i32) -> Result<Context, GpuError> {
        self.driver.primary_context(ordinal)
    }

    /// Makes `context` current until the guard is dropped.
    pub fn enter(&self, context: Context) -> Result<Entered, GpuError> {
        Entered::begin(&self.driver, context)
    }

    /// Lets this thread make calls beside captures until the guard is dropped.
    pub fn relax_captures(&self) -> Result<RelaxedCaptures, GpuError> {
        RelaxedCaptures::begin(&self.driver)
    }

    /// Whether a capture can record an event for what is outside of it; old HIP cannot.
    pub fn records_external_events(&self) -> bool {
        self.driver.table().event_record_with_flags.is_some()
    }

    /// The device that holds `address`; `None` for memory that the driver does not know.
    pub fn device_of(&self, address: DevicePtr) -> Result<Option<i32>, GpuError> {
        self.driver.device_of(address)
    }

    /// How many multiprocessors (compute units) the device has.
    pub fn multiprocessors(&self, ordinal: i32) -> Result<u32, GpuError> {
        self.driver.multiprocessors_of(ordinal)
    }

    pub fn memory_info(&self) -> Result<MemoryInfo, GpuError> {
        let (mut free, mut total) = (0, 0);
        self.driver.memory_info(&mut free, &mut total)?;
        Ok(MemoryInfo { free, total })
    }

    pub fn alloc(&self, bytes: usize) -> Result<Buffer, GpuError> {
        Buffer::new(self.driver.clone(), bytes)
    }

    /// Page-locked memory of the host.
    pub fn alloc_pinned(&self, bytes: usize) -> Result<PinnedBuffer, GpuError> {
        PinnedBuffer::new(self.driver.clone(), bytes)
    }

    /// Loads a code object into the current context.
    ///
    /// # Safety
    /// `image` is a whole code object, or text that ends in a NUL byte: the driver finds
    /// the end by itself.
    pub unsafe fn load_module(&self, image: &[u8]) -> Result<Module, GpuError> {
        // SAFETY: the caller vouches for the image.
        unsafe { Module::load(self.driver.clone(), image) }
    }

    /// A stream; a non-blocking one does not wait for the default stream.
    pub fn stream(&self, non_blocking: bool) -> Result<Stream, GpuError> {
        Stream::new(self.driver.clone(), non_blocking, Priority::Default)
    }

    /// A non-blocking stream with a priority.
    pub fn stream_with_priority(&self, priority: Priority) -> Result<Stream, GpuError> {
        Stream::new(self.driver.clone(), true, priority)
    }

    /// A stream of the application, which stays its own. Allocates nothing.
    pub fn borrow_stream(&self, raw: cuda::Stream) -> Stream {
        Stream::borrowed(self.driver.clone(), raw)
    }

    /// The question whether a stream is captured, for whoever asks it at every call of an application.
    pub fn capture_question(&self) -> Option<CaptureQuestion> {
        self.driver.is_capturing.map(CaptureQuestion)
    }

    /// An event that takes part in [`Event::elapsed_ms`].
    pub fn event(&self) -> Result<Event, GpuError> {
        Event::new(self.driver.clone(), true)
    }

    /// An event for order alone, which costs the device less.
    pub fn untimed_event(&self) -> Result<Event, GpuError> {
        Event::new(self.driver.clone(), false)
    }

    /// Copies device memory that is not ours, in stream order.
    ///
    /// # Safety
    /// Both ranges are device memory until the stream has passed the copy.
    pub unsafe fn copy_async(
        &self,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        self.driver.copy_on_device_async(to, from, bytes, stream.raw())
    }

    /// Fills device memory that is not ours, in stream order.
    ///
    /// # Safety
    /// The range is device memory until the stream has passed it.
    pub unsafe fn fill_async(
        &self,
        to: DevicePtr,
        value: u8,
        bytes: usize,
        stream: &Stream,
    ) -> Result<(), GpuError> {
        self.driver.set_bytes_async(to, value, bytes, stream.raw())
    }

    /// Waits for all work of the current device.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.device_synchronize()
    }
}
