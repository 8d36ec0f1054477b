//! Communicators, as each of their ranks on the node sees them.

use airamp_observer::view::CommunicatorState;

use super::MEMBER;
use crate::metrics::family::{Family, Section, gauge, info};
use crate::metrics::look::{Look, MemberRow};
use crate::metrics::number::Value;
use crate::metrics::samples::Samples;

pub(super) const SECTION: Section = Section {
    title: "Communicators",
    about: "A slot is a place for a communicator among those of its job on the node, given to another when it has \
            ended: a small number and no identity. `airamp_communicator_info` has the name, which is equal on all \
            ranks and nodes; join with it on (instance, workload, rank, slot). All are gauges, since a slot's next \
            communicator starts from zero.",
    families: FAMILIES,
};

const COMMUNICATOR: &[&str] = &["workload", "slot"];

const FAMILIES: &[Family] = &[
    info(
        "airamp_communicator",
        "The communicator in a slot: its name, its size on all nodes, the rank in it.",
        |look, out| {
            for row in &look.members {
                let [workload, rank, slot] = row.labels();
                let (size, member) = (row.communicator.size.to_string(), row.member.member.to_string());
                let parent = row.communicator.parent.as_deref().unwrap_or_default();
                out.add(&[workload, rank, slot, &row.communicator.name, parent, &size, &member], 1_u64);
            }
        },
    )
    .labels(&["workload", "rank", "slot", "communicator", "parent", "size", "member"]),
    gauge(
        "airamp_communicator_agreement",
        "1 for the state of the agreement: not_sought, joining, candidate, ready, on, off, frozen or in_doubt.",
        |look, out| {
            for row in &look.members {
                let [workload, rank, slot] = row.labels();
                out.add(&[workload, rank, slot, &row.member.agreement], 1_u64);
            }
        },
    )
    .labels(&["workload", "rank", "slot", "state"]),
    gauge(
        "airamp_communicator_sequence_issued",
        "Number of the last collective issued; equal on all ranks of a right program, sooner or later.",
        |look, out| each(look, out, |row| row.member.issued),
    )
    .labels(MEMBER),
    gauge(
        "airamp_communicator_sequence_completed",
        "Number of the last collective known to have completed on the device.",
        |look, out| each(look, out, |row| row.member.completed),
    )
    .labels(MEMBER),
    gauge(
        "airamp_communicator_oldest_in_flight_seconds",
        "Since when the oldest collective whose end is awaited is under way; 0 when none is.",
        |look, out| each(look, out, |row| row.member.oldest_in_flight_s.unwrap_or(0.0)),
    )
    .labels(MEMBER)
    .unit("seconds"),
    gauge(
        "airamp_communicator_inside_host_seconds",
        "Since when the host has been inside a function of the vendor's; 0 outside.",
        |look, out| each(look, out, |row| row.member.inside_host_s.unwrap_or(0.0)),
    )
    .labels(MEMBER)
    .unit("seconds"),
    gauge("airamp_communicator_arena_bytes", "Device memory that the library holds for it.", |look, out| {
        each(look, out, |row| row.member.arena_bytes);
    })
    .labels(MEMBER)
    .unit("bytes"),
    gauge(
        "airamp_hang_suspected",
        "1 for a communicator that makes no progress while ranks wait in it.",
        |look, out| communicators(look, out, CommunicatorState::Hung),
    )
    .labels(COMMUNICATOR),
    gauge(
        "airamp_hang_missing",
        "1 on the ranks here that have not issued what the others of a late or hung communicator wait for.",
        |look, out| {
            each(look, out, |row| {
                row.member.rank.is_some_and(|rank| row.communicator.missing.contains(&rank))
            });
        },
    )
    .labels(MEMBER),
    gauge("airamp_communicator_poisoned", "1 after an error from which it does not recover.", |look, out| {
        communicators(look, out, CommunicatorState::Poisoned);
    })
    .labels(COMMUNICATOR),
];

/// Whether each communicator is in that state.
fn communicators(look: &Look<'_>, out: &mut Samples<'_>, state: CommunicatorState) {
    for row in &look.members {
        let [workload, _, slot] = row.labels();
        out.add(&[workload, slot], row.communicator.state == state);
    }
}

fn each<V: Value>(look: &Look<'_>, out: &mut Samples<'_>, value: fn(&MemberRow<'_>) -> V) {
    for row in &look.members {
        out.add(&row.labels(), value(row));
    }
}
