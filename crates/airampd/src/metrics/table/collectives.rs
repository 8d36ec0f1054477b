//! What the fabric carries: calls and bytes per rank, durations and sizes per job.

use airamp_observer::view::{Calls, Exemplar as Sampled, Latency};

use crate::metrics::family::{Family, Section, counter, gauge, histogram};
use crate::metrics::look::{Look, rank_label};
use crate::metrics::samples::{Exemplar, Histogram, Samples};

use super::RANK;

pub(super) const SECTION: Section = Section {
    title: "Collectives",
    about: "A call counts when it takes effect: in a group at its outermost end. A captured call counts once, \
            when it is captured, on the path `vendor_captured` or `compressed_captured`; replays are not seen. \
            `trial` is a dry run followed by the vendor's own call.",
    families: FAMILIES,
};

const CALL: &[&str] = &["workload", "rank", "kind", "path", "datatype"];
const DISTRIBUTION: &[&str] = &["workload", "kind", "path"];

const FAMILIES: &[Family] = &[
    counter("airamp_collective_calls", "Calls, by collective, path and datatype.", |look, out| {
        calls(look, out, |row| row.calls);
    })
    .labels(CALL),
    counter(
        "airamp_collective_logical_bytes",
        "Payload bytes: what the application asked to have moved.",
        |look, out| calls(look, out, |row| row.logical_bytes),
    )
    .labels(CALL)
    .unit("bytes"),
    counter(
        "airamp_collective_wire_bytes",
        "Bytes that the rank sends to its peers: on the vendor's path by the formula of a ring, compressed by \
         its packets.",
        |look, out| calls(look, out, |row| row.wire_bytes),
    )
    .labels(CALL)
    .unit("bytes"),
    counter(
        "airamp_saved_bytes",
        "Bytes that compression kept off the wire: the vendor's formula less the packets.",
        |look, out| {
            for row in &look.ranks {
                let saved = row.rank.totals.calls.iter().map(|row| row.saved_bytes);
                out.add(&row.labels(), saved.fold(0, u64::saturating_add));
            }
        },
    )
    .labels(RANK)
    .unit("bytes"),
    histogram(
        "airamp_collective_duration_seconds",
        "Device time of sampled calls. In OpenMetrics the newest call of a bucket is its exemplar.",
        |look, out| {
            for job in &look.node.jobs {
                for latency in &job.latency {
                    out.add_histogram(&[&job.label, &latency.kind, &latency.path], durations(latency));
                }
            }
        },
    )
    .labels(DISTRIBUTION)
    .unit("seconds"),
    histogram("airamp_collective_size_bytes", "Payload bytes of one call.", |look, out| {
        for job in &look.node.jobs {
            for sizes in &job.sizes {
                let histogram = Histogram {
                    bounds: sizes.bounds_bytes.iter().map(|bound| *bound as f64).collect(),
                    counts: sizes.counts.clone(),
                    sum: sizes.sum_bytes as f64,
                    exemplars: Vec::new(),
                };
                out.add_histogram(&[&job.label, &sizes.kind, &sizes.path], histogram);
            }
        }
    })
    .labels(DISTRIBUTION)
    .unit("bytes"),
    gauge(
        "airamp_effective_bandwidth_bytes_per_second",
        "Payload bytes per second of device time, over the calls sampled in the last look.",
        |look, out| {
            for row in look.live_ranks() {
                let gbit = row.rank.rates.effective_gbit_per_s;
                out.add(&row.labels(), gbit.map(|gbit| gbit * 1e9 / 8.0));
            }
        },
    )
    .labels(RANK)
    .unit("bytes_per_second"),
];

fn calls(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Calls) -> u64) {
    for row in &look.ranks {
        let [workload, rank] = row.labels();
        for calls in &row.rank.totals.calls {
            out.add(&[workload, rank, &calls.kind, &calls.path, &calls.datatype], value(calls));
        }
    }
}

fn durations(latency: &Latency) -> Histogram {
    Histogram {
        bounds: latency.bounds_s.clone(),
        counts: latency.counts.clone(),
        sum: latency.sum_s,
        exemplars: latency.exemplars.iter().map(exemplar).collect(),
    }
}

/// What finds the call in the evidence and in the logs of its rank.
fn exemplar(sampled: &Sampled) -> Exemplar {
    Exemplar {
        bucket: sampled.bucket as usize,
        labels: vec![
            ("rank", rank_label(sampled.rank)),
            ("communicator", sampled.communicator.clone()),
            ("sequence", sampled.sequence.to_string()),
        ],
        value: sampled.seconds,
        unix_s: sampled.unix_ms as f64 / 1e3,
    }
}
