//! The one-way signal that a piece of work is done, which others wait for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Completion {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Completion {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn finish(&self) {
        *lock(&self.done) = true;
        self.changed.notify_all();
    }

    pub(super) fn is_done(&self) -> bool {
        *lock(&self.done)
    }

    pub(super) fn wait(&self) {
        let mut done = lock(&self.done);
        while !*done {
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A lock whose holder panicked still guards whole data here: each critical section
/// changes one thing, and panics of user code are caught outside of them.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
