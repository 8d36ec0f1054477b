//! Times and errors of single calls: a trial (a dry run, then the vendor's call), or a watch over any call.
//! The device takes time stamps and samples, the host reads them when it has passed them and never waits.
//! Everything is acquired with the lane. Says nothing about what the numbers mean.

use crate::enqueue::{Call, Post};
use crate::error::FastPathError;
use crate::lane::Lane;
use crate::sample::{Deviation, SAMPLE_BYTES, runs};
use airamp_codec::Element;
use airamp_vendor::gpu::{CaptureStatus, Event, Gpu, GpuError, PinnedBuffer, Stream};
use airamp_vendor_abi::cuda;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Measurements of one lane that can be under way at once.
pub const MEASUREMENTS: usize = 4;
/// The place of a dry run that nobody measures.
pub const UNMEASURED: usize = usize::MAX;

/// What a measurement has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finished {
    /// A dry run and the vendor's call behind it. The error is that of the sampled elements against the
    /// vendor's result, the signal that result's; both are sums of squares.
    Trial { place: usize, ours_us: f64, vendor_us: f64, squared_error: f64, signal: f64 },
    /// One call.
    Watch { place: usize, us: f64 },
}

pub(crate) struct Measurement {
    state: AtomicU8,
    /// Of the call, for whoever reads the samples.
    count: AtomicUsize,
    element: AtomicU8,
    begin: Event,
    pub(crate) ours_end: Event,
    pub(crate) vendor_begin: Event,
    end: Event,
    /// Behind everything else that the device does for the measurement.
    done: Event,
    pub(crate) ours: PinnedBuffer,
    vendor: PinnedBuffer,
}

const FREE: u8 = 0;
/// Somebody has it, and nothing has begun.
const TAKEN: u8 = 1;
/// The first time stamp is enqueued.
const BEGUN: u8 = 2;
/// All is enqueued.
const TRIAL: u8 = 3;
const WATCH: u8 = 4;
/// Not all could be enqueued; free when the device has passed what was.
const FAILED: u8 = 5;
/// A thread reads it.
const READ: u8 = 6;

impl Measurement {
    pub(crate) fn acquire_all(gpu: &Gpu) -> Result<[Self; MEASUREMENTS], GpuError> {
        let one = || Self::acquire(gpu);
        Ok([one()?, one()?, one()?, one()?])
    }

    fn acquire(gpu: &Gpu) -> Result<Self, GpuError> {
        Ok(Self {
            state: AtomicU8::new(FREE),
            count: AtomicUsize::new(0),
            element: AtomicU8::new(0),
            begin: gpu.event()?,
            ours_end: gpu.event()?,
            vendor_begin: gpu.event()?,
            end: gpu.event()?,
            done: gpu.untimed_event()?,
            ours: gpu.alloc_pinned(SAMPLE_BYTES)?,
            vendor: gpu.alloc_pinned(SAMPLE_BYTES)?,
        })
    }

    pub(crate) fn begin(&self, stream: &Stream) -> Result<(), GpuError> {
        self.begin.record(stream)?;
        self.change(TAKEN, BEGUN);
        Ok(())
    }

    /// Whether it was in that state, and is in the other one now.
    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends what has begun: the last time stamp, then whatever `then` enqueues.
    fn end(
        &self,
        state: u8,
        stream: &Stream,
        then: impl FnOnce() -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        if self.state.load(Ordering::Acquire) != BEGUN {
            return Ok(());
        }
        let ended = self.end.record(stream).and_then(|()| then());
        let ended = ended.and(self.done.record(stream));
        self.change(BEGUN, if ended.is_ok() { state } else { FAILED });
        ended
    }

    /// Reads it and makes it free, if the device has passed it.
    fn finish(&self, place: usize) -> Option<Finished> {
        let state = self.state.load(Ordering::Acquire);
        if !matches!(state, TRIAL | WATCH | FAILED)
            || !self.done.is_reached().ok()?
            || !self.change(state, READ)
        {
            return None;
        }
        let finished = match state {
            TRIAL => self.trial(place),
            WATCH => microseconds(&self.begin, &self.end).map(|us| Finished::Watch { place, us }),
            _ => None,
        };
        self.state.store(FREE, Ordering::Release);
        finished
    }

    fn trial(&self, place: usize) -> Option<Finished> {
        let element = Element::from_argument(u32::from(self.element.load(Ordering::Relaxed)))?;
        let word = |sample: &PinnedBuffer, at| sample.read_u64(at).unwrap_or(u64::MAX);
        let count = self.count.load(Ordering::Relaxed);
        let deviation = Deviation::of(element, count, |at| word(&self.ours, at), |at| word(&self.vendor, at));
        let Deviation { squared_error, signal } = deviation;
        let ours_us = microseconds(&self.begin, &self.ours_end)?;
        let vendor_us = microseconds(&self.vendor_begin, &self.end)?;
        Some(Finished::Trial { place, ours_us, vendor_us, squared_error, signal })
    }
}

fn microseconds(from: &Event, to: &Event) -> Option<f64> {
    to.elapsed_ms(from).ok().map(|milliseconds| f64::from(milliseconds) * 1000.0)
}

impl Lane {
    /// A place for a trial or a watch; `None` while all are in use.
    pub fn take_measurement(&self) -> Option<usize> {
        self.measurements.iter().position(|measurement| measurement.change(FREE, TAKEN))
    }

    /// Gives a place back that will not be ended: what it was taken for has failed or is not wanted.
    pub fn drop_measurement(&self, place: usize) {
        if let Some(measurement) = self.measurements.get(place) {
            let _ = measurement.change(TAKEN, FREE) || measurement.change(BEGUN, FREE);
        }
    }

    /// Behind the vendor's call that follows a dry run, on the same stream: takes the last time stamp and the
    /// same sample of the vendor's result.
    ///
    /// # Safety
    /// The call's output is device memory of `count` elements until the stream has passed this.
    pub unsafe fn end_trial(
        &self,
        place: usize,
        call: &Call,
        count: usize,
        stream: cuda::Stream,
    ) -> Result<(), FastPathError> {
        let Some(measurement) = self.measurements.get(place) else { return Ok(()) };
        let _entered = self.enter()?;
        let (stream, size) = (self.gpu.borrow_stream(stream), call.element.size());
        measurement.count.store(count, Ordering::Relaxed);
        measurement.element.store(call.element as u8, Ordering::Relaxed);
        Ok(measurement.end(TRIAL, &stream, || {
            runs(count).try_for_each(|run| {
                let from = call.output + (run.start * size) as u64;
                let (at, bytes) = (run.place * size, run.elements * size);
                // SAFETY: the caller vouches for the output.
                unsafe { measurement.vendor.copy_from_address_async(at, from, bytes, &stream) }
            })
        })?)
    }

    /// Before a call on a stream that is not captured. What used the arena last is not charged to the call.
    pub fn start_watch(&self, place: usize, stream: cuda::Stream) -> Result<(), FastPathError> {
        let Some(measurement) = self.measurements.get(place) else { return Ok(()) };
        let started = self.start(measurement, stream);
        if started.is_err() {
            self.drop_measurement(place);
        }
        started
    }

    fn start(&self, measurement: &Measurement, stream: cuda::Stream) -> Result<(), FastPathError> {
        let _entered = self.enter()?;
        let stream = self.gpu.borrow_stream(stream);
        if stream.capture_status()? != CaptureStatus::Live {
            return Err(FastPathError::CapturedDryRun);
        }
        stream.wait(&self.arena.serial)?;
        Ok(measurement.begin(&stream)?)
    }

    /// Behind that call, on the same stream.
    pub fn end_watch(&self, place: usize, stream: cuda::Stream) -> Result<(), FastPathError> {
        let Some(measurement) = self.measurements.get(place) else { return Ok(()) };
        let _entered = self.enter()?;
        Ok(measurement.end(WATCH, &self.gpu.borrow_stream(stream), || Ok(()))?)
    }

    /// A measurement that the device has passed, if any; its place is free again. Never waits.
    pub fn finished(&self) -> Option<Finished> {
        let is_enqueued = |measurement: &Measurement| measurement.state.load(Ordering::Relaxed) > BEGUN;
        if !self.measurements.iter().any(is_enqueued) {
            return None;
        }
        let _relaxed = self.gpu.relax_captures().ok()?;
        let _entered = self.enter().ok()?;
        let mut places = self.measurements.iter().enumerate();
        places.find_map(|(place, measurement)| measurement.finish(place))
    }

    /// Whether the device writes no sample any more.
    pub(crate) fn measurements_are_done(&self) -> Result<bool, GpuError> {
        for measurement in &self.measurements {
            if !measurement.done.is_reached()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Post<'_> {
    /// Where the post is measured, if it is.
    pub(crate) fn measurement(&self) -> Option<&Measurement> {
        self.dry.and_then(|place| self.lane.measurements.get(place))
    }
}
