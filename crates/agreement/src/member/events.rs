//! What a member hears and what it wants done. The transport, the gate and the waiting thread are on the other side.

use crate::message::{Capable, Order, Plan, ToLeader, ToMember};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberEvent {
    LinkUp,
    LinkLost,
    Prepared(Result<Capable, String>),
    Message(ToMember),
    /// Answer to `TryPledge`: the gate is closed at the index, or so many calls are reserved already.
    Gate {
        number: u64,
        pledged: Result<(), u64>,
    },
    Connected(Result<(), String>),
    Report(Vec<u8>),
    Order(Order),
    TimeIsUp(MemberTimer),
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberAction {
    Send(ToLeader),
    TryPledge {
        number: u64,
        at: u64,
    },
    /// Releases the gate with the new plan.
    Commit {
        at: u64,
        plan: Plan,
    },
    /// Releases the gate with the old plan.
    Abort,
    Settle(Settled),
    /// No verdict will come: calls from the pledged index on must fail, on this rank.
    Lost {
        reason: String,
    },
    /// The leader spoke out of turn: this rank takes part in no change but the one to the vendor's own calls. For the log.
    Distrusts {
        reason: String,
    },
    Start(MemberTimer),
    Stop(MemberTimer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberTimer {
    /// How long a rank that has pledged nothing waits inside creation.
    Verdict,
    /// How long a rank that has pledged waits for the verdict.
    Doubt,
}

/// The steps of creation, for the thread that waits there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    Off {
        reason: String,
    },
    /// Connect the peers, then say how it went.
    Connect {
        plan: Plan,
    },
    On,
    Broken {
        reason: String,
    },
}
