//! Streams and events with an owner.

use std::ptr;
use std::sync::Arc;

use airamp_vendor_abi::cuda::{self, STREAM_NON_BLOCKING};

use super::driver::{Driver, GpuError};
use super::graph::GraphExec;

/// A queue of work on the device.
pub struct Stream {
    driver: Arc<Driver>,
    raw: cuda::Stream,
}

impl Stream {
    pub(super) fn new(driver: Arc<Driver>, non_blocking: bool) -> Result<Self, GpuError> {
        let mut raw = ptr::null_mut();
        driver.stream_create(&mut raw, if non_blocking { STREAM_NON_BLOCKING } else { 0 })?;
        Ok(Self { driver, raw })
    }

    /// The handle, for a vendor's call.
    pub fn raw(&self) -> cuda::Stream {
        self.raw
    }

    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.stream_synchronize(self.raw)
    }

    /// Lets what is enqueued from now on wait for `event`.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.driver.stream_wait_event(self.raw, event.raw, 0)
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
        let _ = self.driver.stream_destroy(self.raw);
    }
}

/// A point in a stream, with its time.
pub struct Event {
    driver: Arc<Driver>,
    raw: cuda::Event,
}

impl Event {
    pub(super) fn new(driver: Arc<Driver>) -> Result<Self, GpuError> {
        let mut raw = ptr::null_mut();
        driver.event_create(&mut raw, 0)?;
        Ok(Self { driver, raw })
    }

    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        self.driver.event_record(self.raw, stream.raw())
    }

    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.event_synchronize(self.raw)
    }

    /// Milliseconds from `earlier` to this event; both must have been reached.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f32, GpuError> {
        let mut milliseconds = 0.0;
        self.driver.event_elapsed(&mut milliseconds, earlier.raw, self.raw)?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.driver.event_destroy(self.raw);
    }
}
