//! Streams: their handles, what is put on them, and waiting for them.
//!
//! [`submit`] is the one way for work to reach a device. It blocks only while the
//! stream's hardware queue is full, and hands work to the capture where one is going on.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use airamp_vendor_abi::cuda::{CudaError, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_PER_THREAD};

use super::chain::Chain;
use super::clock::{self, Clock};
use super::completion::{Completion, lock};
use super::device::Device;
use super::handles::{self, Handles, Seen};
use super::order::Lane;
use super::queue::{self, Slot};
use super::work::{NodeKind, Operation, Work};
use super::{Answer, capture, context, process};

pub struct Stream {
    pub(super) handle: usize,
    pub(super) device: &'static Device,
    pub(super) blocking: bool,
    pub(super) legacy: bool,
    pub(super) queue: usize,
    pub priority: i32,
    pub flags: u32,
}

static STREAMS: Handles<Stream> = Handles::new();

/// Priorities that are accepted, as CUDA counts them: the least, then the greatest.
pub const PRIORITIES: (i32, i32) = (0, -5);

thread_local! {
    /// The per-thread default streams by device. Never dropped: destructors of other
    /// thread-locals may still use them.
    static PER_THREAD: RefCell<ManuallyDrop<Vec<(i32, usize)>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static SEEN: Cell<Seen> = const { Cell::new(Seen::NOTHING) };
}

/// Puts an operation on a stream. Asynchronous; an operation that a capture takes
/// is not prepared now, but at every launch of the graph.
pub fn submit(stream: usize, operation: Operation) -> Answer<()> {
    submit_work(stream, Work::Operation(NodeKind::Kernel, operation))
}

/// The same for an operation that `chain` puts in order with others, on any streams.
pub fn submit_in(chain: &Chain, stream: usize, operation: Operation) -> Answer<()> {
    submit_work(stream, Work::Chained(chain.clone(), operation))
}

pub(super) fn submit_work(stream: usize, work: Work) -> Answer<()> {
    let stream = find(stream)?;
    stream.device.check()?;
    if capture::take(&stream, &work)? {
        return Ok(());
    }
    stream.enqueue(|lane, after, slot| {
        lane.enqueue(stream.device, after, work, Some(slot));
    })
}

/// A host function, which runs on the stream's queue when all before it is over.
pub fn launch_host_function(stream: usize, run: impl Fn() + Send + Sync + 'static) -> Answer<()> {
    let run = Arc::new(run);
    let operation = Operation {
        label: "host function".to_owned(),
        touches: Vec::new(),
        prepare: Arc::new(move || {
            let run = Arc::clone(&run);
            Box::new(move || {
                run();
                Ok(())
            })
        }),
    };
    submit_work(stream, Work::Operation(NodeKind::Host, operation))
}

pub fn create(flags: u32, priority: i32) -> Answer<usize> {
    let device = context::current()?;
    device.check()?;
    if flags & !STREAM_NON_BLOCKING != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(create_on(device, flags, priority).handle)
}

fn create_on(device: &'static Device, flags: u32, priority: i32) -> Arc<Stream> {
    let handle = handles::fresh();
    let stream = Stream {
        handle,
        device,
        blocking: flags & STREAM_NON_BLOCKING == 0,
        legacy: false,
        queue: device.assign_queue(),
        priority: priority.clamp(PRIORITIES.1, PRIORITIES.0),
        flags,
    };
    register(stream, format!("stream {handle:#x}"))
}

fn register(stream: Stream, name: String) -> Arc<Stream> {
    let lane = Lane::new(name, stream.queue);
    let stream = Arc::new(stream);
    lock(&stream.device.order).add(stream.handle, lane, stream.blocking);
    STREAMS.insert_as(stream.handle, Arc::clone(&stream));
    stream
}

/// Destroys a stream at once; what is on it still runs.
pub fn destroy(stream: usize) -> Answer<()> {
    if stream <= STREAM_PER_THREAD {
        return Err(CudaError::INVALID_HANDLE);
    }
    process::init()?;
    capture::stream_destroyed(stream);
    let stream = STREAMS.remove(stream)?;
    lock(&stream.device.order).remove(stream.handle);
    Ok(())
}

pub fn synchronize(stream: usize) -> Answer<()> {
    let stream = find(stream)?;
    capture::refuse_synchronization(&stream)?;
    let (ends, seen) = stream.reached();
    for end in ends {
        end.wait();
    }
    clock::host_learns(&seen);
    stream.device.check()
}

/// `NOT_READY` while something on the stream is not over.
pub fn query(stream: usize) -> Answer<()> {
    let stream = find(stream)?;
    capture::refuse_synchronization(&stream)?;
    stream.device.check()?;
    let (ends, seen) = stream.reached();
    if ends.iter().any(|end| !end.is_done()) {
        return Err(CudaError::NOT_READY);
    }
    clock::host_learns(&seen);
    stream.device.check()
}

pub fn is_capturing(stream: usize) -> Answer<bool> {
    Ok(capture::status(find(stream)?.handle).is_some())
}

/// Whether this is a thread of the device, in a host function: it may not wait for the
/// device, which waits for it.
#[inline]
pub fn is_in_host_function() -> bool {
    queue::is_worker()
}

/// The number of the device that a stream belongs to.
pub fn device_of(stream: usize) -> Answer<i32> {
    Ok(find(stream)?.device.ordinal)
}

/// Refuses a handle behind which there is no stream, as [`find`] does.
#[inline]
pub(super) fn require(stream: usize) -> Answer<()> {
    if stream <= STREAM_PER_THREAD {
        return find(stream).map(drop);
    }
    process::init()?;
    STREAMS.require(stream, &SEEN)
}

/// The stream behind a handle, the default ones included.
pub fn find(stream: usize) -> Answer<Arc<Stream>> {
    match stream {
        0 | STREAM_LEGACY => Ok(legacy(context::current()?)),
        STREAM_PER_THREAD => per_thread(context::current()?),
        handle => {
            process::init()?;
            STREAMS.get(handle)
        }
    }
}

impl Stream {
    fn reached(&self) -> (Vec<Arc<Completion>>, Clock) {
        lock(&self.device.order).reached(self.handle, legacy_handle(self.device))
    }

    /// Takes a slot of the queue, then the submission lock, and hands both on with what
    /// the next work has to wait for.
    pub(super) fn enqueue(&self, put: impl FnOnce(&mut Lane, Vec<Arc<Completion>>, Slot)) -> Answer<()> {
        let slot = self.device.queues[self.queue].reserve()?;
        let legacy = legacy_handle(self.device);
        let mut order = lock(&self.device.order);
        let arrived = order.arrive(self.handle, legacy);
        let (lane, after) = arrived.ok_or(CudaError::INVALID_HANDLE)?;
        put(lane, after, slot);
        Ok(())
    }
}

/// Legacy streams have handles of their own, out of reach of those that are given out.
fn legacy_handle(device: &Device) -> usize {
    0x100 + device.ordinal as usize
}

fn legacy(device: &'static Device) -> Arc<Stream> {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let handle = legacy_handle(device);
    if let Ok(stream) = STREAMS.get(handle) {
        return stream;
    }
    let _one_at_a_time = lock(&MAKING);
    STREAMS.get(handle).unwrap_or_else(|_| {
        let stream = Stream { handle, device, blocking: true, legacy: true, queue: 0, priority: 0, flags: 0 };
        register(stream, "the default stream".to_owned())
    })
}

fn per_thread(device: &'static Device) -> Answer<Arc<Stream>> {
    let known = PER_THREAD.with_borrow(|streams| {
        let found = streams.iter().find(|(ordinal, _)| *ordinal == device.ordinal);
        found.map(|(_, handle)| *handle)
    });
    if let Some(handle) = known {
        return STREAMS.get(handle);
    }
    let stream = create_on(device, 0, 0);
    PER_THREAD.with_borrow_mut(|streams| streams.push((device.ordinal, stream.handle)));
    Ok(stream)
}
