//! Who may touch a pair's events, and when. The events here lie nowhere: whoever looks at them or gives them back
//! crashes.

use super::*;
use std::ptr::NonNull;

/// A communicator with that slot, its pairs in these states.
fn timed(slot: u64, states: [u8; PAIRS]) -> Place {
    let place = Place::new();
    place.open_for.store(slot, Ordering::SeqCst);
    for (pair, state) in place.pairs.iter().zip(states) {
        pair.slot.store(slot, Ordering::Relaxed);
        pair.state.store(state, Ordering::Relaxed);
        pair.events.store(NonNull::dangling().as_ptr(), Ordering::Relaxed);
    }
    place
}

fn states(place: &Place) -> [u8; PAIRS] {
    std::array::from_fn(|at| place.pairs[at].state.load(Ordering::Relaxed))
}

#[test]
fn an_abort_leaves_the_events_alone_whether_the_device_has_passed_them_or_not() {
    let place = timed(7, [FREE, ENQUEUED, TAKEN, EMPTY]);
    place.forget();
    assert_eq!(states(&place), [EMPTY, EMPTY, TAKEN, EMPTY]);
    assert!(place.pairs[0].events().is_none() && place.pairs[1].events().is_none());
}

#[test]
fn a_pair_that_comes_back_behind_the_end_of_its_communicator_is_forgotten() {
    let place = timed(7, [TAKEN; PAIRS]);
    place.pairs[0].hand_back(FREE, &place);
    place.pairs[1].hand_back(ENQUEUED, &place);
    assert_eq!(states(&place), [FREE, ENQUEUED, TAKEN, TAKEN]);
    place.forget();
    // The next communicator there does not get the events of the one before.
    place.open_for.store(8, Ordering::SeqCst);
    place.pairs[2].hand_back(FREE, &place);
    place.pairs[3].hand_back(ENQUEUED, &place);
    assert_eq!(states(&place), [EMPTY; PAIRS]);
}

#[test]
fn a_health_check_gives_up_on_what_was_asked_for_in_vain_for_long() {
    let place = timed(7, [ENQUEUED; PAIRS]);
    let (pair, long) = (&place.pairs[0], interval_ticks() * PATIENCE);
    assert!(!pair.is_overdue(Ticks(5 + long)), "nobody has asked yet");
    pair.unreached_since.store(5, Ordering::Relaxed);
    assert!(!pair.is_overdue(Ticks(4 + long)));
    assert!(pair.is_overdue(Ticks(5 + long)));
    pair.state.store(FREE, Ordering::Relaxed);
    assert!(!pair.is_overdue(Ticks(5 + long)));
}
