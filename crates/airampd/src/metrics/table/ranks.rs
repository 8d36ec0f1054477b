//! Ranks: what the library costs them, what it leaves to the vendor, and who is late.

use airamp_observer::view::Rank;

use super::RANK;
use crate::metrics::family::{Family, Section, counter, gauge, info};
use crate::metrics::look::{Look, process_word, rank_label};
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Ranks",
    about: "Counters of a rank go on over restarts of its process.",
    families: FAMILIES,
};

const FAMILIES: &[Family] = &[
    info("airamp_rank", "The rank's process and hardware.", |look, out| {
        for row in look.live_ranks() {
            let [workload, label] = row.labels();
            let rank = row.rank;
            let (pid, local, device) = (rank.pid.to_string(), rank_label(rank.local_rank), rank_label(rank.device));
            let rest = [&rank.device_uuid, &rank.nic, &rank.version, &rank.command, &rank.step_id];
            let [uuid, nic, version, command, step] = rest.map(String::as_str);
            out.add(&[workload, label, &pid, &local, &device, uuid, nic, version, command, step], 1_u64);
        }
    })
    .labels(&[
        "workload", "rank", "pid", "local_rank", "device", "device_uuid", "nic", "version", "command", "step_id",
    ]),
    gauge(
        "airamp_rank_process",
        "1 for the state of the rank's process: running, stopped, blocked, gone (others that were there with it live) \
         or foreign (another pid namespace).",
        |look, out| {
            for row in look.expected_ranks() {
                let [workload, rank] = row.labels();
                out.add(&[workload, rank, process_word(row.rank.process_state)], 1_u64);
            }
        },
    )
    .labels(&["workload", "rank", "state"]),
    gauge(
        "airamp_library_state",
        "1 for what the library does in the rank: observing, shadow, on, inert or disabled.",
        |look, out| {
            for row in look.live_ranks() {
                let [workload, rank] = row.labels();
                out.add(&[workload, rank, &row.rank.state], 1_u64);
            }
        },
    )
    .labels(&["workload", "rank", "state"]),
    counter("airamp_hook_seconds", "Host time that the library itself took around calls.", |look, out| {
        all(look, out, |rank| rank.totals.hook_s);
    })
    .labels(RANK)
    .unit("seconds"),
    counter("airamp_hook_calls", "Calls whose host time was taken.", |look, out| {
        all(look, out, |rank| rank.totals.hook_calls);
    })
    .labels(RANK),
    counter("airamp_vendor_seconds", "Host time inside the vendor's functions.", |look, out| {
        all(look, out, |rank| rank.totals.vendor_host_s);
    })
    .labels(RANK)
    .unit("seconds"),
    counter("airamp_fallbacks", "Calls that went to the vendor, by the reason.", |look, out| {
        for row in &look.ranks {
            let [workload, rank] = row.labels();
            for fallbacks in &row.rank.totals.fallbacks {
                out.add(&[workload, rank, &fallbacks.reason], fallbacks.calls);
            }
        }
    })
    .labels(&["workload", "rank", "reason"]),
    counter("airamp_errors", "Calls that returned an error, by the vendor's number of it.", |look, out| {
        for row in &look.ranks {
            let [workload, rank] = row.labels();
            for errors in &row.rank.totals.errors {
                out.add(&[workload, rank, &errors.result.to_string()], errors.calls);
            }
        }
    })
    .labels(&["workload", "rank", "result"]),
    counter("airamp_events_lost", "Events overwritten in the process before anybody read them.", |look, out| {
        all(look, out, |rank| rank.totals.events_lost);
    })
    .labels(RANK),
    counter("airamp_untracked_communicators", "Communicators that found no slot.", |look, out| {
        all(look, out, |rank| rank.totals.untracked);
    })
    .labels(RANK),
    gauge(
        "airamp_rank_lag_seconds",
        "Mean arrival behind the first rank, over the collectives of the last look.",
        |look, out| living(look, out, |rank| rank.lag_s),
    )
    .labels(RANK)
    .unit("seconds"),
    gauge("airamp_rank_last_ratio", "How often the rank was the last to arrive, 0 to 1.", |look, out| {
        living(look, out, |rank| rank.last_share);
    })
    .labels(RANK)
    .unit("ratio"),
    gauge("airamp_rank_late", "1 for a rank that the others wait for.", |look, out| {
        living(look, out, |rank| rank.late);
    })
    .labels(RANK),
];

fn all<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Rank) -> V) {
    for row in &look.ranks {
        out.add(&row.labels(), value(row.rank));
    }
}

fn living<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Rank) -> V) {
    for row in look.live_ranks() {
        out.add(&row.labels(), value(row.rank));
    }
}
