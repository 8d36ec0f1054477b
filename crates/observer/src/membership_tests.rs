//! Claims about ranks that nobody has any more, with made-up readings.

use airamp_telemetry::Ended;
use airamp_telemetry::snapshot::Communicator;

use crate::made_up::{S, at, communicator, ended, labels, reading, snapshot, world};
use crate::reading::Reading;
use crate::view::{Node, ProcessState};

fn states(node: &Node) -> Vec<(Option<u32>, ProcessState)> {
    node.jobs[0].ranks.iter().map(|rank| (rank.rank, rank.process_state)).collect()
}

#[test]
fn a_process_that_gets_its_rank_from_its_first_communicator_leaves_none_behind_that_is_gone() {
    let mut world = world();
    let unranked = |id| reading(id, snapshot("job", -1, 100));
    let node = world.look(vec![unranked(1)], at(1)).node;
    assert_eq!(states(&node), [(None, ProcessState::Running)]);
    let ranked = || {
        let mut ranked = unranked(1);
        ranked.snapshot.communicators = vec![communicator(0xabc, 0, 2)];
        ranked
    };
    let node = world.look(vec![ranked()], at(2)).node;
    assert_eq!(states(&node), [(Some(0), ProcessState::Running)]);
    let node = world.look(vec![ranked(), unranked(2)], at(3)).node;
    assert_eq!(states(&node), [(None, ProcessState::Running), (Some(0), ProcessState::Running)]);
    let node = world.look(vec![ranked(), ended(unranked(2))], at(4)).node;
    assert_eq!(states(&node)[0], (None, ProcessState::Left), "nobody knows what it was to be");
}

#[test]
fn a_number_under_which_a_process_has_counted_keeps_its_counters_and_is_not_gone() {
    let mut world = world();
    let known_as = |communicators: Vec<Communicator>| {
        let mut one = reading(1, snapshot("job", -1, 100));
        (one.snapshot.communicators, one.snapshot.untracked) = (communicators, 3);
        vec![one]
    };
    world.look(known_as(vec![communicator(1, 0, 2)]), at(1));
    let node = world.look(known_as(vec![communicator(1, 0, 2), communicator(2, 5, 8)]), at(2)).node;
    assert_eq!(states(&node), [(Some(0), ProcessState::Left), (Some(5), ProcessState::Running)]);
    assert_eq!(node.jobs[0].ranks[0].totals.untracked, 3);
}

/// Three ranks of a job, of its first run or, from the fiftieth second on, of its second.
fn of_run(run: u64, rank: i32) -> Reading {
    let mut one = snapshot("job", rank, 100 * run as u32 + rank as u32);
    one.communicators = vec![communicator(run, rank, 3)];
    one.started_ns = if run == 1 { S } else { 50 * S };
    reading(10 * run + rank as u64, one)
}

#[test]
fn a_rank_of_the_jobs_last_run_is_not_gone_in_one_with_fewer() {
    let mut world = world();
    let first = || (0..3).map(|rank| of_run(1, rank));
    world.look(first().collect(), at(30));
    let node = world.look(first().map(ended).collect(), at(31)).node;
    assert!(states(&node).iter().all(|(_, state)| *state == ProcessState::Gone), "{:?}", states(&node));
    let second = || (0..2).map(|rank| of_run(2, rank));
    let node = world.look(second().collect(), at(52)).node;
    let (running, left) = (ProcessState::Running, ProcessState::Left);
    assert_eq!(node.jobs.len(), 1);
    assert_eq!(states(&node), [(Some(0), running), (Some(1), running), (Some(2), left)]);
}

#[test]
fn a_rank_that_ends_while_others_that_were_there_live_on_is_gone() {
    let mut world = world();
    let all = || (0..3).map(|rank| of_run(1, rank));
    world.look(all().collect(), at(30));
    world.look(all().take(2).chain(all().skip(2).map(ended)).collect(), at(31));
    for second in 32..35 {
        let node = world.look(all().take(2).collect(), at(second)).node;
        assert_eq!(states(&node)[2], (Some(2), ProcessState::Gone));
    }
    let lost = of_run(1, 1).id;
    world.lose(&[lost], at(35));
    let node = world.look(all().take(1).collect(), at(35)).node;
    assert_eq!(states(&node)[1], (Some(1), ProcessState::Gone), "nothing more can be read of it");
}

#[test]
fn what_a_jobs_last_run_left_takes_neither_its_name_nor_its_ranks_in_a_first_look() {
    let left = || (0..3).map(|rank| ended(of_run(1, rank)));
    let runs = || (0..2).map(|rank| of_run(2, rank));
    for gone_first in [true, false] {
        let mut readings: Vec<Reading> = runs().chain(left()).collect();
        for one in &mut readings {
            one.snapshot.started_unix_ms = one.snapshot.started_ns / 1_000_000;
        }
        if gone_first {
            readings.reverse();
        }
        let mut world = world();
        let node = world.look(readings, at(52)).node;
        assert_eq!(labels(&node), [("job", 2)]);
        let (running, left) = (ProcessState::Running, ProcessState::Left);
        assert_eq!(states(&node), [(Some(0), running), (Some(1), running), (Some(2), left)]);
        assert_eq!((node.jobs[0].started_unix_ms, node.jobs[0].ranks[0].pid), (50_000, 200));
        assert_eq!(labels(&world.look(runs().collect(), at(53)).node), [("job", 2)]);
    }
}

#[test]
fn a_job_that_ends_and_runs_again_between_two_looks_keeps_its_name() {
    let first = || (0..2).map(|rank| of_run(1, rank));
    let second = || (0..2).map(|rank| of_run(2, rank));
    for lost in [false, true] {
        let mut world = world();
        world.look(first().collect(), at(50));
        let readings = if lost {
            world.lose(&[of_run(1, 0).id, of_run(1, 1).id], at(51));
            second().collect()
        } else {
            second().chain(first().map(ended)).collect()
        };
        assert_eq!(labels(&world.look(readings, at(51)).node), [("job", 2)]);
    }
}

/// A process of the first run that has no communicator yet.
fn unknown(rank: i32) -> Reading {
    let mut one = snapshot("job", rank, 100);
    one.started_ns = S;
    reading((10 + rank) as u64, one)
}

#[test]
fn a_program_that_ends_before_its_first_communicator_leaves_no_rank_of_another_that_is_gone() {
    let mut world = world();
    let training = || (0..3).map(|rank| of_run(1, rank));
    let other = || [-1, 4, 5].into_iter().map(unknown).zip(90..).map(|(one, id)| Reading { id, ..one });
    world.look(training().collect(), at(30));
    world.look(training().chain(other()).collect(), at(31));
    for (second, readings) in
        [(32, training().chain(other().map(ended)).collect()), (33, training().collect())]
    {
        let node = world.look(readings, at(second)).node;
        assert_eq!(labels(&node), [("job", 3)]);
        let gone = states(&node).into_iter().find(|(_, state)| *state == ProcessState::Gone);
        assert_eq!(gone, None, "at {second} s: {:?}", states(&node));
    }
}

#[test]
fn a_rank_that_ends_while_all_wait_for_their_first_communicator_is_gone_until_they_have_it_without_it() {
    let mut world = world();
    world.look((0..3).map(unknown).collect(), at(30));
    world.look((0..2).map(unknown).chain([ended(unknown(2))]).collect(), at(31));
    let node = world.look((0..2).map(unknown).collect(), at(32)).node;
    assert_eq!(states(&node)[2], (Some(2), ProcessState::Gone));
    let node = world.look((0..2).map(|rank| of_run(1, rank)).collect(), at(33)).node;
    assert_eq!(states(&node)[2], (Some(2), ProcessState::Left));
}

#[test]
fn what_a_program_left_that_ran_beside_this_one_is_no_rank_that_is_gone_in_a_first_look() {
    for has_ended_its_own in [true, false] {
        let left = (0..5).map(|rank| {
            let mut left = ended(of_run(2, rank));
            (left.snapshot.started_ns, left.snapshot.active_ns) = (2 * S, 20 * S);
            left.snapshot.communicators[0].ended = has_ended_its_own.then_some(Ended::Destroyed);
            left
        });
        let running = (0..3).map(|rank| of_run(1, rank));
        let node = world().look(left.chain(running).collect(), at(30)).node;
        assert_eq!(labels(&node), [("job", 3)]);
        assert_eq!(states(&node)[3..], [3, 4].map(|rank| (Some(rank), ProcessState::Left)));
    }
}
