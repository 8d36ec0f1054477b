//! One emulated device: its memory, its hardware queues, the order of its streams and
//! its sticky error.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::memory::AddressSpace;
use super::order::Order;
use super::queue::Queue;
use super::{Answer, Fault, capture, clock, report};
use crate::environment;

/// The error that all later calls of the device return, once an operation has failed.
#[derive(Default)]
pub(super) struct Sticky(AtomicI32);

impl Sticky {
    pub(super) fn get(&self) -> Option<CudaError> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            code => Some(CudaError(code)),
        }
    }

    /// The first fault stays; each is told.
    pub(super) fn set(&self, fault: &Fault) {
        report(&fault.message);
        let code = fault.code.0;
        let _first = self.0.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }
}

pub struct Device {
    pub ordinal: i32,
    pub(super) sticky: Arc<Sticky>,
    pub(super) memory: Mutex<AddressSpace>,
    pub(super) queues: Vec<Queue>,
    /// Held while work is put into the queues, so that all see one order.
    pub(super) order: Mutex<Order>,
    next_queue: AtomicUsize,
    resets: AtomicU64,
}

impl Device {
    pub(super) fn new(ordinal: i32) -> Self {
        let sticky = Arc::<Sticky>::default();
        let connections = environment::number("CUDA_DEVICE_MAX_CONNECTIONS");
        let depth = environment::number("AIRAMP_EMU_LAUNCH_QUEUE") as usize;
        let queue = |index| {
            let name = format!("emu-gpu{ordinal}-q{index}");
            Queue::new(name, depth, Arc::clone(&sticky))
        };
        Self {
            ordinal,
            memory: Mutex::new(AddressSpace::new(ordinal)),
            queues: (0..connections).map(queue).collect(),
            order: Mutex::new(Order::default()),
            // The legacy stream has queue 0; the streams that are made start after it.
            next_queue: AtomicUsize::new(1),
            resets: AtomicU64::new(0),
            sticky,
        }
    }

    /// The queue of the next stream: round robin.
    pub(super) fn assign_queue(&self) -> usize {
        self.next_queue.fetch_add(1, Ordering::Relaxed) % self.queues.len()
    }

    /// The sticky error, if there is one.
    pub fn check(&self) -> Answer<()> {
        self.sticky.get().map_or(Ok(()), Err)
    }

    /// Waits for all work of the device.
    pub fn synchronize(&self) -> Answer<()> {
        capture::refuse_device_synchronization(self.ordinal)?;
        self.wait_for_all();
        self.check()
    }

    pub(super) fn wait_for_all(&self) {
        let (pending, seen) = lock(&self.order).everything();
        for completion in &pending {
            completion.wait();
        }
        clock::host_learns(&seen);
    }

    /// Makes the device usable again after a sticky error. What it holds stays.
    pub fn reset(&self) -> Answer<()> {
        self.wait_for_all();
        self.sticky.clear();
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }
}
