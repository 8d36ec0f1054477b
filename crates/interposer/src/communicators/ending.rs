//! The end of a communicator: one thread ends it, refuses our own vendor calls on it from then on, and waits, bounded, for
//! those that are under way. An end that the vendor refuses is taken back.

use super::entry::{ENDING, LIVE, TAKEN_BACK};
use super::{Known, Pin, Turn};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the end of a communicator waits for our own use of it.
const PIN_PATIENCE: Duration = Duration::from_secs(2);

impl Known {
    /// Lets a call of ours that is under way on another thread end soon, or takes that back.
    fn stop_calls(self, stopped: bool) {
        if let Some(active) = self.pin().as_ref().and_then(Pin::active) {
            active.lane().stop(stopped);
        }
        if let Some(seated) = self.seat().filter(|_| stopped) {
            seated.wake();
        }
    }

    /// Refuses new pins and waits, bounded, for those that are held. False: one is still held.
    pub(crate) fn begin_end(self) -> bool {
        self.stop_calls(true);
        let _ = self.change(LIVE, ENDING);
        self.await_pins()
    }

    /// For the call that made it and now ends it: only one thread ends a communicator. `None`: another one does already, or
    /// has. False: a pin is still held.
    pub(crate) fn begin_to_take_back(self) -> Option<bool> {
        self.stop_calls(true);
        self.change(LIVE, TAKEN_BACK).then(|| self.await_pins())
    }

    /// The call that made it is ending it: for everybody else it has ended.
    pub(crate) fn is_taken_back(self) -> bool {
        self.is_current() && self.entry.state.load(Ordering::SeqCst) == TAKEN_BACK
    }

    /// In turn with those who enter and forget, so that a later communicator at that address is left alone.
    fn change(self, from: u8, to: u8) -> bool {
        let _turn = Turn::take();
        self.is_listed()
            && self.entry.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn await_pins(self) -> bool {
        let deadline = Instant::now() + PIN_PATIENCE;
        while self.entry.pins.load(Ordering::SeqCst) != 0 {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// The vendor refused to end it, or only revoked it: it lives on, unless the call that made it is ending it.
    pub(crate) fn cancel_end(self) {
        if self.change(ENDING, LIVE) {
            self.stop_calls(false);
        }
    }

    /// It cannot be taken back: it stays with the application.
    pub(crate) fn cancel_take_back(self) {
        if self.change(TAKEN_BACK, LIVE) {
            self.stop_calls(false);
        }
    }
}
