//! One rank's seat at a communicator's table, as the application's threads see it. Only the functions called
//! `wait…` wait, and each has an end of its own, should the control thread be gone.

use crate::mailbox::{Command, Mailbox};
use crate::process;
use crate::reports::{Reports, SLOT_BYTES};
use airamp_agreement::{Capable, Gate, Order, Settled};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a waiting thread sleeps at once. Of a time in which the whole process was stopped no more than this counts.
const GLANCE: Duration = Duration::from_millis(500);

/// Where to ask for a communicator's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub address: SocketAddr,
    pub token: [u8; 16],
    /// Tells communicators under one token apart: 0 for that of the id itself, children have others.
    pub clique: u64,
}

impl Invitation {
    pub(crate) fn is_for_child(&self) -> bool {
        self.clique != 0
    }
}

impl From<crate::Trailer> for Invitation {
    fn from(trailer: crate::Trailer) -> Self {
        Self { address: trailer.address, token: trailer.token, clique: 0 }
    }
}

/// A handle; clones are the same seat. Dropping it does not leave the table: `end` does.
#[derive(Clone)]
pub struct Seat {
    pub(crate) place: Arc<Place>,
}

/// What the application's threads and the control thread share of a seat.
pub(crate) struct Place {
    pub(crate) id: u64,
    /// Of the process that took the seat: a forked child keeps away.
    epoch: u64,
    pub(crate) gate: Arc<Gate>,
    pub(crate) reports: Reports,
    mailbox: Arc<Mailbox>,
    longest_wait: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    hello_is_taken: bool,
    /// Set before the pledge of creation is sent: from then on this rank may not turn away alone.
    pledged: bool,
    connect: Option<Settled>,
    last: Option<Settled>,
    ended: bool,
    /// The leader's address and the token, once all ranks had come.
    meeting: Option<(SocketAddr, [u8; 16])>,
}

impl Seat {
    /// Whether the introducer has this rank's Hello. Waits for it until the deadline.
    pub fn wait_until_hello_is_sent(&self, deadline: Instant) -> bool {
        if self.place.is_inherited() {
            return false;
        }
        let mut state = self.place.lock();
        loop {
            if state.hello_is_taken || state.last.is_some() || state.ended {
                return state.hello_is_taken;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.place.sleep(state, left);
        }
    }

    /// The vendor's init has returned, and this is what the rank holds, or why it cannot compress.
    pub fn prepared(&self, capable: Result<Capable, String>) {
        self.place.tell(Command::Prepared(self.place.id, capable));
    }

    /// The next step of creation; after the last step, that again. Always ends.
    pub fn wait(&self) -> Settled {
        if self.place.is_inherited() {
            return Settled::Off { reason: "this process was forked".into() };
        }
        let mut left = self.place.longest_wait;
        let mut state = self.place.lock();
        loop {
            if let Some(step) = state.next_step() {
                return step;
            }
            if left.is_zero() {
                return self.place.give_up(state, "the control thread does not answer");
            }
            let (asked, begin) = (left.min(GLANCE), Instant::now());
            state = self.place.sleep(state, asked);
            left -= begin.elapsed().min(asked);
        }
    }

    /// Whether `wait` would return at once.
    pub fn has_news(&self) -> bool {
        if self.place.is_inherited() {
            return true;
        }
        let state = self.place.lock();
        state.connect.is_some() || state.last.is_some() || state.ended
    }

    /// How the connection of the peers, asked for by `Settled::Connect`, went.
    pub fn connected(&self, result: Result<(), String>) {
        self.place.tell(Command::Connected(self.place.id, result));
    }

    /// The longest report that there is a place for.
    pub const REPORT_ROOM: usize = SLOT_BYTES;

    /// Tells the leader's brain. Never waits or allocates; what does not fit is dropped.
    pub fn report(&self, report: &[u8]) {
        let place = &self.place;
        if !place.is_inherited() && place.reports.put(report) && place.mailbox.reports.ring() {
            place.mailbox.wake();
        }
    }

    pub fn order(&self, order: Order) {
        self.place.tell(Command::Order(self.place.id, order));
    }

    /// Where the children of this communicator meet; `None` unless all of its ranks had come.
    pub fn child(&self, clique: u64) -> Option<Invitation> {
        if self.place.is_inherited() {
            return None;
        }
        let (address, token) = self.place.lock().meeting?;
        Some(Invitation { address, token, clique })
    }

    /// Leaves; whoever waits wakes.
    pub fn end(&self) {
        let place = &self.place;
        if place.is_inherited() {
            return;
        }
        let ended = std::mem::replace(&mut place.lock().ended, true);
        if !ended {
            place.gate.end();
            place.changed.notify_all();
            place.tell(Command::End(place.id));
        }
    }
}

impl Place {
    pub(crate) fn new(id: u64, gate: Arc<Gate>, mailbox: Arc<Mailbox>, longest_wait: Duration) -> Self {
        Self {
            id,
            epoch: process::epoch(),
            gate,
            reports: Reports::new(),
            mailbox,
            longest_wait,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn is_inherited(&self) -> bool {
        self.epoch != process::epoch()
    }

    fn tell(&self, command: Command) {
        if !self.is_inherited() {
            self.mailbox.put(command);
        }
    }

    pub(crate) fn hello_is_taken(&self) {
        self.lock().hello_is_taken = true;
        self.changed.notify_all();
    }

    pub(crate) fn all_have_come(&self, leader: SocketAddr, token: [u8; 16]) {
        self.lock().meeting = Some((leader, token));
    }

    /// Asked before the pledge of creation is sent. False if the waiting thread has turned away.
    pub(crate) fn may_pledge(&self) -> bool {
        let mut state = self.lock();
        let may = state.last.is_none() && !state.ended;
        state.pledged |= may;
        may
    }

    pub(crate) fn settle(&self, step: Settled) {
        let mut state = self.lock();
        match step {
            Settled::Connect { .. } => state.connect = Some(step),
            _ if state.last.is_none() => state.last = Some(step),
            _ => {}
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Without the thread nobody can pledge: what this rank has pledged is lost, the rest stays as it is.
    pub(crate) fn thread_is_gone(&self, reason: &str) {
        let state = self.lock();
        if state.last.is_none() {
            self.give_up(state, reason);
        } else {
            drop(state);
            if self.gate.pledged().is_some() {
                self.gate.lose();
            }
        }
        self.changed.notify_all();
    }

    fn give_up(&self, mut state: MutexGuard<'_, State>, reason: &str) -> Settled {
        let pledged = state.pledged;
        let step = stopped(pledged, reason);
        state.last = Some(step.clone());
        drop(state);
        if pledged {
            self.gate.lose();
        }
        step
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_step(&mut self) -> Option<Settled> {
        if self.ended {
            return Some(stopped(self.pledged, "the communicator was ended"));
        }
        // A last step that is not `On` makes connecting pointless.
        match &self.last {
            Some(Settled::On) | None => self.connect.take().or_else(|| self.last.clone()),
            Some(_) => self.last.clone(),
        }
    }
}

fn stopped(pledged: bool, reason: &str) -> Settled {
    let reason = reason.to_owned();
    if pledged { Settled::Broken { reason } } else { Settled::Off { reason } }
}
