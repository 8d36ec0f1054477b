//! The `ncclComm_t` values: addresses of slots, and the communicators behind them.
//!
//! A slot is never given back to the allocator, so that a stale handle can be looked at; it is
//! reused for the next communicator at once, last freed first, because the real library's
//! addresses come back too and whoever keys by address has to bear it.

use std::sync::{Arc, Mutex, RwLock};

use airamp_vendor_abi::nccl::Comm;

use super::Communicator;
use crate::nccl::error::{NcclError, Outcome, announce};
use crate::nccl::{lock, read_lock, write_lock};

const SLAB: usize = 64;

type Slot = Mutex<Option<Arc<Communicator>>>;

static SLABS: RwLock<Vec<&'static [Slot; SLAB]>> = RwLock::new(Vec::new());
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// Gives a communicator its handle.
pub(crate) fn register(comm: Arc<Communicator>) -> Comm {
    let slot = free_slot();
    *lock(slot) = Some(comm);
    std::ptr::from_ref(slot).cast_mut().cast()
}

fn free_slot() -> &'static Slot {
    let mut free = lock(&FREE);
    if let Some(slot) = free.pop() {
        return slot;
    }
    let slab: &'static [Slot; SLAB] = Box::leak(Box::new(std::array::from_fn(|_| Mutex::new(None))));
    write_lock(&SLABS).push(slab);
    free.extend(slab[1..].iter().rev());
    &slab[0]
}

/// The communicator behind a handle.
pub(crate) fn lookup(handle: Comm, function: &str) -> Outcome<Arc<Communicator>> {
    let slot = slot_of(handle, function)?;
    lock(slot).clone().ok_or_else(|| destroyed(handle, function))
}

/// Takes a communicator away from its handle, which may be reused from now on.
pub(crate) fn remove(handle: Comm, function: &str) -> Outcome<Arc<Communicator>> {
    let slot = slot_of(handle, function)?;
    let comm = lock(slot).take().ok_or_else(|| destroyed(handle, function))?;
    lock(&FREE).push(slot);
    Ok(comm)
}

fn slot_of(handle: Comm, function: &str) -> Outcome<&'static Slot> {
    if handle.is_null() {
        return Err(NcclError::InvalidArgument(format!("{function}: the communicator is NULL")));
    }
    let address = handle as usize;
    for slab in read_lock(&SLABS).iter() {
        let offset = address.wrapping_sub(slab.as_ptr() as usize);
        if offset < size_of_val(*slab) && offset.is_multiple_of(size_of::<Slot>()) {
            return Ok(&slab[offset / size_of::<Slot>()]);
        }
    }
    let text = format!("{function}: {handle:p} is not a communicator");
    announce(&text);
    Err(NcclError::InvalidArgument(text))
}

fn destroyed(handle: Comm, function: &str) -> NcclError {
    let text = format!("{function} was called with communicator {handle:p}, which was destroyed");
    announce(&text);
    NcclError::InvalidArgument(text)
}
