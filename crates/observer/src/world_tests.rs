//! Claims about whole looks, with made-up readings.

use airamp_telemetry::snapshot::{Arrival, Call, Communicator, Count, Durations, Event, Snapshot};
use airamp_telemetry::{CommunicatorFacts, Datatype, Ended, EventKind, Kind, Path, Reason};

use crate::conditions::Limits;
use crate::made_up::{call, communicator, reading, snapshot};
use crate::reading::{Now, Reading};
use crate::view::{self, FindingKind, JobState, ProcessState};
use crate::world::World;

const S: u64 = 1_000_000_000;

fn world() -> World {
    World::new("node-1".to_owned(), Limits { hang_after_ns: 10 * S, late_after_ns: S })
}

fn at(second: u64) -> Now {
    Now { ns: second * S, unix_ms: 1_000_000 + second * 1000 }
}

fn counted(mut snapshot: Snapshot, calls: u64) -> Snapshot {
    snapshot.counts = vec![Count {
        kind: Kind::AllReduce,
        path: Path::Vendor,
        datatype: Datatype(7),
        calls,
        logical_bytes: calls * 1000,
        wire_bytes: calls * 1500,
        would_wire_bytes: calls * 1500,
    }];
    snapshot
}

/// Rank `rank` of four that share one communicator, having issued the sequences at these times.
fn member(rank: i32, arrivals: &[(u64, u64)]) -> Reading {
    let mut made_up = snapshot("job", rank, 100 + rank as u32);
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|(sequence, at_ns)| Arrival { sequence: *sequence, at_ns: *at_ns }).collect();
    let last = arrivals.last().copied().unwrap_or(Arrival { sequence: 0, at_ns: 0 });
    made_up.communicators = vec![Communicator {
        issued: last.sequence,
        issued_ns: last.at_ns,
        arrivals,
        ..communicator(0xabc, rank, 4)
    }];
    reading(rank as u64 + 1, made_up)
}

fn calls_of(node: &view::Node, job: &str, rank: Option<u32>) -> u64 {
    let job = node.jobs.iter().find(|one| one.label == job).expect("the job is shown");
    let rank = job.ranks.iter().find(|one| one.rank == rank).expect("the rank is shown");
    rank.totals.calls.iter().map(|row| row.calls).sum()
}

fn kinds(node: &view::Node) -> Vec<FindingKind> {
    node.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn no_counter_goes_backwards_when_a_process_ends_and_another_takes_its_rank() {
    let mut world = world();
    let first = |calls| reading(1, counted(snapshot("job", 0, 7), calls));
    assert_eq!(calls_of(&world.look(vec![first(10)], at(1)).node, "job", Some(0)), 10);
    let mut last = first(12);
    last.process = ProcessState::Gone;
    let ended = world.look(vec![last], at(2)).node;
    assert_eq!((calls_of(&ended, "job", Some(0)), ended.jobs[0].state), (12, JobState::Ended));
    let again = reading(2, counted(snapshot("job", 0, 8), 5));
    let node = world.look(vec![again], at(3)).node;
    assert_eq!(calls_of(&node, "job", Some(0)), 17);
    assert_eq!(node.jobs.len(), 1);
    assert_eq!((node.jobs[0].state, node.jobs[0].ranks[0].pid), (JobState::Running, 8));
    assert_eq!(node.totals.calls[0].calls, 17);
}

#[test]
fn a_file_that_a_process_left_behind_long_ago_shows_no_job() {
    let mut world = world();
    let left = |active_ns| {
        let mut one = reading(1, counted(snapshot("job", 0, 7), 5));
        (one.snapshot.active_ns, one.process) = (active_ns, ProcessState::Gone);
        vec![one]
    };
    assert!(world.look(left(100 * S), at(5000)).node.jobs.is_empty());
    let mut world = self::world();
    let node = world.look(left(4990 * S), at(5000)).node;
    assert_eq!(node.jobs[0].ended_unix_ms, Some(at(4990).unix_ms));
}

#[test]
fn rates_are_those_since_the_last_look_and_not_since_the_start() {
    let mut world = world();
    let one = |calls| vec![reading(1, counted(snapshot("job", 0, 7), calls))];
    let first = world.look(one(1_000_000), at(100)).node;
    assert_eq!(first.rates.calls_per_s, 0.0);
    let node = world.look(one(1_000_050), at(102)).node;
    assert_eq!((node.rates.calls_per_s, node.jobs[0].rates.calls_per_s), (25.0, 25.0));
    let mut late_starter = counted(snapshot("job", 1, 9), 30);
    late_starter.started_ns = 103 * S;
    let node = world.look(vec![reading(2, late_starter)], at(104)).node;
    assert_eq!(node.rates.calls_per_s, 15.0, "a process that started since counts from its start");
}

#[test]
fn two_jobs_of_one_name_that_run_side_by_side_are_told_apart() {
    let mut world = world();
    let run = |clique: u64, rank: i32, id: u64| {
        let mut made_up = counted(snapshot("none", rank, id as u32), id);
        made_up.communicators = vec![communicator(clique, rank, 2)];
        reading(id, made_up)
    };
    let readings = vec![run(0xa, 0, 1), run(0xa, 1, 2), run(0xb, 0, 3), run(0xb, 1, 4)];
    let node = world.look(readings, at(1)).node;
    let labels: Vec<&str> = node.jobs.iter().map(|job| job.label.as_str()).collect();
    assert_eq!(labels, ["none", "none#2"]);
    assert_eq!((calls_of(&node, "none", Some(1)), calls_of(&node, "none#2", Some(1))), (2, 4));
}

#[test]
fn a_job_of_another_user_with_the_same_name_has_its_own_label() {
    let mut world = world();
    let mut other = snapshot("job", 0, 8);
    other.uid = 2000;
    let node = world.look(vec![reading(1, snapshot("job", 0, 7)), reading(2, other)], at(1)).node;
    let labels: Vec<(&str, u32)> = node.jobs.iter().map(|job| (job.label.as_str(), job.uid)).collect();
    assert_eq!(labels, [("job", 1000), ("job#2", 2000)]);
}

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
fn communicators_that_end_take_no_part_and_their_slot_is_given_again() {
    let mut world = world();
    let look = |ended: bool, name: u64| {
        let mut made_up = snapshot("job", 0, 7);
        let mut first = communicator(1, 0, 2);
        if ended {
            (first.ended, first.ended_ns) = (Some(Ended::Destroyed), S);
        }
        made_up.communicators = vec![first, Communicator { slot: 1, ..communicator(name, 0, 2) }];
        vec![reading(1, made_up)]
    };
    let slots = |node: &view::Node| -> Vec<(String, u32)> {
        let all = node.jobs[0].communicators.iter();
        all.map(|communicator| (communicator.name.clone(), communicator.slot)).collect()
    };
    let node = world.look(look(false, 2), at(2)).node;
    let name = |number: u64| format!("{number:016x}");
    assert_eq!(slots(&node), [(name(1), 0), (name(2), 1)]);
    let node = world.look(look(true, 2), at(90)).node;
    assert_eq!(slots(&node), [(name(2), 1)], "an ended one is shown for a minute");
    let node = world.look(look(true, 3), at(91)).node;
    assert_eq!(slots(&node), [(name(3), 0)]);
}

#[test]
fn a_latency_spike_is_found_and_named_with_its_call() {
    let mut world = world();
    let mut usual = member(0, &[(7, S)]);
    usual.sampled = (0..40).map(|number| call(number, 2_000_000)).collect();
    assert!(kinds(&world.look(vec![usual], at(2)).node).is_empty());
    let mut slow = member(0, &[(7, S)]);
    slow.sampled = vec![call(41, 400_000_000)];
    let node = world.look(vec![slow], at(3)).node;
    assert_eq!(kinds(&node), [FindingKind::LatencySpike]);
    assert_eq!(node.findings[0].sequence, Some(41));
    let text = &node.findings[0].text;
    assert!(text.starts_with("An all_reduce ") && text.contains("200 times"), "{text}");
}

#[test]
fn the_calls_that_connect_a_communicator_are_no_spike() {
    let mut world = world();
    let mut usual = member(0, &[(7, S)]);
    usual.sampled = (0..40).map(|number| call(number, 2_000_000)).collect();
    world.look(vec![usual], at(2));
    let mut another = member(0, &[(7, S)]);
    another.snapshot.communicators.push(Communicator { slot: 1, ..communicator(0xdef, 0, 4) });
    another.sampled =
        (1..8).map(|number| Call { slot: Some(1), ..call(number, 400_000_000) }).collect::<Vec<_>>();
    assert!(kinds(&world.look(vec![another], at(3)).node).is_empty());
}

#[test]
fn hostile_values_stay_finite_and_bounded() {
    let mut world = world();
    let hostile = |id: u64| {
        let mut made_up = counted(snapshot("job", (id % 3) as i32 - 1, id as u32), u64::MAX / 2000);
        made_up.started_ns = u64::MAX;
        made_up.durations = vec![Durations {
            kind: Kind::Recv,
            path: Path::Trial,
            size_class: 255,
            samples: u64::MAX,
            sum_ns: u64::MAX,
            buckets: [u64::MAX; 28],
        }];
        made_up.hook.spent.ns = u64::MAX;
        made_up.in_vendor.ns = u64::MAX;
        let facts = CommunicatorFacts { rank: -5, ranks: i32::MAX, name: 9, ..CommunicatorFacts::default() };
        made_up.communicators = (0..32)
            .map(|slot| {
                let mut one = Communicator { slot, facts, ..communicator(9, 0, 2) };
                (one.vnmse, one.pattern.confidence) = (Some(f64::NAN), f32::INFINITY);
                (one.issued, one.pending, one.pending_ns, one.inside) = (u64::MAX, u64::MAX, u64::MAX, 9);
                one.sums.compressed_calls = u64::MAX;
                one
            })
            .collect();
        reading(id, made_up)
    };
    for second in 1..4 {
        let node = world.look((1..200).map(hostile).collect(), at(second)).node;
        let json = serde_json::to_string(&node).expect("JSON");
        let again: view::Node = serde_json::from_str(&json).expect("no number became null that must not");
        assert_eq!(again.jobs.len(), node.jobs.len());
        assert!(node.events.len() <= 512 && node.findings.len() <= 256);
    }
}

#[test]
fn thousands_of_ended_jobs_are_forgotten_but_stay_in_the_nodes_sum() {
    let mut world = world();
    let ended = |id: u64| {
        let mut one = reading(id, counted(snapshot(&format!("job-{id}"), 0, 7), 2));
        one.process = ProcessState::Gone;
        one
    };
    (0..3).for_each(|third| {
        drop(world.look((0..1000).map(|id| ended(third * 1000 + id)).collect(), at(third)))
    });
    let node = world.look(Vec::new(), at(3001)).node;
    assert!(node.jobs.len() <= 256);
    assert_eq!(node.totals.calls[0].calls, 6000);
}

#[test]
fn thousands_of_ended_ranks_are_added_up_without_their_number() {
    let mut world = world();
    let ended = |rank: i32| {
        let mut one = reading(rank as u64, counted(snapshot("job", rank, 7), 2));
        one.process = ProcessState::Gone;
        one
    };
    (0..3).for_each(|third| {
        drop(world.look((0..2000).map(|rank| ended(third * 2000 + rank)).collect(), at(1)))
    });
    let node = world.look(Vec::new(), at(2)).node;
    let job = &node.jobs[0];
    assert_eq!(job.ranks.len(), 4096 + 1);
    let all: u64 = job.ranks.iter().flat_map(|rank| &rank.totals.calls).map(|row| row.calls).sum();
    assert_eq!((all, job.totals.calls[0].calls), (12_000, 12_000));
}

#[test]
fn of_a_user_whose_processes_die_without_end_only_the_last_are_kept() {
    let mut world = world();
    let dead = |id| {
        let mut dead = member(1, &[(1, S)]);
        (dead.id, dead.process) = (id, ProcessState::Gone);
        dead
    };
    world.look(vec![member(0, &[(1, S)])], at(1));
    for round in 0..3 {
        let from = 100 + 1000 * round;
        world.look((from..from + 1000).map(dead).collect(), at(2 + round));
    }
    let kept: Vec<u64> = world.processes_of("job").iter().map(|(id, _)| *id).collect();
    assert_eq!((kept.len(), kept[0], kept[1]), (1 + 1024, 1, 3100 - 1024));
}

/// A job of one rank that makes its last calls and is gone at the next look; what is found 30 and 60 seconds later.
fn found_after_the_end(last: impl Fn(&mut Snapshot)) -> [Vec<FindingKind>; 3] {
    let mut world = world();
    let one = |calls| counted(snapshot("job", 0, 7), calls);
    world.look(vec![reading(1, one(10))], at(1));
    let mut ended = reading(1, one(210));
    last(&mut ended.snapshot);
    ended.process = ProcessState::Gone;
    let first = kinds(&world.look(vec![ended], at(2)).node);
    (3..32).for_each(|second| drop(world.look(Vec::new(), at(second))));
    let then = kinds(&world.look(Vec::new(), at(32)).node);
    (33..62).for_each(|second| drop(world.look(Vec::new(), at(second))));
    [first, then, kinds(&world.look(Vec::new(), at(62)).node)]
}

#[test]
fn errors_with_which_a_job_ended_are_found_and_over_half_a_minute_later() {
    let found = found_after_the_end(|snapshot| snapshot.errors = vec![(3, 5)]);
    assert_eq!(found, [vec![FindingKind::ErrorBurst], vec![], vec![]]);
}

#[test]
fn fallbacks_with_which_a_job_ended_are_found_and_over_a_minute_later() {
    let found = found_after_the_end(|snapshot| snapshot.fallbacks = vec![(Reason::Memory, 150)]);
    assert_eq!(found, [vec![FindingKind::FallbackStorm], vec![FindingKind::FallbackStorm], vec![]]);
}

fn warning(number: u64) -> Event {
    let (kind, text) = (EventKind::Warning, "told".to_owned());
    Event { number, kind, slot: None, at_ns: S, a: 0, b: 0, step: 0, about: 0, text }
}

#[test]
fn who_follows_the_events_of_one_observer_hears_of_those_of_the_next() {
    let told = |second: u64, events: usize| {
        let mut made_up = reading(1, snapshot("job", 0, 7));
        made_up.events = (0..events as u64).map(warning).collect();
        let now = Now { ns: second * S, unix_ms: 1_800_000_000_000 + second * 1000 };
        let node = world().look(vec![made_up], now).node;
        node.events.iter().map(|event| event.seq).collect::<Vec<u64>>()
    };
    let (first, next) = (told(100, 4000), told(101, 3));
    assert!(
        first.windows(2).chain(next.windows(2)).all(|pair| pair[0] + 1 == pair[1]),
        "{first:?}, {next:?}"
    );
    assert!(first.iter().max() < next.iter().min(), "{first:?}, {next:?}");
    assert!(next.iter().all(|seq| *seq < 1 << 53), "a browser counts no further");
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
