//! Conformance: every kind of call, each compared with its exact result. One JSON line
//! per case and rank, so that two runs (with and without an interposer, emulated and
//! real) can be compared bit for bit. The list of cases depends only on the number of
//! ranks and on what the library offers, so all ranks walk it in step.

mod collectives;
mod communicators;
mod graphs;
mod groups;
mod lanes;
mod misuse;
mod point_to_point;
mod resizing;
mod streams;

use std::io::Write;
use std::time::Duration;

use airamp_vendor::gpu::Kind;
use serde::Serialize;

use crate::error::RankError;
use crate::session::{Observed, Session};
use crate::watchdog::Watchdog;

/// The most a rank's input or output takes: the largest count, eight bytes, all ranks.
fn scratch_bytes(ranks: usize) -> usize {
    (collectives::LARGEST_COUNT + 64) * 8 * ranks
}

/// Longer than the longest case takes on the slowest set-up we know.
const CASE_LIMIT: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the names of the cases and run none.
    #[arg(long)]
    list: bool,
    /// Run only cases whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run no case whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    except: Option<String>,
    /// Fewer datatypes, no large counts.
    #[arg(long)]
    quick: bool,
}

type Run = Box<dyn Fn(&mut Session) -> Result<Observed, RankError>>;

/// One claim about the library.
pub(crate) struct Case {
    name: String,
    run: Run,
}

impl Case {
    fn new(
        name: impl Into<String>,
        run: impl Fn(&mut Session) -> Result<Observed, RankError> + 'static,
    ) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    rank: usize,
    digest: String,
    result: i32,
    expected: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let ranks = std::env::var("WORLD_SIZE").ok().and_then(|size| size.parse().ok()).unwrap_or(1);
    let watchdog = Watchdog::start(CASE_LIMIT);
    let mut session = Session::start(kind, scratch_bytes(ranks))?;
    let mut cases = all_cases(&session, arguments.quick);
    if let Some(text) = &arguments.filter {
        cases.retain(|case| case.name.contains(text.as_str()));
    }
    if let Some(text) = &arguments.except {
        cases.retain(|case| !case.name.contains(text.as_str()));
    }
    if arguments.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(true);
    }
    let mut all_right = !cases.is_empty();
    for case in &cases {
        watchdog.enter(&case.name);
        all_right &= run_case(&mut session, case)?;
    }
    watchdog.enter("the end");
    Ok(all_right)
}

fn all_cases(session: &Session, quick: bool) -> Vec<Case> {
    let mut cases = communicators::queries();
    cases.extend(collectives::cases(session, quick));
    cases.extend(point_to_point::cases(session, quick));
    cases.extend(groups::cases(session));
    cases.extend(streams::cases());
    cases.extend(graphs::cases());
    cases.extend(communicators::cases(session));
    // Last: a library that takes wrong arguments badly has shown the rest by then.
    cases.extend(misuse::cases(session));
    cases
}

fn run_case(session: &mut Session, case: &Case) -> Result<bool, RankError> {
    let outcome = (case.run)(session);
    let failed = outcome.is_err();
    let line = line_of(case, session.world.rank, outcome);
    let right = line.expected == "ok";
    print_line(&line);
    let failures = session.world.all_gather(u8::from(failed))?;
    if failures.contains(&0) && failures.contains(&1) {
        return Err(RankError::OutOfStep(case.name.clone()));
    }
    Ok(right)
}

fn line_of(case: &Case, rank: usize, outcome: Result<Observed, RankError>) -> Line<'_> {
    let (digest, result, detail) = match outcome {
        Ok(seen) => (seen.digest.hex(), seen.result, seen.mismatch),
        Err(error) => (String::new(), error.nccl_code().unwrap_or(-1), Some(error.to_string())),
    };
    let expected = if detail.is_none() { "ok" } else { "mismatch" };
    Line { case: &case.name, rank, digest, result, expected, detail }
}

fn print_line(line: &Line<'_>) {
    // A line of its own type always serialises; a closed stdout ends the run elsewhere.
    if let Ok(text) = serde_json::to_string(line) {
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }
}
