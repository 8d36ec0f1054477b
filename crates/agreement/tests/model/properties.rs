//! What must hold. A wait is a state in which a thread cannot go on; no run repeats a state (`nothing_repeats`), so
//! every run that goes on ends in a state in which nothing is left to do, and liveness is what holds there.

use crate::scene::{Op, Reach, Scene};
use crate::world::{Outcome, Seat, Step, World};
use airamp_agreement::MemberTimer;
use stateright::Property;

pub(crate) const SAME_OPERATIONS: &str = "no two ranks issue different operations at an index";
pub(crate) const SAME_GRAPHS: &str = "no two ranks capture different operations by the plan of an index";
pub(crate) const NO_PASSING: &str = "nobody passes a pledged index without the verdict";
pub(crate) const ONE_OUTCOME: &str =
    "creation does not end off for one rank where another connects its peers";
pub(crate) const TIMED: &str = "a timer runs while a thread waits for the agreement or a pledge is held";
pub(crate) const VERDICT: &str =
    "with leader and network alive every wait ends in the verdict, without a time-out";
pub(crate) const STAYS_ON: &str = "what is on is given up for a crash, a time-out or the end of a rank alone";
pub(crate) const ENDS: &str = "every wait ends";

pub(crate) fn properties(scene: &Scene) -> Vec<Property<Scene>> {
    let mut properties = vec![
        Property::always(SAME_OPERATIONS, |_, world| same_operations(world)),
        Property::always(SAME_GRAPHS, |_, world| same_graphs(world)),
        Property::always(NO_PASSING, no_passing),
        Property::always(ONE_OUTCOME, |_, world| one_outcome(world)),
        Property::always(TIMED, timed),
        Property::always(VERDICT, verdict_without_time),
        Property::always(STAYS_ON, stays_on),
        Property::always(ENDS, every_wait_ends),
    ];
    properties.extend(scene.reaches.iter().map(|reach| reached(*reach)));
    properties
}

fn reached(reach: Reach) -> Property<Scene> {
    match reach {
        Reach::On => Property::sometimes("all on", |_, world: &World| all_came_to(world, Outcome::On)),
        Reach::Off => Property::sometimes("all off", |_, world: &World| all_came_to(world, Outcome::Off)),
        Reach::Switch => Property::sometimes("a switch on all ranks", |scene, world: &World| {
            let newest = 1 + scene.changes;
            world.communicators[0].seats.iter().all(|seat| seat.issued().last() == Some(newest))
        }),
        Reach::Abort => Property::sometimes("a switch given up", |_, world: &World| {
            let c = &world.communicators[0];
            c.changes_left == 0
                && !c.proposal_open
                && c.seats.iter().all(|seat| seat.gate.switches.len() == 2)
        }),
        Reach::Wait => Property::sometimes("a thread waits", |scene, world: &World| {
            (0..scene.ranks())
                .filter_map(|rank| world.waits_for_verdict(scene, rank))
                .any(|seat| seat.voted.is_some())
        }),
        Reach::Error => Property::sometimes("an error", |_, world: &World| {
            world.processes.iter().any(|process| process.failed)
        }),
    }
}

fn all_came_to(world: &World, outcome: Outcome) -> bool {
    world.communicators.iter().all(|c| c.seats.iter().all(|seat| seat.outcome == Some(outcome)))
}

/// Also among ranks that have crashed since: what they sent is on the wire.
fn same_operations(world: &World) -> bool {
    world.communicators.iter().all(|c| {
        c.seats.iter().enumerate().all(|(rank, seat)| {
            c.seats[rank + 1..].iter().all(|other| seat.issued().zip(other.issued()).all(|(a, b)| a == b))
        })
    })
}

fn same_graphs(world: &World) -> bool {
    world.communicators.iter().all(|c| {
        let mut captured = c.seats.iter().flat_map(|seat| &seat.captured);
        captured.all(|one| {
            c.seats.iter().flat_map(|seat| &seat.captured).all(|other| one.0 != other.0 || one == other)
        })
    })
}

fn no_passing(scene: &Scene, world: &World) -> bool {
    (0..scene.ranks()).all(|rank| {
        let process = &world.processes[rank];
        (0..scene.communicators).all(|c| {
            let seat = &world.communicators[c].seats[rank];
            let Some(at) = seat.voted else { return true };
            let grouped = process.group.iter().flatten().filter(|call| call.0 == c).count();
            let here = scene.programs[rank].get(process.at).is_some_and(|op| *op == Op::AllReduce(c));
            let passed = matches!(process.step, Step::Passed(_)) && here;
            let captured = seat.captured.iter().all(|(index, _)| *index < at);
            captured && (seat.issued().count() + grouped + usize::from(passed)) as u64 <= at
        })
    })
}

/// To connect puts operations on the wire that a rank which is off would not match.
fn one_outcome(world: &World) -> bool {
    world.communicators.iter().all(|c| {
        let committed = c.seats.iter().any(|seat| seat.committed);
        !(committed && c.seats.iter().any(|seat| seat.outcome == Some(Outcome::Off)))
    })
}

fn timed(scene: &Scene, world: &World) -> bool {
    let pledges = world.communicators.iter().flat_map(|c| &c.seats).filter(|seat| seat.member.is_some());
    pledges.filter(|seat| seat.voted.is_some()).all(|seat| seat.timers.contains(&MemberTimer::Doubt))
        && (0..scene.ranks()).filter_map(|rank| world.waits_for_verdict(scene, rank)).all(has_deadline)
}

/// A thread in front of a pledge that is being made waits for its own control thread alone.
fn has_deadline(seat: &Seat) -> bool {
    seat.pledging.is_some() || !seat.timers.is_empty()
}

fn verdict_without_time(scene: &Scene, world: &World) -> bool {
    let leaderless = world.communicators.iter().any(|c| c.seats[0].entered_init && c.leader.is_none());
    if scene.needs_time || leaderless || world.a_rank_crashed || world.a_timer_fired {
        return true;
    }
    scene.goes_on(world) || is_settled(scene, world)
}

/// A cut link is made again, and no honest rank says what another one cannot expect.
fn stays_on(scene: &Scene, world: &World) -> bool {
    let ends = || scene.programs.iter().flatten().any(|op| matches!(op, Op::End(_) | Op::Exit));
    let given_up = world.communicators.iter().any(|c| c.started && c.given_up);
    !given_up || world.a_rank_crashed || world.a_timer_fired || ends()
}

/// And every proposal is decided, as long as there is a leader.
fn every_wait_ends(scene: &Scene, world: &World) -> bool {
    if !scene.time {
        return true;
    }
    let open = || world.communicators.iter().any(|c| c.leader.is_some() && c.proposal_open);
    let mut time = Vec::new();
    scene.time_choices(world, &mut time);
    !time.is_empty() || scene.goes_on(world) || (is_settled(scene, world) && !open())
}

/// Nobody waits for the agreement, and if no rank was lost, all are through.
fn is_settled(scene: &Scene, world: &World) -> bool {
    let ranks = 0..scene.ranks();
    let lost = world.a_rank_crashed || world.processes.iter().any(|process| process.failed);
    ranks.clone().all(|rank| world.waits_for_verdict(scene, rank).is_none())
        && (lost || ranks.clone().all(|rank| world.has_finished(scene, rank)))
}
