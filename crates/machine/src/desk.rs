//! A thread that answers questions, its last answer, and who waits for a new one. The asker waits as long as it likes
//! and no longer; a thread that never answers is left behind, not joined.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that has been at one question for so long is not waited for any more, until it answers.
pub(crate) const SILENT: Duration = Duration::from_secs(5);

/// The asker's end.
pub(crate) struct Worker<T> {
    shared: Arc<Shared<T>>,
}

/// The answering thread's end.
pub(crate) struct Desk<T> {
    shared: Arc<Shared<T>>,
}

/// What the asker gets: the last answer, whatever its age.
pub(crate) struct Answer<T> {
    pub(crate) value: Option<Arc<T>>,
    pub(crate) age: Option<Duration>,
    /// How long the thread has been at the present question.
    pub(crate) silent_for: Option<Duration>,
    /// The thread has ended; there will be no other answer.
    pub(crate) gone: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    asked: bool,
    busy_since: Option<Instant>,
    closing: bool,
    gone: bool,
    last: Option<(Arc<T>, Instant)>,
}

impl<T: Send + Sync + 'static> Worker<T> {
    pub(crate) fn start(name: &str, body: impl FnOnce(&Desk<T>) + Send + 'static) -> Self {
        let state = State { asked: false, busy_since: None, closing: false, gone: false, last: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        // Its end is noticed by the desk's drop, also if it could not start or if the body panics.
        let desk = Desk { shared: Arc::clone(&shared) };
        let _ = thread::Builder::new().name(name.to_owned()).spawn(move || body(&desk));
        Self { shared }
    }

    /// Has a new answer made unless the last one is younger than `fresh_for`.
    pub(crate) fn ask(&self, fresh_for: Duration) {
        let mut state = self.shared.lock();
        let fresh = state.last.as_ref().is_some_and(|(_, at)| at.elapsed() < fresh_for);
        if !fresh && !state.gone && state.busy_since.is_none() {
            state.asked = true;
            self.shared.changed.notify_all();
        }
    }

    /// The answer, once there is one to what was asked, or at `deadline` the one before.
    pub(crate) fn answer(&self, deadline: Instant) -> Answer<T> {
        let mut state = self.shared.lock();
        while (state.asked || state.busy_since.is_some()) && !state.gone {
            let left = deadline.saturating_duration_since(Instant::now());
            let hangs = state.busy_since.is_some_and(|since| since.elapsed() >= SILENT);
            if left.is_zero() || hangs {
                break;
            }
            let woken = self.shared.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Answer {
            value: state.last.as_ref().map(|(value, _)| Arc::clone(value)),
            age: state.last.as_ref().map(|(_, at)| at.elapsed()),
            silent_for: state.busy_since.map(|since| since.elapsed()),
            gone: state.gone,
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

impl<T> Desk<T> {
    /// Waits for a question; `false` when nobody will ask again.
    pub(crate) fn next(&self) -> bool {
        let mut state = self.shared.lock();
        while !state.asked && !state.closing {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy_since = Some(Instant::now());
        state.asked = false;
        !state.closing
    }

    pub(crate) fn publish(&self, value: T) {
        let mut state = self.shared.lock();
        state.last = Some((Arc::new(value), Instant::now()));
        state.busy_since = None;
        self.shared.changed.notify_all();
    }
}

impl<T> Drop for Desk<T> {
    fn drop(&mut self) {
        self.shared.lock().gone = true;
        self.shared.changed.notify_all();
    }
}

impl<T> Shared<T> {
    /// The state is whole after every step under the lock, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_is_gone_and_nobody_waits_for_it() {
        let worker = Worker::<u8>::start("panics", |desk| {
            desk.next();
            panic!("on purpose");
        });
        worker.ask(Duration::ZERO);
        let far = Instant::now() + Duration::from_secs(3600);
        let answer = worker.answer(far);
        assert!(answer.gone && answer.value.is_none() && Instant::now() < far);
        worker.ask(Duration::ZERO);
        assert!(worker.answer(far).gone);
    }
}
