//! CUDA's driver API and HIP behind one `Gpu` interface, opened at run time.
//!
//! Three layers: `raw` (a table of function pointers, missing = `None`), `driver`
//! (the same calls as `Result`s), and owned types here and in `memory`, `queue` and
//! `graph`. Links against no vendor library and never panics where one is missing.
//! Called by the rank program; `probe` is called by the interposer, and only looks.

mod driver;
mod graph;
mod library;
mod memory;
mod probe;
mod queue;
mod raw;

use std::fmt;
use std::sync::Arc;

pub use driver::GpuError;
pub use graph::GraphExec;
pub use memory::Buffer;
pub use probe::{ProbeError, Runtime, probe};
pub use queue::{Event, Stream};

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

    /// The code-object architecture, as `sm_90` or `gfx942`.
    pub fn architecture(&self, ordinal: i32) -> Result<String, GpuError> {
        self.driver.architecture_of(ordinal)
    }

    /// Makes the device (its primary context) current on this thread.
    pub fn set_device(&self, ordinal: i32) -> Result<(), GpuError> {
        self.driver.make_current(ordinal)
    }

    pub fn memory_info(&self) -> Result<MemoryInfo, GpuError> {
        let (mut free, mut total) = (0, 0);
        self.driver.memory_info(&mut free, &mut total)?;
        Ok(MemoryInfo { free, total })
    }

    pub fn alloc(&self, bytes: usize) -> Result<Buffer, GpuError> {
        Buffer::new(self.driver.clone(), bytes)
    }

    /// A stream; a non-blocking one does not wait for the default stream.
    pub fn stream(&self, non_blocking: bool) -> Result<Stream, GpuError> {
        Stream::new(self.driver.clone(), non_blocking)
    }

    /// An event that takes part in [`Event::elapsed_ms`].
    pub fn event(&self) -> Result<Event, GpuError> {
        Event::new(self.driver.clone())
    }

    /// Waits for all work of the current device.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.device_synchronize()
    }
}
