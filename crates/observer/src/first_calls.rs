//! Which sampled calls of a process are among the first of a communicator, or of a class in it: these connect, load
//! and allocate, and their time says nothing about the next. Pure; bounded by the slots and classes of a file.

use std::collections::BTreeMap;

use airamp_telemetry::snapshot::{Call, Communicator};

use crate::spikes::Key;

/// Collectives that a communicator begins with, and sampled calls that a class in it begins with.
const OF_COMMUNICATOR: u64 = 8;
const OF_CLASS: u8 = 2;

#[derive(Default)]
pub(crate) struct FirstCalls {
    /// By slot: its generation, and how many calls of each class were met.
    met: BTreeMap<u8, (u64, BTreeMap<Key, u8>)>,
}

impl FirstCalls {
    /// Whether this call is one of them. Messages have no sequence, and only their class is asked.
    pub(crate) fn take(&mut self, key: Key, call: &Call, communicator: &Communicator) -> bool {
        let (generation, classes) = self.met.entry(communicator.slot).or_default();
        if *generation != communicator.generation {
            (*generation, *classes) = (communicator.generation, BTreeMap::new());
        }
        let met = classes.entry(key).or_default();
        let of_class = *met < OF_CLASS;
        *met = met.saturating_add(1);
        of_class || (1..=OF_COMMUNICATOR).contains(&call.sequence)
    }
}

#[cfg(test)]
mod tests {
    use airamp_telemetry::{Kind, Path};

    use super::*;
    use crate::made_up::{call, communicator};

    const SMALL: Key = (Kind::AllReduce, Path::Vendor, 2);
    const LARGE: Key = (Kind::AllReduce, Path::Vendor, 9);

    #[test]
    fn the_first_collectives_of_a_communicator_are_left_out_and_the_next_is_not() {
        let (mut first, own) = (FirstCalls::default(), communicator(1, 0, 2));
        assert!((1..=OF_COMMUNICATOR).all(|sequence| first.take(SMALL, &call(sequence, 1), &own)));
        assert!(!first.take(SMALL, &call(OF_COMMUNICATOR + 1, 1), &own));
    }

    #[test]
    fn a_class_that_comes_late_has_its_own_first_calls() {
        let (mut first, own) = (FirstCalls::default(), communicator(1, 0, 2));
        let mut is_first = |key, sequence| first.take(key, &call(sequence, 1), &own);
        assert_eq!([500, 501, 502].map(|sequence| is_first(SMALL, sequence)), [true, true, false]);
        assert_eq!([600, 601, 602].map(|sequence| is_first(LARGE, sequence)), [true, true, false]);
    }

    #[test]
    fn messages_which_have_no_sequence_are_known_by_their_class() {
        let (mut first, own) = (FirstCalls::default(), communicator(1, 0, 2));
        let key = (Kind::Send, Path::Vendor, 2);
        assert_eq!([0, 0, 0].map(|none| first.take(key, &call(none, 1), &own)), [true, true, false]);
    }

    #[test]
    fn a_communicator_that_takes_the_place_of_another_begins_anew() {
        let (mut first, old) = (FirstCalls::default(), communicator(1, 0, 2));
        assert!((100..110).any(|sequence| !first.take(SMALL, &call(sequence, 1), &old)));
        let new = Communicator { generation: 3, ..communicator(2, 0, 2) };
        assert!(first.take(SMALL, &call(110, 1), &new));
    }
}
