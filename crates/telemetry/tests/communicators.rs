//! Slots: who holds one, what it is told, and what becomes of it afterwards.

mod place;

use airamp_telemetry::*;
use place::Place;

fn facts(name: u64) -> CommunicatorFacts {
    CommunicatorFacts {
        name,
        parent: 7,
        rank: 1,
        ranks: 4,
        device: -1,
        device_uuid: *b"0123456789abcdef",
        nic: *b"eth0\0\0\0\0\0\0\0\0\0\0\0\0",
        origin: 2,
        vendor_index: 3,
    }
}

fn communicator(place: &Place, slot: u8) -> snapshot::Communicator {
    let snapshot = place.only().snapshot().unwrap();
    snapshot.communicators.into_iter().find(|one| one.slot == slot).unwrap()
}

#[test]
fn what_a_communicator_tells_is_read_back() {
    let place = Place::new();
    let slot = place.writer().open(&facts(0xabc)).unwrap();
    slot.agreement(AgreementState::On, "all four ranks are ready");
    slot.plan(77, &std::array::from_fn(|n| n as u8));
    slot.all_reduces(99);
    slot.arena(16 << 20);
    slot.codec_time(5, 6);
    slot.compressed(7);
    slot.trials(8);
    slot.ghosts(9);
    slot.pattern(PatternState::Locked, 0.75, 12, 34, 56);
    slot.poisoned(3);
    let found = communicator(&place, slot.index());
    assert_eq!((found.facts, found.ended, found.poisoned), (facts(0xabc), None, 3));
    assert_eq!(
        (found.agreement, found.agreement_reason.as_str()),
        (AgreementState::On, "all four ranks are ready")
    );
    assert_eq!((found.plan_from, found.plan), (77, std::array::from_fn(|n| n as u8)));
    assert_eq!((found.all_reduces, found.arena_bytes, found.vnmse), (99, 16 << 20, None));
    assert_eq!((found.sums.codec_ns, found.sums.codec_bytes, found.sums.compressed_calls), (5, 6, 7));
    assert_eq!((found.sums.trial_calls, found.sums.ghosts), (8, 9));
    let pattern = found.pattern;
    assert_eq!((pattern.state, pattern.confidence, pattern.period_calls), (PatternState::Locked, 0.75, 12));
    assert_eq!((pattern.period_ns, pattern.step), (34, 56));
    slot.accuracy(0.0);
    assert_eq!(communicator(&place, slot.index()).vnmse, Some(0.0));
    slot.accuracy(f64::NAN);
    assert_eq!(communicator(&place, slot.index()).vnmse, None);
}

#[test]
fn what_broke_the_rhythm_is_counted_by_kind_and_not_for_the_next_holder() {
    let place = Place::new();
    let writer = place.writer();
    let slot = writer.open(&facts(1)).unwrap();
    for (how, times) in Deviation::ALL.iter().zip(1..) {
        (0..times).for_each(|_| slot.deviated(*how));
    }
    slot.pace_changed();
    let found = communicator(&place, slot.index()).sums;
    assert_eq!((found.deviations, found.pace_changes), ([1, 2, 3, 4], 1));
    let others: Vec<Slot> = (1..32).map(|name| writer.open(&facts(name)).unwrap()).collect();
    slot.close(Ended::Destroyed);
    slot.deviated(Deviation::Late);
    let next = writer.open(&facts(2)).unwrap();
    assert_eq!((next.index(), others.len()), (slot.index(), 31));
    let found = communicator(&place, next.index()).sums;
    assert_eq!((found.deviations, found.pace_changes), ([0; 4], 0));
    let process = place.only().snapshot().unwrap();
    assert_eq!((process.sums.deviations, process.sums.pace_changes), ([2, 2, 3, 4], 1));
    assert_eq!(process.ghosts_measured, None);
    writer.ghosts_measured(160_000, 50_000);
    assert_eq!(place.only().snapshot().unwrap().ghosts_measured, Some((160_000, 50_000)));
}

#[test]
fn sequences_count_up_and_their_last_arrivals_are_kept() {
    let place = Place::new();
    let slot = place.writer().open(&facts(1)).unwrap();
    let start = now();
    for sequence in 1..=1000 {
        assert_eq!(slot.issued(1, now()), sequence);
    }
    assert_eq!(slot.issued(100, now()), 1100);
    slot.pending(1050, now());
    slot.completed(1040, now());
    slot.completed(1030, now());
    slot.polled(now());
    let found = communicator(&place, slot.index());
    assert_eq!((found.issued, found.pending, found.completed), (1100, 1050, 1040));
    let sequences: Vec<u64> = found.arrivals.iter().map(|arrival| arrival.sequence).collect();
    assert_eq!(sequences, (1037..=1100).collect::<Vec<_>>());
    assert!(found.arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
    let milestones: Vec<u64> = found.milestones.iter().map(|arrival| arrival.sequence).collect();
    assert_eq!(milestones, [256, 512, 768, 1024]);
    assert!(found.opened_ns <= found.arrivals[0].at_ns && start.0 > 0);
    assert!(found.pending_ns <= found.completed_ns && found.completed_ns <= found.polled_ns);
}

#[test]
fn what_a_thread_is_inside_of_is_told_where_it_is_no_collective() {
    let place = Place::new();
    let writer = place.writer();
    let slot = writer.open(&facts(1)).unwrap();
    let seen = || {
        let own = communicator(&place, slot.index());
        (own.inside, own.inside_other)
    };
    slot.enter_other(now());
    assert_eq!(seen(), (1, true));
    slot.enter(now());
    assert_eq!(seen(), (2, false), "a collective beside it is what others wait for");
    slot.enter_other(now());
    assert_eq!(seen(), (3, false));
    (0..3).for_each(|_| slot.leave());
    assert_eq!(seen(), (0, false));
    for groups in [[true, false], [false, true]] {
        groups.into_iter().for_each(|has_collectives| slot.issuing().enter_group(has_collectives, now()));
        assert_eq!(seen(), (1, false), "{groups:?}");
        slot.leave();
    }
    slot.issuing().enter_group(false, now());
    assert_eq!(seen(), (1, true));
    let (path, datatype) = (Path::Vendor, Datatype(7));
    let shape = Shape { kind: Kind::Send, path, datatype, count: 1, logical: 4, wire: 4, would_wire: 4 };
    writer.recipe(slot.bits(), shape).took_effect(0, now(), Times::UNKNOWN);
    assert_eq!(seen(), (0, false));
}

#[test]
fn a_thread_inside_a_vendor_call_is_seen_with_the_time_it_went_in() {
    let place = Place::new();
    let slot = place.writer().open(&facts(1)).unwrap();
    slot.leave();
    assert_eq!(communicator(&place, slot.index()).inside, 0, "to leave twice is no reason to wrap around");
    slot.enter(now());
    let first = communicator(&place, slot.index());
    assert_eq!(first.inside, 1);
    slot.enter(now());
    slot.leave();
    let second = communicator(&place, slot.index());
    assert_eq!(second.inside, 1);
    assert!(second.inside_since_ns > first.inside_since_ns, "one came out: something moves");
    slot.leave();
    assert_eq!(communicator(&place, slot.index()).inside, 0);
}

#[test]
fn slots_are_given_away_again_in_the_order_in_which_they_ended() {
    let place = Place::new();
    let writer = place.writer();
    let slots: Vec<Slot> = (0..32).map(|name| writer.open(&facts(name)).unwrap()).collect();
    assert!(writer.open(&facts(99)).is_none());
    assert_eq!(place.only().snapshot().unwrap().untracked, 1);
    for ended in [20, 4, 9] {
        slots[ended].close(Ended::Aborted);
    }
    let before = communicator(&place, 20);
    assert_eq!((before.ended, before.facts.name), (Some(Ended::Aborted), 20));
    for expected in [20, 4, 9] {
        assert_eq!(writer.open(&facts(100)).unwrap().index(), expected);
    }
    let after = communicator(&place, 20);
    assert_eq!((after.ended, after.ended_ns, after.facts.name), (None, 0, 100));
    assert_ne!(before.generation, after.generation);
}

#[test]
fn what_the_last_holder_of_a_slot_says_is_dropped() {
    let place = Place::new();
    let writer = place.writer();
    let old = writer.open(&facts(1)).unwrap();
    old.issued(5, now());
    old.agreement(AgreementState::Off, "old");
    old.close(Ended::Destroyed);
    for name in 2..=32 {
        writer.open(&facts(name)).unwrap();
    }
    let new = writer.open(&facts(33)).unwrap();
    assert_eq!(new.index(), old.index());
    assert_eq!(old.issued(1, now()), 0);
    old.completed(4, now());
    old.enter(now());
    old.poisoned(1);
    old.arena(1);
    old.compressed(2);
    old.agreement(AgreementState::Off, "older");
    old.close(Ended::Destroyed);
    let found = communicator(&place, new.index());
    assert_eq!((found.facts.name, found.issued, found.completed, found.inside), (33, 0, 0, 0));
    assert_eq!((found.poisoned, found.arena_bytes, found.ended), (0, 0, None));
    assert_eq!((found.agreement, found.agreement_reason.as_str()), (AgreementState::NotSought, ""));
    assert_eq!(found.sums.compressed_calls, 0);
    assert!(found.arrivals.is_empty());
    assert_eq!(place.only().snapshot().unwrap().sums.compressed_calls, 2, "the process's sum keeps it");
}

#[test]
fn a_slot_survives_as_one_word() {
    let place = Place::new();
    let writer = place.writer();
    let slot = writer.open(&facts(1)).unwrap();
    assert_ne!(slot.bits(), 0);
    assert!(writer.slot(0).is_none());
    assert_eq!(writer.slot(slot.bits()).unwrap().issued(2, now()), 2);
    assert_eq!(writer.slot(slot.bits() ^ 1 << 20).unwrap().issued(2, now()), 0);
    assert!(writer.slot(u64::MAX).is_none());
}

#[test]
fn threads_that_open_at_once_get_different_slots() {
    let place = Place::new();
    let writer = place.writer();
    for round in 0..20 {
        let mut slots: Vec<Slot> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..8).map(|_| writer.open(&facts(round)).unwrap()).collect::<Vec<_>>())
                })
                .collect();
            opening.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        slots.sort_by_key(|slot| slot.index());
        assert!(slots.iter().map(|slot| slot.index()).eq(0..32));
        slots.iter().for_each(|slot| slot.close(Ended::Finalized));
    }
}
