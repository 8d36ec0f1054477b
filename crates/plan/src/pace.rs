//! How fast a machine was while one file was measured, beside how fast it was in the others: what runs of one benchmark
//! differ by as a whole says nothing about sizes, and a size that only a slow run has would look slow. Called by `measured`
//! before files are joined; looks at no model.

use std::collections::BTreeMap;

use crate::benchmark::{File, Row};
use crate::measured::median;

/// Fewer tensors than this, each with so many times, do not tell a pace.
const LEAST_TENSORS: usize = 5;
const LEAST_TIMES: usize = 3;
/// The medians move a little when the times that they are of do.
const ROUNDS: usize = 3;

/// Link, ranks and whose time: the ranks of each are processes of their own, which fall as they fall each time they are
/// started.
type Job = (String, usize, bool);
type Tensor = (Job, String, usize, String);

/// Divides the times of each job of each file by its pace.
pub(crate) fn level(files: &mut [File]) {
    for _ in 0..ROUNDS {
        let all = times(files);
        for file in files.iter_mut() {
            let paces = paces(file, &all);
            let pace = |job: &Job| paces.get(job).copied().unwrap_or(1.0);
            for row in &mut file.results {
                let (own, vendors) = (pace(&job(row, row.is_ours)), pace(&job(row, false)));
                row.time_us = row.time_us.map(|time| time / own);
                row.vendor_us = row.vendor_us.map(|time| time / vendors);
            }
        }
    }
}

fn job(row: &Row, is_ours: bool) -> Job {
    (row.link.clone(), row.ranks, is_ours)
}

fn tensor(row: &Row) -> Tensor {
    (job(row, row.is_ours), row.datatype.clone(), row.bytes, row.format.clone())
}

fn times(files: &[File]) -> BTreeMap<Tensor, Vec<f64>> {
    let mut all: BTreeMap<Tensor, Vec<f64>> = BTreeMap::new();
    for row in files.iter().flat_map(|file| &file.results) {
        all.entry(tensor(row)).or_default().extend(row.time_us);
    }
    all
}

/// The file's times beside those of all files, in the middle over the tensors that others have too.
fn paces(file: &File, all: &BTreeMap<Tensor, Vec<f64>>) -> BTreeMap<Job, f64> {
    let mut apart: BTreeMap<Job, Vec<f64>> = BTreeMap::new();
    for row in &file.results {
        let shared = all.get(&tensor(row)).filter(|times| times.len() >= LEAST_TIMES);
        if let (Some(times), Some(time)) = (shared, row.time_us) {
            let typical = median(times.iter().copied());
            apart.entry(job(row, row.is_ours)).or_default().push((time / typical).ln());
        }
    }
    let known = apart.into_iter().filter(|(_, of)| of.len() >= LEAST_TENSORS);
    known.map(|(job, of)| (job, median(of.into_iter()).exp())).collect()
}

#[cfg(test)]
mod tests {
    use crate::measured::Measured;

    /// A run that is `slow` times as slow as others, with `sizes` of 1 us for a KiB.
    fn run(slow: f64, sizes: &[usize]) -> String {
        let row = |kib: &usize| {
            let time = slow * *kib as f64;
            let row = |format: &str, is_ours: bool, time: f64| {
                format!(
                    r#"{{"ranks":4,"link":"loopback","datatype":"float32","bytes":{},"format":"{format}",
                    "is_ours":{is_ours},"vendor_us":{},"time_us":{time}}}"#,
                    kib << 10,
                    slow * *kib as f64
                )
            };
            [row("vendor", false, time), row("auto", true, time / 2.0)].join(",")
        };
        let rows: Vec<String> = sizes.iter().map(row).collect();
        format!(
            r#"{{"airamp":"0.1.0","date":"2026-11-15T10:00:00Z","complete":true,"emulated":false,
            "environment":null,"settings":{{"arena_bytes":16777216}},"results":[{}]}}"#,
            rows.join(",")
        )
    }

    fn times(runs: &[String]) -> Vec<(usize, f64, f64)> {
        let mut found: Vec<_> = Measured::from_texts(runs)
            .unwrap()
            .points
            .iter()
            .map(|point| (point.bytes >> 10, point.vendor_us.round(), point.ours_us.round()))
            .collect();
        found.sort_unstable_by_key(|point| point.0);
        found
    }

    const COMMON: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

    #[test]
    fn a_size_that_only_a_slow_run_has_does_not_look_slow() {
        let with_more = [&COMMON[..], &[768]].concat();
        let runs = [run(1.0, &COMMON), run(1.0, &COMMON), run(1.3, &with_more)];
        assert_eq!(times(&runs)[2], (768, 768.0, 384.0));
        assert_eq!(times(&runs)[3], (1024, 1024.0, 512.0), "what the others say stays");
    }

    #[test]
    fn few_tensors_or_files_do_not_tell_a_pace() {
        let slow = |common: &[usize], files: usize| {
            let with_more = [common, &[768]].concat();
            let mut runs = vec![run(1.0, common); files - 1];
            runs.push(run(1.3, &with_more));
            times(&runs).into_iter().find(|point| point.0 == 768)
        };
        assert_eq!(slow(&COMMON, 2), Some((768, 998.0, 499.0)));
        assert_eq!(slow(&COMMON[..4], 3), Some((768, 998.0, 499.0)));
    }
}
