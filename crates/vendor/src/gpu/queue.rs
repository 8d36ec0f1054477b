//! Streams and events: those with an owner, and streams of the application that are
//! only borrowed.

use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda::{
    self, CudaError, EVENT_DISABLE_TIMING, EVENT_RECORD_EXTERNAL, EVENT_WAIT_EXTERNAL, STREAM_NON_BLOCKING,
};

use super::context::Context;
use super::driver::{Driver, GpuError};
use super::graph::GraphExec;

/// How eagerly the device takes work from a stream that competes with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Lowest,
    Default,
    Highest,
}

/// A queue of work on the device.
pub struct Stream {
    driver: Arc<Driver>,
    raw: cuda::Stream,
    owned: bool,
    context: Option<Context>,
}

// SAFETY: the handle is a name that the driver takes on any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver orders calls that come at the same time.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(driver: Arc<Driver>, non_blocking: bool, priority: Priority) -> Result<Self, GpuError> {
        let flags = if non_blocking { STREAM_NON_BLOCKING } else { 0 };
        let context = driver.context()?;
        let mut raw = ptr::null_mut();
        if priority == Priority::Default {
            driver.stream_create(&mut raw, flags)?;
        } else {
            let (mut least, mut greatest) = (0, 0);
            driver.stream_priorities(&mut least, &mut greatest)?;
            let number = if priority == Priority::Highest { greatest } else { least };
            driver.stream_create_with_priority(&mut raw, flags, number)?;
        }
        Ok(Self { driver, raw, owned: true, context })
    }

    /// Somebody else's stream, which outlives its use here.
    pub(super) fn borrowed(driver: Arc<Driver>, raw: cuda::Stream) -> Self {
        Self { driver, raw, owned: false, context: None }
    }

    /// The handle, for a vendor's call.
    pub fn raw(&self) -> cuda::Stream {
        self.raw
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.stream_synchronize(self.raw)
    }

    /// Lets what is enqueued from now on wait for `event`.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.driver.stream_wait_event(self.raw, event.raw, 0)
    }

    /// The same in a capture for an event outside of it: each launch of the graph waits for
    /// the event as it was recorded last. An error outside of a capture.
    pub fn wait_external(&self, event: &Event) -> Result<(), GpuError> {
        self.driver.stream_wait_event(self.raw, event.raw, EVENT_WAIT_EXTERNAL)
    }

    /// Records what `enqueue` puts on this stream as a graph, and makes it launchable.
    /// The capture is ended also where `enqueue` fails, so that the stream stays usable.
    pub fn capture<E: From<GpuError>>(
        &self,
        enqueue: impl FnOnce() -> Result<(), E>,
    ) -> Result<GraphExec, E> {
        self.driver.stream_begin_capture(self.raw, cuda::CAPTURE_MODE_THREAD_LOCAL)?;
        let enqueued = enqueue();
        let mut graph = ptr::null_mut();
        let ended = self.driver.stream_end_capture(self.raw, &mut graph);
        enqueued?;
        ended?;
        Ok(GraphExec::instantiate(self.driver.clone(), graph)?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            self.driver.release(self.context, |driver| {
                let _ = driver.stream_destroy(self.raw);
            });
        }
    }
}

/// A point in a stream.
pub struct Event {
    driver: Arc<Driver>,
    raw: cuda::Event,
    context: Option<Context>,
}

// SAFETY: the handle is a name that the driver takes on any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the driver orders calls that come at the same time.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(driver: Arc<Driver>, timed: bool) -> Result<Self, GpuError> {
        let context = driver.context()?;
        let mut raw = ptr::null_mut();
        driver.event_create(&mut raw, if timed { 0 } else { EVENT_DISABLE_TIMING })?;
        Ok(Self { driver, raw, context })
    }

    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        self.driver.event_record(self.raw, stream.raw())
    }

    /// In a capture: records the event at each launch of the graph. An error outside of one.
    pub fn record_external(&self, stream: &Stream) -> Result<(), GpuError> {
        self.driver.event_record_with_flags(self.raw, stream.raw(), EVENT_RECORD_EXTERNAL)
    }

    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.event_synchronize(self.raw)
    }

    /// Whether the device has passed the last recording; so too if there was none.
    pub fn is_reached(&self) -> Result<bool, GpuError> {
        match self.driver.event_query(self.raw) {
            Err(GpuError::Call { code, .. }) if code == CudaError::NOT_READY.0 => Ok(false),
            asked => asked.map(|()| true),
        }
    }

    /// Milliseconds from `earlier` to this event; both must be timed and have been reached.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f32, GpuError> {
        let mut milliseconds = 0.0;
        self.driver.event_elapsed(&mut milliseconds, earlier.raw, self.raw)?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.driver.release(self.context, |driver| {
            let _ = driver.event_destroy(self.raw);
        });
    }
}
