//! Which stream a lane's work runs on, and in which order with what else there is.
//!
//! Live, the kernels run on the lane's own stream beside the exchange, which is on the caller's.
//! Captured, everything runs on the caller's stream in pipeline order: the lane's own may be in
//! another capture, and the graph has the same topology each time.

use crate::error::FastPathError;
use crate::lane::Lane;
use airamp_vendor::gpu::{Capture, CaptureStatus, Event, GpuError, Stream};
use airamp_vendor_abi::cuda;
use std::sync::Arc;

pub(crate) struct Order<'a> {
    lane: &'a Lane,
    /// Where the exchange runs: the stream of the lane's first post.
    home: Stream,
    capture: Option<Capture>,
}

impl<'a> Order<'a> {
    /// Looks at the streams and enqueues nothing. `others` are those that take part besides `home`.
    pub(crate) fn of(
        lane: &'a Lane,
        home: cuda::Stream,
        mut others: impl Iterator<Item = cuda::Stream>,
    ) -> Result<Self, FastPathError> {
        let home = lane.gpu.borrow_stream(home);
        let capture = capture_of(&home)?;
        others.try_for_each(|stream| match capture_of(&lane.gpu.borrow_stream(stream))? == capture {
            true => Ok(()),
            false => Err(FastPathError::MixedCapture),
        })?;
        if capture.is_some() && !lane.can_capture() {
            return Err(FastPathError::CannotCapture);
        }
        if capture.is_some_and(|capture| lane.arena.has_forgotten(&capture)) {
            return Err(FastPathError::ForgottenCapture);
        }
        Ok(Self { lane, home, capture })
    }

    pub(crate) fn home(&self) -> cuda::Stream {
        self.home.raw()
    }

    pub(crate) fn kernels(&self) -> &Stream {
        if self.capture.is_some() { &self.home } else { &self.lane.arena.kernels }
    }

    /// The kernels wait for all streams that take part and for whatever used the arena last.
    pub(crate) fn begin(&self, others: impl Iterator<Item = cuda::Stream>) -> Result<(), GpuError> {
        let arena = &self.lane.arena;
        if self.capture.is_none() {
            self.join(&self.home)?;
        }
        for stream in others {
            self.join(&self.lane.gpu.borrow_stream(stream))?;
        }
        match self.capture {
            None => self.kernels().wait(&arena.serial),
            Some(capture) => {
                self.home.keep_in_graph(capture, Arc::clone(&self.lane.graphs))?;
                if let Some(end) = arena.end_in(&capture) {
                    self.home.wait(end)?;
                }
                self.home.wait_external(&arena.serial)
            }
        }
    }

    /// Copies the counters; then all streams that take part wait for the kernels, and so does
    /// whatever uses the arena next.
    pub(crate) fn end(&self, others: impl Iterator<Item = cuda::Stream>) -> Result<(), GpuError> {
        let (arena, kernels) = (&self.lane.arena, self.kernels());
        arena.read_back(kernels)?;
        let end = match self.capture {
            None => {
                arena.serial.record(kernels)?;
                self.home.wait(&arena.serial)?;
                &arena.serial
            }
            Some(capture) => {
                arena.serial.record_external(kernels)?;
                arena.remember_end(&capture, kernels)?
            }
        };
        for stream in others {
            self.lane.gpu.borrow_stream(stream).wait(end)?;
        }
        Ok(())
    }

    /// After an error: the lane is idle only when what was enqueued before it has run.
    pub(crate) fn abandon(&self) {
        if self.capture.is_none() {
            let _ = self.join(&self.home).and_then(|()| self.lane.arena.serial.record(self.kernels()));
        }
    }

    /// The kernels have what the next exchange of that slot needs, when they come to this point.
    pub(crate) fn kernels_done(&self, slot: usize) -> Result<(), GpuError> {
        if self.capture.is_some() {
            return Ok(());
        }
        self.lane.arena.ready[slot].record(self.kernels())
    }

    /// Lets the next exchange wait for what the kernels have done last for that slot.
    pub(crate) fn await_kernels(&self, slot: usize) -> Result<(), GpuError> {
        if self.capture.is_some() {
            return Ok(());
        }
        self.home.wait(&self.lane.arena.ready[slot])
    }

    /// Lets the next kernel wait for the exchanges so far.
    pub(crate) fn await_exchange(&self) -> Result<(), GpuError> {
        if self.capture.is_some() {
            return Ok(());
        }
        self.join(&self.home)
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Records the event on the caller's stream, behind all that the kernels have been given.
    pub(crate) fn mark_end(&self, event: &Event) -> Result<(), GpuError> {
        let kernels_passed = &self.lane.arena.ready[0];
        kernels_passed.record(self.kernels())?;
        self.home.wait(kernels_passed)?;
        event.record(&self.home)
    }

    fn join(&self, stream: &Stream) -> Result<(), GpuError> {
        let to_kernels = &self.lane.arena.to_kernels;
        to_kernels.record(stream)?;
        self.kernels().wait(to_kernels)
    }
}

/// Lets each stream wait for what all of them have been given so far. All are in one capture, or none is: otherwise nothing
/// is enqueued.
pub(crate) fn meet(lane: &Lane, streams: &[cuda::Stream]) -> Result<(), FastPathError> {
    let Some((home, others)) = streams.split_first() else { return Ok(()) };
    let (home, others) =
        (lane.gpu.borrow_stream(*home), others.iter().map(|one| lane.gpu.borrow_stream(*one)));
    let capture = capture_of(&home)?;
    for other in others.clone() {
        if capture_of(&other)? != capture {
            return Err(FastPathError::MixedCapture);
        }
    }
    let met = &lane.arena.to_kernels;
    for other in others.clone() {
        met.record(&other)?;
        home.wait(met)?;
    }
    met.record(&home)?;
    others.clone().try_for_each(|other| Ok(other.wait(met)?))
}

fn capture_of(stream: &Stream) -> Result<Option<Capture>, FastPathError> {
    match stream.capture_status()? {
        CaptureStatus::Live => Ok(None),
        CaptureStatus::Capturing(capture) => Ok(Some(capture)),
        CaptureStatus::Invalidated => Err(FastPathError::InvalidatedCapture),
    }
}
