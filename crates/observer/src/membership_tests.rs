//! Claims about whom a look counts on: ranks that tell nothing any more, numbers that nobody has any more, and programs
//! of one name, with made-up readings.

use airamp_telemetry::snapshot::{Arrival, Communicator};
use airamp_telemetry::{Ended, PatternState, State};

use crate::conditions::Limits;
use crate::made_up::{communicator, reading, snapshot};
use crate::reading::{Now, Reading};
use crate::view::{Finding, FindingKind, Node, ProcessState};
use crate::world::World;

const S: u64 = 1_000_000_000;

fn world() -> World {
    World::new("node-1".to_owned(), Limits { hang_after_ns: 10 * S, late_after_ns: S })
}

fn at(second: u64) -> Now {
    Now { ns: second * S, unix_ms: 1_000_000 + second * 1000 }
}

/// Rank `rank` of two, which issued collective `issued` at that second.
fn member(rank: i32, issued: u64, second: u64) -> Reading {
    let mut made_up = snapshot("job", rank, 100 + rank as u32);
    let issued_ns = second * S;
    let arrivals = vec![Arrival { sequence: issued, at_ns: issued_ns }];
    made_up.communicators =
        vec![Communicator { issued, issued_ns, arrivals, ..communicator(0xabc, rank, 2) }];
    reading(rank as u64 + 1, made_up)
}

/// The library keeps out of it since the first second, in the midst of a call.
fn inert(rank: i32) -> Reading {
    let mut inert = member(rank, 4, 1);
    inert.snapshot.state = State::Inert;
    let own = &mut inert.snapshot.communicators[0];
    (own.inside, own.inside_since_ns) = (1, S);
    inert
}

fn kinds(node: &Node) -> Vec<FindingKind> {
    node.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_rank_that_became_inert_is_neither_late_nor_missing_while_its_job_goes_on() {
    let mut world = world();
    for second in 1..40 {
        let node = world.look(vec![member(0, 4 + second, second), inert(1)], at(second)).node;
        assert_eq!(kinds(&node), [], "at {second} s: {:#?}", node.findings);
        assert!(node.jobs[0].ranks.iter().all(|rank| !rank.late));
    }
}

#[test]
fn a_hang_beside_a_rank_that_became_inert_sends_one_to_look_at_it() {
    let mut world = world();
    world.look(vec![waiting(0, 4), inert(1)], at(4));
    let node = world.look(vec![waiting(0, 4), inert(1)], at(20)).node;
    let [hang] = &node.findings[..] else { panic!("{:#?}", node.findings) };
    assert_eq!((hang.kind, hang.ranks.as_slice()), (FindingKind::Hang, &[][..]));
    assert!(hang.text.contains("look at the 1 more in which the library is inert"), "{}", hang.text);
}

#[test]
fn a_hang_beside_a_rank_that_became_inert_says_so_although_other_nodes_have_ranks_too() {
    let mut world = world();
    let found = |world: &mut World, in_message: bool, second: u64| {
        let mut waits = waiting(0, 4);
        let own = &mut waits.snapshot.communicators[0];
        (own.inside_other, own.facts.ranks) = (in_message, 5);
        let node = world.look(vec![waits, inert(1)], at(second)).node;
        let [hang] = &node.findings[..] else { panic!("{:#?}", node.findings) };
        hang.text.clone()
    };
    let text = found(&mut world, false, 20);
    let both = "the 1 more here in which the library is inert, which tell nothing, and at the 3 ranks on other nodes";
    assert!(text.contains(both), "{text}");
    let text = found(&mut self::world(), true, 20);
    assert!(text.contains("behind in a collective, unless the library is inert in it (1 here)"), "{text}");
}

#[test]
fn a_hang_beside_a_rank_that_was_inert_before_the_communicator_was_made_does_not_send_one_elsewhere_alone() {
    let before = |with: Vec<Communicator>| {
        let mut inert = inert(1);
        inert.snapshot.communicators = with;
        inert
    };
    for with in [Vec::new(), vec![communicator(0xdef, 1, 2)]] {
        let mut world = world();
        world.look(vec![waiting(0, 4), before(with.clone())], at(4));
        let node = world.look(vec![waiting(0, 4), before(with)], at(20)).node;
        let text = &node.findings.iter().find(|one| one.kind == FindingKind::Hang).expect("a hang").text;
        assert!(text.contains("look at the 1 ranks on other nodes, or at the 1 here in which"), "{text}");
    }
}

#[test]
fn what_a_rank_that_became_inert_had_learnt_of_the_rhythm_is_not_the_job_s() {
    let with = |mut one: Reading, state: PatternState| {
        let own = &mut one.snapshot.communicators[0].pattern;
        (own.state, own.period_ns) = (state, S);
        one
    };
    let of_job = |second: Reading| {
        let first = with(member(0, 5, 2), PatternState::Locked);
        world().look(vec![first, second], at(2)).node.jobs[0].rhythm.state.clone()
    };
    assert_eq!(of_job(with(member(1, 5, 2), PatternState::Learning)), "learning");
    assert_eq!(of_job(with(inert(1), PatternState::Learning)), "locked");
}

/// Who issued that in the second second, and has been inside the next call since the third.
fn waiting(rank: i32, issued: u64) -> Reading {
    let mut waits = member(rank, issued, 2);
    let own = &mut waits.snapshot.communicators[0];
    (own.inside, own.inside_since_ns) = (1, 3 * S);
    waits
}

/// What is found from the thirtieth second on of one that became inert at the first and is gone at the third.
fn found_of_an_inert_one_that_died(others: impl Fn(u64) -> Vec<Reading>) -> Vec<Finding> {
    let mut world = world();
    world.look(others(2).into_iter().chain([inert(1)]).collect(), at(2));
    world.look(others(3).into_iter().chain([ended(inert(1))]).collect(), at(3));
    (4..30).for_each(|second| drop(world.look(others(second), at(second))));
    world.look(others(30), at(30)).node.findings
}

#[test]
fn a_rank_that_became_inert_and_dies_is_named_dead_and_nobody_says_that_none_is_missing() {
    let found = found_of_an_inert_one_that_died(|_| vec![waiting(0, 40)]);
    let [dead] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((dead.kind, dead.ranks.as_slice()), (FindingKind::DeadProcess, &[1][..]));
    assert_eq!(dead.sequence, None, "it counted no further when it became inert");
    assert!(dead.text.contains("the library was inert in it"), "{}", dead.text);
}

#[test]
fn a_rank_that_became_inert_and_ends_after_the_others_ended_their_communicator_is_dead_only_if_calls_failed()
{
    for errors in [vec![], vec![(6, 1)]] {
        let found = found_of_an_inert_one_that_died(|second| {
            let mut over = member(0, 40, 1);
            let own = &mut over.snapshot.communicators[0];
            (own.ended, own.ended_ns, own.poisoned) = (Some(Ended::Destroyed), 2 * S, 1);
            over.snapshot.errors = if second > 2 { errors.clone() } else { Vec::new() };
            vec![over]
        });
        let dead = found.iter().any(|finding| finding.kind == FindingKind::DeadProcess);
        assert_eq!(dead, !errors.is_empty(), "{found:#?}");
    }
}

#[test]
fn a_rank_that_dies_is_named_also_where_the_library_is_inert_in_all_that_live_on() {
    let dies: [fn() -> Reading; 2] = [|| inert(3), || member(3, 4, 1)];
    for dying in dies {
        let mut world = world();
        let others = || (0..3).map(inert);
        world.look(others().chain([dying()]).collect(), at(2));
        world.look(others().chain([ended(dying())]).collect(), at(3));
        (4..30).for_each(|second| drop(world.look(others().collect(), at(second))));
        let found = world.look(others().collect(), at(30)).node.findings;
        let named: Vec<_> = found.iter().map(|finding| (finding.kind, finding.ranks.clone())).collect();
        assert_eq!(named, [(FindingKind::DeadProcess, vec![3])], "{found:#?}");
    }
}

#[test]
fn who_is_behind_only_since_one_died_that_was_inert_is_not_named() {
    let found = found_of_an_inert_one_that_died(|_| {
        let mut ahead = member(0, 41, 2);
        ahead.snapshot.communicators[0].issued_ns += S / 2;
        ahead.snapshot.communicators[0].arrivals[0].at_ns += S / 2;
        vec![ahead, member(2, 40, 2)]
    });
    let named: Vec<_> = found.iter().map(|finding| (finding.kind, finding.ranks.clone())).collect();
    assert_eq!(named, [(FindingKind::DeadProcess, vec![1])]);
}

#[test]
fn the_arrivals_of_others_are_compared_beside_one_that_was_inert_and_died() {
    let mut world = world();
    let late = |rank: i32, second: u64| member(rank, 50, second);
    world.look(vec![ended(inert(1)), member(0, 40, 2), member(2, 40, 2)], at(3));
    let node = world.look(vec![late(0, 4), late(2, 7)], at(8)).node;
    let lags: Vec<_> = node.jobs[0].ranks.iter().map(|rank| rank.lag_s).collect();
    assert_eq!(lags, [Some(0.0), None, Some(3.0)]);
}

fn states(node: &Node) -> Vec<(Option<u32>, ProcessState)> {
    node.jobs[0].ranks.iter().map(|rank| (rank.rank, rank.process_state)).collect()
}

fn ended(mut last: Reading) -> Reading {
    last.process = ProcessState::Gone;
    last
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
    assert_eq!(states(&node)[0], (None, ProcessState::Gone), "it was seen to end");
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

fn labels(node: &Node) -> Vec<(&str, u64)> {
    node.jobs.iter().map(|job| (job.label.as_str(), job.ranks_here)).collect()
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

#[test]
fn two_programs_whose_parts_came_mixed_do_not_become_one_with_each_rank_twice() {
    let mut world = world();
    let parts = |with_whole: bool| -> Vec<Reading> {
        // Of two programs of four ranks, the pairs that their first communicators join, in the order in which they are listed.
        let pairs = [(1, [2, 3]), (2, [0, 1]), (2, [2, 3]), (1, [0, 1])];
        let ranks = pairs.iter().flat_map(|(program, ranks)| ranks.map(|rank| (*program, rank)));
        let one = |((program, rank), id): ((u64, i32), u64)| {
            let mut one = snapshot("none", rank, id as u32);
            one.communicators = vec![communicator(10 * program + rank as u64 / 2, rank % 2, 2)];
            if with_whole {
                one.communicators.push(Communicator { slot: 1, ..communicator(100 + program, rank, 4) });
            }
            reading(id, one)
        };
        ranks.zip(1..).map(one).collect()
    };
    for second in 1..5 {
        let node = world.look(parts(second > 1), at(second)).node;
        let here: Vec<_> = node.jobs.iter().map(|job| (job.label.as_str(), job.ranks_here)).collect();
        assert_eq!(here, [("none", 4), ("none#2", 4)], "at {second} s");
    }
}

/// A process of that program, without a rank in its environment.
fn known_by(program: u64, rank: i32) -> Reading {
    let id = 10 * program + rank as u64;
    let mut one = snapshot("none", -1, id as u32);
    one.communicators = vec![communicator(program, rank, 2)];
    reading(id, one)
}
