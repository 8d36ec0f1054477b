//! Creation: Hello, the vendor's init, acquisition, the verdict, the connection of peers, the start.

use crate::holds;
use crate::scene::Op::{AllReduce, Create, Exit};
use crate::scene::{Op, Reach, Scene};

/// What creation comes to decides what the calls put on the wire; they come in `calls.rs`.
const PROGRAM: [Op; 1] = [Create(0)];

#[test]
fn two_ranks_with_two_cuts_and_early_time_outs() {
    let reaches = vec![Reach::On, Reach::Off, Reach::Error];
    let scene = Scene { cuts: 2, time: true, early: 1, reaches, ..Scene::alike(2, &PROGRAM) };
    holds("creation, 2 ranks, 2 cuts, 1 early time-out", scene);
}

#[test]
fn two_ranks_with_a_cut_a_crash_and_early_time_outs() {
    let reaches = vec![Reach::On, Reach::Off, Reach::Error];
    let scene = Scene { cuts: 1, crashes: 1, time: true, early: 2, reaches, ..Scene::alike(2, &PROGRAM) };
    holds("creation, 2 ranks, 1 cut, 1 crash, 2 early time-outs", scene);
}

#[test]
fn three_ranks_with_a_cut() {
    let scene = Scene { cuts: 1, time: true, ..Scene::alike(3, &PROGRAM) };
    holds("creation, 3 ranks, 1 cut", Scene { reaches: vec![Reach::On, Reach::Off], ..scene });
}

#[test]
fn three_ranks_with_a_cut_and_an_early_time_out() {
    let scene = Scene { cuts: 1, time: true, early: 1, prompt: true, ..Scene::alike(3, &PROGRAM) };
    let reaches = vec![Reach::On, Reach::Off, Reach::Error];
    holds("creation, 3 ranks, prompt Hellos, 1 cut, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn three_ranks_with_a_crash_and_an_early_time_out() {
    let scene = Scene { crashes: 1, time: true, early: 1, ..Scene::alike(3, &PROGRAM) };
    let reaches = vec![Reach::On, Reach::Off, Reach::Error];
    holds("creation, 3 ranks, 1 crash, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn four_ranks_with_a_cut() {
    let scene = Scene { cuts: 1, time: true, prompt: true, ..Scene::alike(4, &PROGRAM) };
    holds("creation, 4 ranks, prompt Hellos, 1 cut", Scene { reaches: vec![Reach::On, Reach::Off], ..scene });
}

#[test]
fn four_ranks_with_a_crash() {
    let scene = Scene { crashes: 1, time: true, ..Scene::alike(4, &PROGRAM) };
    holds("creation, 4 ranks, 1 crash", Scene { reaches: vec![Reach::On], ..scene });
}

#[test]
fn a_rank_without_the_library_costs_the_grace_and_nothing_else() {
    for who in 0..2 {
        let scene = Scene { without_library: Some(who), ..Scene::alike(2, &PROGRAM) };
        let reaches = vec![Reach::Off];
        holds(
            &format!("creation, 2 ranks, {who} without the library, 1 cut"),
            Scene { cuts: 1, time: true, needs_time: true, reaches, ..scene },
        );
    }
}

#[test]
fn a_rank_that_cannot_or_differs_turns_it_off_for_all() {
    let base = Scene { cuts: 1, time: true, reaches: vec![Reach::Off], ..Scene::alike(3, &PROGRAM) };
    let incapable = Scene { incapable: Some(2), ..base.clone() };
    holds("creation, 3 ranks, one incapable, 1 cut", incapable);
    let other = Scene { other_terms: Some(1), ..base };
    holds("creation, 3 ranks, one with other terms, 1 cut", other);
}

#[test]
fn a_rank_that_cannot_reach_the_leader_turns_it_off_for_all_in_time() {
    let scene = Scene { unreachable_for: Some(1), ..Scene::alike(3, &PROGRAM) };
    let reaches = vec![Reach::Off];
    holds(
        "creation, 3 ranks, leader unreachable for one",
        Scene { time: true, needs_time: true, reaches, ..scene },
    );
}

#[test]
fn a_failure_to_connect_the_peers_breaks_it_for_all() {
    let scene = Scene { fails_to_connect: Some(1), ..Scene::alike(3, &PROGRAM) };
    holds(
        "creation, 3 ranks, one fails to connect",
        Scene { cuts: 1, time: true, reaches: vec![Reach::Error], ..scene },
    );
}

#[test]
fn an_acquisition_that_waits_for_the_device_delays_and_does_not_hang() {
    let first = vec![Create(0), AllReduce(0), Create(1), AllReduce(1)];
    let second = vec![Create(0), Create(1), AllReduce(0), AllReduce(1)];
    let scene = Scene { communicators: 2, busy_device: true, ..Scene::of(vec![first, second]) };
    let scene = Scene { time: true, early: 1, needs_time: true, ..scene };
    holds("a second communicator is created on a busy device, 2 ranks, 1 early time-out", scene);
}

#[test]
fn a_leader_that_exits_after_creation() {
    let leader = vec![Create(0), AllReduce(0), Exit];
    let rest = PROGRAM.to_vec();
    let scene = Scene::of(vec![leader, rest.clone(), rest]);
    holds(
        "creation, 3 ranks, the leader exits, 1 early time-out",
        Scene { time: true, early: 1, reaches: vec![Reach::On], ..scene },
    );
}
