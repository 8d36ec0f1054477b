//! What the leader hears and what it wants done. The transport and rank 0's tuner are on the other side.

use crate::message::{Capable, Order, Plan, Rank, ToLeader, ToMember};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaderEvent {
    /// A Hello comes through the introducer, the rest on the rank's own link.
    From(Rank, ToLeader),
    Linked(Rank),
    Lost(Rank),
    /// Rank 0's own vendor init has returned: who has not said Hello a little later does not come.
    Present,
    /// Answer to `ChooseFirst`.
    First(Plan),
    /// The brain wants another plan; `reserved` is rank 0's own count of reserved calls.
    Change {
        plan: Plan,
        reserved: u64,
    },
    TimeIsUp(LeaderTimer),
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaderAction {
    Send(Rank, ToMember),
    ChooseFirst(Vec<Capable>),
    /// All ranks are connected: the brain may begin.
    Started,
    Report(Rank, Vec<u8>),
    Order(Order),
    Decided {
        at: u64,
        plan: Plan,
        committed: bool,
    },
    /// A rank lies, or says that this one does: the brain is to leave everything to the vendor, for good.
    Distrusted {
        reason: String,
    },
    /// There will be no change any more.
    Closed {
        reason: String,
    },
    Start(LeaderTimer),
    Stop(LeaderTimer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaderTimer {
    Grace,
    Verdict,
    Proposal(u64),
}
