//! The seat of a communicator in the agreement, kept in its entry of the table. Changed and read in turns, since
//! an end and a thread that waits for the ranks may meet here.

use super::{Known, Turn};
use crate::compression::Seated;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Known {
    /// Gives the communicator its seat. False: it has ended meanwhile.
    pub(crate) fn sit_down(self, seated: Arc<Seated>) -> bool {
        let _turn = Turn::take();
        let is_listed = self.is_listed();
        if is_listed {
            self.entry.seat.store(Arc::into_raw(seated).cast_mut(), Ordering::SeqCst);
        }
        is_listed
    }

    pub(crate) fn seat(self) -> Option<Arc<Seated>> {
        let _turn = Turn::take();
        let seat = self.entry.seat.load(Ordering::SeqCst);
        if seat.is_null() || !self.is_current() {
            return None;
        }
        // SAFETY: it came from an `Arc`, and the entry's claim to it stands: who takes it out takes turns with us.
        unsafe {
            Arc::increment_strong_count(seat);
            Some(Arc::from_raw(seat))
        }
    }

    /// Takes the seat away from the communicator, or from the one that was entered there before.
    pub(crate) fn stand_up(self) -> Option<Arc<Seated>> {
        let _turn = Turn::take();
        if !self.is_current() {
            return None;
        }
        let seat = self.entry.seat.swap(std::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: what is not null came from an `Arc`, and the entry's claim to it is ours now.
        (!seat.is_null()).then(|| unsafe { Arc::from_raw(seat) })
    }
}
