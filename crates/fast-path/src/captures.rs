//! Which of a communicator's captures the end of the last call is remembered of, and which it was forgotten of.
//! Calls of a capture whose last end is forgotten cannot be tied to it, and would share the arena with it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Captures at once of which the last call is remembered.
pub(crate) const CAPTURES: usize = 4;

/// Far more than are still open when so many others have come after them.
const FORGOTTEN: usize = 64;

/// By the numbers that the driver gives to captures, each of them once. 0: none.
pub(crate) struct Captures {
    places: [AtomicU64; CAPTURES],
    taken: AtomicUsize,
    forgotten: [AtomicU64; FORGOTTEN],
    lost: AtomicUsize,
}

impl Captures {
    pub(crate) const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; CAPTURES],
            taken: AtomicUsize::new(0),
            forgotten: [const { AtomicU64::new(0) }; FORGOTTEN],
            lost: AtomicUsize::new(0),
        }
    }

    /// Where the end of that capture's last call is remembered.
    pub(crate) fn place_of(&self, capture: u64) -> Option<usize> {
        self.places.iter().position(|place| place.load(Ordering::Relaxed) == capture)
    }

    /// Whether that capture has calls, and their end is no longer remembered.
    pub(crate) fn has_forgotten(&self, capture: u64) -> bool {
        self.place_of(capture).is_none()
            && self.forgotten.iter().any(|one| one.load(Ordering::Relaxed) == capture)
    }

    /// The place for that capture's next end: its own, or that of the capture that came first.
    pub(crate) fn take_place(&self, capture: u64) -> usize {
        if let Some(place) = self.place_of(capture) {
            return place;
        }
        let place = self.taken.fetch_add(1, Ordering::Relaxed) % CAPTURES;
        let before = self.places[place].swap(capture, Ordering::Relaxed);
        if before != 0 {
            let lost = self.lost.fetch_add(1, Ordering::Relaxed) % FORGOTTEN;
            self.forgotten[lost].store(before, Ordering::Relaxed);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_at_once_keep_their_places_whatever_their_numbers() {
        let captures = Captures::new();
        let places = [5, 9, 13, 17].map(|capture| captures.take_place(capture));
        for (capture, place) in [5, 9, 13, 17].into_iter().zip(places) {
            assert_eq!(captures.place_of(capture), Some(place));
            assert_eq!(captures.take_place(capture), place);
            assert!(!captures.has_forgotten(capture));
        }
        assert_eq!(captures.place_of(21), None);
    }

    #[test]
    fn who_loses_its_place_is_not_taken_for_a_new_one() {
        let captures = Captures::new();
        (1..=5).for_each(|capture| _ = captures.take_place(capture));
        assert!(captures.has_forgotten(1));
        assert!(
            (2..=6).all(|capture| !captures.has_forgotten(capture)),
            "these have places, or made no call"
        );
    }

    #[test]
    fn one_capture_after_the_other_goes_on_for_ever() {
        let captures = Captures::new();
        for capture in 1..1000 {
            assert!(!captures.has_forgotten(capture));
            captures.take_place(capture);
            assert!(captures.place_of(capture).is_some());
        }
    }
}
