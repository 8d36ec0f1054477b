//! `airamp-rank scenario` as a job: with the vendor alone, with the library, and with the plan that
//! switches compression on for tests: every call that can be compressed is, from the first on, once the
//! ranks have agreed.

use std::ffi::OsString;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::comparison::Presence;
use crate::{Outcome, Run, rank_program};

/// Small, so that calls of several steps are small too.
pub const ARENA_BYTES: &str = "1048576";
pub const MIN_BYTES: &str = "4096";

/// Bounds a hang; a job takes a fraction of it.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// What one process says about one case.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Line {
    pub case: String,
    pub process: u32,
    /// Of AllReduces that all ranks take part in.
    pub results: String,
    /// Of what may differ from rank to rank.
    pub others: String,
    /// Calls that the library compressed.
    pub compressed: u64,
    pub verdict: String,
    pub detail: Option<String>,
}

/// What one process of `scenario fault` says.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// What the communicator's creation returned; where it failed there are no calls.
    pub creation: i32,
    pub calls: Vec<Step>,
    pub async_error: i32,
    pub compressed: Option<u64>,
    pub own_allocation_refused: bool,
    pub error: Option<String>,
    pub again: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    pub returned: i32,
    pub outcome: Came,
}

/// What came of a call: see the scenario.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    Refused,
    Lost,
    Stuck,
    Exact,
    Compressed,
    Marked,
    Wrong,
}

impl Report {
    /// The one report that a process printed.
    #[track_caller]
    pub fn of(outcome: &Outcome) -> Self {
        let mut reports = parsed(outcome.assert_success());
        assert_eq!(reports.len(), 1, "{outcome}");
        reports.remove(0)
    }

    /// Whether every call was made, accepted, and ended so.
    pub fn all(&self, outcome: Came) -> bool {
        let right = |step: &Step| step.returned == 0 && step.outcome == outcome;
        self.calls.len() == CALLS_OF_FAULT && self.calls.iter().all(right) && self.error.is_none()
    }
}

/// Calls that each process of `scenario fault` makes.
pub const CALLS_OF_FAULT: usize = 8;

/// More kernel launches than creating a communicator takes.
const PLENTY: usize = 1024;

/// How many kernels a rank launches while its communicator is made, found by refusing one at a time on
/// the last rank: up to that number all stay out of compression, from the next on a call is struck.
pub fn launches_of_creation(refused_at: impl Fn(usize) -> Vec<Outcome>) -> usize {
    let is_on = |outcomes: &[Outcome]| outcomes[0].stderr_text().contains("compression on");
    let (mut off, mut on) = (0, PLENTY);
    while off + 1 < on {
        let middle = (off + on) / 2;
        if is_on(&refused_at(middle)) { on = middle } else { off = middle }
    }
    assert!(off > 0 && on < PLENTY, "creation seems to launch {off} kernels");
    off
}

/// A scenario in a number of processes.
#[derive(Clone)]
pub struct Scenario {
    arguments: Vec<OsString>,
    processes: u32,
    environment: Vec<(&'static str, String)>,
    presence: Presence,
    time_limit: Duration,
}

impl Scenario {
    pub fn new(name: &'static str, processes: u32) -> Self {
        let arguments = ["scenario", name, "--min-bytes", MIN_BYTES].map(OsString::from).to_vec();
        let (environment, presence) = (Vec::new(), Presence::Preloaded);
        Self { arguments, processes, environment, presence, time_limit: TIME_LIMIT }
    }

    pub fn args(mut self, arguments: &[&'static str]) -> Self {
        self.arguments.extend(arguments.iter().map(OsString::from));
        self
    }

    /// An argument that is made for this run, as a path.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// With the library brought in by another way than `LD_PRELOAD`.
    pub fn presence(mut self, presence: Presence) -> Self {
        self.presence = presence;
        self
    }

    fn program(&self) -> Run {
        let run = Run::new(rank_program()).args(&self.arguments).time_limit(self.time_limit);
        self.environment.iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// The vendor alone.
    pub fn bare(&self) -> Vec<Outcome> {
        Presence::Absent.applied_to(self.program()).run_ranks(self.processes)
    }

    /// The library, and nothing that asks it to compress.
    pub fn with_the_library(&self) -> Vec<Outcome> {
        self.presence.applied_to(self.program()).run_ranks(self.processes)
    }

    /// The library and the plan on every process.
    pub fn compressed(&self) -> Vec<Outcome> {
        self.compressed_but(|_, run| run)
    }

    /// The same, with something done to some of the processes.
    pub fn compressed_but(&self, adjust: impl Fn(u32, Run) -> Run) -> Vec<Outcome> {
        let library = |_, run| self.presence.applied_to(run);
        self.planned(|rank, run| adjust(rank, library(rank, run)))
    }

    /// The plan on every process; `adjust` brings the library in where it is wanted.
    pub fn planned(&self, adjust: impl Fn(u32, Run) -> Run) -> Vec<Outcome> {
        let run = settings(self.program()).arg("--expect").arg("compressed");
        planned(run).run_unequal_ranks(self.processes, adjust)
    }

    /// The library on every process, in this mode and with what it decides itself.
    pub fn in_mode(&self, mode: &str) -> Vec<Outcome> {
        self.in_mode_but(mode, |_, run| run)
    }

    /// The same, with something done to some of the processes.
    pub fn in_mode_but(&self, mode: &str, adjust: impl Fn(u32, Run) -> Run) -> Vec<Outcome> {
        let run = settings(self.program()).env("AIRAMP_MODE", mode);
        run.run_unequal_ranks(self.processes, |rank, run| adjust(rank, self.presence.applied_to(run)))
    }

    /// The settings of a compressed job, and the plan only where `planned` says so.
    pub fn planned_on(&self, planned: impl Fn(u32) -> bool) -> Vec<Outcome> {
        let run = self.presence.applied_to(settings(self.program())).arg("--expect").arg("compressed");
        run.run_unequal_ranks(self.processes, |rank, run| match planned(rank) {
            true => self::planned(run),
            false => run,
        })
    }
}

/// With a time-out that no busy machine reaches: whoever wants it to end a wait sets it before.
pub fn patient(run: Run) -> Run {
    run.env_or("AIRAMP_CONSENSUS_TIMEOUT_MS", "60000")
}

/// The run with the plan for tests.
pub fn planned(run: Run) -> Run {
    patient(run).env("AIRAMP_TEST_PLAN", "forced")
}

/// Those of a job that compresses, whoever asks for it.
pub fn settings(run: Run) -> Run {
    let run = patient(run);
    run.env("AIRAMP_MIN_BYTES", MIN_BYTES).env("AIRAMP_ARENA_BYTES", ARENA_BYTES).env("AIRAMP_LOG", "info")
}

/// The lines that a program printed, each a JSON object.
#[track_caller]
pub fn parsed<T: DeserializeOwned>(outcome: &Outcome) -> Vec<T> {
    let text = outcome.stdout_text();
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    text.lines().map(parse).collect()
}

/// Every case came out right in every process, and there were at least so many.
#[track_caller]
pub fn assert_right(outcomes: &[Outcome], at_least: usize) -> Vec<Vec<Line>> {
    let all: Vec<Vec<Line>> = outcomes.iter().map(parsed::<Line>).collect();
    for line in all.iter().flatten() {
        assert_eq!(line.verdict, "right", "{} in process {}: {:?}", line.case, line.process, line.detail);
    }
    for (lines, outcome) in all.iter().zip(outcomes) {
        outcome.assert_success();
        assert!(lines.len() >= at_least, "{} cases, not {at_least}: {outcome}", lines.len());
    }
    all
}

/// Right with the vendor alone, and the same bits with the library and no plan.
#[track_caller]
pub fn assert_exact_without_a_plan(scenario: &Scenario, at_least: usize) {
    let bare = assert_right(&scenario.bare(), at_least);
    let with = assert_right(&scenario.with_the_library(), at_least);
    assert_eq!(bare, with, "without the library (left) and with it (right)");
    assert!(with.iter().flatten().all(|line| line.compressed == 0), "{with:?}");
}

/// The codec's bits with a plan, the same in all processes, in every case and on every rank.
#[track_caller]
pub fn assert_compressed(scenario: &Scenario, at_least: usize) {
    let outcomes = scenario.compressed();
    let lines = assert_right(&outcomes, at_least);
    for (index, line) in lines[0].iter().enumerate() {
        assert!(line.compressed > 0, "nothing was compressed in {}", line.case);
        for other in lines.iter().map(|lines| &lines[index]) {
            assert_eq!((&other.case, &other.results), (&line.case, &line.results));
        }
    }
    for outcome in &outcomes {
        assert!(outcome.stderr_text().contains("compression on"), "{outcome}");
    }
}
