//! Which calls of a communicator were trials. It makes the same choice on every rank from the sequence of
//! indices alone; a call that is rolled back is as if it had never been.

use crate::class::{Class, PLACES};
use crate::entry::ROUNDS;

/// Calls of a class that are tried in each round.
pub const TRIALS: usize = 2;

const NONE: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub struct TrialLedger {
    /// Indices by class and round. A round keeps its own: a call that is rolled back must not have taken anything from
    /// another round.
    rounds: [[[u64; TRIALS]; ROUNDS as usize]; PLACES],
    /// No trial has this index or a later one.
    end: u64,
}

impl TrialLedger {
    pub fn new() -> Self {
        Self { rounds: [[[NONE; TRIALS]; ROUNDS as usize]; PLACES], end: 0 }
    }

    /// To be called with the index of every call before anything else, or at the least when indices are rolled
    /// back: what was tried at this index or later has not happened. One comparison as a rule.
    pub fn forget_from(&mut self, index: u64) {
        if index >= self.end {
            return;
        }
        for tried in self.rounds.iter_mut().flatten().flatten() {
            if *tried >= index {
                *tried = NONE;
            }
        }
        self.end = index;
    }

    /// Whether this call, whose entry is `Trial` of this round, is to be tried, and as which iteration (from 0).
    /// `None`: the round has had its trials, and the call goes to the vendor alone.
    pub fn take(&mut self, class: Class, round: u8, index: u64) -> Option<u8> {
        self.forget_from(index);
        let rounds = self.rounds.get_mut(class.place())?;
        let own = usize::from(round % ROUNDS);
        let taken = *rounds.get(own)?;
        let last = taken.into_iter().filter(|tried| *tried != NONE).max();
        // Numbers of rounds come back: trials from before another round's are of the last time.
        let other = rounds.iter().flatten().copied().filter(|tried| *tried != NONE).max();
        let mut taken = if last < other { [NONE; TRIALS] } else { taken };
        let iteration = taken.iter().position(|tried| *tried == NONE)?;
        taken[iteration] = index;
        *rounds.get_mut(own)? = taken;
        self.end = self.end.max(index.saturating_add(1));
        Some(iteration as u8)
    }
}

impl Default for TrialLedger {
    fn default() -> Self {
        Self::new()
    }
}
