//! Claims about the table.

use super::entry::SHRINKS;
use super::*;
use crate::call_index::Counts;
use crate::calls::Derivation;
use crate::clique::Clique;
use std::time::Duration;

const FACTS: Facts = Facts {
    origin: Origin::Created,
    vendor: 0,
    rank: 1,
    nranks: 4,
    blocking: true,
    clique: Clique::UNKNOWN,
    parent: Clique::UNKNOWN,
    lends: false,
};

#[test]
fn a_communicator_is_found_until_it_is_forgotten() {
    let known = insert(0x10_0000, &FACTS).unwrap();
    assert_eq!(find(0x10_0000).unwrap().generation, known.generation);
    known.forget();
    assert!(find(0x10_0000).is_none());
}

#[test]
fn a_recycled_address_is_another_communicator() {
    let old = insert(0x20_0000, &FACTS).unwrap();
    old.entry.index.reserve(old.generation);
    let new = insert(0x20_0000, &FACTS).unwrap();
    assert_ne!(old.generation, new.generation);
    assert_eq!(new.entry.index.counts(), Counts { reserved: 0, committed: 0 });
    old.forget();
    assert!(find(0x20_0000).is_some(), "the old one's end must not remove the new one");
    new.forget();
}

#[test]
fn an_ending_communicator_waits_for_pins_and_refuses_new_ones() {
    let known = insert(0x30_0000, &FACTS).unwrap();
    let pin = known.pin().unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        drop(pin);
    });
    assert!(known.begin_end());
    assert!(known.pin().is_none());
    holder.join().unwrap();
    known.forget();
}

#[test]
fn a_full_neighbourhood_leaves_a_communicator_untracked() {
    // Addresses that share all their places: equal after the spread, by construction of the search.
    let base = places(0x4000_0000).next().unwrap() as *const Entry;
    let mut same: Vec<usize> = Vec::new();
    let mut address = 0x4000_0000;
    while same.len() <= PROBES {
        if std::ptr::eq(places(address).next().unwrap(), base) {
            same.push(address);
        }
        address += 16;
    }
    let entered: Vec<_> = same.iter().map(|address| insert(*address, &FACTS)).collect();
    assert!(entered.last().unwrap().is_none());
    entered.into_iter().flatten().for_each(Known::forget);
}

#[test]
fn a_communicator_that_is_no_longer_counted_is_not_taken_for_a_new_one() {
    let known = insert(0x50_0000, &FACTS).unwrap();
    known.entry.index.reserve(known.generation);
    known.stop_counting();
    let again = insert_if_absent(0x50_0000, &FACTS).unwrap();
    assert_eq!(again.generation, known.generation);
    assert_eq!(again.entry.index.reserve(again.generation), None);
    known.forget();
}

#[test]
fn threads_that_adopt_one_communicator_at_once_enter_it_once() {
    let adopt = || insert_if_absent(0x60_0000, &FACTS).unwrap().generation;
    let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(adopt)).collect();
    let generations: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(generations.iter().all(|generation| *generation == generations[0]));
    find(0x60_0000).unwrap().forget();
}

#[test]
fn null_and_reserved_values_are_never_tracked() {
    for address in [NEVER, VACANT] {
        assert!(insert(address, &FACTS).is_none());
        assert!(find(address).is_none());
    }
}

#[test]
fn nothing_is_made_from_a_communicator_that_has_failed_until_it_is_interrupted() {
    let known = insert(0x6a00_0000, &FACTS).unwrap();
    assert_eq!(known.entry.own_failure(), None);
    known.poison_as(NcclResult::REMOTE_ERROR);
    assert_eq!(known.entry.own_failure(), Some(NcclResult::REMOTE_ERROR));
    known.interrupt();
    assert_eq!(known.entry.own_failure(), None);
    assert!(known.entry.is_poisoned(), "its calls fail all the same");
    let next = insert(0x6a00_0000, &FACTS).unwrap();
    next.poison_as(NcclResult::INTERNAL_ERROR);
    assert_eq!(next.entry.own_failure(), Some(NcclResult::INTERNAL_ERROR));
    next.forget();
}

#[test]
fn only_one_thread_ends_a_communicator_whose_creation_failed() {
    let ended_by_the_application = insert(0x6b00_0000, &FACTS).unwrap();
    assert!(ended_by_the_application.begin_end());
    assert_eq!(ended_by_the_application.begin_to_take_back(), None, "somebody ends it already");
    ended_by_the_application.forget();
    assert_eq!(ended_by_the_application.begin_to_take_back(), None, "it is gone");

    let taken_back = insert(0x6b00_0000, &FACTS).unwrap();
    assert_eq!(taken_back.begin_to_take_back(), Some(true));
    taken_back.cancel_take_back();
    assert!(taken_back.is_usable(), "what cannot be taken back lives on");
    assert_eq!(taken_back.begin_to_take_back(), Some(true));
    assert!(taken_back.is_taken_back());
    assert!(taken_back.begin_end() && taken_back.is_taken_back(), "the application's end changes nothing");
    taken_back.cancel_end();
    assert!(taken_back.is_taken_back(), "nor does it where the vendor refused it, or only revoked");
    let next = insert(0x6b00_0000, &FACTS).unwrap();
    assert!(!taken_back.is_taken_back() && !next.is_taken_back());
    assert_eq!(taken_back.begin_to_take_back(), None, "the next one there is left alone");
    assert!(next.is_usable());
    next.forget();
}

#[test]
fn a_rank_that_was_left_out_once_names_the_next_shrink_as_the_others_do() {
    let facts = Facts { clique: Clique(7), ..FACTS };
    let (in_both, left_out_once) =
        (insert(0x6c00_0000, &facts).unwrap(), insert(0x6c00_0100, &facts).unwrap());
    let shrink = |known: Known, left_out: &[i32]| known.entry.next_child(Derivation::Shrink, 0, left_out);
    let without_2 = shrink(in_both, &[2]);
    let without_3 = shrink(in_both, &[3]);
    assert_eq!(shrink(left_out_once, &[3]), without_3);
    assert_ne!(without_2, without_3);
    assert_ne!(shrink(in_both, &[2]), without_2, "the second without the same ranks is another one");
    (0..SHRINKS as i32).for_each(|more| _ = shrink(in_both, &[10, more]));
    assert_eq!(shrink(in_both, &[50]), Clique::UNKNOWN, "it cannot be counted, and is left to the vendor");
    assert_ne!(shrink(in_both, &[3]), Clique::UNKNOWN);
    let next = insert(0x6c00_0000, &facts).unwrap();
    assert_eq!(shrink(next, &[2]), without_2, "the next one there has no children yet");
    [next, left_out_once].into_iter().for_each(Known::forget);
}
