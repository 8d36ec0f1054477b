//! Calls of a group that are kept back until its outermost end, with the vendor's functions and
//! their arguments. The lists are reused, so that a job that has found its rhythm allocates none.

use super::active::FastCall;
use crate::calls::Operation;
use crate::clique::Clique;
use crate::communicators::Known;
use crate::deferred::Deferred;
use crate::dispatch::Ticket;
use airamp_telemetry::Reason;
use airamp_vendor_abi::nccl::{Comm, Stream};
use std::sync::Mutex;

pub(crate) struct Held {
    pub(super) operation: Operation,
    /// `None`: a communicator that is not tracked.
    pub(super) known: Option<Known>,
    pub(super) ticket: Ticket,
    pub(super) clique: Clique,
    /// Of one that takes a turn on the fast path.
    pub(super) fast: Option<FastCall>,
    /// Of a trial whose dry run is posted: where it is measured. The call itself is the vendor's then.
    pub(super) tried: Option<usize>,
    pub(super) forward: Deferred,
    pub(super) state: State,
    /// Why it goes to the vendor, where it might not have.
    pub(super) reason: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// It is in what is being posted now.
    Chosen,
    /// Posted: it has taken effect.
    Done,
    /// It has not, and will not.
    Dropped,
}

impl Held {
    pub(super) fn new(
        operation: Operation,
        known: Option<Known>,
        ticket: Ticket,
        clique: Clique,
        fast: Option<FastCall>,
        forward: Deferred,
    ) -> Self {
        Self {
            operation,
            known,
            ticket,
            clique,
            fast,
            tried: None,
            forward,
            state: State::Waiting,
            reason: None,
        }
    }
}

impl Held {
    /// Whether the communicator does, by an agreement of all its ranks; this call may be the vendor's.
    pub(super) fn compresses(&self) -> bool {
        self.fast.is_some() || self.known.is_some_and(|known| known.entry.is_active())
    }
}

/// What is kept back of one group of one thread.
#[derive(Default)]
pub(crate) struct HeldCalls {
    /// In the application's order.
    pub(super) calls: Vec<Held>,
    /// What frees something that the calls still need.
    pub(super) afterwards: Vec<Afterwards>,
    pub(super) at_once: Vec<AtOnce>,
    /// Room for the streams of one communicator.
    pub(super) streams: Vec<Stream>,
}

/// Where a call is posted. Of one whose arguments could not be kept, and that is in the vendor's open group already, nothing
/// else is known.
#[derive(Clone, Copy)]
pub(super) struct AtOnce {
    pub(super) comm: Comm,
    pub(super) stream: Stream,
}

impl AtOnce {
    pub(super) fn of(held: &Held) -> Self {
        Self { comm: held.operation.comm, stream: held.operation.stream }
    }
}

impl HeldCalls {
    /// False: there is no memory for one more.
    pub(super) fn push(&mut self, held: Held) -> bool {
        push(&mut self.calls, held)
    }

    /// False: it was not kept.
    pub(super) fn push_afterwards(&mut self, one: Afterwards) -> bool {
        push(&mut self.afterwards, one)
    }

    /// False: there is no memory for it.
    pub(super) fn push_at_once(&mut self, operation: &Operation) -> bool {
        push(&mut self.at_once, AtOnce { comm: operation.comm, stream: operation.stream })
    }

    pub(super) fn has_calls_of(&self, comm: Comm) -> bool {
        self.calls.iter().any(|held| held.operation.comm == comm)
    }
}

/// What frees something of a communicator, once the calls of the group are posted.
pub(super) struct Afterwards {
    /// `None`: a communicator that is not tracked.
    pub(super) known: Option<Known>,
    /// Whether it may wait for the device or for peers, so that nobody may have to wait for it.
    pub(super) may_wait: bool,
    pub(super) forward: Deferred,
}

impl Afterwards {
    /// A communicator that has ended meanwhile has nothing left to be freed, and its memory may be another's.
    pub(super) fn run(&self) {
        let pin = self.known.map(Known::pin);
        if matches!(pin, Some(None)) {
            return;
        }
        // Whoever ends it waits for the pin. One that may wait itself has none, as the application's own calls.
        let _pin = pin.filter(|_| !self.may_wait);
        self.forward.run();
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> bool {
    let fits = list.try_reserve(1).is_ok();
    if fits {
        list.push(value);
    }
    fits
}

/// Lists that are in no thread's hands. Only ever tried: who finds it locked makes a new list.
static SPARE: Mutex<Spare> = Mutex::new(Spare(Vec::new()));

struct Spare(Vec<*mut HeldCalls>);

// SAFETY: the lists in it are empty, and nobody else's.
unsafe impl Send for Spare {}

pub(super) fn take_spare() -> *mut HeldCalls {
    let spare = SPARE.try_lock().ok().and_then(|mut spare| spare.0.pop());
    spare.unwrap_or_else(|| Box::into_raw(Box::default()))
}

/// # Safety
/// The list came from [`take_spare`], and nobody else has it.
pub(super) unsafe fn give_back(list: *mut HeldCalls) {
    // SAFETY: by the caller's word it is ours.
    let held = unsafe { &mut *list };
    held.calls.clear();
    held.afterwards.clear();
    held.at_once.clear();
    match SPARE.try_lock() {
        Ok(mut spare) => spare.0.push(list),
        // SAFETY: it was made by `take_spare`, from a box.
        Err(_) => drop(unsafe { Box::from_raw(list) }),
    }
}
