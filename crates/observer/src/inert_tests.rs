//! Claims about ranks in which the library became inert, with made-up readings.

use airamp_telemetry::snapshot::{Arrival, Communicator};
use airamp_telemetry::{Ended, PatternState, State};

use crate::made_up::{S, at, communicator, ended, kinds, reading, snapshot, world};
use crate::reading::Reading;
use crate::view::{Finding, FindingKind};
use crate::world::World;

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
