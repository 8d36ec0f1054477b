//! Reports on their way from a call to the control thread: fixed places, nothing allocated, nobody waits.
//! What finds no place is dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use airamp_agreement::MOST_REPORT_BYTES;

const PLACES: usize = 64;
/// What is longer finds no place.
pub(crate) const SLOT_BYTES: usize = 256;

const _: () = assert!(SLOT_BYTES <= MOST_REPORT_BYTES, "a message carries what a slot holds");

struct Slot {
    /// Order of arrival; 0: empty.
    number: u64,
    length: usize,
    bytes: [u8; SLOT_BYTES],
}

pub(crate) struct Reports {
    slots: [Mutex<Slot>; PLACES],
    count: AtomicU64,
}

/// Whether any seat has reports that the thread was woken for and has not looked at.
#[derive(Default)]
pub(crate) struct Bell(AtomicBool);

impl Bell {
    /// True for who must wake the thread.
    pub(crate) fn ring(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// True if there is something to look at.
    pub(crate) fn answer(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Reports {
    pub(crate) fn new() -> Self {
        let empty = |_| Mutex::new(Slot { number: 0, length: 0, bytes: [0; SLOT_BYTES] });
        Self { slots: std::array::from_fn(empty), count: AtomicU64::new(0) }
    }

    /// Whether it found a place.
    pub(crate) fn put(&self, report: &[u8]) -> bool {
        let number = 1 + self.count.fetch_add(1, Ordering::Relaxed);
        for turn in 0..PLACES {
            let place = (number as usize).wrapping_add(turn) % PLACES;
            let mut slot = match self.slots[place].try_lock() {
                Ok(slot) => slot,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Somebody is at it; there are others.
                Err(TryLockError::WouldBlock) => continue,
            };
            if slot.number != 0 {
                continue;
            }
            let Some(bytes) = slot.bytes.get_mut(..report.len()) else { break };
            bytes.copy_from_slice(report);
            (slot.number, slot.length) = (number, report.len());
            return true;
        }
        false
    }

    /// All that is there, oldest first. A place that is being written is seen at the ring that follows.
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        for slot in &self.slots {
            let Ok(mut slot) = slot.try_lock() else { continue };
            if slot.number != 0 {
                taken.push((slot.number, slot.bytes[..slot.length].to_vec()));
                slot.number = 0;
            }
        }
        taken.sort_unstable();
        taken.into_iter().map(|(_, report)| report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_out_in_order_and_places_are_used_again() {
        let reports = Reports::new();
        for round in 0..3_u8 {
            for number in 0..PLACES as u8 {
                assert!(reports.put(&[round, number]));
            }
            let expected: Vec<_> = (0..PLACES as u8).map(|number| vec![round, number]).collect();
            assert_eq!(reports.take(), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let reports = Reports::new();
        assert!(!reports.put(&[0; SLOT_BYTES + 1]));
        for _ in 0..PLACES {
            assert!(reports.put(&[0; SLOT_BYTES]));
        }
        assert!(!reports.put(&[1]));
        assert_eq!(reports.take().len(), PLACES);
        assert!(reports.put(&[1]));
    }
}
