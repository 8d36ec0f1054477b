//! The end of the process, or of the communicator for which the thread was started: driver or context may be taken down
//! while our thread still runs, and must not be called then. The thread says before each series of GPU calls that it
//! is inside; who leaves forbids more and waits, bounded.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

static IS_LEAVING: AtomicBool = AtomicBool::new(false);
/// How many threads are inside: one whose turn is over may still be there beside the next.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Whose turn it is: a thread with another number is over.
static TURN: AtomicU32 = AtomicU32::new(0);

const MOST_WAITS: u32 = 100;
const WAIT: Duration = Duration::from_millis(1);

/// While it lives, the process does not leave.
pub(super) struct Inside;

impl Inside {
    /// `None`: the process is leaving, or the thread's communicator has ended.
    pub(super) fn enter(turn: u32) -> Option<Self> {
        // Sequentially consistent, and so are those who leave: one of the two sees the other.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Self;
        (!IS_LEAVING.load(Ordering::SeqCst) && TURN.load(Ordering::SeqCst) == turn).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A turn for a new thread. From here on the end of the process waits for it. Registered after the driver, the handler
/// runs before the driver's own end.
pub(super) fn watch() -> u32 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the library is never unloaded, and the handler neither panics nor exits.
        unsafe { libc::atexit(leave) };
    });
    TURN.load(Ordering::SeqCst)
}

/// The turn of the thread that there is, is over.
pub(super) fn end_thread() {
    TURN.fetch_add(1, Ordering::SeqCst);
    wait();
}

/// Asked now and then, so that a thread whose turn is over does not sleep on for ever.
pub(super) fn is_over(turn: u32) -> bool {
    IS_LEAVING.load(Ordering::Relaxed) || TURN.load(Ordering::Relaxed) != turn
}

/// A thread that ended while the driver is taken down would run the driver's own destructors: it stays instead.
pub(super) fn stay_if_leaving() {
    while IS_LEAVING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

extern "C" fn leave() {
    IS_LEAVING.store(true, Ordering::SeqCst);
    wait();
}

/// Until the thread makes no GPU call, bounded.
pub(super) fn wait() {
    for _ in 0..MOST_WAITS {
        if INSIDE.load(Ordering::SeqCst) == 0 {
            return;
        }
        std::thread::sleep(WAIT);
    }
}

/// A forked child has no such thread.
pub(super) fn abandon() {
    IS_LEAVING.store(false, Ordering::Relaxed);
    INSIDE.store(0, Ordering::Relaxed);
}
