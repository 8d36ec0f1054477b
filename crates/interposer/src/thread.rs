//! What one thread is in the middle of: a vendor call, a group.
//!
//! Plain thread-local memory without destructors, so that a call from another
//! library's thread teardown still finds it. Nothing here allocates.

use crate::call_index::Generation;
use crate::communicators::{Entry, Facts, Known};
use airamp_vendor_abi::nccl::Comm;
use std::cell::Cell;

/// Communicators that one group can involve, and that can be created in one. What does
/// not fit is not tracked.
const GROUP_CAPACITY: usize = 64;

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
    pub(crate) facts: Facts,
}

struct Thread {
    inside_vendor: Cell<bool>,
    depth: [Cell<u32>; VENDORS],
    waiting: [Cell<Option<Waiting>>; GROUP_CAPACITY],
    expected: [Cell<Option<Expected>>; GROUP_CAPACITY],
    /// Whether any of `waiting` or `expected` is in use.
    pending: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            inside_vendor: Cell::new(false),
            depth: [const { Cell::new(0) }; VENDORS],
            waiting: [const { Cell::new(None) }; GROUP_CAPACITY],
            expected: [const { Cell::new(None) }; GROUP_CAPACITY],
            pending: Cell::new(false),
        }
    };
}

/// Whether this thread is inside a vendor call that came through us: a vendor may call its own exports.
#[inline]
pub(crate) fn is_inside_vendor() -> bool {
    THREAD.with(|thread| thread.inside_vendor.get())
}

/// Runs a vendor call, marked as such.
#[inline]
pub(crate) fn inside_vendor<R>(call: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| thread.inside_vendor.set(true));
    let result = call();
    THREAD.with(|thread| thread.inside_vendor.set(false));
    result
}

pub(crate) fn group_depth(vendor: u8) -> u32 {
    THREAD.with(|thread| thread.depth[usize::from(vendor)].get())
}

pub(crate) fn set_group_depth(vendor: u8, depth: u32) {
    THREAD.with(|thread| thread.depth[usize::from(vendor)].set(depth));
}

/// Keeps a reserved call until the outermost end of the group. False: there is no room.
pub(crate) fn wait_for_group_end(known: Known) -> bool {
    THREAD.with(|thread| {
        thread.pending.set(true);
        for place in &thread.waiting {
            match place.get() {
                None => {
                    place.set(Some(Waiting { entry: known.entry, generation: known.generation, calls: 1 }));
                    return true;
                }
                Some(waiting) if waiting.is_of(known) => {
                    place.set(Some(Waiting { calls: waiting.calls + 1, ..waiting }));
                    return true;
                }
                Some(_) => {}
            }
        }
        false
    })
}

/// Keeps the place where a communicator will be written. False: there is no room.
pub(crate) fn expect_communicator(expected: Expected) -> bool {
    THREAD.with(|thread| {
        thread.pending.set(true);
        let free = thread.expected.iter().find(|place| place.get().is_none());
        free.inspect(|place| place.set(Some(expected))).is_some()
    })
}

/// Hands over and forgets what waited for the end of that vendor's group.
pub(crate) fn settle_group(vendor: u8, mut waiting: impl FnMut(Waiting), mut expected: impl FnMut(Expected)) {
    THREAD.with(|thread| {
        if !thread.pending.replace(false) {
            return;
        }
        for place in &thread.waiting {
            match place.take() {
                Some(call) if call.entry.vendor() == vendor => waiting(call),
                other => keep(thread, place, other),
            }
        }
        for place in &thread.expected {
            match place.take() {
                Some(creation) if creation.facts.vendor == vendor => expected(creation),
                other => keep(thread, place, other),
            }
        }
    });
}

/// Puts back what belongs to another vendor's group, open on the same thread.
fn keep<T: Copy>(thread: &Thread, place: &Cell<Option<T>>, value: Option<T>) {
    if value.is_some() {
        thread.pending.set(true);
    }
    place.set(value);
}

/// A forked child's thread is in no group and in no vendor call. Only stores.
pub(crate) fn clear() {
    THREAD.with(|thread| {
        thread.inside_vendor.set(false);
        thread.pending.set(false);
        thread.depth.iter().for_each(|depth| depth.set(0));
        thread.waiting.iter().for_each(|place| place.set(None));
        thread.expected.iter().for_each(|place| place.set(None));
    });
}
