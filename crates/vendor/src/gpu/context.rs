//! What is current on the calling thread, borrowed and given back: its context, and how
//! strictly captures treat its calls. Creates no context. The interposer uses both
//! guards inside an application's call, so that the application finds its thread as it
//! left it.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda::{self, CAPTURE_MODE_RELAXED};

use super::Kind;
use super::driver::{Driver, GpuError};

/// A context that was current somewhere: CUDA's handle, or HIP's device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context(usize);

impl Driver {
    /// The context of this thread; `None` where nothing is current.
    pub(super) fn context(&self) -> Result<Option<Context>, GpuError> {
        match self.kind() {
            Kind::Hip => {
                let mut ordinal = 0;
                self.current_device(&mut ordinal)?;
                Ok(Some(Context(ordinal as usize)))
            }
            Kind::Cuda => {
                let mut handle: cuda::Context = ptr::null_mut();
                self.current_context(&mut handle)?;
                Ok((!handle.is_null()).then_some(Context(handle as usize)))
            }
        }
    }

    /// The context of whoever uses that device through the runtime, as NCCL does.
    pub(super) fn primary_context(&self, ordinal: i32) -> Result<Context, GpuError> {
        if self.kind() == Kind::Hip {
            return Ok(Context(ordinal as usize));
        }
        let (mut handle, device): (cuda::Context, _) = (ptr::null_mut(), self.device(ordinal)?);
        self.primary_context_retain(&mut handle, device)?;
        // Only to learn its name: those who use the device keep it, and it is to go when the last of them does.
        let _ = self.primary_context_release(device);
        Ok(Context(handle as usize))
    }

    pub(super) fn id_of_context(&self, context: Context) -> Result<u64, GpuError> {
        let mut id = 0;
        self.context_id(context.0 as cuda::Context, &mut id)?;
        Ok(id)
    }

    fn switch_to(&self, context: Option<Context>) -> Result<(), GpuError> {
        match (self.kind(), context) {
            (Kind::Cuda, context) => self
                .set_current_context(context.map_or(ptr::null_mut(), |context| context.0 as cuda::Context)),
            (Kind::Hip, Some(context)) => self.set_current_device(context.0 as c_int),
            (Kind::Hip, None) => Ok(()),
        }
    }

    /// Gives something of `context` back from whatever thread the owner is dropped on,
    /// also while somebody captures. A failure has no remedy there.
    pub(super) fn release(self: &Arc<Self>, context: Option<Context>, give_back: impl FnOnce(&Self)) {
        let _relaxed = RelaxedCaptures::begin(self);
        let _entered = context.map(|context| Entered::begin(self, context));
        give_back(self);
    }
}

/// While it lives, a context is current on this thread; then the one before is again.
pub struct Entered {
    driver: Arc<Driver>,
    /// What to restore, if that is another one.
    before: Option<Option<Context>>,
    on_this_thread: PhantomData<*const ()>,
}

impl Entered {
    pub(super) fn begin(driver: &Arc<Driver>, context: Context) -> Result<Self, GpuError> {
        let now = driver.context()?;
        let other = now != Some(context);
        if other {
            driver.switch_to(Some(context))?;
        }
        Ok(Self { driver: Arc::clone(driver), before: other.then_some(now), on_this_thread: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = self.driver.switch_to(before);
        }
    }
}

/// While it lives, calls of this thread that no capture can hold (allocations, module
/// loads, event queries) leave the captures of other code alone.
pub struct RelaxedCaptures {
    driver: Arc<Driver>,
    before: c_int,
    on_this_thread: PhantomData<*const ()>,
}

impl RelaxedCaptures {
    pub(super) fn begin(driver: &Arc<Driver>) -> Result<Self, GpuError> {
        let mut mode = CAPTURE_MODE_RELAXED;
        driver.exchange_capture_mode(&mut mode)?;
        Ok(Self { driver: Arc::clone(driver), before: mode, on_this_thread: PhantomData })
    }
}

impl Drop for RelaxedCaptures {
    fn drop(&mut self) {
        let mut mode = self.before;
        let _ = self.driver.exchange_capture_mode(&mut mode);
    }
}
