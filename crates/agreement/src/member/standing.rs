//! A member's part in changes after creation: at most one proposal is open; the gate is asked before a pledge, and only
//! the leader's verdict opens it again. Knows nothing of creation or of time.

use super::{MemberAction, Outbox};
use crate::message::{At, LAST_INDEX, Plan, ToLeader, ToMember, VENDOR_PLAN, one_line};

/// A leader is behind the calls now and then, and comes further ahead each time. One that has been so often in a row
/// does not.
pub(super) const MOST_BEHIND: u32 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    /// The highest number heard of.
    heard: u64,
    /// The highest number committed, and the index from which its plan holds. Creation is number 0.
    committed: u64,
    since: u64,
    open: Option<Open>,
    /// Proposals in a row whose index had passed.
    behind: u32,
    /// Why the leader is not trusted: every proposal is refused but the one to leave all calls to the vendor.
    distrust: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    number: u64,
    at: u64,
    plan: Plan,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The gate is asked.
    Asking,
    /// The gate is asked, but its answer has become idle.
    Withdrawn,
    Pledged,
}

impl Standing {
    pub(super) fn new() -> Self {
        Self { heard: 0, committed: 0, since: 0, open: None, behind: 0, distrust: None }
    }

    pub(super) fn has_pledged(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.stage == Stage::Pledged)
    }

    pub(super) fn link_up(&self, out: &mut Outbox) {
        if let Some(Open { number, stage: Stage::Pledged, .. }) = self.open {
            out.say(ToLeader::Ask { number });
        }
        if let Some(reason) = &self.distrust {
            out.say(ToLeader::Distrust { reason: reason.clone() });
        }
    }

    /// The leader aborts what it has not decided when it loses a link.
    pub(super) fn link_lost(&mut self) {
        self.withdraw();
    }

    /// An error is a contradiction that cannot be lived with: peers may act on another plan than this rank.
    pub(super) fn message(&mut self, message: ToMember, out: &mut Outbox) -> Result<(), String> {
        match message {
            ToMember::Propose { number, at, plan } => self.propose(number, at, plan, out),
            ToMember::Commit { number } => return self.commit(number, out),
            ToMember::Abort { number } => return self.abort(number, out),
            // A link that was lost may have made this rank say twice that it is connected.
            ToMember::Begin => {}
            ToMember::Off { reason } | ToMember::Broken { reason } => {
                self.distrust(&format!("rank 0 went back to creation: {reason}"), out);
            }
        }
        Ok(())
    }

    fn propose(&mut self, number: u64, at: At, plan: Plan, out: &mut Outbox) {
        let refusal = match at {
            _ if self.distrust.is_some() && plan != VENDOR_PLAN => "a plan to a rank that distrusts it",
            _ if number <= self.heard => "a number that was used before",
            At::Creation => "creation is over",
            At::Index(at) if at <= self.since => "an index before the last change",
            At::Index(at) if at > LAST_INDEX => "an index that no communicator reaches",
            // A link was cut, and the leader's answer to this rank's question is still on its way.
            At::Index(_) if self.open.is_some() => {
                self.heard = number;
                return out.refuse(number, 0, "the proposal before is not yet decided here");
            }
            At::Index(at) => {
                self.heard = number;
                self.open = Some(Open { number, at, plan, stage: Stage::Asking });
                return out.act(MemberAction::TryPledge { number, at });
            }
        };
        // First why: the leader may never have made the proposal that is refused.
        self.distrust(&format!("rank 0 proposed {refusal}"), out);
        out.refuse(number, 0, refusal);
    }

    pub(super) fn gate_answered(&mut self, number: u64, pledged: Result<(), u64>, out: &mut Outbox) {
        let Some(open) = self.open.as_mut().filter(|open| open.number == number) else { return };
        match (open.stage, pledged) {
            (Stage::Asking, Ok(())) => {
                open.stage = Stage::Pledged;
                self.behind = 0;
                out.say(ToLeader::Pledge { number });
            }
            (Stage::Asking, Err(reserved)) => {
                self.behind = if reserved > open.at { self.behind.saturating_add(1) } else { 0 };
                self.open = None;
                out.refuse(number, reserved, "the index cannot be pledged");
                if self.behind >= MOST_BEHIND {
                    self.distrust("rank 0 proposed indices that had passed, again and again", out);
                }
            }
            (Stage::Withdrawn, answer) => {
                self.open = None;
                if answer.is_ok() {
                    out.act(MemberAction::Abort);
                }
            }
            (Stage::Pledged, _) => {}
        }
    }

    fn commit(&mut self, number: u64, out: &mut Outbox) -> Result<(), String> {
        match self.open.take_if(|open| open.number == number && open.stage == Stage::Pledged) {
            Some(open) => {
                (self.committed, self.since) = (number, open.at);
                out.act(MemberAction::Commit { at: open.at, plan: open.plan });
            }
            None if number > self.committed => {
                return Err(format!("rank 0 committed change {number} without this rank's pledge"));
            }
            None if number < self.committed => self.distrust("rank 0 repeated an old commit", out),
            None => {}
        }
        Ok(())
    }

    fn abort(&mut self, number: u64, out: &mut Outbox) -> Result<(), String> {
        if self.open.as_ref().is_some_and(|open| open.number == number) {
            if self.open.take_if(|open| open.stage == Stage::Pledged).is_some() {
                out.act(MemberAction::Abort);
            }
            self.withdraw();
        } else if number == self.committed {
            return Err(format!("rank 0 took back change {number}, which it had committed"));
        } else if number < self.committed {
            self.distrust("rank 0 repeated an old abort", out);
        }
        Ok(())
    }

    fn withdraw(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| open.stage == Stage::Asking) {
            open.stage = Stage::Withdrawn;
        }
    }

    /// From here on this rank agrees to nothing but that all calls go to the vendor. What it has pledged still awaits its
    /// verdict.
    fn distrust(&mut self, reason: &str, out: &mut Outbox) {
        self.withdraw();
        if self.distrust.is_none() {
            let reason = one_line(reason);
            self.distrust = Some(reason.clone());
            out.say(ToLeader::Distrust { reason: reason.clone() });
            out.act(MemberAction::Distrusts { reason });
        }
    }
}
