//! Claims about who waits for whom: late ranks, hangs and dead processes, with made-up readings.

use airamp_telemetry::Ended;

use crate::conditions::Limits;
use crate::made_up::{S, at, counted, kinds, member, world};
use crate::reading::Reading;
use crate::view::{self, FindingKind, ProcessState};

#[test]
fn a_rank_that_stops_for_two_seconds_is_named_as_the_late_one_and_only_it() {
    let mut world = world();
    let together = |sequence: u64, second: u64| {
        (0..4).map(|rank| member(rank, &[(sequence, second * S + rank as u64)])).collect::<Vec<_>>()
    };
    world.look(together(1, 1), at(2));
    let stopped = |second: u64| {
        let mut readings: Vec<Reading> = (0..3).map(|rank| member(rank, &[(1, S), (2, 2 * S)])).collect();
        let mut late = member(3, &[(1, S)]);
        late.process = if second > 3 { ProcessState::Stopped } else { ProcessState::Running };
        readings.push(late);
        (readings, at(second))
    };
    let (readings, now) = stopped(3);
    assert!(kinds(&world.look(readings, now).node).is_empty(), "a second is not late yet");
    let (readings, now) = stopped(4);
    let node = world.look(readings, now).node;
    assert_eq!(kinds(&node), [FindingKind::LateRank]);
    let finding = &node.findings[0];
    assert_eq!((finding.ranks.as_slice(), finding.sequence), ([3].as_slice(), Some(2)));
    assert!(
        finding.text.contains("pid 103, stopped") && finding.text.contains("SIGCONT"),
        "{}",
        finding.text
    );
    let late: Vec<bool> = node.jobs[0].ranks.iter().map(|rank| rank.late).collect();
    assert_eq!(late, [false, false, false, true]);
    assert_eq!(node.jobs[0].communicators[0].state, view::CommunicatorState::Late);
    for second in 5..12 {
        world.look(together(second, second - 1), at(second));
    }
    let node = world.look(together(20, 11), at(12)).node;
    assert!(node.findings.is_empty());
    let kinds: Vec<&str> = node.events.iter().map(|event| event.kind.as_ref()).collect();
    assert_eq!(kinds, ["finding_began", "finding_ended"]);
    assert_eq!(node.events[0].rank, Some(3));
}

#[test]
fn an_arrival_that_was_late_between_two_looks_is_found_afterwards() {
    let mut world = world();
    let readings = (0..4).map(|rank| {
        let late = if rank == 2 { 3 * S } else { S };
        member(rank, &[(1, late), (2, 4 * S)])
    });
    let node = world.look(readings.collect(), at(5)).node;
    assert_eq!(kinds(&node), [FindingKind::LateRank]);
    assert_eq!((node.findings[0].ranks.as_slice(), node.findings[0].sequence), ([2].as_slice(), Some(1)));
    assert_eq!(node.jobs[0].ranks[2].lag_s, Some(1.0), "the mean over two sequences");
}

#[test]
fn a_hang_is_named_by_communicator_sequence_and_missing_rank() {
    let mut world = world();
    let readings = |_| {
        let mut all: Vec<Reading> = (0..3).map(|rank| member(rank, &[(7, S), (8, 2 * S)])).collect();
        all.push(member(3, &[(7, S)]));
        all
    };
    world.look(readings(0), at(3));
    let node = world.look(readings(0), at(13)).node;
    let hang = node.findings.iter().find(|finding| finding.kind == FindingKind::Hang).expect("a hang");
    assert_eq!(hang.communicator, "0000000000000abc");
    assert_eq!((hang.ranks.as_slice(), hang.sequence), ([3].as_slice(), Some(8)));
    let communicator = &node.jobs[0].communicators[0];
    assert_eq!(communicator.state, view::CommunicatorState::Hung);
    assert_eq!((communicator.missing.as_slice(), communicator.behind_sequence), ([3].as_slice(), Some(8)));
    assert_eq!(node.jobs[0].ranks[3].heat, 1.0);
}

#[test]
fn ranks_on_other_nodes_are_unknown_and_not_missing() {
    let mut world = world();
    let here = |polled_ns| {
        let one = |rank| {
            let mut reading = member(rank, &[(7, S)]);
            let own = &mut reading.snapshot.communicators[0];
            (own.pending, own.pending_ns, own.polled_ns) = (7, S, polled_ns);
            reading
        };
        vec![one(0), one(1)]
    };
    world.look(here(2 * S), at(2));
    let node = world.look(here(20 * S), at(20)).node;
    let hang = node.findings.iter().find(|finding| finding.kind == FindingKind::Hang).expect("a hang");
    assert!(hang.ranks.is_empty() && hang.text.contains("2 ranks on other nodes"), "{}", hang.text);
    assert_eq!(node.jobs[0].communicators[0].elsewhere, 2);
    assert_eq!(node.jobs[0].communicators[0].ranks[0].oldest_in_flight_s, Some(19.0));
}

#[test]
fn a_process_that_dies_while_others_wait_is_named_dead() {
    let mut world = world();
    let look = |second: u64, dead: bool| {
        let mut all: Vec<Reading> = (0..3).map(|rank| member(rank, &[(7, S), (8, 2 * S)])).collect();
        if !dead {
            all.push(member(3, &[(7, S)]));
        } else if second == 3 {
            let mut last = member(3, &[(7, S)]);
            last.process = ProcessState::Gone;
            all.push(last);
        }
        (all, at(second))
    };
    for (second, dead) in [(2, false), (3, true), (4, true)] {
        let (readings, now) = look(second, dead);
        world.look(readings, now);
    }
    let (readings, now) = look(5, true);
    let node = world.look(readings, now).node;
    let found = node.findings.iter().find(|finding| finding.kind == FindingKind::DeadProcess);
    assert_eq!(found.expect("a dead process").ranks, [3]);
    assert_eq!(node.jobs[0].communicators[0].ranks[3].state, view::MemberState::Dead);
    assert_eq!(node.jobs[0].ranks_here, 3);
}

#[test]
fn a_rank_that_waits_in_a_collective_with_a_dead_one_is_not_accused() {
    let mut world = world();
    let all = |last: &[(u64, u64)]| {
        let waits = member(2, &[(6, S), (7, 2 * S)]);
        let others = [0, 1, 3].map(|rank| member(rank, last));
        others.into_iter().chain([waits]).collect::<Vec<Reading>>()
    };
    world.look(all(&[(6, S), (7, 2 * S)]), at(2));
    let ahead = [(6, S), (7, 2 * S), (8, 2 * S + 1)];
    for second in 3..20 {
        let mut readings = all(&ahead);
        readings[2].process = ProcessState::Gone;
        if second > 3 {
            readings.remove(2);
        }
        let node = world.look(readings, at(second)).node;
        assert!(node.findings.iter().all(|finding| finding.ranks == [3]), "{:#?}", node.findings);
    }
    let node = world.look(all(&ahead).into_iter().filter(|one| one.id != 4).collect(), at(20)).node;
    assert_eq!(kinds(&node), [FindingKind::DeadProcess]);
}

#[test]
fn a_stopped_process_is_late_although_all_have_issued_the_same() {
    let mut world = world();
    let look = |second: u64| {
        let mut all: Vec<Reading> = (0..4).map(|rank| member(rank, &[(7, S)])).collect();
        all[1].process = ProcessState::Stopped;
        (all, at(second))
    };
    let (readings, now) = look(2);
    let node = world.look(readings, now).node;
    assert_eq!(kinds(&node), [FindingKind::LateRank]);
    assert_eq!((node.findings[0].ranks.as_slice(), node.findings[0].sequence), ([1].as_slice(), Some(7)));
    let (readings, now) = look(12);
    let node = world.look(readings, now).node;
    let hang = node.findings.iter().find(|finding| finding.kind == FindingKind::Hang).expect("a hang");
    assert_eq!(hang.ranks, [1]);
}

#[test]
fn a_killed_process_is_named_while_most_others_live_on() {
    let mut world = world();
    let all = || (0..4).map(|rank| member(rank, &[(7, S)])).collect::<Vec<Reading>>();
    let mut readings = all();
    readings[2].process = ProcessState::Gone;
    assert!(kinds(&world.look(readings, at(2)).node).is_empty());
    let others = || all().into_iter().filter(|reading| reading.id != 3).collect::<Vec<Reading>>();
    assert!(kinds(&world.look(others(), at(4)).node).is_empty(), "others may follow it");
    let node = world.look(others(), at(6)).node;
    assert_eq!(kinds(&node), [FindingKind::DeadProcess]);
    assert_eq!((node.findings[0].ranks.as_slice(), node.findings[0].sequence), ([2].as_slice(), Some(8)));
}

/// Rank 2 is killed, and the others end their communicator at once but live on. What a look ten, thirty and ninety
/// seconds later finds.
fn found_after_all_gave_up(how: Ended, errors: &[(i32, u64)]) -> [Vec<FindingKind>; 3] {
    let mut world = world();
    let all = || (0..4).map(|rank| member(rank, &[(7, S)])).collect::<Vec<Reading>>();
    world.look(all(), at(2));
    let others = || {
        let mut others: Vec<Reading> = all().into_iter().filter(|reading| reading.id != 3).collect();
        for reading in &mut others {
            let own = &mut reading.snapshot.communicators[0];
            (own.ended, own.ended_ns) = (Some(how), 3 * S);
            reading.snapshot.errors = errors.to_vec();
        }
        others
    };
    let mut last = all().remove(2);
    last.process = ProcessState::Gone;
    let mut readings = others();
    readings.push(last);
    world.look(readings, at(4));
    [10, 30, 90].map(|second| kinds(&world.look(others(), at(second)).node))
}

#[test]
fn a_killed_process_is_named_for_a_while_though_the_others_failed_and_gave_up_at_once() {
    let dead = vec![FindingKind::DeadProcess];
    let found = found_after_all_gave_up(Ended::Aborted, &[(6, 1)]);
    assert_eq!(found, [dead.clone(), dead.clone(), Vec::new()]);
    assert_eq!(found_after_all_gave_up(Ended::Destroyed, &[(6, 1)])[1], dead);
}

#[test]
fn a_process_that_leaves_while_the_others_end_theirs_without_an_error_is_no_finding() {
    assert_eq!(found_after_all_gave_up(Ended::Destroyed, &[]), [const { Vec::new() }; 3]);
}

#[test]
fn processes_that_leave_one_after_the_other_at_the_end_are_no_finding() {
    let mut world = world();
    let all = |gone: i32, second: u64| {
        let one = |rank: i32| {
            let mut reading = member(rank, &[(7, S)]);
            reading.process = if rank < gone { ProcessState::Gone } else { ProcessState::Running };
            reading
        };
        let first = if gone == 0 { 0 } else { gone - 1 };
        ((first..4).map(one).collect::<Vec<_>>(), at(second))
    };
    for gone in 0..=4 {
        let (readings, now) = all(gone, 2 + gone as u64);
        assert!(kinds(&world.look(readings, now).node).is_empty());
    }
}

#[test]
fn another_limit_holds_from_the_next_look_on_and_nothing_is_forgotten() {
    let mut world = world();
    let waits = || {
        let mut readings: Vec<Reading> = (0..3).map(|rank| member(rank, &[(1, S), (2, 2 * S)])).collect();
        readings.push(member(3, &[(1, S)]));
        readings.iter_mut().for_each(|one| one.snapshot = counted(one.snapshot.clone(), 5));
        readings
    };
    assert_eq!(kinds(&world.look(waits(), at(8)).node), [FindingKind::LateRank]);
    world.judge_by(Limits { hang_after_ns: 5 * S, late_after_ns: S });
    let node = world.look(waits(), at(9)).node;
    assert_eq!(kinds(&node), [FindingKind::Hang, FindingKind::LateRank]);
    assert_eq!((node.events.len(), node.totals.calls[0].calls), (2, 20), "{:?}", node.events);
}

#[test]
fn a_rank_that_waits_in_a_message_is_a_hang_that_names_it_and_accuses_nobody() {
    let mut world = world();
    let readings = || {
        let mut readings: Vec<Reading> = (0..4).map(|rank| member(rank, &[(1, S)])).collect();
        let waits = &mut readings[3].snapshot.communicators[0];
        (waits.inside, waits.inside_since_ns, waits.inside_other) = (1, 2 * S, true);
        readings
    };
    assert_eq!(kinds(&world.look(readings(), at(6)).node), []);
    let node = world.look(readings(), at(14)).node;
    let [hang] = &node.findings[..] else { panic!("{:?}", node.findings) };
    assert_eq!((hang.kind, hang.ranks.as_slice(), hang.sequence), (FindingKind::Hang, &[][..], None));
    assert!(hang.text.starts_with("Rank 3 (pid 103) has been inside a message"), "{}", hang.text);
}
