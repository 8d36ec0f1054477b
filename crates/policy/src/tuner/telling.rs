//! How decisions become records: with the communicator's name, and with numbers only where they are numbers.

use super::TunerConfig;
use crate::cache::Figure;
use crate::class::Class;
use crate::explain::{Decision, Record};

/// A reason is cut where it is longer, so that a record fits into a line of the log.
const LONGEST_REASON: usize = 400;
/// Records that nobody fetched; further ones are lost.
const MOST_RECORDS: usize = 4096;

/// A decision, before it is known from which index on it holds.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) decision: Decision,
    pub(super) reason: String,
    pub(super) figure: Option<Figure>,
    pub(super) who: Vec<u32>,
}

impl Note {
    pub(super) fn new(decision: Decision, reason: &str) -> Self {
        Self { decision, reason: reason.to_owned(), figure: None, who: Vec::new() }
    }
}

#[derive(Debug)]
pub(super) struct Records {
    communicator: u64,
    rank: u32,
    ranks: u32,
    kept: Vec<Record>,
}

impl Records {
    pub(super) fn new(config: &TunerConfig) -> Self {
        let TunerConfig { communicator, rank, ranks, .. } = *config;
        Self { communicator, rank, ranks, kept: Vec::new() }
    }

    pub(super) fn push(&mut self, index: Option<u64>, class: Option<Class>, note: Note) {
        if self.kept.len() == MOST_RECORDS {
            return;
        }
        let number = |of: fn(&Figure) -> f64| note.figure.as_ref().map(of).and_then(shown);
        self.kept.push(Record {
            communicator: format!("{:016x}", self.communicator),
            rank: self.rank,
            ranks: self.ranks,
            index,
            class: class.map(Into::into),
            decision: note.decision,
            speedup: number(Figure::speedup),
            ours_us: number(|figure| figure.ours_us),
            vendor_us: number(|figure| figure.vendor_us),
            vnmse: number(|figure| figure.vnmse),
            reason: note.reason.chars().take(LONGEST_REASON).collect(),
            who: note.who,
        });
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.kept.drain(..)
    }
}

/// Four digits say enough, and are read back as they were written.
fn shown(number: f64) -> Option<f64> {
    format!("{number:.3e}").parse().ok().filter(|number: &f64| number.is_finite())
}
