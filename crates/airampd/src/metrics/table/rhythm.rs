//! The rhythm of a job's calls: what was learnt, what broke it, and what is done in its gaps.

use airamp_observer::view::{Deviations, Rank};

use super::{MEMBER, RANK};
use crate::metrics::family::{Family, Section, counter, gauge};
use crate::metrics::look::{Look, MemberRow, RankRow};
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Rhythm",
    about: "Each communicator's calls are compared with the step that its rank has learnt. A rank's step is that of \
            its locked communicator whose step takes longest.",
    families: FAMILIES,
};

const FAMILIES: &[Family] = &[
    gauge(
        "airamp_pattern_state",
        "1 for the state of the learnt pattern of calls: off, learning, locked or drifting.",
        |look, out| {
            for row in &look.members {
                let [workload, rank, slot] = row.labels();
                out.add(&[workload, rank, slot, &row.member.pattern.state], 1_u64);
            }
        },
    )
    .labels(&["workload", "rank", "slot", "state"]),
    gauge(
        "airamp_pattern_confidence_ratio",
        "How well calls fit the learnt pattern, 0 to 1; none while the pattern is off.",
        |look, out| {
            members(look, out, |row| {
                let pattern = &row.member.pattern;
                (pattern.state != "off").then_some(pattern.confidence)
            });
        },
    )
    .labels(MEMBER)
    .unit("ratio"),
    gauge("airamp_pattern_period_seconds", "Length of the step that the pattern found.", |look, out| {
        members(look, out, |row| row.member.pattern.period_s);
    })
    .labels(MEMBER)
    .unit("seconds"),
    gauge("airamp_step_seconds", "Length of the rank's step; none while it has no rhythm.", |look, out| {
        living(look, out, |rank| rank.rhythm.step_s);
    })
    .labels(RANK)
    .unit("seconds"),
    gauge("airamp_step", "Number of the rank's step, counted since its rhythm was found.", |look, out| {
        living(look, out, |rank| rank.rhythm.step);
    })
    .labels(RANK),
    counter(
        "airamp_pattern_deviations",
        "Calls that were late, missing, extra or resized (kind) against what the rank's own rhythm had foreseen.",
        deviations,
    )
    .labels(&["workload", "rank", "kind"]),
    counter("airamp_pace_changes", "How often steps became longer or shorter, and stayed so.", |look, out| {
        for row in look.ranks.iter().filter(|row| has_rhythm(row)) {
            out.add(&row.labels(), row.rank.totals.pace_changes);
        }
    })
    .labels(RANK),
    counter(
        "airamp_ghost_kernels",
        "Kernels launched to keep the device awake in idle gaps.",
        |look, out| {
            for row in &look.ranks {
                out.add(&row.labels(), row.rank.totals.ghosts);
            }
        },
    )
    .labels(RANK),
    gauge(
        "airamp_ghost_first_kernel_seconds",
        "What the first kernel after an idle gap takes, with and without ghost kernels in the gap (ghosts); none \
         until it was measured.",
        |look, out| {
            for row in look.live_ranks() {
                let ([workload, rank], gain) = (row.labels(), row.rank.ghosts.as_ref());
                out.add(&[workload, rank, "with"], gain.map(|gain| gain.with_s));
                out.add(&[workload, rank, "without"], gain.map(|gain| gain.without_s));
            }
        },
    )
    .labels(&["workload", "rank", "ghosts"])
    .unit("seconds"),
];

/// Every kind from the start, so that the first deviation is an increase.
fn deviations(look: &Look<'_>, out: &mut Samples<'_>) {
    for row in look.ranks.iter().filter(|row| has_rhythm(row)) {
        let [workload, rank] = row.labels();
        for kind in Deviations::kinds() {
            let found = row.rank.totals.deviations.iter().find(|one| one.kind == kind);
            out.add(&[workload, rank, kind], found.map_or(0, |found| found.calls));
        }
    }
}

/// Or had one.
fn has_rhythm(row: &RankRow<'_>) -> bool {
    let totals = &row.rank.totals;
    row.rank.rhythm.state != "off" || totals.pace_changes > 0 || !totals.deviations.is_empty()
}

fn living<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&Rank) -> V) {
    for row in look.live_ranks() {
        out.add(&row.labels(), value(row.rank));
    }
}

fn members<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&MemberRow<'_>) -> V) {
    for row in &look.members {
        out.add(&row.labels(), value(row));
    }
}
