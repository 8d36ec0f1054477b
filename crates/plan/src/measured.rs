//! What benchmarks measured: the times of the vendor's AllReduce and of ours, and where they were taken.
//! Several files of one device are joined, each at the pace of all; a tensor that was measured more than once counts with
//! its median, and what the same work took each time is kept, so that nobody expects a model to be closer than the
//! measurements are to each other.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::benchmark::{File, Row, text_of};
use crate::pace;
use crate::place::{GBPS, Place};
use crate::repeats::Repeats;

/// Of a link, in Gbit/s.
const RATES: RangeInclusive<f64> = 1e-6..=1e6;

/// One tensor of one job, measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) ranks: usize,
    /// As the benchmark names it.
    pub(crate) link: String,
    /// None: as fast as it is.
    pub(crate) gbps: Option<f64>,
    pub(crate) emulated: bool,
    pub(crate) datatype: String,
    pub(crate) element_bytes: usize,
    pub(crate) bytes: usize,
    pub(crate) arena_bytes: usize,
    /// How many measurements of it the two times are the medians of.
    pub(crate) runs: usize,
    pub(crate) vendor_us: f64,
    pub(crate) ours_us: f64,
    /// What the same work took whenever it was measured, this time included.
    pub(crate) vendor_repeats: Vec<f64>,
    pub(crate) our_repeats: Vec<f64>,
}

/// Whose time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Vendor,
    Ours,
}

pub(crate) const SIDES: [Side; 2] = [Side::Vendor, Side::Ours];

/// What files hold together.
#[derive(Debug)]
pub struct Measured {
    pub(crate) points: Vec<Point>,
    /// Device, library and dates, for people.
    pub source: String,
    /// Whether one of them ends before its benchmark did.
    pub incomplete: bool,
}

impl Point {
    pub(crate) fn time_us(&self, side: Side) -> f64 {
        match side {
            Side::Vendor => self.vendor_us,
            Side::Ours => self.ours_us,
        }
    }

    pub(crate) fn repeats(&self, side: Side) -> &[f64] {
        match side {
            Side::Vendor => &self.vendor_repeats,
            Side::Ours => &self.our_repeats,
        }
    }

    /// The time that the fit is shown.
    pub(crate) fn typical_us(&self, side: Side) -> f64 {
        median(self.repeats(side).iter().copied())
    }

    /// What its work grows with: the vendor moves bytes, ours a byte for each element.
    pub(crate) fn size(&self, side: Side) -> usize {
        match side {
            Side::Vendor => self.bytes,
            Side::Ours => self.bytes / self.element_bytes,
        }
    }

    /// A benchmark has all its ranks on one machine. The emulator gives each rank a link of its own; on GPUs a rate is
    /// that of the loopback, which all share.
    pub(crate) fn place(&self) -> Place {
        let rate = self.gbps.map(|gbps| gbps * GBPS);
        Place {
            nodes: self.ranks,
            per_node: 1,
            side_by_side: 1,
            nics: rate.filter(|_| self.emulated),
            gpu_link: None,
            one_wire: rate.filter(|_| !self.emulated),
            burst_us: self.burst_us(),
            ranks_per_host: self.ranks,
            // With the vendor's own links every rank has a GPU; only over loopback do they share one.
            ranks_per_device: if self.link == VENDORS_LINK { 1 } else { self.ranks },
        }
    }

    /// What the shaped link passes at once, as time at its rate.
    pub(crate) fn burst_us(&self) -> f64 {
        let Some(rate) = self.gbps.map(|gbps| gbps * GBPS) else { return 0.0 };
        if self.emulated {
            (EMULATED_BURST_BYTES / rate).max(EMULATED_BURST_US)
        } else {
            LOOPBACK_BURST_BYTES / rate
        }
    }
}

/// docs/emulator.md; `tc tbf burst 2mb` of `airamp bench --gpu --link-rate`.
const EMULATED_BURST_BYTES: f64 = 262_144.0;
const EMULATED_BURST_US: f64 = 2000.0;
const LOOPBACK_BURST_BYTES: f64 = 2_097_152.0;
pub(crate) const VENDORS_LINK: &str = "vendor's";

/// Bytes of an element of a type that is compressed.
pub(crate) fn element_bytes(datatype: &str) -> Option<usize> {
    match datatype {
        "float16" | "bfloat16" => Some(2),
        "float32" => Some(4),
        _ => None,
    }
}

impl Measured {
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Self, String> {
        let mut files = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let wrong = |why: String| format!("{}: {why}", path.display());
            let text = text_of(path).map_err(wrong)?;
            files.push(File::parse(&text).map_err(wrong)?);
        }
        Self::joined(files)
    }

    pub fn from_text(text: &str) -> Result<Self, String> {
        Self::joined(vec![File::parse(text)?])
    }

    #[cfg(test)]
    pub(crate) fn from_texts(texts: &[String]) -> Result<Self, String> {
        Self::joined(texts.iter().map(|text| File::parse(text)).collect::<Result<_, _>>()?)
    }

    fn joined(mut files: Vec<File>) -> Result<Self, String> {
        pace::level(&mut files);
        let files = &files;
        let devices: Vec<String> = distinct(files.iter().map(File::device));
        if devices.len() > 1 {
            return Err(format!(
                "measured on different devices, which one fit cannot hold: {}",
                devices.join("; ")
            ));
        }
        let mut points = medians(files.iter().flat_map(points).collect());
        if points.is_empty() {
            return Err("no time of a compressed AllReduce beside the vendor's".into());
        }
        let repeats = Repeats::of(files);
        for point in &mut points {
            repeats.give(point);
        }
        let dates = distinct(files.iter().map(|file| file.date.chars().take(10).collect()));
        let versions = distinct(files.iter().map(|file| file.airamp.clone()));
        let source = format!("{}, {}, airamp {}", devices.concat(), dates.join(", "), versions.join(", "));
        Ok(Self { points, source, incomplete: files.iter().any(|file| !file.complete) })
    }
}

/// Of our formats `auto`, which is the library's own choice, or, where it was not measured, all there are.
fn points(file: &File) -> Vec<Point> {
    let has_auto = file.results.iter().any(|row| row.format == "auto");
    let wanted = file.results.iter().filter(|row| row.is_ours && (row.format == "auto" || !has_auto));
    wanted.filter_map(|row| point(file, row)).collect()
}

fn point(file: &File, row: &Row) -> Option<Point> {
    Some(Point {
        ranks: row.ranks,
        link: row.link.clone(),
        gbps: rate(&row.link),
        emulated: file.emulated,
        datatype: row.datatype.clone(),
        element_bytes: element_bytes(&row.datatype)?,
        bytes: row.bytes,
        arena_bytes: file.settings.arena_bytes,
        runs: 1,
        vendor_us: row.vendor_us?,
        ours_us: row.time_us?,
        vendor_repeats: Vec::new(),
        our_repeats: Vec::new(),
    })
}

/// The Gbit/s of `10gbit` and `500mbit`.
fn rate(link: &str) -> Option<f64> {
    let number = |text: &str| text.parse::<f64>().ok();
    let rate = match link.strip_suffix("mbit") {
        Some(text) => number(text).map(|rate| rate * 1e-3),
        None => link.strip_suffix("gbit").and_then(number),
    };
    rate.filter(|rate| RATES.contains(rate))
}

fn medians(points: Vec<Point>) -> Vec<Point> {
    let key = |point: &Point| {
        let Point { ranks, link, datatype, bytes, arena_bytes, .. } = point;
        (*ranks, link.clone(), datatype.clone(), *bytes, *arena_bytes)
    };
    let mut groups: std::collections::BTreeMap<_, Vec<Point>> = std::collections::BTreeMap::new();
    for point in points {
        groups.entry(key(&point)).or_default().push(point);
    }
    let joined = |group: Vec<Point>| {
        let vendor_us = median(group.iter().map(|point| point.vendor_us));
        let ours_us = median(group.iter().map(|point| point.ours_us));
        let runs = group.len();
        group.into_iter().next().map(|first| Point { runs, vendor_us, ours_us, ..first })
    };
    groups.into_values().filter_map(joined).collect()
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) =
        (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2))
    else {
        return f64::NAN;
    };
    f64::midpoint(*low, *high)
}

fn distinct(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::is_line;

    fn file(device: &str, rows: &str) -> String {
        format!(
            r#"{{"airamp":"0.1.0","date":"2026-11-15T10:00:00Z","complete":true,"emulated":true,
            "environment":{{"vendor":"NCCL","version":22809,"device":"{device}"}},
            "settings":{{"arena_bytes":16777216}},"results":[{rows}]}}"#
        )
    }

    fn row(bytes: usize, format: &str, time: f64) -> String {
        let is_ours = !format.starts_with("vendor");
        format!(
            r#"{{"ranks":4,"link":"500mbit","datatype":"float32","bytes":{bytes},"format":"{format}",
            "is_ours":{is_ours},"vendor_us":100.0,"time_us":{time},"wire_bytes_per_element":{}}}"#,
            if format == "vendor_fp8" { 1 } else { 4 }
        )
    }

    #[test]
    fn over_sockets_a_cast_tensor_of_the_vendor_is_another_measurement_of_its_bytes() {
        let rows =
            [row(4096, "vendor", 9.0), row(4096, "auto", 3.0), row(16384, "vendor_fp8", 8.0)].join(",");
        let repeats = |text: &str| {
            let points = Measured::from_text(text).unwrap().points;
            (points[0].vendor_repeats.clone(), points[0].our_repeats.clone())
        };
        let gpu = file("a", &rows).replace("\"emulated\":true", "\"emulated\":false");
        assert_eq!(repeats(&gpu), (vec![9.0, 8.0], vec![3.0]));
        assert_eq!(repeats(&file("a", &rows)), (vec![9.0], vec![3.0]), "casting takes time in the emulator");
        let of_half = row(2048, "auto", 5.0).replace("float32", "bfloat16");
        let (_, ours) = repeats(&gpu.replace("}]}", &format!("}},{of_half}]}}")));
        assert_eq!(ours, [3.0, 5.0], "as many elements");
    }

    #[test]
    fn the_library_s_own_format_counts_and_the_vendor_s_casts_do_not() {
        let rows = [row(4096, "vendor_fp8", 1.0), row(4096, "e4m3", 2.0), row(4096, "auto", 3.0)].join(",");
        let found = Measured::from_text(&file("a", &rows)).unwrap();
        assert_eq!(found.points.len(), 1);
        assert_eq!((found.points[0].ours_us, found.points[0].gbps), (3.0, Some(0.5)));
        assert_eq!(found.source, "a, NCCL 2.28.9, 2026-11-15, airamp 0.1.0");
    }

    #[test]
    fn a_tensor_measured_three_times_counts_with_its_median() {
        let rows = [7.0, 3.0, 4.0].map(|time| row(4096, "auto", time)).join(",");
        let points = Measured::from_text(&file("a", &rows)).unwrap().points;
        assert_eq!((points.len(), points[0].ours_us, points[0].runs), (1, 4.0, 3));
        assert_eq!(points[0].our_repeats, [7.0, 3.0, 4.0]);
    }

    #[test]
    fn an_arena_that_cannot_be_is_refused() {
        let text = file("a", &row(4096, "auto", 3.0));
        for arena in ["0", "18446744073709551615"] {
            let error = Measured::from_text(&text.replace("16777216", arena)).unwrap_err();
            assert!(error.contains("arena"), "{error}");
        }
    }

    #[test]
    fn files_of_two_devices_are_refused() {
        let parse = |device| File::parse(&file(device, &row(4096, "auto", 3.0))).unwrap();
        let error = Measured::joined(vec![parse("a"), parse("b")]).unwrap_err();
        assert!(
            error.contains("different devices") && error.contains("a, NCCL") && error.contains("b, NCCL")
        );
    }

    #[test]
    fn what_is_no_benchmark_is_refused_with_the_reason() {
        let refused = |text: &str| Measured::from_text(text).unwrap_err();
        assert!(refused("{}").contains("airamp bench --json"));
        assert!(refused(&file("a", "")).contains("no time of a compressed AllReduce"));
        for time in [-1.0, 0.0, 1e-300, 1e300] {
            assert!(refused(&file("a", &row(4096, "auto", time))).contains("results[0]"));
        }
        assert!(refused(&file("a", &row(usize::MAX, "auto", 3.0))).contains("results[0]"));
    }

    #[test]
    fn a_reason_repeats_no_control_characters_and_nothing_long() {
        let row = row(4096, "auto", 3.0);
        let long = "x".repeat(100_000);
        let texts = [
            file("\\u001b[2J", &row),
            file(&long, &row),
            file("a", &row.replace("500mbit", "\\n500mbit")),
            file("a", &row.replace("\"float32\"", &format!("\"{long}\""))),
            file("a", &row.replace("\"ranks\":4", &format!("\"ranks\":\"{long}\""))),
        ];
        for text in texts {
            let reason = Measured::from_text(&text).unwrap_err();
            assert!(reason.len() < 1000 && is_line(&reason), "{reason:?}");
        }
    }

    #[test]
    fn a_rate_that_no_link_has_is_none() {
        assert_eq!(["10gbit", "500mbit"].map(rate), [Some(10.0), Some(0.5)]);
        assert_eq!(["0gbit", "infgbit", "nangbit", "1e300mbit", "1e-300gbit", "-1gbit"].map(rate), [None; 6]);
    }
}
