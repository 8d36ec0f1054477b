//! Changes after creation: at most one proposal is open, and each number is decided once. Made for the leader alone,
//! which sees to it that all ranks are linked when something is proposed.

use super::{Actions, LeaderAction, LeaderTimer, tell_all};
use crate::message::{At, LAST_INDEX, Plan, Rank, ToMember};
use std::collections::BTreeSet;

pub(super) const MOST_MARGIN: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Changes {
    /// The highest number used.
    newest: u64,
    /// The highest number committed, and its index. A rank that was cut off before it heard of it pledges nothing
    /// else, so that no later number can be committed before this rank has asked: remembering one is enough.
    committed: u64,
    committed_at: u64,
    /// The most reserved calls of any rank that was heard of.
    reserved: u64,
    margin: u64,
    least_margin: u64,
    open: Option<Open>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    number: u64,
    at: u64,
    plan: Plan,
    pledged: BTreeSet<Rank>,
    /// Decided, but the brain hears of it only when the proposal's time is up: what stands in the way now will stand
    /// there in a moment too.
    aborted: bool,
}

impl Changes {
    pub(super) fn new(least_margin: u64) -> Self {
        Self {
            newest: 0,
            committed: 0,
            committed_at: 0,
            reserved: 0,
            margin: least_margin,
            least_margin,
            open: None,
        }
    }

    pub(super) fn timer(&self) -> Option<LeaderTimer> {
        self.open.as_ref().map(|open| LeaderTimer::Proposal(open.number))
    }

    /// `linked` only if that is every rank: with one missing the answer is no, later.
    pub(super) fn propose(
        &mut self,
        plan: Plan,
        reserved: u64,
        linked: Option<&BTreeSet<Rank>>,
        out: &mut Actions,
    ) {
        if self.open.is_some() {
            return;
        }
        self.newest += 1;
        self.reserved = self.reserved.max(reserved.min(LAST_INDEX));
        let (number, at) =
            (self.newest, (self.reserved.max(self.committed_at) + self.margin).min(LAST_INDEX));
        if let Some(linked) = linked {
            tell_all(linked, &ToMember::Propose { number, at: At::Index(at), plan }, out);
        }
        self.open = Some(Open { number, at, plan, pledged: BTreeSet::new(), aborted: linked.is_none() });
    }

    /// False if the message is out of turn, here and below. A late answer to what is decided is not.
    pub(super) fn pledge(
        &mut self,
        rank: Rank,
        number: u64,
        ranks: u32,
        linked: &BTreeSet<Rank>,
        out: &mut Actions,
    ) -> bool {
        let Some(open) = self.undecided(number) else { return number <= self.newest };
        if !open.pledged.insert(rank) {
            return false;
        }
        if open.pledged.len() == ranks as usize {
            let (at, plan) = (open.at, open.plan);
            self.open = None;
            (self.committed, self.committed_at) = (number, at);
            self.margin = (self.margin / 2).max(self.least_margin);
            tell_all(linked, &ToMember::Commit { number }, out);
            out.push(LeaderAction::Decided { at, plan, committed: true });
        }
        true
    }

    pub(super) fn refuse(
        &mut self,
        rank: Rank,
        number: u64,
        reserved: u64,
        linked: &BTreeSet<Rank>,
        out: &mut Actions,
    ) -> bool {
        if number > self.newest {
            return false;
        }
        self.reserved = self.reserved.max(reserved);
        let Some(open) = self.undecided(number) else { return true };
        if open.pledged.contains(&rank) {
            return false;
        }
        if reserved > open.at {
            self.margin = (self.margin * 2).min(MOST_MARGIN);
            self.give_up(linked, out);
        } else {
            self.pause(linked, out);
        }
        true
    }

    pub(super) fn ask(
        &mut self,
        rank: Rank,
        number: u64,
        linked: &BTreeSet<Rank>,
        out: &mut Actions,
    ) -> bool {
        if self.undecided(number).is_some() {
            // Its pledge may have been lost with its link.
            self.pause(linked, out);
        } else if number == self.committed {
            out.push(LeaderAction::Send(rank, ToMember::Commit { number }));
        } else if number > self.committed && number <= self.newest {
            out.push(LeaderAction::Send(rank, ToMember::Abort { number }));
        }
        number <= self.newest
    }

    /// Aborts what is not decided; the brain may try again when the proposal's time is up.
    pub(super) fn pause(&mut self, linked: &BTreeSet<Rank>, out: &mut Actions) {
        if let Some(open) = self.open.as_mut().filter(|open| !open.aborted) {
            open.aborted = true;
            tell_all(linked, &ToMember::Abort { number: open.number }, out);
        }
    }

    /// Aborts what is not decided; the brain may try again at once.
    pub(super) fn give_up(&mut self, linked: &BTreeSet<Rank>, out: &mut Actions) {
        self.pause(linked, out);
        if let Some(open) = self.open.take() {
            out.push(LeaderAction::Decided { at: open.at, plan: open.plan, committed: false });
        }
    }

    pub(super) fn time_is_up(&mut self, linked: &BTreeSet<Rank>, out: &mut Actions) {
        self.give_up(linked, out);
    }

    fn undecided(&mut self, number: u64) -> Option<&mut Open> {
        self.open.as_mut().filter(|open| open.number == number && !open.aborted)
    }
}
