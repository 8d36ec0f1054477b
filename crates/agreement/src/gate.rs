//! Where the application's threads meet the agreement: every call that could be compressed asks here what to do
//! with its index, and waits here, and only here, if this rank has pledged an index and not heard the verdict.
//! The gate decides nothing. `entry` is for any thread; everything else is for the control thread.
//!
//! A call reserves its index and then loads the pledge; the control thread stores the pledge and then loads the
//! lowest index that no call has reserved or, captured, gone by. All of it is sequentially consistent, so one of the two sees the other: no call at or
//! above a granted pledge passes unaware of it.

mod switches;
#[cfg(test)]
mod tests;

use crate::message::{Plan, VENDOR_PLAN};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use switches::Switches;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GateError {
    #[error("no verdict came on a change that this rank had pledged")]
    Lost,
    #[error("the communicator has ended")]
    Ended,
}

/// Nothing is pledged: every index lies below it.
const NOTHING: u64 = u64::MAX;

/// How long a call waits if even the control thread's own deadline fails to wake it.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// How long a call sleeps at once. Of a time in which the whole process was stopped no more than this counts as waiting: the
/// control thread could not speak either.
const GLANCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Gate {
    /// Calls from this index on wait.
    pledge: AtomicU64,
    switches: Switches,
    /// Why no verdict will come any more. Held by the control thread during each change.
    over: Mutex<Option<GateError>>,
    changed: Condvar,
    longest_wait: Duration,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// Everything to the vendor, from index 0.
    pub fn new() -> Self {
        Self::with_longest_wait(LONGEST_WAIT)
    }

    /// A gate at which a call gives up after this time should the control thread have died. The time must be longer
    /// than the member's deadline for doubt.
    pub fn with_longest_wait(longest_wait: Duration) -> Self {
        Self {
            pledge: AtomicU64::new(NOTHING),
            switches: Switches::new(VENDOR_PLAN),
            over: Mutex::new(None),
            changed: Condvar::new(),
            longest_wait,
        }
    }

    /// The plan from index 0 on, before the application has the communicator. Too late once a change is committed.
    pub fn start(&self, plan: Plan) {
        let _turn = self.turn();
        if self.switches.newest() == 0 {
            self.switches.push(0, plan);
        }
    }

    /// What to do with the call of this index, which must be reserved already. Waits for the verdict if the index is
    /// pledged. An index so old that its plan is forgotten is lost: better an error than a guess.
    pub fn entry(&self, index: u64, place: usize) -> Result<u8, GateError> {
        if index >= self.pledge.load(SeqCst) {
            self.await_verdict(index)?;
        }
        self.switches.entry(index, place).ok_or(GateError::Lost)
    }

    /// From which index on the plan of `index` holds. For a call that has passed `entry`.
    pub fn since(&self, index: u64) -> u64 {
        self.switches.since(index).unwrap_or(0)
    }

    /// Closes the gate at `at`, unless a call at or above it is reserved already (`reserved` is the lowest
    /// index that none has reserved or gone by), or a later switch is agreed, or so many switches lie ahead that there is no place for
    /// another: the call that was reserved last may not have asked for its plan yet.
    pub fn try_pledge(&self, at: u64, reserved: impl FnOnce() -> u64) -> Result<(), u64> {
        let over = self.turn();
        let is_late = at < self.switches.newest();
        if over.is_some() || is_late || at == NOTHING || self.pledge.load(SeqCst) != NOTHING {
            return Err(reserved());
        }
        self.pledge.store(at, SeqCst);
        let reserved = reserved();
        if reserved > at || !self.switches.has_place_beside(reserved.saturating_sub(1)) {
            self.release();
            return Err(reserved);
        }
        Ok(())
    }

    /// The verdict is yes: `plan` holds from the pledged index on.
    pub fn commit(&self, at: u64, plan: Plan) {
        let over = self.turn();
        if over.is_none() && self.pledge.load(SeqCst) == at {
            self.switches.push(at, plan);
            self.release();
        }
    }

    /// The verdict is no: everything stays as it is.
    pub fn abort(&self) {
        let over = self.turn();
        if over.is_none() {
            self.release();
        }
    }

    /// No verdict will come: calls from the pledged index on fail, or all if nothing is pledged.
    pub fn lose(&self) {
        let mut over = self.turn();
        if self.pledge.load(SeqCst) == NOTHING {
            self.pledge.store(0, SeqCst);
        }
        over.get_or_insert(GateError::Lost);
        self.changed.notify_all();
    }

    /// The communicator ends: whoever waits is woken with an error, and nothing is pledged any more.
    pub fn end(&self) {
        self.turn().get_or_insert(GateError::Ended);
        self.changed.notify_all();
    }

    /// The index whose verdict is awaited.
    pub fn pledged(&self) -> Option<u64> {
        Some(self.pledge.load(SeqCst)).filter(|&index| index != NOTHING)
    }

    /// The newest plan and the index from which it holds.
    pub fn newest(&self) -> (u64, Plan) {
        let _turn = self.turn();
        (self.switches.newest(), self.switches.newest_plan())
    }

    #[cold]
    fn await_verdict(&self, index: u64) -> Result<(), GateError> {
        let mut left = self.longest_wait;
        let mut over = self.turn();
        while index >= self.pledge.load(SeqCst) {
            if let Some(error) = *over {
                return Err(error);
            }
            if left.is_zero() {
                *over = Some(GateError::Lost);
                self.changed.notify_all();
                return Err(GateError::Lost);
            }
            let (asked, begin) = (left.min(GLANCE), Instant::now());
            over = self.changed.wait_timeout(over, asked).unwrap_or_else(PoisonError::into_inner).0;
            left -= begin.elapsed().min(asked);
        }
        Ok(())
    }

    fn release(&self) {
        self.pledge.store(NOTHING, SeqCst);
        self.changed.notify_all();
    }

    /// What is under the lock is one word, so that a thread that panicked with it has left nothing half done.
    fn turn(&self) -> MutexGuard<'_, Option<GateError>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
