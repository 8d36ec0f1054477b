//! Claims about whole looks, with made-up readings: what is counted, what is told, and that all of it is bounded.

use airamp_telemetry::snapshot::{Call, Communicator, Durations, Event, Snapshot};
use airamp_telemetry::{CommunicatorFacts, Ended, EventKind, Kind, Path, Reason};

use crate::made_up::{S, at, call, communicator, counted, kinds, member, reading, snapshot, world};
use crate::reading::Now;
use crate::view::{self, FindingKind, JobState, ProcessState};

fn calls_of(node: &view::Node, job: &str, rank: Option<u32>) -> u64 {
    let job = node.jobs.iter().find(|one| one.label == job).expect("the job is shown");
    let rank = job.ranks.iter().find(|one| one.rank == rank).expect("the rank is shown");
    rank.totals.calls.iter().map(|row| row.calls).sum()
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
