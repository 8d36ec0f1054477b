//! How the ranks of a communicator agree on a change of what they put on the wire. Events in, actions out: no
//! socket, no clock and no thread; `control` carries the messages and keeps the time. The gate is the one place
//! where the application's threads meet the agreement.

#![forbid(unsafe_code)]

mod gate;
mod leader;
mod member;
mod message;
#[cfg(test)]
mod properties;

pub use gate::{Gate, GateError};
pub use leader::{Leader, LeaderAction, LeaderEvent, LeaderTimer};
pub use member::{Member, MemberAction, MemberEvent, MemberTimer, Settled};
pub use message::{
    At, Capable, Hello, LAST_INDEX, LONGEST_TEXT, MOST_REPORT_BYTES, MOST_TERMS, MOST_TUNINGS_TOLD, Order,
    PLAN_BYTES, PROTOCOL, Plan, Rank, Term, ToLeader, ToMember, VENDOR_PLAN,
};
