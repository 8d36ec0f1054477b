//! The measurements as a table for people, or as JSON.

use airamp_plan::version;
use serde::Serialize;

use super::measurements::{Cell, Measurements, Seen};
use crate::bench::size::shown;
use crate::columns::{aligned, time};

#[derive(Serialize)]
pub(super) struct Report {
    ranks: u32,
    nccl: String,
    nccl_version: i32,
    results: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    collective: String,
    datatype: String,
    bytes: usize,
    bare_us: f64,
    with_us: f64,
    /// Time without over time with: above 1 the library is faster.
    ratio: f64,
    algorithm_gbs: f64,
    bus_gbs: f64,
    results_equal: bool,
    results_correct: bool,
}

const HEADER: [&str; 8] =
    ["collective", "datatype", "size", "bare", "with", "bare/with", "bus bandwidth", "results equal"];

const TEXT: [&str; 3] = ["collective", "datatype", "results equal"];

impl Report {
    pub(super) fn of(measurements: &Measurements, ranks: u32) -> Self {
        let results = measurements.cells.iter().filter_map(row).collect();
        Self { ranks, nccl: measurements.nccl.clone(), nccl_version: measurements.version, results }
    }

    pub(super) fn all_equal(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|row| row.results_equal && row.results_correct)
    }

    pub(super) fn json(&self) -> String {
        // Plain numbers and text always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let lines = self.results.iter().map(Row::columns).collect();
        let version = version(self.nccl_version);
        let heading = format!("{} ranks, NCCL {version} ({})", self.ranks, self.nccl);
        format!("{heading}\n\n{}", aligned(HEADER, lines, &TEXT))
    }
}

fn row(cell: &Cell) -> Option<Row> {
    let (bare, with) = (best(&cell.bare)?, best(&cell.with)?);
    Some(Row {
        collective: cell.collective.clone(),
        datatype: cell.datatype.clone(),
        bytes: cell.bytes,
        bare_us: bare.0,
        with_us: with.0,
        ratio: bare.0 / with.0,
        algorithm_gbs: with.1,
        bus_gbs: with.2,
        results_equal: cell.results_equal(),
        results_correct: cell.bare.all_correct && cell.with.all_correct,
    })
}

/// Microseconds, algorithm and bus bandwidth of the best round.
fn best(seen: &Seen) -> Option<(f64, f64, f64)> {
    seen.best.as_ref().map(|best| (best.median_us, best.algorithm_gbs, best.bus_gbs))
}

impl Row {
    fn columns(&self) -> [String; 8] {
        let results = match (self.results_equal, self.results_correct) {
            (true, true) => "yes",
            (true, false) => "yes, but wrong",
            (false, _) => "no",
        };
        [
            self.collective.clone(),
            self.datatype.clone(),
            shown(self.bytes),
            time(self.bare_us),
            time(self.with_us),
            format!("{:.2}", self.ratio),
            format!("{:.2} GB/s", self.bus_gbs),
            results.to_owned(),
        ]
    }
}
