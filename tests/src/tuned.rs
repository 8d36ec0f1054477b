//! What a process of an `airamp-rank scenario tuned-…` job says, and the claims that hold for every such job: each
//! result is the vendor's or the codec's, and all processes had the same of them, call by call.

use serde::Deserialize;

use crate::Outcome;
use crate::scenario::parsed;

#[derive(Clone, Debug, Deserialize)]
pub struct Tuned {
    pub process: u32,
    pub steps: usize,
    /// As `3e12c`: three exact results, then twelve compressed; `w` wrong, `r` refused, `l` lost.
    pub outcomes: String,
    /// The same for communicators that not all processes are in.
    pub apart: String,
    pub results: String,
    pub refused_with: Option<i32>,
    pub async_error: i32,
    pub agreed: bool,
    pub compressed: u64,
    pub trials: u64,
    pub compressed_apart: u64,
    pub trials_apart: u64,
    pub classes: Vec<PlannedClass>,
    pub graphs: Vec<Graph>,
    pub creation_ms: f64,
    pub first_steps_ms: f64,
    pub last_steps_ms: f64,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct PlannedClass {
    pub communicator: u32,
    pub datatype: String,
    pub bytes: usize,
    /// `undecided`, `trial`, `vendor`, `compressed`, or `none` where nothing is agreed on.
    pub planned: String,
    pub variant: Option<u8>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Graph {
    pub captured: String,
    pub replays: String,
}

impl Tuned {
    /// The one report that a process printed, however it ended.
    #[track_caller]
    pub fn of(outcome: &Outcome) -> Self {
        let mut reports = parsed(outcome);
        assert_eq!(reports.len(), 1, "{outcome}");
        reports.remove(0)
    }

    /// How many results were of the kind that the letter stands for.
    pub fn count(&self, kind: char) -> usize {
        counted(&self.outcomes, kind)
    }

    /// Whether every result was the vendor's or the codec's, and none is missing.
    pub fn is_right(&self) -> bool {
        let bad = |runs: &str| ['w', 'r', 'l'].into_iter().any(|kind| counted(runs, kind) > 0);
        self.error.is_none() && self.async_error == 0 && !bad(&self.outcomes) && !bad(&self.apart)
    }

    pub fn all_planned(&self, planned: &str) -> bool {
        self.classes.iter().all(|class| class.planned == planned)
    }
}

impl Graph {
    pub fn count(&self, kind: char) -> usize {
        counted(&self.replays, kind)
    }
}

fn counted(runs: &str, kind: char) -> usize {
    let runs = runs.split_inclusive(|c: char| c.is_ascii_alphabetic());
    runs.filter_map(|run| run.strip_suffix(kind)).filter_map(|count| count.parse::<usize>().ok()).sum()
}

/// Every process went to its end and had the same results, all of them right.
#[track_caller]
pub fn assert_alike(outcomes: &[Outcome]) -> Vec<Tuned> {
    let reports: Vec<Tuned> = outcomes.iter().map(|outcome| Tuned::of(outcome.assert_success())).collect();
    for (report, outcome) in reports.iter().zip(outcomes) {
        assert!(report.is_right(), "{outcome}");
        let (first, own) = (&reports[0], report);
        assert_eq!((&own.outcomes, &own.results, own.steps), (&first.outcomes, &first.results, first.steps));
        // A rank that takes a call for a compressed one where another does not would show in neither.
        assert_eq!((own.compressed, own.trials), (first.compressed, first.trials), "{outcome}");
    }
    reports
}

/// The same, and every result was the vendor's.
#[track_caller]
pub fn assert_exact(outcomes: &[Outcome]) -> Vec<Tuned> {
    let reports: Vec<Tuned> = outcomes.iter().map(|outcome| Tuned::of(outcome.assert_success())).collect();
    for (report, outcome) in reports.iter().zip(outcomes) {
        assert!(report.is_right() && report.steps > 0 && report.count('e') > 0, "{outcome}");
        assert!(!report.apart.contains('c') && report.compressed_apart == 0, "{outcome}");
        assert_eq!(report.outcomes, format!("{}e", report.count('e')), "{outcome}");
        assert_eq!((&report.results, report.compressed), (&reports[0].results, 0), "{outcome}");
    }
    reports
}

/// The reason by which a process left its communicators to the vendor.
#[track_caller]
pub fn why_off(outcome: &Outcome) -> String {
    let text = outcome.stderr_text();
    let said =
        text.lines().find_map(|line| line.split_once("compression off: ").map(|(_, why)| why.to_owned()));
    said.unwrap_or_else(|| panic!("it does not say that compression is off: {outcome}"))
}

/// The same for all of them, in order.
#[track_caller]
pub fn assert_off(outcomes: &[Outcome]) -> Vec<String> {
    assert_exact(outcomes);
    outcomes.iter().map(why_off).collect()
}
