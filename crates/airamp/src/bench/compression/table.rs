//! The report as a table for people.

use super::report::{Report, Row, RowResult};
use crate::bench::size::shown;
use crate::columns::{aligned, time};

const HEADER: [&str; 12] = [
    "ranks",
    "link",
    "datatype",
    "format",
    "size",
    "vendor",
    "time",
    "speedup",
    "B/element",
    "vNMSE",
    "worst",
    "same bits",
];
const TEXT: [&str; 4] = ["link", "datatype", "format", "same bits"];

pub(super) fn table(report: &Report) -> String {
    let lines = report.results.iter().map(columns).collect();
    let mut text = format!("{}\n\n{}", report.summary(), aligned(HEADER, lines, &TEXT));
    let mut reasons: Vec<String> = report
        .results
        .iter()
        .filter_map(|row| {
            Some(format!("{} not offered: {}\n", label(&row.format), row.not_offered.as_ref()?))
        })
        .collect();
    reasons.dedup();
    if !reasons.is_empty() {
        text.push('\n');
        text.extend(reasons);
    }
    text
}

fn columns(row: &Row) -> [String; 12] {
    let dash = || "-".to_owned();
    let result = |show: fn(&RowResult) -> String| row.result.as_ref().map_or_else(dash, show);
    [
        row.ranks.to_string(),
        row.link.clone(),
        row.datatype.clone(),
        label(&row.format).to_owned(),
        shown(row.bytes),
        result(|result| time(result.vendor_us)),
        result(|result| time(result.time_us)),
        result(|result| format!("{:.2}x", result.speedup)),
        result(|result| format!("{:.3}", result.wire_bytes_per_element)),
        result(|result| error(result.vnmse)),
        result(|result| error(result.worst_element)),
        result(|result| if result.identical_bits { "yes".into() } else { "NO".into() }),
    ]
}

fn error(value: Option<f64>) -> String {
    match value {
        Some(0.0) => "0".to_owned(),
        Some(value) => format!("{value:.1e}"),
        None => "not finite".to_owned(),
    }
}

fn label(format: &str) -> &str {
    match format {
        "vendor_fp16" => "fp16, cast untimed",
        "vendor_fp8" => "fp8, cast untimed",
        format => format,
    }
}
