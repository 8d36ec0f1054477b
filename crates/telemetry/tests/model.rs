//! Every order in which two writers and a reader can meet at the same guarded words, by loom: it runs the writer's own
//! source on atomics that show each value that the memory model allows.

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}
#[path = "../src/guarded.rs"]
mod guarded;

use atomic::{AtomicU64, Ordering, fence};
use loom::sync::Arc;
use loom::thread;

struct Cell {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl Cell {
    fn new() -> Arc<Self> {
        Arc::new(Self { version: AtomicU64::new(0), words: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    /// The version and the words, if nobody wrote them meanwhile: what a reader's three copies amount to.
    fn read(&self) -> Option<(u64, [u64; 2])> {
        let before = self.version.load(Ordering::Acquire);
        let words = [self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed)];
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before & 1 == 0).then_some((before, words))
    }

    fn put(&self, position: u64) -> bool {
        guarded::put(&self.version, position, &self.words, &record(position))
    }

    /// In a ring of this one cell.
    fn put_in_turn(&self, position: u64) -> bool {
        guarded::put_in_turn(&self.version, position, 1, &self.words, &record(position))
    }
}

/// With at most three switches away from a thread that could go on: enough for each fault that was tried on purpose.
fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn record(position: u64) -> [u64; 2] {
    [10 + position, 20 + position]
}

#[test]
fn words_that_two_threads_replace_are_read_whole() {
    every_order(|| {
        let cell = Cell::new();
        let writers = [1, 2].map(|value| {
            let cell = cell.clone();
            thread::spawn(move || guarded::replace(&cell.version, &cell.words, &[value, value]))
        });
        if let Some((_, [one, other])) = cell.read() {
            assert_eq!(one, other);
        }
        let replaced = writers.map(|writer| writer.join().unwrap());
        assert!(replaced.contains(&true));
        let (version, [one, other]) = cell.read().unwrap();
        assert_eq!(one, other);
        assert_eq!(version, 2 * replaced.iter().filter(|replaced| **replaced).count() as u64);
    });
}

#[test]
fn a_record_is_read_whole_under_its_own_number_also_when_its_writer_was_overtaken() {
    two_records_meet(Cell::put);
    two_records_meet(Cell::put_in_turn);
}

fn two_records_meet(put: fn(&Cell, u64) -> bool) {
    every_order(move || {
        // A ring of one cell: the second record comes into the cell of the first.
        let cell = Cell::new();
        let writers = [0, 1].map(|position| {
            let cell = cell.clone();
            thread::spawn(move || put(&cell, position))
        });
        check(&cell);
        let put = writers.map(|writer| writer.join().unwrap());
        check(&cell);
        // The newest that was put stays; what was not put never shows.
        let newest = (0..2).rev().find(|position| put[*position as usize]).unwrap();
        assert_eq!(cell.read(), Some((guarded::complete(newest), record(newest))));
    });
}

fn check(cell: &Cell) {
    if let Some((version, words)) = cell.read()
        && version != 0
    {
        assert_eq!(words, record(version / 2 - 1));
    }
}

#[test]
fn a_late_amendment_never_lands_in_the_next_record() {
    every_order(|| {
        let cell = Cell::new();
        assert!(cell.put(0));
        let (amending, putting) = (cell.clone(), cell.clone());
        let amend = thread::spawn(move || {
            guarded::amend(&amending.version, 0, &amending.words[1], |word| word + 100)
        });
        let put = thread::spawn(move || putting.put(1));
        let seen = cell.read();
        let (amended, put) = (amend.join().unwrap(), put.join().unwrap());
        let [old, new] = [record(0), record(1)];
        if let Some((version, words)) = seen {
            let of_the_first = words == old || words == [old[0], old[1] + 100];
            assert!(if version == guarded::complete(0) { of_the_first } else { words == new }, "{words:?}");
        }
        assert!(amended || put);
        let (_, words) = cell.read().unwrap();
        assert_eq!(words, if put { new } else { [old[0], old[1] + 100] });
    });
}

#[test]
fn a_writer_that_died_in_the_middle_costs_its_cell_and_no_more() {
    every_order(|| {
        let cell = Cell::new();
        assert!(cell.put(0));
        // What a killed writer of the next record leaves: an odd version, and one of two words.
        cell.version.store(guarded::complete(1) - 1, Ordering::Relaxed);
        cell.words[0].store(record(1)[0], Ordering::Relaxed);
        assert_eq!(cell.read(), None);
        assert!(!cell.put(2));
        assert!(!guarded::replace(&cell.version, &cell.words, &[0, 0]));
        assert_eq!(cell.read(), None);
    });
}
