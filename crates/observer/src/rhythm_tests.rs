//! Claims about rhythms over whole looks, with made-up readings.

use airamp_telemetry::snapshot::{Communicator, Event, Pattern};
use airamp_telemetry::{EventKind, Grew, PatternState};

use crate::made_up::{S, at, communicator, reading, snapshot, world};
use crate::reading::Reading;
use crate::view::{Finding, FindingKind, Node};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 500 * MS;

/// Rank `rank` of four that share a communicator, which issued its last collective at that second.
fn rank(rank: i32, state: PatternState, issued_s: u64) -> Reading {
    let mut made_up = snapshot("job", rank, 100 + rank as u32);
    let pattern = Pattern { state, confidence: 0.9, period_calls: 24, period_ns: PERIOD, step: 812 };
    made_up.communicators = vec![Communicator {
        issued: issued_s * 48,
        issued_ns: issued_s * S,
        pattern,
        ..communicator(0xabc, rank, 4)
    }];
    reading(rank as u64 + 1, made_up)
}

fn told(number: u64, kind: EventKind, at_ns: u64, words: [u64; 3]) -> Event {
    let [a, b, about] = words;
    Event { number, kind, slot: Some(0), at_ns, a, b, step: 811, about, text: String::new() }
}

fn late(rank_number: i32, number: u64, at_ns: u64, by_ns: u64) -> Reading {
    let mut one = rank(rank_number, PatternState::Locked, 20);
    one.events = vec![told(number, EventKind::CallLate, at_ns, [by_ns, 0, 0])];
    one
}

fn found(node: &Node, kind: FindingKind) -> Option<&Finding> {
    node.findings.iter().find(|finding| finding.kind == kind)
}

#[test]
fn a_rank_that_is_late_by_a_second_is_named_and_those_who_waited_for_it_are_not() {
    let mut world = world();
    let readings = vec![
        late(0, 0, 19 * S + 400 * MS, 1400 * MS),
        late(1, 0, 19 * S + 410 * MS, 1390 * MS),
        late(3, 0, 19 * S, 1500 * MS),
        rank(2, PatternState::Locked, 20),
    ];
    let node = world.look(readings, at(20)).node;
    let finding = found(&node, FindingKind::LateCall).expect("a finding");
    assert_eq!(finding.ranks, [3]);
    assert!(finding.text.contains("by 1.50 s, 300% of its step (rank 3, step 811)"), "{}", finding.text);
    let node = world.look(Vec::new(), at(60)).node;
    assert_eq!(found(&node, FindingKind::LateCall), None, "it is over ten seconds later");
}

#[test]
fn a_pause_of_the_whole_job_is_nobodys_lateness() {
    let all = |ranks: &[i32]| {
        let mut world = world();
        let at_ns = |n: i32| 19 * S + n as u64 * MS;
        let mut readings: Vec<Reading> = ranks.iter().map(|n| late(*n, 0, at_ns(*n), 1400 * MS)).collect();
        readings.extend((0..4).filter(|n| !ranks.contains(n)).map(|n| rank(n, PatternState::Locked, 20)));
        let node = world.look(readings, at(20)).node;
        found(&node, FindingKind::LateCall).map(|finding| finding.ranks.clone())
    };
    assert_eq!(all(&[0, 1, 2, 3]), None);
    assert_eq!(all(&[0, 2, 3]), Some(vec![0, 2, 3]), "one went on");
}

#[test]
fn a_rank_that_is_a_little_late_matters_only_when_it_is_often() {
    let mut world = world();
    let share = |by_ns| move |n: u64| late(2, n, (18 + n) * S, by_ns);
    for n in 0..3 {
        let node = world.look(vec![share(60 * MS)(n)], at(18 + n)).node;
        assert_eq!(found(&node, FindingKind::LateCall).is_some(), n == 2, "after {} times", n + 1);
    }
    let mut world = self::world();
    for n in 0..3 {
        let node = world.look(vec![share(40 * MS)(n)], at(18 + n)).node;
        assert_eq!(found(&node, FindingKind::LateCall), None, "less than a tenth of the step");
    }
}

#[test]
fn the_jitter_of_a_busy_host_is_no_lateness() {
    let mut world = world();
    for n in 0..6 {
        let mut jitter = late(2, n, (14 + n) * S, 7 * MS);
        for own in &mut jitter.snapshot.communicators {
            own.pattern.period_ns = 20 * MS;
        }
        let node = world.look(vec![jitter], at(14 + n)).node;
        assert_eq!(
            found(&node, FindingKind::LateCall),
            None,
            "a third of the step, but 42 ms in ten seconds"
        );
    }
}

#[test]
fn a_lateness_that_another_rank_does_not_explain_stands_for_itself() {
    let mut world = world();
    let readings = vec![late(3, 0, 19 * S, 1100 * MS), late(0, 0, 19 * S + 900 * MS, 1500 * MS)];
    let node = world.look(readings, at(20)).node;
    assert_eq!(
        found(&node, FindingKind::LateCall).expect("a finding").ranks,
        [0, 3],
        "more than a step later"
    );
    let mut world = self::world();
    let readings = vec![late(3, 0, 19 * S, 60 * MS), late(0, 0, 19 * S + 100 * MS, 1500 * MS)];
    let node = world.look(readings, at(20)).node;
    assert_eq!(
        found(&node, FindingKind::LateCall).expect("a finding").ranks,
        [0, 3],
        "far later than the first"
    );
}

#[test]
fn a_rhythm_is_broken_when_a_communicator_drifts_for_longer_than_an_evaluation_takes() {
    let mut world = world();
    let drift = |second| (0..4).map(|n| rank(n, PatternState::Drifting, second)).collect();
    for second in [100, 105, 110] {
        let node = world.look(drift(second), at(second)).node;
        assert_eq!(found(&node, FindingKind::RhythmBroken), None);
    }
    let node = world.look(drift(111), at(111)).node;
    let finding = found(&node, FindingKind::RhythmBroken).expect("a finding");
    assert_eq!(finding.ranks, [0, 1, 2, 3]);
    assert!(finding.text.contains("for 11 s (ranks 0, 1, 2, 3)"), "{}", finding.text);
    assert_eq!(node.jobs[0].rhythm.state, "drifting");
    let locked = (0..4).map(|n| rank(n, PatternState::Locked, 112)).collect();
    world.look(locked, at(112));
    let node = world.look(drift(120), at(120)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "a new drift begins anew");
}

#[test]
fn a_job_that_falls_silent_after_steady_steps_has_broken_its_rhythm() {
    let mut world = world();
    let all = |state: PatternState| (0..4).map(move |n| rank(n, state, 100)).collect::<Vec<_>>();
    let node = world.look(all(PatternState::Locked), at(110)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None);
    let node = world.look(all(PatternState::Locked), at(111)).node;
    let finding = found(&node, FindingKind::RhythmBroken).expect("a finding");
    assert!(finding.text.contains("for 11 s, where a step took 500.0 ms"), "{}", finding.text);
    let mut learning = self::world();
    let node = learning.look(all(PatternState::Learning), at(111)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "nobody knows its steps");
    let mut waiting = self::world();
    let mut readings = all(PatternState::Locked);
    readings[1].snapshot.communicators[0].inside = 1;
    let node = waiting.look(readings, at(111)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "that is a hang's business");
}

#[test]
fn steps_of_many_seconds_break_only_after_many_of_them() {
    let mut world = world();
    let slow = |second| {
        let mut one = rank(0, PatternState::Locked, 100);
        one.snapshot.communicators[0].pattern.period_ns = 30 * S;
        world.look(vec![one], at(second)).node
    };
    let broken = [130, 399, 401].map(slow).map(|node| found(&node, FindingKind::RhythmBroken).is_some());
    assert_eq!(broken, [false, false, true]);
}

fn changed(rank_number: i32, number: u64, at_s: u64, after_ns: u64, grew: Grew) -> Reading {
    let mut one = rank(rank_number, PatternState::Locked, at_s);
    one.events = vec![told(number, EventKind::PaceChanged, at_s * S, [PERIOD, after_ns, grew as u64])];
    one
}

#[test]
fn a_slow_down_names_the_rank_that_computes_longer_while_the_others_wait() {
    let mut world = world();
    let mut readings: Vec<Reading> =
        (0..3).map(|n| changed(n, 0, 100, 750 * MS, Grew::Communication)).collect();
    readings.push(changed(3, 0, 101, 750 * MS, Grew::Compute));
    let node = world.look(readings, at(102)).node;
    let [change] = &node.jobs[0].pace_changes[..] else { panic!("{:?}", node.jobs[0].pace_changes) };
    assert_eq!((change.step, change.before_s, change.after_s, change.ranks.len()), (811, 0.5, 0.75, 4));
    let finding = found(&node, FindingKind::SlowerPace).expect("a finding");
    assert_eq!(finding.ranks, [3]);
    assert!(
        finding.text.contains("take 750.0 ms since step 811, 50% longer than the 500.0 ms"),
        "{}",
        finding.text
    );
    assert!(finding.text.contains("compute grew on rank 3"), "{}", finding.text);
    let event = node.events.iter().find(|event| event.kind == "pace_changed").expect("the event");
    assert_eq!((event.step, event.severity), (Some(811), crate::view::Severity::Warning));
    assert!(event.text.ends_with("communication grew"), "{}", event.text);
}

#[test]
fn a_slow_down_is_over_when_the_pace_recovers_or_has_become_usual() {
    let mut world = world();
    let node = world.look(vec![changed(0, 0, 100, 750 * MS, Grew::Communication)], at(101)).node;
    assert!(found(&node, FindingKind::SlowerPace).is_some());
    assert_eq!(node.jobs[0].rhythm.step_s, Some(0.5));
    world.look(vec![changed(0, 1, 120, 400 * MS, Grew::Communication)], at(121));
    let node = world.look(Vec::new(), at(130)).node;
    assert_eq!(found(&node, FindingKind::SlowerPace), None, "faster again");
    assert_eq!(node.jobs[0].pace_changes.len(), 2);
    world.look(vec![changed(0, 2, 200, 900 * MS, Grew::Both)], at(201));
    let keep = |second| vec![rank(0, PatternState::Locked, second)];
    assert!(found(&world.look(keep(500), at(500)).node, FindingKind::SlowerPace).is_some());
    world.look(keep(501), at(501));
    assert!(
        found(&world.look(keep(510), at(510)).node, FindingKind::SlowerPace).is_none(),
        "five minutes later"
    );
}

#[test]
fn deviations_and_changes_are_added_up_over_restarts_and_what_ghosts_bring_is_shown() {
    let mut world = world();
    let one = |id: u64, deviations, pace_changes| {
        let mut one = rank(0, PatternState::Locked, 100);
        one.id = id;
        (one.snapshot.sums.deviations, one.snapshot.sums.pace_changes) = (deviations, pace_changes);
        one.snapshot.ghosts_measured = Some((160_000, 50_000));
        one.snapshot.communicators[0].sums = one.snapshot.sums;
        one
    };
    let mut last = one(1, [3, 0, 0, 1], 1);
    world.look(vec![one(1, [2, 0, 0, 1], 1)], at(100));
    last.process = crate::view::ProcessState::Gone;
    world.look(vec![last], at(101));
    let node = world.look(vec![one(2, [1, 1, 0, 0], 0)], at(102)).node;
    let shown = &node.jobs[0].ranks[0];
    let rows: Vec<(&str, u64)> =
        shown.totals.deviations.iter().map(|row| (row.kind.as_ref(), row.calls)).collect();
    assert_eq!(rows, [("late", 4), ("missing", 1), ("resized", 1)]);
    assert_eq!((shown.totals.pace_changes, node.totals.pace_changes), (1, 1));
    assert_eq!(
        (shown.rhythm.step, shown.rhythm.step_s, shown.rhythm.step_calls),
        (Some(812), Some(0.5), Some(24))
    );
    let ghosts = shown.ghosts.as_ref().expect("it was measured");
    assert_eq!((ghosts.without_s, ghosts.with_s), (160e-6, 50e-6));
    let pattern = &node.jobs[0].communicators[0].ranks[0].pattern;
    assert_eq!((pattern.period_calls, pattern.deviations, pattern.pace_changes), (Some(24), 2, 0));
}

#[test]
fn a_process_is_as_slow_as_its_slowest_locked_communicator() {
    let mut made_up = snapshot("job", 0, 100);
    let with = |slot, state, period_ns| {
        let pattern = Pattern { state, confidence: 1.0, period_calls: 2, period_ns, step: u64::from(slot) };
        Communicator { slot, pattern, ..communicator(u64::from(slot) + 1, 0, 2) }
    };
    made_up.communicators = vec![
        with(1, PatternState::Locked, 10 * MS),
        with(2, PatternState::Locked, 90 * MS),
        with(3, PatternState::Learning, 800 * MS),
    ];
    let node = world().look(vec![reading(1, made_up)], at(1)).node;
    let rhythm = &node.jobs[0].rhythm;
    assert_eq!((rhythm.state.as_ref(), rhythm.step, rhythm.step_s), ("locked", Some(2), Some(0.09)));
}

/// A second communicator of the same ranks, with a step of its own.
fn with_another(mut one: Reading, name: u64) -> Reading {
    let mut other = one.snapshot.communicators[0].clone();
    (other.slot, other.facts.name) = (1, name);
    one.snapshot.communicators.push(other);
    one
}

#[test]
fn what_is_told_of_one_communicator_says_nothing_about_another() {
    let mut world = world();
    let mut one = with_another(late(3, 0, 19 * S, 1500 * MS), 0xdef);
    one.events[0].slot = Some(1);
    let node = world.look(vec![one, rank(0, PatternState::Locked, 20)], at(20)).node;
    let finding = found(&node, FindingKind::LateCall).expect("a finding");
    assert!(finding.communicator.ends_with("def"), "{finding:?}");
    assert_eq!(node.findings.iter().filter(|one| one.kind == FindingKind::LateCall).count(), 1);
    let change = |slot: u8, rank_number: i32| {
        let mut one = with_another(changed(rank_number, 0, 100, 750 * MS, Grew::Compute), 0xdef);
        one.events[0].slot = Some(slot);
        one
    };
    let node = self::world().look(vec![change(0, 0), change(1, 1)], at(101)).node;
    assert_eq!(node.jobs[0].pace_changes.len(), 2, "{:?}", node.jobs[0].pace_changes);
}

#[test]
fn one_change_is_what_ranks_say_at_about_the_same_time_and_in_the_same_direction() {
    let changes = |readings: Vec<Reading>| {
        let node = world().look(readings, at(120)).node;
        node.jobs[0].pace_changes.iter().map(|change| change.ranks.len()).collect::<Vec<_>>()
    };
    let slower = |rank, at_s| changed(rank, 0, at_s, 750 * MS, Grew::Unknown);
    assert_eq!(changes(vec![slower(0, 100), slower(1, 104)]), [2]);
    assert_eq!(changes(vec![slower(0, 100), slower(1, 110)]), [1, 1], "ten seconds apart");
    assert_eq!(changes(vec![slower(0, 100), changed(1, 0, 101, 300 * MS, Grew::Unknown)]), [1, 1]);
    let mut twice = slower(0, 100);
    twice.events.push(told(1, EventKind::PaceChanged, 102 * S, [750 * MS, 900 * MS, 0]));
    assert_eq!(changes(vec![twice]), [1, 1], "a rank that says it again means another one");
}

#[test]
fn a_communicator_in_the_place_of_another_begins_to_drift_anew() {
    let mut world = world();
    let drift = |second: u64, generation: u64| {
        let mut one = rank(0, PatternState::Drifting, second);
        one.snapshot.communicators[0].generation = generation;
        vec![one]
    };
    world.look(drift(100, 1), at(100));
    world.look(drift(105, 2), at(105));
    let node = world.look(drift(112, 2), at(112)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "seven seconds");
    let node = world.look(drift(116, 2), at(116)).node;
    assert!(found(&node, FindingKind::RhythmBroken).is_some());
}

#[test]
fn a_rank_does_not_explain_its_own_lateness() {
    let mut world = world();
    let mut one = late(3, 0, 19 * S, 1500 * MS);
    one.events.push(told(1, EventKind::CallLate, 19 * S + 400 * MS, [1400 * MS, 0, 0]));
    let node = world.look(vec![one, rank(0, PatternState::Locked, 20)], at(20)).node;
    let finding = found(&node, FindingKind::LateCall).expect("a finding");
    assert!(finding.text.contains("2 times in the last ten seconds"), "{}", finding.text);
}

#[test]
fn a_job_that_never_issued_anything_is_not_silent_and_one_rank_that_goes_on_is_enough() {
    let mut world = world();
    let node = world.look((0..4).map(|n| rank(n, PatternState::Locked, 0)).collect(), at(111)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "nothing was issued yet");
    let mut world = self::world();
    let readings = (0..4).map(|n| rank(n, PatternState::Locked, if n == 2 { 110 } else { 90 })).collect();
    let node = world.look(readings, at(111)).node;
    assert_eq!(found(&node, FindingKind::RhythmBroken), None, "rank 2 goes on");
}

#[test]
fn where_all_ranks_compute_longer_none_is_suspected() {
    let mut world = world();
    let readings = (0..4).map(|n| changed(n, 0, 100, 750 * MS, Grew::Compute)).collect();
    let node = world.look(readings, at(101)).node;
    let finding = found(&node, FindingKind::SlowerPace).expect("a finding");
    assert_eq!(finding.ranks, [0_u32; 0]);
    assert!(finding.text.contains("compute grew: look at device clocks"), "{}", finding.text);
}

#[test]
fn a_job_is_as_slow_as_its_slowest_rank_and_locked_only_when_all_are() {
    let ranks = |states: [PatternState; 3]| {
        let one = |(n, state): (usize, PatternState)| {
            let mut one = rank(n as i32, state, 100);
            one.snapshot.communicators[0].pattern.period_ns = (n as u64 + 1) * 100 * MS;
            one
        };
        let node = world().look(states.into_iter().enumerate().map(one).collect(), at(100)).node;
        (node.jobs[0].rhythm.state.to_string(), node.jobs[0].rhythm.step_s)
    };
    let (locked, learning) = (PatternState::Locked, PatternState::Learning);
    assert_eq!(ranks([locked, locked, locked]), ("locked".to_owned(), Some(0.3)));
    assert_eq!(ranks([locked, locked, learning]), ("learning".to_owned(), Some(0.2)));
    assert_eq!(ranks([locked, PatternState::Drifting, learning]), ("drifting".to_owned(), Some(0.1)));
}

#[test]
fn a_communicator_that_has_ended_has_no_step_any_more() {
    let mut one = with_another(rank(0, PatternState::Locked, 100), 0xdef);
    one.snapshot.communicators[1].pattern.period_ns = 3 * S;
    one.snapshot.communicators[1].ended = Some(airamp_telemetry::Ended::Destroyed);
    let node = world().look(vec![one], at(100)).node;
    assert_eq!(node.jobs[0].ranks[0].rhythm.step_s, Some(0.5));
}

#[test]
fn hostile_events_stay_bounded_and_finite() {
    let mut world = world();
    let mut one = rank(0, PatternState::Drifting, 1);
    one.snapshot.communicators[0].pattern.period_ns = u64::MAX;
    let kinds = [EventKind::CallLate, EventKind::PaceChanged];
    one.events = (0..2000)
        .map(|n| told(n, kinds[n as usize % 2], u64::MAX - n, [n * n, u64::MAX - n * 7, u64::MAX]))
        .collect();
    let node = world.look(vec![one], at(20)).node;
    assert!(node.jobs[0].pace_changes.len() <= 16);
    let json = serde_json::to_string(&node).expect("finite");
    assert!(json.len() < 1_000_000);
}
