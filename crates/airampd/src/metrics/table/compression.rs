//! Compression: its cost, its error, and what was decided for each class.

use std::collections::HashMap;

use airamp_observer::view::{Class, Rank};

use super::{MEMBER, RANK};
use crate::metrics::family::{Family, Section, counter, gauge};
use crate::metrics::look::{Look, MemberRow};
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Compression",
    about: "A class is a collective, a datatype and a range of sizes that begins at `from_bytes`; what is decided \
            for it holds for all ranks of the communicator.",
    families: FAMILIES,
};

const CLASS: &[&str] = &["workload", "slot", "collective", "datatype", "from_bytes"];

const FAMILIES: &[Family] = &[
    counter(
        "airamp_codec_seconds",
        "Device time of quantising and dequantising, estimated: payload bytes times what one run of the kernels \
         took for a byte when the communicator was made. None before a call was compressed or tried.",
        |look, out| {
            each(look, out, |rank| codec_is_known(rank).then_some(rank.totals.codec_s));
        },
    )
    .labels(RANK)
    .unit("seconds"),
    counter(
        "airamp_codec_bytes",
        "Payload bytes of compressed and tried calls, for which airamp_codec_seconds is the estimate.",
        |look, out| {
            each(look, out, |rank| codec_is_known(rank).then_some(rank.totals.codec_bytes));
        },
    )
    .labels(RANK)
    .unit("bytes"),
    counter(
        "airamp_saturated",
        "Values that came out above the largest code when they were scaled and became it: mostly the largest of \
         their block, by rounding in the last place, so that they lose nothing.",
        |look, out| {
            each(look, out, |rank| rank.totals.saturated);
        },
    )
    .labels(RANK),
    counter(
        "airamp_nonfinite",
        "Blocks, not values, that held at least one value that is not finite when they were compressed.",
        |look, out| {
            each(look, out, |rank| rank.totals.nonfinite);
        },
    )
    .labels(RANK),
    gauge(
        "airamp_compression_vnmse",
        "Error of the last sampled result: squared, by the squared norm of the exact one.",
        |look, out| {
            for row in &look.members {
                out.add(&row.labels(), row.member.vnmse);
            }
        },
    )
    .labels(MEMBER),
    gauge(
        "airamp_class_decision",
        "1 for what holds for the class: vendor, compressed, trial, would, would-not or frozen.",
        |look, out| {
            for (row, class) in classes(look) {
                let [workload, _, slot] = row.labels();
                let (collective, datatype) = (class.collective.as_str(), class.datatype.as_str());
                let from = class.from_bytes.to_string();
                out.add(&[workload, slot, collective, datatype, &from, &class.decision], 1_u64);
            }
        },
    )
    .labels(&["workload", "slot", "collective", "datatype", "from_bytes", "decision"]),
    gauge(
        "airamp_class_speedup_ratio",
        "Speedup of the class in its trials: least over the ranks.",
        |look, out| each_class(look, out, |class| class.speedup),
    )
    .labels(CLASS)
    .unit("ratio"),
    gauge("airamp_class_vnmse", "Error of the class in its trials.", |look, out| {
        each_class(look, out, |class| class.vnmse);
    })
    .labels(CLASS),
    gauge("airamp_class_compressed_seconds", "Time of a compressed call of the class.", |look, out| {
        each_class(look, out, |class| class.ours_us.map(|us| us / 1e6));
    })
    .labels(CLASS)
    .unit("seconds"),
    gauge("airamp_class_vendor_seconds", "Time of the vendor's call of the class.", |look, out| {
        each_class(look, out, |class| class.vendor_us.map(|us| us / 1e6));
    })
    .labels(CLASS)
    .unit("seconds"),
];

/// Zeros stand there until the library has told of the first call.
fn codec_is_known(rank: &Rank) -> bool {
    rank.totals.codec_bytes > 0 && rank.totals.codec_s > 0.0
}

fn each<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Rank) -> V) {
    for row in &look.ranks {
        out.add(&row.labels(), value(row.rank));
    }
}

fn each_class(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Class) -> Option<f64>) {
    for (row, class) in classes(look) {
        let [workload, _, slot] = row.labels();
        let from = class.from_bytes.to_string();
        out.add(&[workload, slot, &class.collective, &class.datatype, &from], value(class));
    }
}

/// Every class whose communicator still has a rank here, with one of them.
fn classes<'a>(look: &'a Look<'a>) -> impl Iterator<Item = (&'a MemberRow<'a>, &'a Class)> {
    let named = |row: &'a MemberRow<'a>| ((row.job.label.as_str(), row.communicator.name.as_str()), row);
    let rows: HashMap<_, _> = look.members.iter().map(named).collect();
    let all = look.node.jobs.iter().flat_map(|job| job.classes.iter().map(move |class| (job, class)));
    all.filter_map(move |(job, class)| {
        let row = rows.get(&(job.label.as_str(), class.communicator.as_str()))?;
        Some((*row, class))
    })
}
