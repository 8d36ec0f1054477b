//! Claims about programs of one name, whose processes came mixed or in parts, with made-up readings.

use airamp_telemetry::snapshot::{Communicator, Decision};

use crate::made_up::{at, communicator, ended, kinds, labels, reading, snapshot, world};
use crate::reading::Reading;
use crate::view::{JobState, Node};

/// Two programs of four ranks, each known from the environment, in the order in which their files were found.
const MIXED: [(u64, i32); 8] = [(1, 0), (2, 0), (1, 1), (2, 1), (2, 2), (1, 2), (2, 3), (1, 3)];

/// What a process has made: its program's pairs first, and then a communicator of all.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Made {
    Nothing,
    Pairs,
    All,
}

fn of_two(order: &[(u64, i32); 8], made: impl Fn(u64) -> Made) -> Vec<Reading> {
    let one = |((program, rank), id): (&(u64, i32), u64)| {
        let mut one = snapshot("none", *rank, id as u32);
        if made(*program) >= Made::Pairs {
            one.communicators.push(communicator(10 * program + *rank as u64 / 2, rank % 2, 2));
        }
        if made(*program) == Made::All {
            one.communicators.push(Communicator { slot: 1, ..communicator(100 + program, *rank, 4) });
        }
        reading(id, one)
    };
    order.iter().zip(1..).map(one).collect()
}

/// Of the jobs that run: how many processes each has. No communicator of theirs has a rank in another job.
fn running(node: &Node) -> Vec<u64> {
    let running = || node.jobs.iter().filter(|job| job.state == JobState::Running);
    for one in running().flat_map(|job| &job.communicators) {
        assert_eq!(one.ranks.len() as u64, one.size, "{} of {:?}", one.name, labels(node));
    }
    running().map(|job| job.ranks_here).collect()
}

#[test]
fn two_programs_whose_parts_came_mixed_are_told_apart_by_a_communicator_of_all() {
    let mut world = world();
    let order = [(1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3), (1, 0), (1, 1)];
    let node = world.look(of_two(&order, |_| Made::Pairs), at(1)).node;
    assert_eq!(labels(&node), [("none", 4), ("none#2", 4)]);
    for second in 2..5 {
        let node = world.look(of_two(&order, |_| Made::All), at(second)).node;
        assert_eq!((labels(&node), running(&node)), (vec![("none", 4), ("none#2", 4)], vec![4, 4]));
    }
}

#[test]
fn two_programs_that_were_seen_mixed_before_they_made_anything_are_told_apart_whichever_is_first() {
    for first in [vec![1, 2], vec![1], vec![2]] {
        for pairs in [Made::Nothing, Made::Pairs] {
            let mut world = world();
            world.look(of_two(&MIXED, |_| Made::Nothing), at(1));
            world.look(of_two(&MIXED, |_| pairs), at(2));
            let ahead = |program: u64| if first.contains(&program) { Made::All } else { pairs };
            world.look(of_two(&MIXED, ahead), at(3));
            for second in 4..6 {
                let node = world.look(of_two(&MIXED, |_| Made::All), at(second)).node;
                assert_eq!(running(&node), [4, 4], "{first:?} first");
            }
        }
    }
}

#[test]
fn a_program_whose_communicator_shows_takes_its_place_from_others_that_have_shown_none() {
    let mut world = world();
    world.look(of_two(&MIXED, |_| Made::Nothing), at(1));
    for second in 2..4 {
        let one = |program| if program == 1 { Made::All } else { Made::Nothing };
        let node = world.look(of_two(&MIXED, one), at(second)).node;
        assert_eq!((labels(&node), running(&node)), (vec![("none", 4), ("none#2", 4)], vec![4, 4]));
    }
    let node = world.look(of_two(&MIXED, |_| Made::All), at(4)).node;
    assert_eq!((labels(&node), running(&node)), (vec![("none", 4), ("none#2", 4)], vec![4, 4]));
}

#[test]
fn a_program_that_comes_later_takes_no_place_from_one_that_has_shown_no_communicator_yet() {
    let mut world = world();
    let of = |program, made: Made| {
        let all = of_two(&MIXED, |_| made).into_iter().zip(MIXED);
        all.filter(|(_, (whose, _))| *whose == program).map(|(one, _)| one).collect::<Vec<_>>()
    };
    world.look(of(2, Made::Nothing), at(1));
    let both = of(2, Made::Nothing).into_iter().chain(of(1, Made::All));
    world.look(both.collect(), at(2));
    let first = world.processes_of("none").iter().map(|(_, one)| one.snapshot.communicators.len()).max();
    assert_eq!(first, Some(0), "they wait for their first communicator where they were");
}

/// Processes that all got the first one's rank from the environment, with these communicators.
fn with_one_rank(communicators: &[&[u64]]) -> Vec<Reading> {
    let one = |(of_it, id): (&&[u64], u64)| {
        let mut one = snapshot("none", 0, id as u32);
        let made = of_it.iter().zip(0..).map(|(name, slot)| {
            let having: Vec<usize> =
                (0..communicators.len()).filter(|at| communicators[*at].contains(name)).collect();
            let own = having.iter().position(|at| *at as u64 + 1 == id).unwrap_or_default();
            Communicator { slot, ..communicator(*name, own as i32, having.len() as i32) }
        });
        one.communicators = made.collect();
        reading(id, one)
    };
    communicators.iter().zip(1..).map(one).collect()
}

#[test]
fn processes_that_inherited_one_rank_are_one_job_when_a_communicator_of_all_shows_it() {
    let mut world = world();
    let node = world.look(with_one_rank(&[&[1], &[1], &[2], &[2]]), at(1)).node;
    assert_eq!(labels(&node), [("none", 2), ("none#2", 2)]);
    for second in 2..4 {
        let node = world.look(with_one_rank(&[&[1, 9], &[1, 9], &[2, 9], &[2, 9]]), at(second)).node;
        assert_eq!((labels(&node), running(&node)), (vec![("none", 4), ("none#2", 0)], vec![4]));
    }
}

#[test]
fn a_job_stays_one_when_what_joined_its_parts_has_ended_and_others_come() {
    let mut world = world();
    world.look(with_one_rank(&[&[1, 9], &[1, 9], &[2, 9], &[2, 9]]), at(1));
    world.look(with_one_rank(&[&[1], &[1], &[2], &[2]]), at(2));
    let node = world.look(with_one_rank(&[&[1], &[1], &[2], &[2, 3], &[3]]), at(3)).node;
    assert_eq!((labels(&node), running(&node)), (vec![("none", 5)], vec![5]));
}

#[test]
fn what_was_decided_for_a_communicator_goes_with_it_into_the_job_that_it_is_of() {
    let mut world = world();
    let told = |communicators: &[&[u64]]| {
        let mut readings = with_one_rank(communicators);
        for one in &mut readings {
            one.snapshot.identity.world_rank = -1;
            let part = &mut one.snapshot.communicators[0];
            (part.sums.compressed_calls, part.vnmse) = (1, Some(0.5));
        }
        readings
    };
    let mut first = told(&[&[1], &[1], &[2], &[2]]);
    for (one, name) in [(0, 1), (2, 2)] {
        let json = format!(
            r#"{{"communicator":"{name:016x}","rank":0,"ranks":2,"index":8,"class":{{"collective":"AllReduce","datatype":"bfloat16","from_bytes":4096}},"decision":"vendor","reason":"its error","vnmse":0.5}}"#
        );
        first[one].decisions = vec![Decision { number: 0, at_ns: 1, json }];
    }
    let node = world.look(first, at(1)).node;
    assert_eq!((node.jobs.len(), kinds(&node)), (2, vec![]));
    let node = world.look(told(&[&[1, 9], &[1, 9], &[2, 9], &[2, 9]]), at(2)).node;
    assert_eq!(kinds(&node), [], "the class was refused for that error");
    let decided = |job: usize| {
        let classes = node.jobs[job].classes.iter().map(|class| class.communicator.clone());
        let records = node.jobs[job].decisions.iter().map(|record| record.communicator.clone());
        (classes.collect::<Vec<_>>(), records.collect::<Vec<_>>())
    };
    let both = vec![format!("{:016x}", 1), format!("{:016x}", 2)];
    assert_eq!((decided(0), decided(1)), ((both.clone(), both), (vec![], vec![])));
}

#[test]
fn a_thousand_files_of_one_rank_become_one_job_when_a_communicator_of_all_shows() {
    let mut world = world();
    let files = |name: fn(u64) -> u64| -> Vec<Reading> {
        let one = |id| {
            let mut one = snapshot("none", 0, id as u32);
            one.communicators = vec![communicator(name(id), 0, 1024)];
            reading(id, one)
        };
        (1..=1024).map(one).collect()
    };
    world.look(files(|id| id), at(1));
    let node = world.look(files(|_| 5000), at(2)).node;
    let here: Vec<u64> = node.jobs.iter().map(|job| job.ranks_here).filter(|here| *here > 0).collect();
    assert_eq!(here, [1024]);
}

#[test]
fn one_more_of_very_many_programs_of_a_name_asks_few_of_them_for_room() {
    let mut world = world();
    let alone = |id: u64| {
        let mut one = snapshot("none", 0, id as u32);
        one.communicators = vec![communicator(id, 0, 2)];
        reading(id, one)
    };
    world.look((1..=65).map(alone).collect(), at(1));
    let node = world.look(vec![ended(alone(64)), ended(alone(65)), alone(66), alone(67)], at(2)).node;
    let shown: Vec<_> = labels(&node).into_iter().skip(63).collect();
    assert_eq!(shown, [("none#64", 1), ("none#65", 0), ("none#66", 1)]);
}
