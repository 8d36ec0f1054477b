//! Of which rounds of trials the leader was told that their variant does not suit the calls: it is to hear that in each round,
//! and not with every call. `measuring` asks. A byte per class, no lock.

use super::active::Standing;
use super::measuring::is_due;
use airamp_policy::{Class, Entry, PLACES};
use std::sync::atomic::{AtomicU8, Ordering};

/// No trial's byte in a plan.
const NONE: u8 = 0;

/// By `Class::place`: the last round of which it was told, as the plan has it. A variant may be tried again, in another round.
pub(super) struct Unsuited([AtomicU8; PLACES]);

impl Unsuited {
    pub(super) fn new() -> Self {
        Self([const { AtomicU8::new(NONE) }; PLACES])
    }

    /// Once in each round, and again where a call would be timed: the class waits for this word, and a report may be lost. The
    /// index of a captured call is not its own, and many may go by one.
    pub(super) fn is_to_be_told(&self, class: Class, (variant, round): (u8, u8), standing: Standing) -> bool {
        let trial = Entry::Trial { variant, round }.byte();
        let is_news =
            self.0.get(class.place()).is_some_and(|last| last.swap(trial, Ordering::Relaxed) != trial);
        is_news || (!standing.captured && is_due(standing.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::Element;

    /// A call that would not be timed.
    const USUAL: Standing = Standing { index: 0, captured: false, alone: true };

    fn class(count: u64) -> Class {
        Class::of(Element::F32, count)
    }

    #[test]
    fn a_variant_that_does_not_suit_is_told_of_once_in_each_round() {
        let told = Unsuited::new();
        for round in [1, 2, 7, 0, 1] {
            assert!(told.is_to_be_told(class(1 << 20), (0, round), USUAL), "round {round}");
            assert!(
                !told.is_to_be_told(class(1 << 20), (0, round), USUAL),
                "with each call of round {round}"
            );
        }
        assert!(told.is_to_be_told(class(1 << 20), (1, 1), USUAL), "another variant");
        assert!(told.is_to_be_told(class(1 << 24), (0, 1), USUAL), "another class");
    }

    #[test]
    fn where_the_word_may_have_been_lost_about_one_call_in_64_repeats_it() {
        let told = Unsuited::new();
        let repeats = |captured| {
            let standing = |index| Standing { index, captured, alone: true };
            (0..6400).filter(|index| told.is_to_be_told(class(1), (0, 1), standing(*index))).count()
        };
        assert!((80..=120).contains(&repeats(false)));
        assert_eq!(repeats(true), 0, "captured calls may all go by one index");
    }
}
