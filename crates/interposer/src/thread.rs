//! What one thread is in the middle of: a vendor call, a group.
//!
//! Plain thread-local memory without destructors, so that a call from another
//! library's thread teardown still finds it. Nothing here allocates.

use crate::call_index::Generation;
use crate::communicators::{Entry, Facts, Known};
use crate::compression::{Fresh, HeldCalls};
use crate::telemetry::Tally;
use airamp_telemetry::Ticks;
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::cell::Cell;

/// Communicators that one group can involve, and that can be created in one. What does
/// not fit is not tracked.
pub(crate) const GROUP_CAPACITY: usize = 64;

/// Vendors that one process can use side by side.
pub(crate) const VENDORS: usize = 4;

/// Calls of a communicator that wait for the outermost end of the group.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    entry: &'static Entry,
    generation: Generation,
    pub(crate) calls: u32,
}

impl Waiting {
    pub(crate) fn known(&self) -> Known {
        Known { entry: self.entry, generation: self.generation }
    }

    fn is_of(&self, known: Known) -> bool {
        std::ptr::eq(self.entry, known.entry) && self.generation == known.generation
    }
}

/// A communicator whose handle the vendor writes at the outermost end of the group.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) at: *mut Comm,
    pub(crate) parent: Option<Known>,
    pub(crate) facts: Facts,
}

pub(crate) struct Thread {
    inside_vendor: Cell<bool>,
    depth: [Cell<u32>; VENDORS],
    waiting: List<Waiting>,
    expected: List<Expected>,
    /// Communicators that were made in the group.
    fresh: List<Fresh>,
    /// Calls that are kept back until the outermost end of the vendor's group; null: none.
    held: [Cell<*mut HeldCalls>; VENDORS],
    /// The first error of a call in the vendor's group that the vendor did not see.
    group_error: [Cell<NcclResult>; VENDORS],
    /// What telemetry keeps of the call and the group.
    pub(crate) tally: Tally,
}

// Else a call from another library's thread teardown would find it gone.
const _: () = assert!(!std::mem::needs_drop::<Thread>());

// It lies in the stack's own pages, and the least that a program may ask for are 16 KiB.
const _: () = assert!(size_of::<Thread>() <= 7 * 1024);

thread_local! {
    static THREAD: Thread = const {
        Thread {
            inside_vendor: Cell::new(false),
            depth: [const { Cell::new(0) }; VENDORS],
            waiting: List::new(),
            expected: List::new(),
            fresh: List::new(),
            held: [const { Cell::new(std::ptr::null_mut()) }; VENDORS],
            group_error: [const { Cell::new(NcclResult::SUCCESS) }; VENDORS],
            tally: Tally::new(),
        }
    };
}

/// The calling thread's state, for the path of every call: a closure around all of it would be a function of its own.
#[inline(always)]
pub(crate) fn current() -> &'static Thread {
    let thread = THREAD.with(std::ptr::from_ref);
    // SAFETY: it has no destructor, so that it is there as long as the thread; and a reference to it cannot leave the
    // thread, since what it refers to must not be shared.
    unsafe { &*thread }
}

/// Runs `part` on the calling thread's state.
#[inline]
pub(crate) fn with<R>(part: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(part)
}

impl Thread {
    /// Whether the thread is inside a vendor call that came through us: a vendor may call its own exports.
    #[inline]
    pub(crate) fn is_inside_vendor(&self) -> bool {
        self.inside_vendor.get()
    }

    /// Runs a vendor call, marked as such.
    #[inline]
    pub(crate) fn inside_vendor<R>(&self, call: impl FnOnce() -> R) -> R {
        self.inside_vendor.set(true);
        // Also where the vendor leaves by an exception.
        let _left = Leaving { thread: self, entered: self.tally.is_split().then(airamp_telemetry::now) };
        call()
    }

    pub(crate) fn group_depth(&self, vendor: u8) -> u32 {
        self.depth[usize::from(vendor)].get()
    }

    pub(crate) fn set_group_depth(&self, vendor: u8, depth: u32) {
        self.depth[usize::from(vendor)].set(depth);
    }

    /// Keeps a reserved call until the outermost end of the group. False: there is no room.
    pub(crate) fn wait_for_group_end(&self, known: Known) -> bool {
        for place in self.waiting.used() {
            if let Some(waiting) = place.get().filter(|waiting| waiting.is_of(known)) {
                place.set(Some(Waiting { calls: waiting.calls + 1, ..waiting }));
                return true;
            }
        }
        self.waiting.push(Waiting { entry: known.entry, generation: known.generation, calls: 1 })
    }

    /// Shows the communicators with calls in that vendor's group that wait for its end.
    pub(crate) fn each_waiting(&self, vendor: u8, mut show: impl FnMut(Known)) {
        let of_vendor = |waiting: &Waiting| waiting.entry.vendor() == vendor;
        let waiting = self.waiting.used().iter().filter_map(Cell::get).filter(of_vendor);
        waiting.for_each(|waiting| show(waiting.known()));
    }

    /// Keeps the place where a communicator will be written. False: there is no room.
    pub(crate) fn expect_communicator(&self, expected: Expected) -> bool {
        self.expected.push(expected)
    }

    /// Keeps a communicator that was made in the group. False: there is no room.
    pub(crate) fn remember_fresh(&self, fresh: Fresh) -> bool {
        self.fresh.push(fresh)
    }

    #[inline]
    pub(crate) fn has_fresh(&self) -> bool {
        self.fresh.length.get() > 0
    }

    /// Shows the communicators that were made in that vendor's group so far.
    pub(crate) fn each_fresh(&self, vendor: u8, show: impl FnMut(Fresh)) {
        let of_vendor = |fresh: &Fresh| fresh.known.entry.vendor() == vendor;
        self.fresh.used().iter().filter_map(Cell::get).filter(of_vendor).for_each(show);
    }

    /// Hands over and forgets the communicators that were made in that vendor's group.
    pub(crate) fn take_fresh(&self, vendor: u8, mut hand_over: impl FnMut(Fresh)) {
        self.fresh.take(|fresh| fresh.known.entry.vendor() == vendor, &mut hand_over);
    }

    /// The calls that are kept back in that vendor's group, to be put back or freed by who takes them.
    pub(crate) fn take_held(&self, vendor: u8) -> *mut HeldCalls {
        self.held[usize::from(vendor)].replace(std::ptr::null_mut())
    }

    pub(crate) fn put_held(&self, vendor: u8, held: *mut HeldCalls) {
        self.held[usize::from(vendor)].set(held);
    }

    /// A call of the open group has failed, so that its end must fail too.
    pub(crate) fn fail_group(&self, vendor: u8, error: NcclResult) {
        let place = &self.group_error[usize::from(vendor)];
        if self.group_depth(vendor) > 0 && place.get() == NcclResult::SUCCESS {
            place.set(error);
        }
    }

    /// Hands over and forgets the error of the vendor's group.
    pub(crate) fn take_group_error(&self, vendor: u8) -> NcclResult {
        self.group_error[usize::from(vendor)].replace(NcclResult::SUCCESS)
    }

    pub(crate) fn group_has_failed(&self, vendor: u8) -> bool {
        self.group_error[usize::from(vendor)].get() != NcclResult::SUCCESS
    }

    pub(crate) fn holds_calls(&self, vendor: u8) -> bool {
        !self.held[usize::from(vendor)].get().is_null()
    }

    /// Hands over and forgets what waited for the end of that vendor's group.
    pub(crate) fn settle_group(
        &self,
        vendor: u8,
        mut waiting: impl FnMut(Waiting),
        mut expected: impl FnMut(Expected),
    ) {
        self.waiting.take(|call| call.entry.vendor() == vendor, &mut waiting);
        self.expected.take(|creation| creation.facts.vendor == vendor, &mut expected);
    }

    /// A forked child's thread is in no group and in no vendor call. Only stores.
    pub(crate) fn clear(&self) {
        self.inside_vendor.set(false);
        self.depth.iter().for_each(|depth| depth.set(0));
        self.waiting.length.set(0);
        self.expected.length.set(0);
        self.fresh.length.set(0);
        // What was held back is the parent's.
        self.held.iter().for_each(|held| held.set(std::ptr::null_mut()));
        self.group_error.iter().for_each(|error| error.set(NcclResult::SUCCESS));
        self.tally.clear();
    }
}

struct Leaving<'a> {
    thread: &'a Thread,
    /// Where the time inside is taken.
    entered: Option<Ticks>,
}

impl Drop for Leaving<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(entered) = self.entered {
            self.thread.tally.add_vendor_time(entered);
        }
        self.thread.inside_vendor.set(false);
    }
}

/// A list of bounded length in place.
struct List<T> {
    length: Cell<usize>,
    places: [Cell<Option<T>>; GROUP_CAPACITY],
}

impl<T: Copy> List<T> {
    const fn new() -> Self {
        Self { length: Cell::new(0), places: [const { Cell::new(None) }; GROUP_CAPACITY] }
    }

    fn used(&self) -> &[Cell<Option<T>>] {
        &self.places[..self.length.get().min(GROUP_CAPACITY)]
    }

    fn push(&self, value: T) -> bool {
        let length = self.length.get();
        let Some(place) = self.places.get(length) else {
            return false;
        };
        place.set(Some(value));
        self.length.set(length + 1);
        true
    }

    /// Removes what `belongs` and hands it over; what belongs to another vendor's group, open on
    /// the same thread, stays.
    fn take(&self, belongs: impl Fn(&T) -> bool, hand_over: &mut impl FnMut(T)) {
        let taken = self.used();
        self.length.set(0);
        for value in taken.iter().filter_map(Cell::get) {
            if belongs(&value) {
                hand_over(value);
            } else {
                self.push(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_what_belongs_to_others_and_refuses_what_has_no_room() {
        let list = List::new();
        (0..GROUP_CAPACITY).for_each(|number| assert!(list.push(number)));
        assert!(!list.push(99));
        let mut even = Vec::new();
        list.take(|number| number % 2 == 0, &mut |number| even.push(number));
        assert_eq!(even.len(), GROUP_CAPACITY / 2);
        assert!(list.used().iter().all(|place| place.get().unwrap() % 2 == 1));
        assert!(list.push(99));
    }
}
