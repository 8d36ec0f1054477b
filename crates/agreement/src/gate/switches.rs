//! The last few plans and the index from which each holds: written by one thread at a time, read by any without a
//! lock. Made for the gate alone.

use crate::message::{PLAN_BYTES, Plan};
use std::array;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};

const PLACES: usize = 8;
/// One place fewer than there are: the oldest may be in the middle of being replaced.
const KEPT: usize = PLACES - 1;

#[derive(Debug)]
pub(super) struct Switches {
    places: [Switch; PLACES],
    /// How many there have been; the newest is at this number less one, modulo the places.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Switch {
    from: AtomicU64,
    plan: [AtomicU8; PLAN_BYTES],
}

impl Switches {
    pub(super) fn new(plan: Plan) -> Self {
        let empty = |_| Switch { from: AtomicU64::new(0), plan: array::from_fn(|_| AtomicU8::new(0)) };
        let switches = Self { places: array::from_fn(empty), count: AtomicUsize::new(0) };
        switches.push(0, plan);
        switches
    }

    /// The caller sees to it that only one thread is in here.
    pub(super) fn push(&self, from: u64, plan: Plan) {
        let count = self.count.load(SeqCst);
        let switch = self.place(count);
        switch.from.store(from, SeqCst);
        for (to, byte) in switch.plan.iter().zip(plan) {
            to.store(byte, SeqCst);
        }
        self.count.store(count + 1, SeqCst);
    }

    /// The byte of the plan that holds at `index`; none if that plan is forgotten.
    pub(super) fn entry(&self, index: u64, place: usize) -> Option<u8> {
        self.at(index, |switch| switch.plan.get(place).map_or(0, |byte| byte.load(SeqCst)))
    }

    pub(super) fn since(&self, index: u64) -> Option<u64> {
        self.at(index, |switch| switch.from.load(SeqCst))
    }

    pub(super) fn newest(&self) -> u64 {
        self.place(self.count.load(SeqCst) - 1).from.load(SeqCst)
    }

    /// Whether there is a place for one more switch without losing the plan of `index`, or of a later one.
    pub(super) fn has_place_beside(&self, index: u64) -> bool {
        let oldest_kept = (self.count.load(SeqCst) + 1).checked_sub(KEPT);
        oldest_kept.is_none_or(|number| self.place(number).from.load(SeqCst) <= index)
    }

    pub(super) fn newest_plan(&self) -> Plan {
        let newest = self.place(self.count.load(SeqCst) - 1);
        array::from_fn(|place| newest.plan[place].load(SeqCst))
    }

    /// Reads from the newest switch that is not above `index`. Switches are pushed in the order of their indices, so
    /// the newest that fits is the one in force; what was read counts only if its place was not given away meanwhile.
    fn at<T>(&self, index: u64, read: impl Fn(&Switch) -> T) -> Option<T> {
        let count = self.count.load(SeqCst);
        let kept = count.saturating_sub(KEPT)..count;
        let number = kept.rev().find(|&number| self.place(number).from.load(SeqCst) <= index)?;
        let value = read(self.place(number));
        (self.count.load(SeqCst) - number <= KEPT).then_some(value)
    }

    fn place(&self, number: usize) -> &Switch {
        &self.places[number % PLACES]
    }
}
