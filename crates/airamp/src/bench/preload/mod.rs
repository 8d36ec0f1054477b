//! `airamp bench --preload`: the same collectives without and with the library, in turns so that
//! both meet the same noise, and a table of time, throughput and whether the results
//! are the same bits.

mod measurements;
mod report;

use std::cell::RefCell;
use std::rc::Rc;

use self::measurements::{Line, Measurements, Side};
use super::cluster::Cluster;
use super::progress::Progress;
use super::{Args, FAILED};
use crate::artifacts::{self, Artifact};
use crate::cli::CommandError;
use crate::launch;
use crate::streams;

/// Whichever comes second in a pair of runs comes first in the next pair.
const ROUNDS: [Side; 8] =
    [Side::Bare, Side::With, Side::With, Side::Bare, Side::Bare, Side::With, Side::With, Side::Bare];

pub(super) fn execute(args: &Args, cluster: &Cluster) -> Result<u8, CommandError> {
    let library = artifacts::find(Artifact::Library)?;
    let (ranks, link) = (args.ranks[0], args.links()[0]);
    let _shaped = cluster.prepare(link)?;
    let progress = Progress::start(ROUNDS.len());
    let measurements = Rc::new(RefCell::new(Measurements::default()));
    for (round, side) in ROUNDS.into_iter().enumerate() {
        progress.enter(round, side.to_string());
        let preload = (side == Side::With).then_some(library.as_path());
        let code = cluster.run(ranks, link, words(args), preload, reader(side, &measurements, &progress))?;
        // Rank processes end with 1 for a wrong result too, which the table then shows.
        if !measurements.borrow_mut().end_round() {
            progress.finish();
            let told = format!("the run {side} ended with exit code {code} before it was complete");
            streams::complain(&format!("airamp bench: {told}"));
            return Ok(launch::failure(code));
        }
    }
    progress.finish();
    let report = report::Report::of(&measurements.borrow(), ranks);
    if args.json {
        streams::print(&format!("{}\n", report.json()))?;
    } else {
        streams::print(&report.table())?;
    }
    Ok(if report.all_equal() { 0 } else { FAILED })
}

fn words(args: &Args) -> Vec<String> {
    let mut words = vec!["collectives".to_owned(), format!("--collectives={}", args.collectives.join(","))];
    words.extend(args.rank_arguments());
    words
}

fn reader(
    side: Side,
    measurements: &Rc<RefCell<Measurements>>,
    progress: &Progress,
) -> impl FnMut(u32, &str) + 'static {
    let (measurements, progress) = (measurements.clone(), progress.clone());
    move |rank, text| match serde_json::from_str(text) {
        Ok(Line::Progress { done, measurements: total }) if rank == 0 => progress.at(done, total),
        Ok(line) => measurements.borrow_mut().take(side, line),
        Err(_) => progress.line(&format!("[{rank}] {text}")),
    }
}
