//! A communicator that the vendor has made, and whose ranks could not be connected afterwards: its creation fails as a
//! creation of the vendor's does. Outside a group nobody has the handle yet, so that it is aborted here, which frees the
//! peers that wait for this rank in the vendor's code. In a group the handles are the application's already: nothing
//! is freed, and the end of the group returns the error. Called by `lifecycle` and `dispatch`.

use crate::calls::Ending;
use crate::communicators::Origin;
use crate::compression::Fresh;
use crate::thread::Thread;
use crate::{compression, errno, lifecycle, log, telemetry, vendors};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use std::time::Duration;

const SWEEPS: u32 = 20;

/// Where the application finds what one call has made.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub(crate) at: *mut Comm,
    pub(crate) count: usize,
    /// Whether it may share resources with what it was made from.
    pub(crate) shares: bool,
}

impl Places {
    fn of(self, comm: Comm) -> Option<*mut Comm> {
        let mut places = (0..self.count).map(|number| self.at.wrapping_add(number));
        // SAFETY: the vendor has just written a handle to each of these places.
        places.find(|place| unsafe { place.read_volatile() } == comm)
    }
}

/// What keeps these communicators from being used, if anything does.
pub(crate) fn first_error(fresh: &[Fresh]) -> Option<NcclResult> {
    fresh.iter().find_map(|fresh| fresh.known.entry.poison())
}

/// By these NCCL is told, whatever configurations say, that children share with their parents.
const SHARING: [&str; 2] = ["NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_COMM_SHRINK_SHARE_RESOURCES"];

/// To abort one that shares with its parent would abort the parent, which the application goes on with.
fn may_share(fresh: &[Fresh], places: Places) -> bool {
    let first_made = [Origin::Created, Origin::CreatedAll].map(|origin| origin as u8);
    let is_derived = fresh.iter().any(|fresh| !first_made.contains(&fresh.known.entry.origin()));
    let is_asked = |name: &str| std::env::var(name).is_ok_and(|value| !["", "0"].contains(&value.trim()));
    places.shares || is_derived && SHARING.iter().any(|name| is_asked(name))
}

/// Takes back all that one call has made. What cannot be taken back stays with the application, and fails.
pub(crate) fn all(thread: &Thread, fresh: &[Fresh], places: Places, error: NcclResult) {
    let _errno = errno::keep();
    // Before the first is aborted: they may be ranks of one communicator.
    fresh.iter().for_each(|fresh| fresh.known.poison_as(error));
    let may_share = may_share(fresh, places);
    for fresh in fresh {
        if may_share || !one(thread, *fresh, places) {
            log::error(format_args!("communicator {:p}: cannot be aborted here, and only fails", fresh.comm));
        }
    }
    // Not before the last is aborted: to free memory may wait for what the device still does for another. The device needs
    // a moment to pass what was aborted; else it is given back when the next communicator comes or goes.
    for _ in 0..SWEEPS {
        if compression::sweep() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// False: the vendor cannot abort it, a thread of ours is still inside, or the application ends it at this moment.
fn one(thread: &Thread, fresh: Fresh, places: Places) -> bool {
    let Fresh { known, comm } = fresh;
    let vendor = vendors::at(usize::from(known.entry.vendor()));
    let Some(abort) = vendor.and_then(|vendor| vendor.functions.ncclCommAbort) else {
        return false;
    };
    let Some(place) = places.of(comm) else { return false };
    match known.begin_to_take_back() {
        // A watchdog that read the handle before this call returned: it is the one that ends it.
        None => return false,
        Some(false) => {
            known.cancel_take_back();
            return false;
        }
        Some(true) => {}
    }
    // First, so that whatever happens the application finds no handle to what is gone.
    write(place, std::ptr::null_mut());
    telemetry::entering_end(thread, known);
    // SAFETY: the vendor made it in this call; nobody else ends it, and nobody of ours holds a pin.
    let result = thread.inside_vendor(|| unsafe { abort(comm) });
    telemetry::left(known);
    lifecycle::ended(Ending::Abort, known, result);
    if !result.is_accepted() {
        known.cancel_take_back();
        write(place, comm);
    }
    result.is_accepted()
}

fn write(place: *mut Comm, comm: Comm) {
    // SAFETY: the vendor has just written there, and until the call has returned nobody reads it.
    unsafe { place.write_volatile(comm) };
}
