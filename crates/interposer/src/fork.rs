//! A forked child: it owns none of its parent's communicators and is in none of its calls.
//! It stays out of everything until it makes a communicator of its own.

use crate::{communicators, compression, ghosts, telemetry, thread};
use std::sync::atomic::{AtomicBool, Ordering};

static BYSTANDER: AtomicBool = AtomicBool::new(false);

pub(crate) fn watch() {
    // SAFETY: the handler only stores and closes descriptors, and the library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

unsafe extern "C" fn in_child() {
    BYSTANDER.store(true, Ordering::Relaxed);
    airamp_control::abandon_in_child();
    telemetry::abandon();
    ghosts::abandon();
    communicators::clear();
    compression::clear();
    thread::with(thread::Thread::clear);
}

/// Whether this process is a child that has made no communicator yet.
pub(crate) fn is_bystander() -> bool {
    BYSTANDER.load(Ordering::Relaxed)
}

pub(crate) fn owns_communicators_now() {
    BYSTANDER.store(false, Ordering::Relaxed);
}
