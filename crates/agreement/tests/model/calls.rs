//! Switches between plans while the applications call.

use crate::holds;
use crate::scene::Op::{
    AllReduce, Capture, Create, End, Exit, GroupEnd, GroupStart, GroupUndone, Receive, Send, Wait,
};
use crate::scene::{Op, Reach, Scene};

const A: usize = 0;
const B: usize = 1;

fn calls(ranks: usize, count: usize) -> Scene {
    Scene { created: true, changes: 1, ..Scene::alike(ranks, &vec![AllReduce(A); count]) }
}

#[test]
fn two_ranks_two_switches_every_step_of_the_gate() {
    let scene = Scene { changes: 2, fine: true, time: true, early: 1, ..calls(2, 4) };
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("2 switches, 2 ranks, 4 calls in fine steps, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn two_ranks_with_two_cuts() {
    let scene = Scene { cuts: 2, time: true, ..calls(2, 2) };
    let reaches = vec![Reach::Switch, Reach::Abort, Reach::Wait];
    holds("1 switch, 2 ranks, 2 calls, 2 cuts", Scene { reaches, ..scene });
}

#[test]
fn a_switch_proposed_before_a_cut_off_rank_knows_of_the_last() {
    let scene = Scene { changes: 2, cuts: 1, time: true, early: 1, ..calls(2, 2) };
    let reaches = vec![Reach::Abort, Reach::Wait, Reach::Error];
    holds("2 switches, 2 ranks, 2 calls, 1 cut, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn two_ranks_with_a_cut_a_crash_and_early_time_outs() {
    let scene = Scene { cuts: 1, crashes: 1, time: true, early: 2, ..calls(2, 2) };
    let reaches = vec![Reach::Switch, Reach::Abort, Reach::Wait, Reach::Error];
    holds("1 switch, 2 ranks, 2 calls, 1 cut, 1 crash, 2 early time-outs", Scene { reaches, ..scene });
}

#[test]
fn three_ranks_with_a_cut() {
    let scene = Scene { cuts: 1, time: true, ..calls(3, 2) };
    let reaches = vec![Reach::Switch, Reach::Abort, Reach::Wait];
    holds("1 switch, 3 ranks, 2 calls, 1 cut", Scene { reaches, ..scene });
}

#[test]
fn three_ranks_with_an_early_time_out() {
    let scene = Scene { time: true, early: 1, ..calls(3, 2) };
    let reaches = vec![Reach::Switch, Reach::Abort, Reach::Wait, Reach::Error];
    holds("1 switch, 3 ranks, 2 calls, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn three_ranks_with_a_crash() {
    let scene = Scene { crashes: 1, time: true, ..calls(3, 2) };
    let reaches = vec![Reach::Switch, Reach::Wait, Reach::Error];
    holds("1 switch, 3 ranks, 2 calls, 1 crash", Scene { reaches, ..scene });
}

#[test]
fn four_ranks() {
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("1 switch, 4 ranks, 2 calls", Scene { reaches, ..calls(4, 2) });
}

/// A rank that is cut off before it hears that all are on may come back while a switch is proposed.
#[test]
fn a_switch_right_after_creation() {
    let program = [Create(A), AllReduce(A), AllReduce(A)];
    let scene = Scene { changes: 1, cuts: 1, time: true, prompt: true, ..Scene::alike(2, &program) };
    let reaches = vec![Reach::On, Reach::Switch, Reach::Wait];
    holds("creation and 1 switch, 2 ranks, 2 calls, prompt Hellos, 1 cut", Scene { reaches, ..scene });
}

/// Rank 0 reduces on A and then sends on B; rank 1 receives on B, waits for it on the host, and only then reduces on
/// A. Bare NCCL runs this once both are connected.
pub(crate) fn crossed_program() -> Scene {
    let first = vec![AllReduce(A), AllReduce(A), Send(B, 1), AllReduce(A), AllReduce(B)];
    let second = vec![Receive(B, 0), Wait(B), AllReduce(A), AllReduce(A), AllReduce(A), AllReduce(B)];
    Scene { communicators: 2, created: true, changes: 1, ..Scene::of(vec![first, second]) }
}

#[test]
fn communicators_that_depend_on_each_other() {
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("crossed communicators, 2 ranks", Scene { time: true, reaches, ..crossed_program() });
}

#[test]
fn launch_queues_that_are_full() {
    let scene = Scene { queue: 1, cuts: 1, time: true, early: 1, ..calls(2, 3) };
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("launch queues of 1, 2 ranks, 3 calls, 1 cut, 1 early time-out", Scene { reaches, ..scene });
    let scene = Scene { queue: 3, time: true, ..crossed_program() };
    holds(
        "crossed communicators, 2 ranks, launch queues of 3",
        Scene { reaches: vec![Reach::Switch], ..scene },
    );
}

/// The same calls, grouped on one rank and single on the other.
pub(crate) fn grouped_program() -> Scene {
    let grouped = vec![AllReduce(A), GroupStart, AllReduce(A), AllReduce(A), GroupEnd, AllReduce(A)];
    let single = vec![AllReduce(A); 4];
    Scene { created: true, changes: 1, ..Scene::of(vec![single, grouped]) }
}

#[test]
fn groups_that_are_open_while_a_pledge_is_asked_for() {
    let scene = Scene { fine: true, cuts: 1, time: true, ..grouped_program() };
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("a group on one of 2 ranks, fine steps, 1 cut", Scene { reaches, ..scene });
}

#[test]
fn groups_that_are_undone() {
    let undone = [
        AllReduce(A),
        GroupStart,
        AllReduce(A),
        AllReduce(A),
        GroupUndone,
        AllReduce(A),
        AllReduce(A),
        AllReduce(A),
    ];
    let scene =
        Scene { created: true, changes: 1, fine: true, time: true, early: 1, ..Scene::alike(2, &undone) };
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("groups undone, 2 ranks, fine steps, 1 early time-out", Scene { reaches, ..scene });
}

/// Rank 0 throws two captures away, and the ranks capture beside other calls.
pub(crate) fn captures() -> Scene {
    let first =
        vec![AllReduce(A), Capture(A), Capture(A), Capture(A), AllReduce(A), Capture(A), AllReduce(A)];
    let second = vec![AllReduce(A), Capture(A), AllReduce(A), AllReduce(A), Capture(A)];
    Scene { created: true, changes: 1, ..Scene::of(vec![first, second]) }
}

#[test]
fn captures_that_are_thrown_away() {
    let scene = Scene { fine: true, time: true, early: 1, ..captures() };
    let reaches = vec![Reach::Switch, Reach::Wait];
    holds("captures, 2 ranks, 3 calls in fine steps, 1 early time-out", Scene { reaches, ..scene });
}

#[test]
fn a_leader_that_exits() {
    the_leader_ends_with(Exit);
}

#[test]
fn a_leader_that_leaves() {
    the_leader_ends_with(End(A));
}

fn the_leader_ends_with(last: Op) {
    let rest = vec![AllReduce(A); 2];
    let leader = [&rest[..], &[last]].concat();
    let scene = Scene {
        created: true,
        changes: 1,
        time: true,
        early: 1,
        ..Scene::of(vec![leader, rest.clone(), rest])
    };
    holds(
        &format!("3 ranks, 2 calls, the leader's last is {last:?}, 1 early time-out"),
        Scene { reaches: vec![Reach::Switch], ..scene },
    );
}

#[test]
fn ranks_that_leave_one_after_the_other() {
    let scene = Scene {
        created: true,
        changes: 1,
        time: true,
        ..Scene::alike(2, &[AllReduce(A), AllReduce(A), End(A)])
    };
    let reaches = vec![Reach::Switch];
    holds(
        "2 ranks, 2 calls, all leave, 1 cut, 1 early time-out",
        Scene { cuts: 1, early: 1, reaches, ..scene },
    );
}
