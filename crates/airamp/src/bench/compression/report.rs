//! All jobs of a benchmark: what they ran on, how, and a line for each way of each tensor. As JSON, and
//! as the lines of the chart; `table` shows it to people.

use serde::Serialize;

use super::gathered::{Gathered, Outcome, Tensor, Way};
use super::lines::Environment;
use super::{Args, Link, clock};
use crate::bench::chart::{Chart, Series};

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) airamp: &'static str,
    pub(super) date: String,
    /// Whether every job ran to its end.
    pub(super) complete: bool,
    pub(super) emulated: bool,
    pub(super) environment: Option<Environment>,
    pub(super) settings: Settings,
    pub(super) results: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Settings {
    pub(super) ranks: Vec<u32>,
    pub(super) links: Vec<String>,
    pub(super) data: String,
    pub(super) average: bool,
    pub(super) iterations: u32,
    pub(super) warmup: u32,
    pub(super) arena_bytes: usize,
}

#[derive(Serialize)]
pub(super) struct Row {
    pub(super) ranks: usize,
    pub(super) link: String,
    pub(super) datatype: String,
    pub(super) bytes: usize,
    /// `vendor`, `vendor_fp16` and `vendor_fp8` (cast before the clock starts), or our wire format, with the shape where all
    /// are shown.
    pub(super) format: String,
    pub(super) is_ours: bool,
    /// Why this way was not measured; then there is no result.
    pub(super) not_offered: Option<String>,
    #[serde(flatten)]
    pub(super) result: Option<RowResult>,
}

#[derive(Serialize)]
pub(super) struct RowResult {
    pub(super) vendor_us: f64,
    pub(super) time_us: f64,
    /// The vendor's time over this way's.
    pub(super) speedup: f64,
    pub(super) wire_bytes_per_element: f64,
    /// Of ours, null for the vendor's: exchanges that follow each other, and device memory that it took.
    pub(super) steps: Option<usize>,
    pub(super) added_bytes: Option<usize>,
    /// Null where the result holds something that is not finite.
    pub(super) vnmse: Option<f64>,
    pub(super) worst_element: Option<f64>,
    pub(super) identical_bits: bool,
}

impl Settings {
    pub(super) fn of(args: &Args) -> Self {
        Self {
            ranks: args.ranks.clone(),
            links: args.links().iter().map(Link::to_string).collect(),
            data: args.data.clone(),
            average: args.average,
            iterations: args.iterations,
            warmup: args.warmup,
            arena_bytes: args.arena_bytes,
        }
    }
}

impl Report {
    pub(super) fn new(settings: Settings, emulated: bool) -> Self {
        let (airamp, date) = (env!("CARGO_PKG_VERSION"), clock::now());
        Self { airamp, date, complete: true, emulated, environment: None, settings, results: Vec::new() }
    }

    /// Adds a job; ways that not all of its ranks have reported are left out.
    pub(super) fn take(&mut self, job: &Gathered, link: Link) {
        self.environment = self.environment.take().or_else(|| job.environment.clone());
        for tensor in &job.tensors {
            let vendor = tensor.ways.iter().find(|way| way.contender == "vendor");
            let vendor_us =
                vendor.and_then(|way| way.outcome.combined(job.ranks)).map(|vendor| vendor.time_us);
            let rows = tensor.ways.iter().filter_map(|way| row(job.ranks, link, tensor, way, vendor_us));
            self.results.extend(rows);
        }
    }

    /// Whether in every line all ranks had the same bits, and there is a line.
    pub(super) fn all_identical(&self) -> bool {
        let mut results = self.results.iter().filter_map(|row| row.result.as_ref()).peekable();
        results.peek().is_some() && results.all(|result| result.identical_bits)
    }

    pub(super) fn json(&self) -> String {
        // Plain numbers and text always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Our speedups, a line for each number of ranks, link, datatype and format.
    pub(super) fn chart(&self) -> Chart {
        let mut series: Vec<Series> = Vec::new();
        for (row, result) in self.ours() {
            let link = if self.settings.links.len() > 1 { format!(", {}", row.link) } else { String::new() };
            let name = format!("{}, {} ranks, {}{link}", row.datatype, row.ranks, row.format);
            let point = (row.bytes, result.speedup);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        Chart { subtitle: self.summary(), series }
    }

    fn ours(&self) -> impl Iterator<Item = (&Row, &RowResult)> {
        self.results.iter().filter(|row| row.is_ours).filter_map(|row| Some((row, row.result.as_ref()?)))
    }

    /// What it ran on, in one line.
    pub(super) fn summary(&self) -> String {
        let Settings { data, average, links, .. } = &self.settings;
        let what = if *average { "average" } else { "sum" };
        let device = self.environment.as_ref().map_or(String::new(), |environment| {
            let version = airamp_plan::version(environment.version);
            format!("{} {version}, {}, ", environment.vendor, environment.device)
        });
        format!("{device}link {}, {what} of {data} data, {}", links.join(", "), self.date)
    }
}

fn row(ranks: usize, link: Link, tensor: &Tensor, way: &Way, vendor_us: Option<f64>) -> Option<Row> {
    let (not_offered, result) = match &way.outcome {
        Outcome::NotOffered(reason) => (Some(reason.clone()), None),
        measured => (None, Some(measured.combined(ranks).zip(vendor_us)?)),
    };
    Some(Row {
        ranks,
        link: link.to_string(),
        datatype: tensor.datatype.clone(),
        bytes: tensor.bytes,
        format: way.contender.clone(),
        is_ours: !way.contender.starts_with("vendor"),
        not_offered,
        result: result.map(|(way, vendor_us)| RowResult {
            vendor_us,
            time_us: way.time_us,
            speedup: vendor_us / way.time_us,
            wire_bytes_per_element: way.wire_bytes_per_element,
            steps: way.steps,
            added_bytes: way.added_bytes,
            vnmse: way.vnmse,
            worst_element: way.worst,
            identical_bits: way.identical_bits,
        }),
    })
}
