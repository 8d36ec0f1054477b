//! What a rank of a planned job tells at its end: the reading side of `airamp-rank scenario planned`.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    pub process: usize,
    pub rounds: usize,
    pub made: usize,
    pub forks: usize,
    pub results: Vec<Told>,
    pub counted: Counted,
    pub ended: Option<EndedBy>,
    pub vitals: Vec<Vitals>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Told {
    pub place: (usize, usize, usize),
    pub comm: usize,
    pub part: usize,
    pub reduces_all: bool,
    /// `e` exact, `c` compressed, `m` compressed but for elements that are no numbers, `w` wrong.
    pub letter: char,
    pub digest: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct EndedBy {
    pub step: usize,
    pub how: String,
    pub code: Option<i32>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Counted {
    pub exact: u64,
    pub compressed: u64,
    pub other: u64,
    pub said_compressed: u64,
    pub said_trials: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Vitals {
    pub round: usize,
    pub anonymous_kib: u64,
    /// Allocated and not freed, in bytes.
    pub live_heap: u64,
    pub mapped_kib: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub mappings: u64,
}

impl Report {
    /// The last line of the output that is one; a rank that was killed has none.
    pub fn in_output(stdout: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(stdout);
        text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }
}
