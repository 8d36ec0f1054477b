//! Tunings that are to be kept in a file. A file system may not answer for minutes, and the control thread must: a thread
//! that lives as long as there is something to write does it, one file after the other.

use super::tuning_file;
use airamp_policy::cache::Tuning;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the tuning, soon. Of several for one kind of communicator that wait, the last counts.
pub(super) fn keep_soon(file: &Path, tuning: Tuning) {
    queue().push(file, tuning);
}

/// This process's, made at first use. A forked child has its own: its parent's may have been in use at that moment.
static QUEUE: AtomicPtr<Queue> = AtomicPtr::new(std::ptr::null_mut());

/// For a forked child. Only stores.
pub(super) fn abandon() {
    QUEUE.store(std::ptr::null_mut(), Ordering::Relaxed);
}

fn queue() -> &'static Queue {
    let made = QUEUE.load(Ordering::Acquire);
    if made.is_null() {
        let new = Box::into_raw(Box::new(Queue::new(tuning_file::keep, Queue::start_thread)));
        let set = QUEUE.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        // Of two threads that come first together one leaves its own behind.
        // SAFETY: made from a box, here or by another thread, and never freed.
        return unsafe { &*set.map_or_else(|other| other, |_| new) };
    }
    // SAFETY: as above.
    unsafe { &*made }
}

struct Queue {
    /// How a tuning is written.
    write: fn(&Path, Tuning),
    /// Starts a thread that writes them all. False: there is none.
    start: fn(&'static Queue) -> bool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    tunings: Vec<(PathBuf, Tuning)>,
    /// A thread looks here until nothing is left.
    has_writer: bool,
}

impl Queue {
    const fn new(write: fn(&Path, Tuning), start: fn(&'static Self) -> bool) -> Self {
        Self { write, start, waiting: Mutex::new(Waiting { tunings: Vec::new(), has_writer: false }) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&'static self, file: &Path, tuning: Tuning) {
        let mut waiting = self.waiting();
        waiting.tunings.retain(|(other, older)| other != file || older.key() != tuning.key());
        waiting.tunings.push((file.to_owned(), tuning));
        if !waiting.has_writer {
            // Without a thread it waits for the next tuning, and then for a thread again.
            waiting.has_writer = (self.start)(self);
        }
    }

    fn start_thread(&'static self) -> bool {
        let thread = std::thread::Builder::new().name("airamp-tunings".into());
        thread.spawn(|| self.write_all()).is_ok()
    }

    fn write_all(&self) {
        // Also where a panic ends the thread: the next tuning begins another.
        let _end = WriterEnds(self);
        while let Some((file, tuning)) = self.next() {
            (self.write)(&file, tuning);
        }
    }

    fn next(&self) -> Option<(PathBuf, Tuning)> {
        let mut waiting = self.waiting();
        if waiting.tunings.is_empty() {
            waiting.has_writer = false;
            return None;
        }
        Some(waiting.tunings.remove(0))
    }
}

struct WriterEnds<'a>(&'a Queue);

impl Drop for WriterEnds<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.waiting().has_writer = false;
        }
    }
}

/// Waits until everything is written.
#[cfg(test)]
pub(super) fn settle() {
    tests::settle(queue());
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::{Class, Element, Entry, PLAN_BYTES};
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(60);

    pub(super) fn settle(queue: &Queue) {
        let deadline = Instant::now() + LONG;
        while queue.waiting().has_writer {
            assert!(Instant::now() < deadline, "a tuning is not written");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tuning(key: u64, variant: u8) -> Tuning {
        let mut plan = [0; PLAN_BYTES];
        plan[Class::of(Element::F16, 1 << 22).place()] = Entry::Compressed { variant }.byte();
        Tuning::of_plan(key, &plan).expect("a tuning")
    }

    /// What the file system of the test does: it answers when it is let, and tells what it wrote.
    struct Answers {
        let_go: Mutex<Receiver<()>>,
        written: Mutex<Sender<(u64, u64)>>,
    }

    static ANSWERS: OnceLock<Answers> = OnceLock::new();

    fn write(_: &Path, tuning: Tuning) {
        let answers = ANSWERS.get().unwrap();
        let was_let_go = answers.let_go.lock().unwrap().recv_timeout(LONG).is_ok();
        if was_let_go {
            answers.written.lock().unwrap().send((tuning.key(), tuning.hash())).unwrap();
        }
    }

    #[test]
    fn a_file_system_that_does_not_answer_keeps_nobody_waiting_and_gets_the_last_of_each_in_the_end() {
        let ((let_go, held), (done, written)) = (channel(), channel());
        _ = ANSWERS.set(Answers { let_go: Mutex::new(held), written: Mutex::new(done) });
        static QUEUE: Queue = Queue::new(write, Queue::start_thread);
        let file = Path::new("tuning.toml");
        QUEUE.push(file, tuning(1, 0));
        // The thread has the first in its hands.
        let deadline = Instant::now() + LONG;
        while !QUEUE.waiting().tunings.is_empty() {
            assert!(Instant::now() < deadline, "nobody writes");
            std::thread::yield_now();
        }
        [tuning(2, 0), tuning(1, 1), tuning(2, 1)].into_iter().for_each(|tuning| QUEUE.push(file, tuning));
        assert_eq!(QUEUE.waiting().tunings.len(), 2);
        (0..3).for_each(|_| let_go.send(()).unwrap());
        settle(&QUEUE);
        let hash = |key, variant| (key, tuning(key, variant).hash());
        assert_eq!(written.try_iter().collect::<Vec<_>>(), [hash(1, 0), hash(1, 1), hash(2, 1)]);
    }

    #[test]
    fn a_writer_that_panics_loses_the_tuning_in_its_hands_and_the_next_one_begins_another() {
        static WRITTEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        let write = |_: &Path, tuning: Tuning| {
            assert_ne!(tuning.key(), 1, "as the test asks");
            WRITTEN.lock().unwrap().push(tuning.key());
        };
        let queue: &Queue = Box::leak(Box::new(Queue::new(write, Queue::start_thread)));
        let file = Path::new("tuning.toml");
        queue.push(file, tuning(1, 0));
        settle(queue);
        assert!(queue.waiting().tunings.is_empty(), "nobody tries for ever what panics");
        [2, 3].into_iter().for_each(|key| queue.push(file, tuning(key, 0)));
        settle(queue);
        assert_eq!(*WRITTEN.lock().unwrap(), [2, 3]);
    }

    #[test]
    fn without_a_thread_a_tuning_waits_for_the_next_one_and_a_thread() {
        static WRITTEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        static HAS_THREADS: AtomicBool = AtomicBool::new(false);
        let write = |_: &Path, tuning: Tuning| WRITTEN.lock().unwrap().push(tuning.key());
        let start = |queue: &'static Queue| HAS_THREADS.load(Ordering::SeqCst) && queue.start_thread();
        let queue: &Queue = Box::leak(Box::new(Queue::new(write, start)));
        let file = Path::new("tuning.toml");
        [1, 2].into_iter().for_each(|key| queue.push(file, tuning(key, 0)));
        assert_eq!(queue.waiting().tunings.len(), 2);
        HAS_THREADS.store(true, Ordering::SeqCst);
        queue.push(file, tuning(3, 0));
        settle(queue);
        assert_eq!(*WRITTEN.lock().unwrap(), [1, 2, 3]);
    }
}
