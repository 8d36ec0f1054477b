//! What one thread keeps of the call and of the group that it is in the middle of. Part of the thread's own state:
//! plain memory without destructors.

use super::device_time::Sample;
use super::group::{GroupSample, MOST_SAMPLES};
use crate::communicators::Known;
use airamp_telemetry::{Reason, Recipe, Ticks, Times, now};
use airamp_vendor_abi::nccl::Stream;
use arrayvec::ArrayVec;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::sync::Mutex;

/// Unlike calls of one group that are kept in the thread's own memory, of which small stacks have little.
const IN_PLACE: usize = 4;
/// And how many more, at first, a list has room for that is taken for the others.
const ELSEWHERE: usize = 64;

/// Of so many calls of a thread one, by chance, has its time taken apart, and stands for all.
pub(super) const ONE_OF: u64 = 32;
/// Bits of the time at which a call came that decide it: low ones, as even as dice, but for those that some processors
/// keep at zero.
const CHANCE: u64 = (ONE_OF - 1) << 6;

/// Equal calls of an open group.
pub(super) struct Pending {
    pub(super) recipe: Recipe,
    pub(super) known: Option<Known>,
    pub(super) stream: Stream,
    pub(super) reason: Option<Reason>,
    pub(super) vendor: u8,
    pub(super) calls: u32,
}

impl Pending {
    fn is_like(&self, other: &Self) -> bool {
        self.known == other.known
            && self.stream == other.stream
            && self.vendor == other.vendor
            && self.recipe.shape() == other.recipe.shape()
            && self.reason == other.reason
    }
}

pub(crate) struct Tally {
    /// When the application's call came to us, and the time of it inside the vendor's functions so far.
    arrived: Cell<Ticks>,
    in_vendor: Cell<u64>,
    is_split: Cell<bool>,
    /// The device time that is being taken of the call.
    pub(super) sample: Cell<Option<Sample>>,
    /// Why the call goes to the vendor, where it might not have.
    pub(super) reason: Cell<Option<Reason>>,
    /// Bytes that the dry run before the call has sent.
    pub(super) dry_run: Cell<Option<u64>>,
    pending: UnsafeCell<ManuallyDrop<ArrayVec<Pending, IN_PLACE>>>,
    /// What found no place; null: nothing.
    more: Cell<*mut Vec<Pending>>,
    /// The device times that are being taken of the group.
    samples: [Cell<Option<GroupSample>>; MOST_SAMPLES],
    has_samples: Cell<bool>,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            arrived: Cell::new(Ticks(0)),
            in_vendor: Cell::new(0),
            is_split: Cell::new(false),
            sample: Cell::new(None),
            reason: Cell::new(None),
            dry_run: Cell::new(None),
            pending: UnsafeCell::new(ManuallyDrop::new(ArrayVec::new_const())),
            more: Cell::new(std::ptr::null_mut()),
            samples: [const { Cell::new(None) }; MOST_SAMPLES],
            has_samples: Cell::new(false),
        }
    }

    /// A call has come that is one function of the vendor's. Further time stamps cost more than all the rest, so that
    /// one call in some, by chance, has its time taken apart and stands for all.
    #[inline(always)]
    pub(super) fn arrive(&self, at: Ticks) {
        self.arrived.set(at);
        if at.0 & CHANCE == 0 {
            self.is_split.set(true);
            self.in_vendor.set(0);
        }
    }

    /// A call has come that may be more than one function of the vendor's, or none.
    pub(super) fn arrive_around(&self, at: Ticks) {
        self.arrived.set(at);
        self.is_split.set(true);
        self.in_vendor.set(0);
        self.reason.set(None);
        self.dry_run.set(None);
    }

    #[inline(always)]
    pub(super) fn arrived(&self) -> Ticks {
        self.arrived.get()
    }

    /// Whether the time inside the vendor's functions is taken apart.
    #[inline(always)]
    pub(crate) fn is_split(&self) -> bool {
        self.is_split.get()
    }

    #[inline]
    pub(crate) fn add_vendor_time(&self, since: Ticks) {
        self.in_vendor.set(self.in_vendor.get() + now().since(since));
    }

    /// The call's times so far, where they are known.
    #[inline(always)]
    pub(super) fn times(&self) -> Times {
        if self.is_split.get() { self.split_times() } else { Times::UNKNOWN }
    }

    #[cold]
    fn split_times(&self) -> Times {
        let (vendor, ours) = self.spent();
        Times::new(vendor, ours)
    }

    /// Of a call whose time is taken apart: ticks inside the vendor's functions so far, and ours.
    pub(super) fn spent(&self) -> (u64, u64) {
        let vendor = self.in_vendor.get();
        (vendor, now().since(self.arrived.get()).saturating_sub(vendor))
    }

    /// The call is over.
    pub(super) fn leave(&self) {
        self.is_split.set(false);
    }

    pub(super) fn set_reason(&self, reason: Reason) {
        self.reason.set(Some(reason));
    }

    /// Hands over why the call goes to the vendor, where it might not have.
    pub(crate) fn take_reason(&self) -> Option<Reason> {
        self.reason.take()
    }

    /// Before the vendor is called behind a dry run that has sent so many bytes.
    pub(crate) fn expect_trial(&self, sent_bytes: u64) {
        self.dry_run.set(Some(sent_bytes));
    }

    /// A call that was accepted into an open group.
    #[inline]
    pub(super) fn keep(&self, pending: Pending) {
        // SAFETY: this thread's own, and nothing here calls anybody.
        let list = unsafe { &mut *self.pending.get() };
        if let Some(like) = recent_like(list, &pending) {
            like.calls += 1;
        } else if list.is_full() {
            self.keep_elsewhere(pending);
        } else {
            list.push(pending);
        }
    }

    #[cold]
    fn keep_elsewhere(&self, pending: Pending) {
        if self.more.get().is_null() {
            self.more.set(SPARE.try_lock().ok().and_then(|mut spare| spare.0.pop()).unwrap_or_else(new_list));
        }
        // SAFETY: the list is this thread's alone while the group is open.
        let more = unsafe { &mut *self.more.get() };
        if let Some(like) = recent_like(more, &pending) {
            like.calls += 1;
        } else if more.try_reserve(1).is_ok() {
            // Without memory for it the call is not counted.
            more.push(pending);
        }
    }

    /// Whether an open group holds anything.
    #[inline(always)]
    pub(super) fn holds_any(&self) -> bool {
        // SAFETY: this thread's own.
        !unsafe { &*self.pending.get() }.is_empty() || !self.more.get().is_null()
    }

    /// Shows the calls of that vendor's group, in their order. `show` must not come back here.
    #[inline]
    pub(super) fn each(&self, vendor: u8, mut show: impl FnMut(&Pending)) {
        // SAFETY: this thread's own, and by its word `show` does not change it.
        for pending in unsafe { &*self.pending.get() }.iter() {
            if pending.vendor == vendor {
                show(pending);
            }
        }
        // SAFETY: null, or a list that is this thread's alone.
        if let Some(more) = unsafe { self.more.get().as_ref() } {
            more.iter().filter(|pending| pending.vendor == vendor).for_each(show);
        }
    }

    /// Hands over and forgets the calls of that vendor's group, in their order. `hand_over` must not come back here.
    #[inline]
    pub(super) fn take(&self, vendor: u8, mut hand_over: impl FnMut(&Pending)) {
        // SAFETY: as above.
        let list = unsafe { &mut *self.pending.get() };
        if list.iter().all(|pending| pending.vendor == vendor) {
            list.iter().for_each(&mut hand_over);
            list.clear();
        } else {
            // Another vendor's group is open on the same thread.
            list.iter().filter(|pending| pending.vendor == vendor).for_each(&mut hand_over);
            list.retain(|pending| pending.vendor != vendor);
        }
        if !self.more.get().is_null() {
            self.take_more(vendor, hand_over);
        }
    }

    #[cold]
    fn take_more(&self, vendor: u8, mut hand_over: impl FnMut(&Pending)) {
        // SAFETY: the list is this thread's alone.
        let more = unsafe { &mut *self.more.get() };
        more.iter().filter(|pending| pending.vendor == vendor).for_each(&mut hand_over);
        more.retain(|pending| pending.vendor != vendor);
        if !more.is_empty() {
            return;
        }
        let list = self.more.replace(std::ptr::null_mut());
        match SPARE.try_lock() {
            Ok(mut spare) => spare.0.push(list),
            // SAFETY: it came from a box, and nobody else has it.
            Err(_) => drop(unsafe { Box::from_raw(list) }),
        }
    }

    pub(super) fn has_room_for_sample(&self) -> bool {
        self.samples.iter().any(|place| place.get().is_none())
    }

    pub(super) fn keep_sample(&self, sample: GroupSample) {
        if let Some(place) = self.samples.iter().find(|place| place.get().is_none()) {
            place.set(Some(sample));
            self.has_samples.set(true);
        }
    }

    #[inline]
    pub(super) fn each_sample(&self, mut change: impl FnMut(&mut GroupSample)) {
        if self.has_samples.get() {
            for place in &self.samples {
                place.update(|sample| {
                    sample.map(|mut sample| {
                        change(&mut sample);
                        sample
                    })
                });
            }
        }
    }

    #[inline]
    pub(super) fn take_samples(&self, hand_over: impl FnMut(GroupSample)) {
        if self.has_samples.replace(false) {
            self.samples.iter().filter_map(Cell::take).for_each(hand_over);
        }
    }

    /// A forked child's thread is in no call and in no group. Only stores.
    pub(crate) fn clear(&self) {
        self.is_split.set(false);
        self.sample.set(None);
        self.reason.set(None);
        self.dry_run.set(None);
        // SAFETY: this thread's own, and the only thread that there is.
        unsafe { (*self.pending.get()).clear() };
        self.more.set(std::ptr::null_mut());
        self.has_samples.set(false);
        self.samples.iter().for_each(|sample| sample.set(None));
    }
}

/// Lists that are in no thread's hands. Only ever tried: who finds it locked makes a new list.
static SPARE: Mutex<Spare> = Mutex::new(Spare(Vec::new()));

struct Spare(Vec<*mut Vec<Pending>>);

// SAFETY: the lists in it are empty, and nobody else's.
unsafe impl Send for Spare {}

fn new_list() -> *mut Vec<Pending> {
    Box::into_raw(Box::new(Vec::with_capacity(ELSEWHERE)))
}

/// One of the last calls of a list that is like this one: messages come in pairs.
#[inline]
fn recent_like<'a>(list: &'a mut [Pending], pending: &Pending) -> Option<&'a mut Pending> {
    let recent = list.len().saturating_sub(2);
    list.get_mut(recent..).into_iter().flatten().find(|it| it.is_like(pending))
}
