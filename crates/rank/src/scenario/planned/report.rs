//! What a rank of a planned job tells, as one JSON line at its end: every result with a letter and a digest, the
//! error that ended it if one did, and how much the process held, round by round.

use serde::Serialize;

use super::vitals::Vitals;
use crate::error::RankError;

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Letter {
    #[serde(rename = "e")]
    Exact,
    #[serde(rename = "c")]
    Compressed,
    /// The compressed result, but for elements that are no numbers.
    #[serde(rename = "m")]
    Marked,
    #[serde(rename = "w")]
    Wrong,
}

/// One result. Ranks of one communicator have equal places for it.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// Step, turn and place in the step.
    pub(super) place: (usize, usize, usize),
    pub(super) comm: usize,
    /// Which of the communicators of that name: those of a split have one in each part.
    pub(super) part: usize,
    pub(super) reduces_all: bool,
    pub(super) letter: Letter,
    pub(super) digest: String,
}

/// What ended the job on this rank.
#[derive(Debug, Serialize)]
pub(super) struct Ended {
    pub(super) step: usize,
    /// `refused`, `lost`, `stuck`, `making`, `world` or `other`.
    pub(super) how: &'static str,
    pub(super) code: Option<i32>,
    pub(super) text: String,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) process: usize,
    pub(super) rounds: usize,
    pub(super) made: usize,
    pub(super) forks: usize,
    pub(super) results: Vec<Told>,
    pub(super) counted: Counted,
    pub(super) ended: Option<Ended>,
    pub(super) vitals: Vec<Vitals>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Counted {
    pub(super) exact: u64,
    pub(super) compressed: u64,
    pub(super) other: u64,
    /// By the library's own count; 0 without it.
    pub(super) said_compressed: u64,
    pub(super) said_trials: u64,
}

impl Counted {
    pub(super) fn add(&mut self, letter: Letter) {
        match letter {
            Letter::Exact => self.exact += 1,
            Letter::Compressed => self.compressed += 1,
            Letter::Marked | Letter::Wrong => self.other += 1,
        }
    }
}

impl Ended {
    pub(super) fn by(step: usize, how: &'static str, error: &RankError) -> Self {
        let how = match error {
            RankError::World { .. } => "world",
            _ => how,
        };
        Self { step, how, code: error.nccl_code(), text: error.to_string() }
    }
}
