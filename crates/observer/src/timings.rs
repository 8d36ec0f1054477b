//! Sampled calls as histograms and exemplars for the view.

use std::collections::BTreeMap;

use airamp_telemetry::sizes::{
    DURATION_BUCKETS, SIZE_CLASSES, duration_bound_ns, duration_bucket, size_class_bytes,
};
use airamp_telemetry::snapshot::Call;
use airamp_telemetry::{Datatype, Kind, Path, size_class};

use crate::name;
use crate::process::Process;
use crate::reading::Now;
use crate::tally::{Tally, seconds};
use crate::view::{Exemplar, Latency, Sizes};

/// The newest sampled call of each bucket.
#[derive(Default)]
pub(crate) struct Exemplars {
    newest: BTreeMap<(Kind, Path, usize), Exemplar>,
}

impl Exemplars {
    pub(crate) fn take(&mut self, call: &Call, process: &Process, now: Now) {
        let ns = u64::from(call.device_ns);
        let communicators = &process.snapshot.communicators;
        let whose = call.slot.and_then(|slot| communicators.iter().find(|one| one.slot == slot));
        let bucket = duration_bucket(ns);
        let exemplar = Exemplar {
            bucket: bucket as u32,
            rank: process.rank,
            communicator: whose.map(|one| name::communicator(one.facts.name)).unwrap_or_default(),
            sequence: call.sequence,
            seconds: seconds(ns),
            unix_ms: now.unix_ms_of(call.entered_ns),
        };
        self.newest.insert((call.kind, call.path, bucket), exemplar);
    }

    fn of(&self, kind: Kind, path: Path) -> Vec<Exemplar> {
        let range = (kind, path, 0)..=(kind, path, DURATION_BUCKETS);
        self.newest.range(range).map(|(_, exemplar)| exemplar.clone()).collect()
    }
}

pub(crate) fn latency(sum: &Tally, exemplars: &Exemplars) -> Vec<Latency> {
    let bounds_s: Vec<f64> = (0..DURATION_BUCKETS).filter_map(duration_bound_ns).map(seconds).collect();
    let one = |((kind, path), counts): (&(Kind, Path), &[u64; DURATION_BUCKETS])| {
        let range = (*kind, *path, 0)..=(*kind, *path, u8::MAX);
        Latency {
            kind: kind.name().into(),
            path: path.name().into(),
            bounds_s: bounds_s.clone(),
            counts: counts.to_vec(),
            sum_s: sum.timed.range(range).map(|(_, timed)| seconds(timed.sum_ns)).sum(),
            exemplars: exemplars.of(*kind, *path),
        }
    };
    sum.buckets.iter().map(one).collect()
}

pub(crate) fn sizes(sum: &Tally) -> Vec<Sizes> {
    let bounds = (0..SIZE_CLASSES as u8).filter_map(|class| size_class_bytes(class).1);
    let bounds_bytes: Vec<u64> = bounds.map(|next| next - 1).collect();
    let one = |((kind, path), counts): (&(Kind, Path), &[u64; SIZE_CLASSES])| {
        let range = (*kind, *path, Datatype(0))..=(*kind, *path, Datatype(u8::MAX));
        let logical = sum.calls.range(range).map(|(_, counted)| counted.logical);
        Sizes {
            kind: kind.name().into(),
            path: path.name().into(),
            bounds_bytes: bounds_bytes.clone(),
            counts: counts.to_vec(),
            sum_bytes: logical.fold(0, u64::saturating_add),
        }
    };
    sum.sizes.iter().map(one).collect()
}

/// The size class of a call's own elements: it groups calls that compare, and that is all it is for.
pub(crate) fn class_of(call: &Call) -> u8 {
    let bytes = match call.datatype.name() {
        "int8" | "uint8" | "float8e4m3" | "float8e5m2" => 1,
        "float16" | "bfloat16" => 2,
        "int64" | "uint64" | "float64" => 8,
        _ => 4,
    };
    size_class(call.count.saturating_mul(bytes))
}
