//! A hardware queue: one worker thread that runs its items strictly in the order of
//! submission, and a bounded number of pending ones.
//!
//! Streams that share a queue therefore wait for each other although nothing asks for
//! it, as on a GPU. The thread starts with the first reservation. An item waits only for
//! items that were submitted before it, so queues cannot block each other for ever.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use airamp_vendor_abi::cuda::CudaError;

use super::clock::{self, Clock};
use super::completion::{Completion, lock};
use super::device::Sticky;
use super::event::Record;
use super::graph::Body;
use super::{Answer, Fault, Run};

pub(super) enum Action {
    Run(Execution),
    Stamp(Arc<Record>),
    Release(Arc<Body>),
    Nothing,
}

pub(super) struct Execution {
    pub(super) label: String,
    pub(super) run: Run,
    /// Found at submission; told after the run, so that peers of a collective that is
    /// part of a race still get their data.
    pub(super) race: Option<Fault>,
    /// For work whose end the host can see without asking: the order that this implies.
    pub(super) seen_by_host: Option<Clock>,
}

pub(super) struct Item {
    pub(super) after: Vec<Arc<Completion>>,
    pub(super) action: Action,
    pub(super) completion: Arc<Completion>,
    /// Given back when the item is over.
    pub(super) slot: Option<Slot>,
}

pub(super) struct Queue {
    shared: Arc<Shared>,
    started: Mutex<bool>,
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread of a queue, which would wait for itself if it waited for
/// the device.
#[inline]
pub(super) fn is_worker() -> bool {
    IS_WORKER.get()
}

struct Shared {
    name: String,
    sticky: Arc<Sticky>,
    items: Mutex<VecDeque<Item>>,
    arrived: Condvar,
    pending: Mutex<usize>,
    released: Condvar,
    depth: usize,
}

/// A place among the pending submissions of a queue.
pub(super) struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.0.pending) -= 1;
        self.0.released.notify_one();
    }
}

impl Queue {
    pub(super) fn new(name: String, depth: usize, sticky: Arc<Sticky>) -> Self {
        let shared = Arc::new(Shared {
            name,
            sticky,
            items: Mutex::default(),
            arrived: Condvar::new(),
            pending: Mutex::default(),
            released: Condvar::new(),
            depth,
        });
        Self { shared, started: Mutex::new(false) }
    }

    /// Takes a place for one submission, and blocks while all are taken.
    pub(super) fn reserve(&self) -> Answer<Slot> {
        self.start()?;
        let mut pending = lock(&self.shared.pending);
        while *pending >= self.shared.depth {
            let wait = self.shared.released.wait(pending);
            pending = wait.unwrap_or_else(PoisonError::into_inner);
        }
        *pending += 1;
        Ok(Slot(Arc::clone(&self.shared)))
    }

    /// Makes sure that the thread is there. What is pushed without one never ends.
    pub(super) fn start(&self) -> Answer<()> {
        let mut started = lock(&self.started);
        if !*started {
            start(Arc::clone(&self.shared)).map_err(|error| {
                let name = &self.shared.name;
                let message = format!("the thread of the queue {name} cannot be started: {error}");
                Fault::new(CudaError::OUT_OF_MEMORY, message).told()
            })?;
            *started = true;
        }
        Ok(())
    }

    pub(super) fn push(&self, item: Item) {
        lock(&self.shared.items).push_back(item);
        self.shared.arrived.notify_one();
    }
}

fn start(shared: Arc<Shared>) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(shared.name.clone());
    let spawned = builder.spawn(move || {
        block_signals();
        IS_WORKER.set(true);
        loop {
            execute(&shared, next(&shared));
        }
    });
    spawned.map(drop)
}

/// Signals are for the application's own threads: its handlers expect them there.
fn block_signals() {
    // SAFETY: both calls only write the set that lives in this frame and this thread's
    // own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for fatal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut all, fatal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

fn next(shared: &Shared) -> Item {
    let mut items = lock(&shared.items);
    loop {
        if let Some(item) = items.pop_front() {
            return item;
        }
        items = shared.arrived.wait(items).unwrap_or_else(PoisonError::into_inner);
    }
}

fn execute(shared: &Shared, item: Item) {
    for earlier in &item.after {
        earlier.wait();
    }
    match item.action {
        Action::Run(execution) => execute_run(shared, execution),
        Action::Stamp(record) => record.stamp(),
        Action::Release(graph) => drop(graph),
        Action::Nothing => {}
    }
    drop(item.slot);
    item.completion.finish();
}

fn execute_run(shared: &Shared, execution: Execution) {
    if shared.sticky.get().is_some() {
        return;
    }
    let outcome = catch_unwind(AssertUnwindSafe(execution.run)).unwrap_or_else(|_| {
        let message = format!("{} panicked", execution.label);
        Err(Fault::new(CudaError::LAUNCH_FAILED, message))
    });
    if let Err(fault) = outcome {
        shared.sticky.set(&fault);
    }
    if let Some(race) = execution.race {
        shared.sticky.set(&race);
    }
    if let Some(clock) = execution.seen_by_host {
        clock::host_learns(&clock);
    }
}
