//! What the calls of one communicator add, by their shape: a step has calls of a few dozen shapes, and what each of
//! them adds is found once. A small table of fixed size, four places for each shape. Whoever has the communicator's place
//! (`rhythm::take`) has its table.

use super::counting::Counted;
use super::writer;
use crate::calls::Operation;
use crate::communicators::Known;
use airamp_policy::rhythm::Key;
use airamp_telemetry::{Kind, Usual};
use std::mem::MaybeUninit;

const PLACES: usize = 64;
const WAYS: usize = 4;

/// What a call of one shape adds, and what the communicator's rhythm knows it by.
#[derive(Clone, Copy)]
pub(crate) struct Remembered {
    pub(super) usual: Usual,
    pub(super) key: Key,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Kind, datatype and peer; 0: there is nothing here.
    sort: u64,
    count: usize,
    what: MaybeUninit<Remembered>,
}

impl Entry {
    #[inline(always)]
    fn is_of(&self, sort: u64, count: usize) -> bool {
        self.sort == sort && self.count == count
    }
}

pub(crate) struct Shapes {
    entries: [Entry; PLACES],
}

impl Shapes {
    pub(crate) const fn new() -> Self {
        Self { entries: [Entry { sort: 0, count: 0, what: MaybeUninit::uninit() }; PLACES] }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.sort = 0);
    }

    /// What a call of that sort with so many elements adds where the vendor carries it out.
    #[inline(always)]
    pub(super) fn look_up(&self, sort: u64, count: usize) -> Option<&Remembered> {
        let at = first_place(sort, count);
        let first = &self.entries[at];
        if first.is_of(sort, count) {
            // SAFETY: an entry whose sort is not 0, and no call's is, holds something.
            return Some(unsafe { first.what.assume_init_ref() });
        }
        self.look_further(at, sort, count)
    }

    #[inline(never)]
    fn look_further(&self, at: usize, sort: u64, count: usize) -> Option<&Remembered> {
        let further = (1..WAYS).map(|way| &self.entries[at ^ way]);
        let entry = further.into_iter().find(|entry| entry.is_of(sort, count))?;
        // SAFETY: as above.
        Some(unsafe { entry.what.assume_init_ref() })
    }

    /// Remembers what such a call adds. `None`: it is looked at each time, since its bytes are not in its arguments.
    #[cold]
    #[inline(never)]
    pub(super) fn remember(&mut self, operation: &Operation, known: Known) -> Option<Usual> {
        let writer = writer().filter(|_| operation.kind != Kind::AllToAllV)?;
        let recipe = Counted::usual(operation, known).recipe(writer);
        let usual = Usual::of(&recipe)?;
        let shape = recipe.shape();
        let key = Key::new(shape.kind as u8, shape.datatype.0, shape.logical);
        let (sort, count) = (sort(operation), operation.count);
        let at = first_place(sort, count);
        // Where all are in use, the one that is found first goes.
        let free = (0..WAYS).find(|way| self.entries[at ^ way].sort == 0).unwrap_or(0);
        self.entries[at ^ free] = Entry { sort, count, what: MaybeUninit::new(Remembered { usual, key }) };
        Some(usual)
    }
}

/// Never 0. No vendor has accepted a datatype that does not fit.
#[inline(always)]
pub(super) fn sort(operation: &Operation) -> u64 {
    let kind_and_datatype = (operation.datatype.0 as u32) << 8 | (operation.kind as u32 + 1);
    u64::from(operation.peer as u32) << 32 | u64::from(kind_and_datatype)
}

#[inline(always)]
fn first_place(sort: u64, count: usize) -> usize {
    let mixed = (count as u64).wrapping_add(sort).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - PLACES.trailing_zeros())) as usize % PLACES
}

const _: () = assert!(PLACES.is_power_of_two() && WAYS.is_power_of_two() && WAYS <= PLACES);

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_vendor_abi::nccl::DataType;

    fn operation(kind: Kind, count: usize, datatype: i32, peer: i32) -> Operation {
        Operation {
            kind,
            comm: std::ptr::null_mut(),
            count,
            datatype: DataType(datatype),
            peer,
            stream: std::ptr::null_mut(),
            all_reduce: None,
            by_pointer: false,
            send_counts: std::ptr::null(),
        }
    }

    #[test]
    fn calls_that_differ_in_kind_datatype_or_peer_are_of_different_sorts_and_none_is_of_no_sort() {
        let calls = [
            operation(Kind::AllReduce, 0, 0, -1),
            operation(Kind::AllReduce, 0, 7, -1),
            operation(Kind::Broadcast, 0, 7, 0),
            operation(Kind::Broadcast, 0, 7, 1),
            operation(Kind::Reduce, 0, 7, 1),
        ];
        for (place, one) in calls.iter().enumerate() {
            assert_ne!(sort(one), 0);
            assert!(calls.iter().skip(place + 1).all(|other| sort(one) != sort(other)));
        }
    }

    #[test]
    fn the_sizes_of_a_step_are_spread_over_the_table() {
        let places = |counts: &mut dyn Iterator<Item = usize>| {
            let mut used = [0; PLACES];
            counts.for_each(|count| {
                used[first_place(sort(&operation(Kind::AllReduce, count, 7, -1)), count) & !(WAYS - 1)] += 1
            });
            used.iter().filter(|used| **used > WAYS).count()
        };
        assert_eq!(places(&mut (0..16).map(|power| 64 << power)), 0);
        assert!(places(&mut (1..=16).map(|bucket| bucket * 6_553_600)) <= 1);
    }
}
