//! `scenario planned --plan FILE`: one rank of a job that somebody else has thought up. It walks through the file's
//! steps, waits for each as a framework's watchdog does, and tells what came; at the first error it aborts all its
//! communicators and ends, so that its peers see it go. It judges nothing but single results. Started by the chaos and soak
//! tests, with and without the library.

mod comms;
mod harm;
mod item;
mod plan;
mod report;
mod turns;
mod vitals;
mod walk;

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Job, print_line};
use crate::error::RankError;
use crate::watchdog::Watchdog;
use plan::Plan;
use report::Report;
use vitals::Looks;
use walk::Walk;

/// What a step may take beyond the patience with its calls: making communicators, working results out.
const BEYOND: Duration = Duration::from_secs(20);

/// The watchdog of a planned job has the plan's patience.
pub(super) fn watchdog(path: &Path) -> Result<Watchdog, RankError> {
    let plan = Plan::read(path)?;
    Ok(Watchdog::start(Duration::from_secs(plan.patience_s) + BEYOND))
}

pub(super) fn run(job: &mut Job, watchdog: &Watchdog, path: &Path) -> Result<bool, RankError> {
    let plan = Plan::read(path)?;
    let mut walk = Walk::new(job, watchdog, &plan);
    let (began, mut looks) = (Instant::now(), Looks::default());
    let mut ended = None;
    for round in 0.. {
        ended = match walk.goes_on(round, began) {
            Ok(false) => break,
            Ok(true) => walk.round().err(),
            Err(stop) => Some(stop),
        };
        if ended.is_some() {
            break;
        }
        if plan.tells_vitals {
            looks.take(round);
        }
    }
    watchdog.enter("the end");
    let mut report = walk.into_report(ended);
    report.vitals = looks.into_kept();
    print_line(&report);
    Ok(is_right(&report))
}

fn is_right(report: &Report) -> bool {
    report.ended.is_none() && report.counted.other == 0
}
