//! The node as a whole.

use std::collections::BTreeMap;

use airamp_observer::view::{Calls, FindingKind, JobState, ProcessState};

use crate::metrics::family::{Family, Section, counter, gauge, info};
use crate::metrics::look::Look;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "The node",
    about: "Sums of the node hold what ended and was forgotten too: they go on where the series of a job end.",
    families: FAMILIES,
};

const FAMILIES: &[Family] = &[
    gauge(
        "airamp_status",
        "Liveness: 1 while a process lives and runs, 0 when it is stopped or gone while its job runs. \
         The daemon itself is process=\"airampd\".",
        status,
    )
    .labels(&["process", "workload", "rank"]),
    info("airamp", "Version and architecture of the daemon, and the node's name: SLURMD_NODENAME, NODE_NAME, or the host's.", |look, out| {
        out.add(&[&look.node.version, std::env::consts::ARCH, &look.node.node], 1_u64);
    })
    .labels(&["version", "arch", "node"]),
    gauge("airamp_processes", "Processes of the node whose telemetry is read.", |look, out| {
        out.add(&[], look.node.processes);
    }),
    gauge("airamp_unreadable_files", "Telemetry files that cannot be read.", |look, out| {
        out.add(&[], look.node.unreadable_count);
    }),
    gauge("airamp_findings", "What is wrong now, by kind; 0 where nothing is.", findings)
        .labels(&["workload", "kind"]),
    counter("airamp_node_calls", "Calls of all jobs that the daemon has seen.", |look, out| {
        out.add(&[], sum(look, |row| row.calls));
    }),
    counter(
        "airamp_node_logical_bytes",
        "Payload bytes of all jobs that the daemon has seen.",
        |look, out| {
            out.add(&[], sum(look, |row| row.logical_bytes));
        },
    )
    .unit("bytes"),
    counter("airamp_node_wire_bytes", "Bytes that all jobs sent to their peers.", |look, out| {
        out.add(&[], sum(look, |row| row.wire_bytes));
    })
    .unit("bytes"),
    counter("airamp_node_saved_bytes", "Bytes that compression kept off the wire, all jobs.", |look, out| {
        out.add(&[], sum(look, |row| row.saved_bytes));
    })
    .unit("bytes"),
];

fn status(look: &Look<'_>, out: &mut Samples<'_>) {
    out.add(&["airampd", "", ""], 1_u64);
    for row in look.expected_ranks() {
        let [workload, rank] = row.labels();
        let dead = matches!(row.rank.process_state, ProcessState::Stopped | ProcessState::Gone);
        out.add(&["rank", workload, rank], !dead);
    }
}

fn findings(look: &Look<'_>, out: &mut Samples<'_>) {
    let mut found: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for job in look.node.jobs.iter().filter(|job| job.state == JobState::Running) {
        found.extend(FindingKind::ALL.map(|kind| ((job.label.as_str(), kind.name()), 0)));
    }
    for finding in &look.node.findings {
        *found.entry((&finding.job, finding.kind.name())).or_default() += 1;
    }
    for ((workload, kind), count) in found {
        out.add(&[workload, kind], count);
    }
}

fn sum(look: &Look<'_>, value: fn(&Calls) -> u64) -> u64 {
    look.node.totals.calls.iter().map(value).fold(0, u64::saturating_add)
}
