//! The largest node that can be: every slot, kind, path and datatype in use on 64 ranks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use airamp_observer::view::{
    Calls, Class, Communicator, Errors, Fallbacks, Job, Latency, Member, Node, OnLink, Rank, Sizes, Totals,
};

use super::{daemon, pages};
use crate::metrics::{Format, TABLE, render};

const RANKS: u32 = 64;
const SLOTS: u32 = 32;
const KINDS: usize = 12;
const PATHS: usize = 5;
const DATATYPES: usize = 13;
const REASONS: usize = 24;
const SIZE_CLASSES: usize = 16;
const DURATION_BUCKETS: usize = 28;
/// Datatypes that can be compressed.
const COMPRESSIBLE: usize = 3;
const RESULTS: usize = 9;

fn word(what: &str, number: usize) -> Cow<'static, str> {
    Cow::Owned(format!("{what}_{number}"))
}

fn totals() -> Totals {
    let mut calls = Vec::new();
    for kind in 0..KINDS {
        for path in 0..PATHS {
            for datatype in 0..DATATYPES {
                let (kind, path, datatype) = (word("kind", kind), word("path", path), word("type", datatype));
                let number = u64::MAX / 1024;
                let (calls_, bytes) = (number, number);
                calls.push(Calls {
                    kind,
                    path,
                    datatype,
                    calls: calls_,
                    logical_bytes: bytes,
                    wire_bytes: bytes,
                    saved_bytes: bytes,
                });
            }
        }
    }
    let fallbacks =
        (0..REASONS).map(|reason| Fallbacks { reason: word("reason", reason), calls: 7 }).collect();
    let errors = (0..RESULTS).map(|result| Errors { result: result as i32, calls: 1 }).collect();
    Totals { calls, fallbacks, errors, ..Totals::default() }
}

fn communicator(slot: u32) -> Communicator {
    let member = |rank| Member {
        rank: Some(rank),
        member: rank,
        vnmse: Some(1e-3),
        agreement: "on".into(),
        ..Member::default()
    };
    let ranks = (0..RANKS).map(member).collect();
    Communicator { name: format!("{slot:016x}"), slot, size: RANKS.into(), ranks, ..Communicator::default() }
}

fn classes(slot: u32) -> impl Iterator<Item = Class> {
    let size = move |datatype, from: usize| Class {
        communicator: format!("{slot:016x}"),
        collective: "AllReduce".to_owned(),
        datatype: format!("type_{datatype}"),
        from_bytes: 1 << (2 * from),
        decision: "compressed".into(),
        speedup: Some(1.5),
        vnmse: Some(1e-3),
        ours_us: Some(10.0),
        vendor_us: Some(15.0),
        ..Class::default()
    };
    (0..COMPRESSIBLE).flat_map(move |datatype| (0..SIZE_CLASSES).map(move |from| size(datatype, from)))
}

fn distributions() -> (Vec<Latency>, Vec<Sizes>) {
    let mut latency = Vec::new();
    let mut sizes = Vec::new();
    for kind in 0..KINDS {
        for path in 0..PATHS {
            let (kind, path) = (word("kind", kind), word("path", path));
            let bounds_s = (0..DURATION_BUCKETS).map(|power| 1e-6 * (1_u64 << power) as f64).collect();
            let counts = vec![1; DURATION_BUCKETS + 1];
            let (kind_, path_) = (kind.clone(), path.clone());
            latency.push(Latency { kind, path, bounds_s, counts, sum_s: 1.0, exemplars: Vec::new() });
            let bounds_bytes = (0..SIZE_CLASSES - 1).map(|power| 1 << (2 * power)).collect();
            let counts = vec![1; SIZE_CLASSES];
            sizes.push(Sizes { kind: kind_, path: path_, bounds_bytes, counts, sum_bytes: 1 });
        }
    }
    (latency, sizes)
}

fn largest() -> Node {
    let rank = |rank| Rank { rank: Some(rank), lag_s: Some(0.0), totals: totals(), ..Rank::default() };
    let (latency, sizes) = distributions();
    let mut job = Job {
        label: "4711".to_owned(),
        ranks: (0..RANKS).map(rank).collect(),
        communicators: (0..SLOTS).map(communicator).collect(),
        classes: (0..SLOTS).flat_map(classes).collect(),
        latency,
        sizes,
        ..Job::default()
    };
    job.gain.on_other_links = vec![OnLink { gbit_per_s: 100.0, speedup: Some(1.1) }];
    Node { jobs: vec![job], ..Node::default() }
}

/// The most series that labels of these names can make, in one job.
fn bound(labels: &[&str]) -> usize {
    let values = |label: &&str| match *label {
        "rank" => RANKS as usize,
        "slot" => SLOTS as usize,
        "kind" => KINDS,
        "path" => PATHS,
        "datatype" => DATATYPES,
        "reason" => REASONS,
        "result" => RESULTS,
        "from_bytes" => SIZE_CLASSES,
        "process" | "ghosts" => 2,
        "code" => daemon().requests.len(),
        // One job; one state, decision or identity at a time; the links of the model.
        _ => 1,
    };
    labels.iter().map(values).product()
}

#[test]
fn the_largest_node_has_a_bounded_number_of_series() {
    let (open, text) = pages(&largest());
    let mut series: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in &text.samples {
        *series.entry(&sample.name).or_default() += 1;
    }
    for family in TABLE.iter().flat_map(|section| section.families) {
        let (most, name) = (bound(family.labels), family.name);
        let found = |ending: &str| series.get(format!("{name}{ending}").as_str()).copied().unwrap_or(0);
        assert!(found(family.kind.ending()) <= most, "{name}: more than {most}");
        assert!(found("_bucket") <= most * (DURATION_BUCKETS + 1), "{name}: more than {most} histograms");
    }
    let calls = RANKS as usize * KINDS * PATHS * DATATYPES;
    assert_eq!(series["airamp_collective_calls_total"], calls);
    assert_eq!(series["airamp_communicator_sequence_issued"], (RANKS * SLOTS) as usize);
    println!("{} series, {} with _created", text.samples.len(), open.samples.len());
}

#[test]
fn a_node_of_64_ranks_with_32_communicators_is_written_in_a_moment() {
    let node = largest();
    let began = std::time::Instant::now();
    let page = render(&node, &daemon(), Format::OpenMetrics);
    println!("{} bytes in {:?}", page.len(), began.elapsed());
    assert!(page.ends_with("# EOF\n"));
}
