//! NCCL and RCCL on the CPU: the same C interface, real TCP between processes.
//!
//! An exported function fills a [`call::Call`] and hands it to [`group`]; at the end of the group
//! [`launch`] connects what is used for the first time and submits one operation per communicator
//! to the emulated GPU, where [`execute`] moves the data. [`communicator`] is what lives between
//! calls, [`net`] what lies between processes. It has what makes the real library hard to sit on
//! top of, and it refuses to hang where an application's mistake can be named instead.

pub mod availability;
mod call;
mod communicator;
mod elements;
mod error;
mod execute;
pub mod exports;
mod faults;
mod group;
mod launch;
mod net;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use availability::symbols_to_hide;

/// A panic never leaves half-made state behind these locks, so a poisoned one is used on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
