//! Events: marks in streams that other streams and the host wait for, and the time
//! at which the device passed them.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use airamp_vendor_abi::cuda::{CudaError, EVENT_DISABLE_TIMING, EVENT_RECORD_EXTERNAL, EVENT_WAIT_EXTERNAL};

use super::clock::{self, Clock};
use super::completion::{Completion, lock};
use super::device::Device;
use super::handles::Handles;
use super::stream::Stream;
use super::work::Work;
use super::{Answer, capture, context, process, stream};

/// Blocking synchronisation, no timing, and use between processes.
const FLAGS: u32 = 1 | EVENT_DISABLE_TIMING | 4;

/// One recording of an event.
pub(super) struct Record {
    pub(super) completion: Arc<Completion>,
    pub(super) clock: Clock,
    passed: OnceLock<Instant>,
}

impl Record {
    pub(super) fn new(completion: Arc<Completion>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { completion, clock, passed: OnceLock::new() })
    }

    pub(super) fn stamp(&self) {
        self.passed.get_or_init(Instant::now);
    }
}

/// What an event was used for last.
#[derive(Clone)]
pub(super) enum Mark {
    Never,
    Recorded(Arc<Record>),
    /// Recorded in a capture: the nodes that a wait will depend on.
    Captured {
        session: u64,
        nodes: Vec<usize>,
    },
}

pub struct Event {
    device: &'static Device,
    timed: bool,
    pub(super) mark: Mutex<Mark>,
}

impl Event {
    pub(super) fn renew(&self, record: &Arc<Record>) {
        *lock(&self.mark) = Mark::Recorded(Arc::clone(record));
    }

    pub(super) fn latest(&self) -> Option<Arc<Record>> {
        match &*lock(&self.mark) {
            Mark::Recorded(record) => Some(Arc::clone(record)),
            _ => None,
        }
    }
}

static EVENTS: Handles<Event> = Handles::new();

pub fn create(flags: u32) -> Answer<usize> {
    let device = context::current()?;
    device.check()?;
    if flags & !FLAGS != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(EVENTS.insert(Event {
        device,
        timed: flags & EVENT_DISABLE_TIMING == 0,
        mark: Mutex::new(Mark::Never),
    }))
}

/// Destroys an event at once; what already waits for it still does.
pub fn destroy(event: usize) -> Answer<()> {
    process::init()?;
    EVENTS.remove(event).map(drop)
}

pub fn record(stream: usize, event: usize) -> Answer<()> {
    record_with_flags(stream, event, 0)
}

/// Records an event. In a capture: a fork point, or with the external flag a node that
/// records the event at every launch.
pub fn record_with_flags(stream: usize, event: usize, flags: u32) -> Answer<()> {
    process::init()?;
    let event = EVENTS.get(event)?;
    let target = stream::find(stream)?;
    let external = is_external(&target, flags, EVENT_RECORD_EXTERNAL)?;
    if target.device.ordinal != event.device.ordinal {
        return Err(CudaError::INVALID_HANDLE);
    }
    if !external && capture::record(&target, &event)? {
        return Ok(());
    }
    stream::submit_work(stream, Work::Record(event))
}

pub fn wait(stream: usize, event: usize) -> Answer<()> {
    wait_with_flags(stream, event, 0)
}

/// Makes what comes next on the stream wait for the event's last recording.
pub fn wait_with_flags(stream: usize, event: usize, flags: u32) -> Answer<()> {
    process::init()?;
    let event = EVENTS.get(event)?;
    let target = stream::find(stream)?;
    let external = is_external(&target, flags, EVENT_WAIT_EXTERNAL)?;
    if !external && capture::wait(&target, &event)? {
        return Ok(());
    }
    stream::submit_work(stream, Work::Wait(event))
}

/// The external flag is for captures: outside of one it is refused, as in CUDA.
fn is_external(target: &Stream, flags: u32, external: u32) -> Answer<bool> {
    match flags {
        0 => Ok(false),
        flag if flag == external && capture::status(target.handle).is_some() => Ok(true),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// `NOT_READY` while the event's last recording is not over.
pub fn query(event: usize) -> Answer<()> {
    capture::refuse_unsafe_call()?;
    let (event, record) = recorded(event)?;
    if let Some(record) = record {
        if !record.completion.is_done() {
            return Err(CudaError::NOT_READY);
        }
        clock::host_learns(&record.clock);
    }
    event.device.check()
}

pub fn synchronize(event: usize) -> Answer<()> {
    let (event, record) = recorded(event)?;
    if let Some(record) = record {
        record.completion.wait();
        clock::host_learns(&record.clock);
    }
    event.device.check()
}

/// Milliseconds between the recordings of two events.
pub fn elapsed_ms(start: usize, end: usize) -> Answer<f32> {
    let passed = |event| -> Answer<Instant> {
        let (event, record) = recorded(event)?;
        let record = record.filter(|_| event.timed).ok_or(CudaError::INVALID_HANDLE)?;
        if !record.completion.is_done() {
            return Err(CudaError::NOT_READY);
        }
        record.passed.get().copied().ok_or(CudaError::NOT_READY)
    };
    let (start, end) = (passed(start)?, passed(end)?);
    let forward = end.checked_duration_since(start);
    let seconds = match forward {
        Some(duration) => duration.as_secs_f32(),
        None => -start.duration_since(end).as_secs_f32(),
    };
    Ok(seconds * 1000.0)
}

fn recorded(event: usize) -> Answer<(Arc<Event>, Option<Arc<Record>>)> {
    process::init()?;
    let event = EVENTS.get(event)?;
    let mark = lock(&event.mark).clone();
    match mark {
        Mark::Never => Ok((event, None)),
        Mark::Recorded(record) => Ok((event, Some(record))),
        Mark::Captured { session, .. } => {
            capture::invalidate(session);
            Err(CudaError::CAPTURED_EVENT)
        }
    }
}
