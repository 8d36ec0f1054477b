//! Code objects loaded into the current context, and launches of their kernels. A
//! launch allocates nothing: the arguments' addresses lie on the caller's stack.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda;

use super::context::Context;
use super::driver::{Driver, GpuError};
use super::queue::Stream;

/// A loaded code object. It is unloaded when neither it nor a function of it is left.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

struct Loaded {
    driver: Arc<Driver>,
    context: Option<Context>,
    raw: cuda::Module,
}

// SAFETY: the handle is a name that the driver takes on any thread; dropping enters the
// context that it belongs to.
unsafe impl Send for Loaded {}
// SAFETY: as above; nothing behind a shared reference changes.
unsafe impl Sync for Loaded {}

impl Module {
    /// # Safety
    /// `image` is a whole code object, or text that ends in a NUL byte: the driver finds
    /// the end by itself.
    pub(super) unsafe fn load(driver: Arc<Driver>, image: &[u8]) -> Result<Self, GpuError> {
        let context = driver.context()?;
        let mut raw = ptr::null_mut();
        driver.module_load(&mut raw, image.as_ptr().cast())?;
        Ok(Self { loaded: Arc::new(Loaded { driver, context, raw }) })
    }

    /// The kernel of that name.
    pub fn function(&self, name: &CStr) -> Result<Function, GpuError> {
        let mut raw = ptr::null_mut();
        self.loaded.driver.module_function(&mut raw, self.loaded.raw, name.as_ptr())?;
        Ok(Function { module: Arc::clone(&self.loaded), raw })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.driver.release(self.context, |driver| {
            let _ = driver.module_unload(self.raw);
        });
    }
}

/// How many thread blocks, and threads in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub blocks: u32,
    pub threads: u32,
}

/// A kernel of a loaded code object, which it keeps loaded.
#[derive(Clone)]
pub struct Function {
    module: Arc<Loaded>,
    raw: cuda::Function,
}

// SAFETY: the handle is a name that the driver takes on any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Enqueues the kernel.
    ///
    /// # Safety
    /// `arguments` has, for each parameter of the kernel, the address of a value of its
    /// type, and what the kernel does with them is sound in this stream's order.
    pub unsafe fn launch(
        &self,
        grid: Grid,
        stream: &Stream,
        arguments: &[*const c_void],
    ) -> Result<(), GpuError> {
        // The driver reads the values and changes neither them nor the list.
        let arguments = arguments.as_ptr().cast_mut().cast::<*mut c_void>();
        let Grid { blocks, threads } = grid;
        let driver = &self.module.driver;
        driver.launch(self.raw, blocks, 1, 1, threads, 1, 1, 0, stream.raw(), arguments, ptr::null_mut())
    }
}
