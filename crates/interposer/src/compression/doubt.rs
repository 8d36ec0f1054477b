//! A function of the vendor's failed on this rank, and its peers may have gone on.
//!
//! A call that the vendor turned down for its arguments has had no effect: the application puts it right, and
//! its index is free again. Any other failure leaves it open what this rank has put on the wire (of a group the
//! vendor may have launched a part) and what the peers have: they count the call, and here its index would go to
//! the next one. So a communicator that compresses fails from there on, with what the vendor said, whether the call was
//! to be compressed or not. A captured call is not on the wire, whatever became of it (one that is compressed
//! fails its communicator elsewhere, since half of it stays in the graph). One that does not compress has no index that anybody goes by, and is as it is without us.

use super::held::{Held, State};
use super::route::{is_captured, poison};
use crate::calls::{GroupCall, Operation};
use crate::communicators::Known;
use crate::dispatch::Ticket;
use crate::thread::{GROUP_CAPACITY, Thread};
use airamp_vendor_abi::nccl::NcclResult;
use arrayvec::ArrayVec;

const FAILED: &str = "a call of the vendor's failed here, and the peers may have gone on";
const HALF_DONE: &str = "a group failed after a part of it had taken effect";
const THREW: &str = "the vendor left a call by an exception, and the peers may have gone on";

/// Whether a call with that result was turned down for its arguments. Of a group's end it says so only if one of
/// the group's calls was: by itself it may come late, when a part is launched.
pub(super) fn is_refusal(result: NcclResult) -> bool {
    matches!(result, NcclResult::INVALID_ARGUMENT | NcclResult::INVALID_USAGE)
}

fn fail(known: Known, result: NcclResult, reason: &str) {
    if known.is_current() && known.entry.is_active() && !known.entry.is_poisoned() {
        poison(known, result, reason);
    }
}

/// One call that goes to the vendor at once.
pub(super) struct OneCall<'a>(Option<Known>, &'a Operation);

impl<'a> OneCall<'a> {
    pub(super) fn of(ticket: Ticket, operation: &'a Operation) -> Self {
        match ticket {
            Ticket::Reserved(known, _) | Ticket::Unnumbered(known) => Self(Some(known), operation),
            _ => Self(None, operation),
        }
    }

    pub(super) fn settle(mut self, result: NcclResult) {
        let known = self.0.take();
        if !result.is_accepted() && !is_refusal(result) {
            let known = known.filter(|known| !is_captured(*known, self.1).unwrap_or(false));
            known.into_iter().for_each(|known| fail(known, result, FAILED));
        }
    }
}

impl Drop for OneCall<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|known| fail(*known, NcclResult::INTERNAL_ERROR, THREW));
    }
}

/// The communicators whose calls are in the vendor's open group already: their arguments could not be kept.
pub(super) struct InTheGroup(ArrayVec<Known, GROUP_CAPACITY>);

impl InTheGroup {
    pub(super) fn of(thread: &Thread, vendor: u8, how: GroupCall) -> Self {
        let mut list = ArrayVec::new();
        // What is simulated is launched nowhere.
        if how == GroupCall::End {
            thread.each_waiting(vendor, |known| _ = list.try_push(known));
        }
        Self(list)
    }

    /// The vendor's group has ended so, and the `whole` group, with what was kept back of it, so. With a call in it that
    /// was `refused`, the vendor has launched none of them.
    pub(super) fn settle(mut self, vendors: NcclResult, whole: NcclResult, refused: bool) {
        let list = std::mem::take(&mut self.0);
        let (result, reason) = match vendors.is_accepted() {
            true if whole.is_accepted() => return,
            true => (NcclResult::INTERNAL_ERROR, HALF_DONE),
            false if refused && is_refusal(vendors) => return,
            false => (vendors, FAILED),
        };
        list.into_iter().for_each(|known| fail(known, result, reason));
    }
}

impl Drop for InTheGroup {
    fn drop(&mut self) {
        self.0.iter().for_each(|known| fail(*known, NcclResult::INTERNAL_ERROR, THREW));
    }
}

/// Calls that are kept back, until the vendor has returned: should it leave by an exception, nobody knows
/// which of them took place.
pub(super) struct Kept<'a>(pub(super) &'a [Held]);

impl<'a> Kept<'a> {
    pub(super) fn returned(self) -> &'a [Held] {
        let calls = self.0;
        std::mem::forget(self);
        calls
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        fail_all(self.0, |held| held.state != State::Dropped, NcclResult::INTERNAL_ERROR, THREW);
    }
}

/// Those calls were in the vendor's hands, or were to be, when it failed.
pub(super) fn fail_those(calls: &[Held], which: impl Fn(&Held) -> bool, result: NcclResult) {
    fail_all(calls, which, result, FAILED);
}

/// A part of the group is on the wire already: the application takes it that nothing has happened, and the peers that
/// everything has. Not what the vendor said of another part, which had no effect.
pub(super) fn fail_posted(calls: &[Held]) {
    let is_posted = |held: &Held| held.tried.is_some() || held.state == State::Done;
    fail_all(calls, is_posted, NcclResult::INTERNAL_ERROR, HALF_DONE);
}

fn fail_all(calls: &[Held], which: impl Fn(&Held) -> bool, result: NcclResult, reason: &str) {
    let those = calls.iter().filter(|held| which(held));
    let known = those.filter_map(|held| Some((held.known?, &held.operation)));
    let on_the_wire = known.filter(|(known, operation)| !is_captured(*known, operation).unwrap_or(false));
    on_the_wire.for_each(|(known, _)| fail(known, result, reason));
}
