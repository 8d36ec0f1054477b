//! The daemon itself.

use crate::metrics::family::{Family, Section, counter, gauge};
use crate::metrics::look::{Daemon, Look};
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "The daemon",
    about: "In OpenMetrics these counters, and no others, have a `_created` sample, the daemon's start: of the \
            others only the processes know when they were zero.",
    families: FAMILIES,
};

const FAMILIES: &[Family] = &[
    gauge("airampd_start_time_seconds", "Unix time at which the daemon started.", |look, out| {
        out.add(&[], started(look.daemon));
    })
    .unit("seconds"),
    gauge("airampd_last_look_time_seconds", "Unix time of the look that is shown here.", |look, out| {
        out.add(&[], look.node.time_unix_ms as f64 / 1e3);
    })
    .unit("seconds"),
    gauge("airampd_last_look_seconds", "How long the last look took.", |look, out| {
        out.add(&[], look.node.look_s);
    })
    .unit("seconds"),
    counter("airampd_looks", "Looks at the node's processes.", |look, out| {
        one(look, out, |daemon| daemon.looks)
    }),
    counter("airampd_look_seconds", "Time that all looks took.", |look, out| {
        one(look, out, |daemon| daemon.look_s)
    })
    .unit("seconds"),
    counter("airampd_requests", "HTTP answers, by status.", |look, out| {
        out.created = Some(started(look.daemon));
        for (status, requests) in &look.daemon.requests {
            out.add(&[&status.to_string()], *requests);
        }
    })
    .labels(&["code"]),
    gauge("airampd_connections_open", "Connections that are open.", |look, out| {
        out.add(&[], look.daemon.connections_open);
    }),
    counter("airampd_connections_refused", "Connections closed because there were too many.", |look, out| {
        one(look, out, |daemon| daemon.connections_refused);
    }),
    counter("airampd_evidence_written", "Windows of calls kept as evidence.", |look, out| {
        one(look, out, |daemon| daemon.evidence_written);
    }),
    counter(
        "airampd_evidence_dropped",
        "Windows of calls that were not kept: too many at once, or the disk did not take them.",
        |look, out| {
            one(look, out, |daemon| daemon.evidence_dropped);
        },
    ),
    counter("airampd_reloads", "Times that settings were read again.", |look, out| {
        one(look, out, |daemon| daemon.reloads);
    }),
    counter("airampd_cpu_seconds", "Processor time that the daemon took.", |look, out| {
        one(look, out, |daemon| daemon.cpu_s);
    })
    .unit("seconds"),
    gauge("airampd_resident_memory_bytes", "Memory that the daemon holds.", |look, out| {
        out.add(&[], look.daemon.resident_bytes);
    })
    .unit("bytes"),
];

fn one<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Daemon) -> V) {
    out.created = Some(started(look.daemon));
    out.add(&[], value(look.daemon));
}

fn started(daemon: &Daemon) -> f64 {
    daemon.started_unix_ms as f64 / 1e3
}
