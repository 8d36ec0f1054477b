//! User objects: reference-counted things of the application that graphs keep alive.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use airamp_vendor_abi::cuda::{CudaError, HostFn};

use super::Answer;
use super::handles::Handles;

pub struct UserObject {
    data: usize,
    destroy: HostFn,
    references: AtomicUsize,
}

static OBJECTS: Handles<UserObject> = Handles::new();

/// Makes an object of which the caller has `references`.
pub fn create(data: *mut c_void, destroy: HostFn, references: u32) -> Answer<usize> {
    if references == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(OBJECTS.insert(UserObject {
        data: data as usize,
        destroy,
        references: AtomicUsize::new(references as usize),
    }))
}

pub fn retain(object: usize, count: u32) -> Answer<()> {
    let object = OBJECTS.get(object)?;
    object.references.fetch_add(count as usize, Ordering::Relaxed);
    Ok(())
}

pub fn release(object: usize, count: u32) -> Answer<()> {
    let found = OBJECTS.get(object)?;
    if drop_references(&found, count as usize) {
        OBJECTS.remove(object)?;
    }
    Ok(())
}

/// Whether that was the last reference; the application's function has then run.
fn drop_references(object: &UserObject, count: usize) -> bool {
    let before = object.references.fetch_sub(count, Ordering::AcqRel);
    if before != count {
        return false;
    }
    // SAFETY: the application gave this function for this pointer, to be called once at
    // the last release, which this is.
    unsafe { (object.destroy)(object.data as *mut c_void) };
    true
}

/// References that a graph holds, given back when dropped.
pub(super) struct Held {
    object: Arc<UserObject>,
    handle: usize,
    count: u32,
}

impl Held {
    /// With `take_over` the references are the caller's, otherwise new ones.
    pub(super) fn new(handle: usize, count: u32, take_over: bool) -> Answer<Self> {
        let object = OBJECTS.get(handle)?;
        if !take_over {
            retain(handle, count)?;
        }
        Ok(Self { object, handle, count })
    }

    pub(super) fn is_of(&self, handle: usize) -> bool {
        self.handle == handle
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Gives back some; `false` if more than are held.
    pub(super) fn reduce(&mut self, count: u32) -> bool {
        if count > self.count {
            return false;
        }
        self.count -= count;
        drop_references(&self.object, count as usize);
        true
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        let count = self.count;
        let object = Arc::clone(&self.object);
        object.references.fetch_add(count as usize, Ordering::Relaxed);
        let handle = self.handle;
        Self { object, handle, count }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.count > 0 && drop_references(&self.object, self.count as usize) {
            // Gone already if the application released it in the meantime.
            let _removed = OBJECTS.remove(self.handle);
        }
    }
}
