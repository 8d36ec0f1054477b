//! Jobs: what they are, what holds them back, what compression gave them.

use airamp_observer::view::{Bound, Job, JobState};

use super::WORKLOAD;
use crate::metrics::family::{Family, Section, gauge, info};
use crate::metrics::look::Look;
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Jobs",
    about: "One series per job of the node. A job that ended is shown for ten more minutes, without its gauges.",
    families: FAMILIES,
};

const FAMILIES: &[Family] = &[
    info("airamp_job", "What the job is and where its name comes from.", |look, out| {
        for job in &look.node.jobs {
            let state = if job.state == JobState::Running { "running" } else { "ended" };
            out.add(
                &[&job.label, &job.job, &job.source, &job.pod, &job.user, &job.mode, &job.vendor, state],
                1_u64,
            );
        }
    })
    .labels(&["workload", "name", "source", "pod_name", "user", "mode", "vendor", "state"]),
    gauge(
        "airamp_job_start_time_seconds",
        "Unix time at which its first process here started.",
        |look, out| {
            each(look, out, |job| job.started_unix_ms as f64 / 1e3);
        },
    )
    .labels(WORKLOAD)
    .unit("seconds"),
    gauge("airamp_job_processes", "Processes of the job that live on this node.", |look, out| {
        each(look, out, |job| job.ranks_here);
    })
    .labels(WORKLOAD),
    gauge("airamp_job_size", "Ranks of the job's largest communicator, on all nodes.", |look, out| {
        each(look, out, |job| job.size);
    })
    .labels(WORKLOAD),
    gauge(
        "airamp_job_communication_ratio",
        "Device time of collectives by wall time, 0 to 1; none without samples.",
        |look, out| each(look, out, |job| job.communication_share),
    )
    .labels(WORKLOAD)
    .unit("ratio"),
    gauge(
        "airamp_job_waiting_ratio",
        "Share of wall time in which ranks wait for the one that arrives last, 0 to 1.",
        |look, out| each(look, out, |job| job.waiting_share),
    )
    .labels(WORKLOAD)
    .unit("ratio"),
    gauge(
        "airamp_job_host_ratio",
        "Host time inside the vendor's functions and in the library by wall time, 0 to 1.",
        |look, out| each(look, out, |job| job.host_share),
    )
    .labels(WORKLOAD)
    .unit("ratio"),
    gauge(
        "airamp_job_bound",
        "1 for what the job is bound by now: compute, communication, straggler, host or unknown.",
        |look, out| {
            for job in running(look) {
                out.add(&[&job.label, bound_word(job.bound_by.what)], 1_u64);
            }
        },
    )
    .labels(&["workload", "by"]),
    gauge(
        "airamp_speedup_ratio",
        "Measured speedup of the compressed calls against the vendor's time for their class.",
        |look, out| each(look, out, |job| job.gain.speedup),
    )
    .labels(WORKLOAD)
    .unit("ratio"),
    gauge(
        "airamp_saved_seconds",
        "Device time that compression has saved so far, by its trials.",
        |look, out| {
            each(look, out, |job| job.gain.saved_s);
        },
    )
    .labels(WORKLOAD)
    .unit("seconds"),
    gauge(
        "airamp_speedup_on_link_ratio",
        "Speedup that is to be expected on a link of that many Gbit/s, by the model in docs/diagnosis.md.",
        |look, out| {
            for job in running(look) {
                for link in &job.gain.on_other_links {
                    out.add(&[&job.label, &link.gbit_per_s.to_string()], link.speedup);
                }
            }
        },
    )
    .labels(&["workload", "gbit_per_second"])
    .unit("ratio"),
];

fn running<'a>(look: &'a Look<'_>) -> impl Iterator<Item = &'a Job> {
    look.node.jobs.iter().filter(|job| job.state == JobState::Running)
}

fn each<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Job) -> V) {
    for job in running(look) {
        out.add(&[&job.label], value(job));
    }
}

fn bound_word(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "compute",
        Bound::Communication => "communication",
        Bound::Straggler => "straggler",
        Bound::Host => "host",
        Bound::Unknown => "unknown",
    }
}
