//! What a process of a `tuned-…` program saw: a letter for each result, a digest of all of them, and what the
//! library says of its plan. One JSON line at the end.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::print_line;
use super::super::tracked::trial_calls;
use super::gradient::Gradient;
use super::library::{self, PlannedEntry};
use crate::digest::Digest;
use crate::error::RankError;
use crate::nccl::Communicator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Exact,
    Compressed,
    /// Neither the one nor the other, and no error.
    Wrong,
    /// The call returned an error.
    Refused,
    /// The communicator had an error before the result was there.
    Lost,
}

impl Outcome {
    fn letter(self) -> char {
        match self {
            Self::Exact => 'e',
            Self::Compressed => 'c',
            Self::Wrong => 'w',
            Self::Refused => 'r',
            Self::Lost => 'l',
        }
    }
}

#[derive(Serialize)]
pub(super) struct Report {
    program: String,
    process: usize,
    pub(super) steps: usize,
    /// A letter for each AllReduce, in the order of the calls, as `3e12c`: three exact, then twelve compressed.
    outcomes: String,
    #[serde(skip)]
    letters: String,
    /// The same for communicators that not all processes are in.
    apart: String,
    /// Over all results of AllReduces that all processes take part in.
    results: String,
    #[serde(skip)]
    digest: Digest,
    /// The code that the first refused call returned.
    pub(super) refused_with: Option<i32>,
    pub(super) async_error: i32,
    /// Whether the library says that the communicators are agreed on.
    agreed: bool,
    compressed: u64,
    trials: u64,
    compressed_apart: u64,
    trials_apart: u64,
    classes: Vec<ClassLine>,
    /// The graphs of `tuned-graphs`: when captured, and a letter for each replay.
    pub(super) graphs: Vec<GraphLine>,
    creation_ms: f64,
    /// Of a step: the median of the first tenth, and of the last.
    first_steps_ms: f64,
    last_steps_ms: f64,
    #[serde(skip)]
    times: Vec<Duration>,
    pub(super) error: Option<String>,
}

#[derive(Serialize)]
struct ClassLine {
    communicator: usize,
    datatype: &'static str,
    bytes: usize,
    #[serde(flatten)]
    entry: PlannedEntry,
}

#[derive(Serialize)]
pub(super) struct GraphLine {
    pub(super) captured: &'static str,
    pub(super) replays: String,
}

impl GraphLine {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.replays.push(outcome.letter());
    }
}

impl Report {
    pub(super) fn new(program: &str, process: usize) -> Self {
        Self {
            program: program.to_owned(),
            process,
            steps: 0,
            outcomes: String::new(),
            letters: String::new(),
            apart: String::new(),
            results: String::new(),
            digest: Digest::new(),
            refused_with: None,
            async_error: 0,
            agreed: true,
            compressed: 0,
            trials: 0,
            compressed_apart: 0,
            trials_apart: 0,
            classes: Vec::new(),
            graphs: Vec::new(),
            creation_ms: 0.0,
            first_steps_ms: 0.0,
            last_steps_ms: 0.0,
            times: Vec::new(),
            error: None,
        }
    }

    /// The time that making communicators took, the vendor's part included.
    pub(super) fn created_since(&mut self, began: Instant) {
        self.creation_ms += began.elapsed().as_secs_f64() * 1e3;
    }

    pub(super) fn note(&mut self, outcome: Outcome, result: &[u8]) {
        self.letters.push(outcome.letter());
        self.digest.add(result);
    }

    /// The same for a result that not all processes share.
    pub(super) fn note_apart(&mut self, outcome: Outcome) {
        self.apart.push(outcome.letter());
    }

    /// Judges a tensor whose call is done.
    pub(super) fn judge(&mut self, gradient: &Gradient) -> Result<Outcome, RankError> {
        let (outcome, result) = gradient.outcome()?;
        let outcome = if gradient.input_is_kept()? { outcome } else { Outcome::Wrong };
        self.note(outcome, &result);
        Ok(outcome)
    }

    pub(super) fn step_took(&mut self, time: Duration) {
        self.steps += 1;
        self.times.push(time);
    }

    /// What the library says at the end about one of the communicators that all processes are in, and what
    /// went through it.
    pub(super) fn ask(&mut self, number: usize, comm: &Communicator, gradients: &[&Gradient]) {
        self.compressed += library::compressed_calls(comm.raw()).unwrap_or(0);
        self.trials += trial_calls(comm.raw()).unwrap_or(0);
        self.ask_plan(number, comm, gradients);
    }

    /// So many of the compressed calls are in graphs that only this rank has made.
    pub(super) fn without_thrown_away(&mut self, calls: u64) {
        self.compressed = self.compressed.saturating_sub(calls);
    }

    /// The same about one that not all are in, which may be decided otherwise elsewhere.
    pub(super) fn ask_apart(&mut self, number: usize, comm: &Communicator, gradients: &[&Gradient]) {
        self.compressed_apart += library::compressed_calls(comm.raw()).unwrap_or(0);
        self.trials_apart += trial_calls(comm.raw()).unwrap_or(0);
        self.ask_plan(number, comm, gradients);
    }

    fn ask_plan(&mut self, number: usize, comm: &Communicator, gradients: &[&Gradient]) {
        let plan = library::plan(comm.raw());
        self.agreed &= plan.is_some();
        let line = |gradient: &&Gradient| ClassLine {
            communicator: number,
            datatype: gradient.datatype_name(),
            bytes: gradient.spec.bytes(),
            entry: PlannedEntry::of(plan.as_ref(), &gradient.spec),
        };
        self.classes.extend(gradients.iter().map(line));
    }

    /// Whether all is well; what went wrong is for the harness to judge.
    pub(super) fn print(mut self) -> bool {
        self.results = self.digest.hex();
        self.outcomes = counted(&self.letters);
        let wrong = self.letters.contains('w') || self.apart.contains('w');
        self.apart = counted(&self.apart);
        self.graphs.iter_mut().for_each(|graph| graph.replays = counted(&graph.replays));
        let tenth = self.times.len().div_ceil(10);
        self.first_steps_ms = median_ms(&self.times[..tenth]);
        self.last_steps_ms = median_ms(&self.times[self.times.len() - tenth..]);
        print_line(&self);
        self.error.is_none() && !wrong
    }
}

/// Each run of equal letters as its length and the letter.
fn counted(letters: &str) -> String {
    let bytes = letters.as_bytes();
    let runs = bytes.chunk_by(|left, right| left == right);
    runs.map(|run| format!("{}{}", run.len(), char::from(run[0]))).collect()
}

fn median_ms(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_letters_are_counted() {
        assert_eq!(counted("eeecce"), "3e2c1e");
        assert_eq!(counted(""), "");
    }
}
