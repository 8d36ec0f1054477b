//! Arenas whose communicators have ended: given back as soon as the device is done with them, no
//! graph holds them, and no thread of ours is still inside.

use super::Active;
use crate::communicators::{Entry, Known};
use crate::log;
use std::sync::Mutex;

struct Retired {
    active: *mut Active,
    entry: &'static Entry,
}

// SAFETY: what it points to has no owner but this list, and is usable from any thread.
unsafe impl Send for Retired {}

/// Held for moments only, never across a call of the driver's.
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// Takes compression away from a communicator that has ended, and gives back what can be given back. Who aborts makes
/// no GPU call here: it could wait for another communicator that is to be aborted next.
pub(crate) fn retire(known: Known, is_aborted: bool) {
    if let Some(active) = known.deactivate() {
        // SAFETY: only `sweep` frees it, and it is not in its list yet.
        let ended = unsafe { &*active };
        // A driver that no longer answers may have unmapped what it counts in.
        if !is_aborted && !ended.lane().is_lost() && ended.lane().is_idle().is_ok() {
            ended.tell_counters();
        }
        shelve(active, known);
    }
    if !is_aborted {
        sweep();
    }
}

/// The same for what its communicator never used.
pub(super) fn put_aside(active: Box<Active>, known: Known) {
    shelve(Box::into_raw(active), known);
}

fn shelve(active: *mut Active, known: Known) {
    // A lock that cannot be had: kept for ever rather than freed too early.
    if let Ok(mut retired) = RETIRED.lock() {
        retired.push(Retired { active, entry: known.entry });
    }
}

/// Gives back what is no longer in use. Called where communicators come and go. False: something is left.
pub(crate) fn sweep() -> bool {
    // Taken out, so that nobody who adds to it waits for the driver; another sweep meanwhile finds nothing to do.
    let Ok(mut found) = RETIRED.lock().map(|mut retired| std::mem::take(&mut *retired)) else {
        return true;
    };
    found.retain(|it| match what_is_left(it) {
        Left::InUse => true,
        Left::Unused => {
            // SAFETY: nobody else has it: it is out of the table, and nobody holds a pin.
            drop(unsafe { Box::from_raw(it.active) });
            log::debug(format_args!("an arena was given back"));
            false
        }
        Left::Lost => {
            log::debug(format_args!("an arena is gone with its context"));
            false
        }
    });
    let is_all = found.is_empty();
    if let Ok(mut retired) = RETIRED.lock() {
        retired.append(&mut found);
    }
    is_all
}

enum Left {
    /// Something may still use it.
    InUse,
    Unused,
    /// What it has is gone, and is not to be touched.
    Lost,
}

fn what_is_left(retired: &Retired) -> Left {
    // SAFETY: only `sweep` frees it, and takes it out of the list.
    let lane = unsafe { &*retired.active }.lane();
    match () {
        () if retired.entry.is_pinned() => Left::InUse,
        () if lane.is_lost() => Left::Lost,
        () if lane.is_idle().unwrap_or(false) => Left::Unused,
        () => Left::InUse,
    }
}
