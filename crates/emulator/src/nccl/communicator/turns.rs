//! The order of a communicator's own operations: one at a time, in the order of enqueueing.
//!
//! A ticket is drawn when an operation is enqueued and given back when it is dropped, run or not,
//! so that work which the device throws away does not stop what comes after it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Communicator;
use super::health::Phase;
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::lock;

#[derive(Default)]
pub(crate) struct Turns {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    next: u64,
    /// The number of the next collective; an operation may hold several.
    next_collective: u64,
    serving: u64,
    /// Given back before their turn.
    done: BTreeSet<u64>,
    running: bool,
}

pub(crate) struct Ticket {
    comm: Arc<Communicator>,
    number: u64,
    /// The number of the operation's first collective. Replays of a graph count anew.
    pub(crate) first_collective: u64,
    /// The communicator was destroyed before this was enqueued.
    pub(crate) too_late: bool,
    served: bool,
}

impl Ticket {
    pub(crate) fn draw(comm: &Arc<Communicator>, collectives: usize) -> Self {
        let too_late = comm.health.phase() == Phase::Destroyed;
        let mut line = lock(&comm.turns.line);
        let (number, first_collective) = (line.next, line.next_collective);
        line.next += 1;
        line.next_collective += collectives as u64;
        drop(line);
        Self { comm: comm.clone(), number, first_collective, too_late, served: false }
    }

    /// Does without its turn; nobody minds.
    pub(crate) fn give_up(mut self) {
        self.served = true;
    }

    /// Waits for this operation's turn.
    pub(crate) fn wait(&mut self) -> Outcome {
        let turns = &self.comm.turns;
        let mut line = lock(&turns.line);
        self.served = true;
        while line.serving != self.number {
            self.comm.health.interruption()?;
            let waited = turns.moved.wait_timeout(line, Duration::from_millis(100));
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        line.running = true;
        drop(line);
        self.comm.health.interruption()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.served {
            let text = "the device dropped an operation of this communicator after an earlier error";
            self.comm.fail(NcclError::Device(text.into()));
        }
        let turns = &self.comm.turns;
        let mut line = lock(&turns.line);
        if line.serving == self.number {
            line.running = false;
        }
        line.done.insert(self.number);
        loop {
            let serving = line.serving;
            if !line.done.remove(&serving) {
                break;
            }
            line.serving += 1;
        }
        drop(line);
        turns.moved.notify_all();
    }
}

impl Turns {
    pub(crate) fn wake(&self) {
        self.moved.notify_all();
    }

    /// The number that the next collective to be enqueued will have.
    pub(crate) fn next_collective(&self) -> u64 {
        lock(&self.line).next_collective
    }

    /// Waits until all that was enqueued is over, or the communicator is interrupted.
    pub(crate) fn drain(&self, interruption: impl Fn() -> Outcome) -> Outcome {
        let mut line = lock(&self.line);
        while line.serving != line.next {
            interruption()?;
            let waited = self.moved.wait_timeout(line, Duration::from_millis(20));
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Waits, within bounds, for the operation that is on the device now.
    pub(crate) fn quiesce(&self, limit: Duration) {
        let busy = |line: &mut Line| line.running;
        let waited = self.moved.wait_timeout_while(lock(&self.line), limit, busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
