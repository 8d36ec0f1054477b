//! Claims about programs of one name, with made-up readings.

use airamp_telemetry::snapshot::Communicator;

use crate::made_up::{at, communicator, ended, kinds, labels, reading, snapshot, world};
use crate::reading::Reading;
use crate::view::Node;

#[test]
fn a_dead_rank_is_in_the_job_whose_communicator_it_had_whoever_has_its_number_elsewhere() {
    let dead = || ended(known_by(2, 0));
    let others = || [known_by(1, 0), known_by(1, 1), known_by(2, 1)];
    for place in 0..4 {
        let mut readings = Vec::from(others());
        readings.insert(place, dead());
        let mut world = world();
        world.look(readings, at(1));
        let node = world.look(others().into(), at(10)).node;
        assert_eq!(labels(&node), [("none", 2), ("none#2", 1)], "{place}");
        assert_eq!(kinds(&node), [], "one of two is no majority");
        assert_eq!(node.jobs[1].communicators[0].ranks.len(), 2);
    }
}

#[test]
fn a_program_that_was_seen_before_its_first_communicator_is_no_part_of_one_with_the_same_name() {
    let mut world = world();
    let running = || (0..2).map(|rank| known_by(1, rank));
    world.look(running().collect(), at(1));
    let unknown = reading(20, snapshot("none", -1, 20));
    world.look(running().chain([unknown]).collect(), at(2));
    let node = world.look(running().chain([known_by(2, 0)]).collect(), at(3)).node;
    let jobs: Vec<_> = node.jobs.iter().map(|job| (job.label.as_str(), job.ranks.len())).collect();
    assert_eq!(jobs, [("none", 2), ("none#2", 1)]);
    let node = world.look(running().chain((0..2).map(|rank| known_by(2, rank))).collect(), at(4)).node;
    let jobs: Vec<_> = node.jobs.iter().map(|job| (job.label.as_str(), job.ranks_here)).collect();
    assert_eq!(jobs, [("none", 2), ("none#2", 2)]);
}

#[test]
fn processes_that_were_seen_before_their_first_communicator_are_one_job() {
    let mut world = world();
    let unknown = |rank: u64| reading(10 + rank, snapshot("none", -1, 10 + rank as u32));
    world.look((0..2).map(unknown).collect(), at(1));
    let node = world.look(vec![known_by(1, 0), unknown(1)], at(2)).node;
    assert_eq!(node.jobs.len(), 1);
    let node = world.look((0..2).map(|rank| known_by(1, rank)).collect(), at(3)).node;
    assert_eq!((node.jobs.len(), node.jobs[0].ranks.len()), (1, 2));
}

/// Both ranks of two programs without a job's name, each rank known from the environment.
fn two_programs() -> [Reading; 4] {
    [(1, 0), (2, 1), (1, 1), (2, 0)].map(|(program, rank)| {
        let mut one = known_by(program, rank);
        one.snapshot.identity.world_rank = rank;
        one
    })
}

#[test]
fn two_programs_that_were_seen_before_their_first_communicators_are_told_apart_by_these() {
    for seen_before in 0..5 {
        let mut world = world();
        let mut before = Vec::from(two_programs());
        before.truncate(seen_before);
        before.iter_mut().for_each(|one| one.snapshot.communicators.clear());
        world.look(before, at(1));
        for second in 2..4 {
            let node = world.look(two_programs().into(), at(second)).node;
            assert_eq!(labels(&node), [("none", 2), ("none#2", 2)], "{seen_before} seen before");
            for job in node.jobs {
                let names: Vec<_> =
                    job.communicators.iter().map(|one| (&one.name, one.ranks.len())).collect();
                assert_eq!(names.len(), 1, "{names:?}");
            }
        }
    }
}

#[test]
fn ranks_of_one_job_that_share_communicators_in_a_chain_are_one_job() {
    let chained = [(0, [1, 2]), (3, [8, 9]), (2, [3, 8]), (1, [2, 3])].map(|(rank, shared)| {
        let mut one = known_by(1, rank);
        let parts =
            shared.iter().zip(0..).map(|(name, slot)| Communicator { slot, ..communicator(*name, 0, 2) });
        one.snapshot.communicators = parts.collect();
        one
    });
    let node = world().look(chained.into(), at(1)).node;
    assert_eq!(labels(&node), [("none", 4)]);
}

#[test]
fn a_process_that_has_a_job_keeps_it_from_another_program_whose_communicator_comes_in_the_same_look() {
    let mut world = world();
    let mut first = Vec::from(two_programs());
    let other = first.remove(3);
    first.truncate(1);
    first[0].snapshot.communicators.clear();
    let id = first[0].id;
    world.look(first, at(1));
    let [own, ..] = two_programs();
    world.look(vec![other, own], at(2));
    assert_eq!(world.processes_of("none").iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
}

#[test]
fn what_seemed_two_programs_is_one_job_when_a_communicator_of_both_shows_it() {
    let mut world = world();
    let (x, y, both) = (1, 2, 9);
    let parts = || [known_by(x, 0), known_by(x, 1), known_by(y, 0), known_by(y, 1)];
    let ranks_here = |node: &Node| -> Vec<(String, u64)> {
        node.jobs.iter().map(|job| (job.label.clone(), job.ranks_here)).collect()
    };
    let node = world.look(parts().into(), at(1)).node;
    assert_eq!(ranks_here(&node), [("none".to_owned(), 2), ("none#2".to_owned(), 2)]);
    let whole = || {
        let mut whole = parts();
        for (rank, one) in whole.iter_mut().enumerate() {
            let joint = Communicator { slot: 1, ..communicator(both, rank as i32, 4) };
            one.snapshot.communicators.push(joint);
        }
        whole
    };
    for second in 2..4 {
        let node = world.look(whole().into(), at(second)).node;
        assert_eq!(ranks_here(&node), [("none".to_owned(), 4), ("none#2".to_owned(), 0)]);
        let ranks: Vec<Option<u32>> = node.jobs[0].ranks.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3)]);
    }
}

/// A process of that program, without a rank in its environment.
fn known_by(program: u64, rank: i32) -> Reading {
    let id = 10 * program + rank as u64;
    let mut one = snapshot("none", -1, id as u32);
    one.communicators = vec![communicator(program, rank, 2)];
    reading(id, one)
}
