//! The leader's claims, one rule each. Here is what they share.

mod changes;
mod creation;
mod lies;

use super::LeaderAction::{
    ChooseFirst, Closed, Decided, Distrusted, Order, Report, Send, Start, Started, Stop,
};
use super::LeaderEvent::{Change, Ended, First, From, Linked, Lost, Present, TimeIsUp};
use super::LeaderTimer::{Grace, Proposal, Verdict};
use super::changes::MOST_MARGIN;
use super::*;
use crate::message::{Capable, Hello, LAST_INDEX, MOST_REPORT_BYTES, PLAN_BYTES, Term, VENDOR_PLAN};

const RANKS: u32 = 3;
const PLAN: Plan = [1; PLAN_BYTES];
const OTHER: Plan = [2; PLAN_BYTES];

fn terms(name: &str, value: &str) -> Vec<Term> {
    vec![Term { name: name.into(), value: value.into() }]
}

fn hello(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Hello(Hello { rank, ranks: RANKS, terms: terms("mode", "on") }))
}

fn capable(rank: Rank) -> Capable {
    Capable { terms: terms("gpu", "sm_90"), host: rank.into(), tunings: Vec::new() }
}

fn ready(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Ready(Ok(capable(rank))))
}

fn pledge(rank: Rank, number: u64) -> LeaderEvent {
    From(rank, ToLeader::Pledge { number })
}

fn refuse(rank: Rank, number: u64, reserved: u64) -> LeaderEvent {
    From(rank, ToLeader::Refuse { number, reserved, reason: "no".into() })
}

fn connected(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Connected(Ok(())))
}

fn ask(rank: Rank, number: u64) -> LeaderEvent {
    From(rank, ToLeader::Ask { number })
}

fn leave(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Leave)
}

fn change(reserved: u64) -> LeaderEvent {
    Change { plan: OTHER, reserved }
}

fn feed(leader: &mut Leader, events: impl IntoIterator<Item = LeaderEvent>) -> Actions {
    events.into_iter().flat_map(|event| leader.handle(event)).collect()
}

fn by_all(event: impl Fn(Rank) -> LeaderEvent) -> Vec<LeaderEvent> {
    (0..RANKS).map(event).collect()
}

fn gathering() -> Leader {
    let mut leader = Leader::new(RANKS);
    feed(&mut leader, [Present]);
    leader
}

fn choosing() -> Leader {
    let mut leader = gathering();
    feed(&mut leader, [by_all(hello), by_all(Linked), by_all(ready)].concat());
    leader
}

fn voting() -> Leader {
    let mut leader = choosing();
    feed(&mut leader, [First(PLAN)]);
    leader
}

fn connecting() -> Leader {
    let mut leader = voting();
    feed(&mut leader, by_all(|rank| pledge(rank, 0)));
    leader
}

fn on() -> Leader {
    let mut leader = connecting();
    feed(&mut leader, by_all(connected));
    leader
}

/// On, and change 1 is proposed at index 4.
fn proposing() -> Leader {
    let mut leader = on();
    feed(&mut leader, [change(0)]);
    leader
}

fn undecided() -> [Leader; 3] {
    [gathering(), choosing(), voting()]
}

fn to_all(message: &ToMember) -> Actions {
    (0..RANKS).map(|rank| Send(rank, message.clone())).collect()
}

/// What the ranks are told the reason to be, if all those linked are told Off.
fn off_reason(leader: &Leader, actions: &[LeaderAction]) -> Option<String> {
    let told: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Send(_, ToMember::Off { reason }) => Some(reason),
            _ => None,
        })
        .collect();
    let closed = actions.iter().find_map(|action| match action {
        Closed { reason } => Some(reason.clone()),
        _ => None,
    })?;
    (told.len() == leader.linked.len() && told.iter().all(|reason| **reason == closed)).then_some(closed)
}

fn is_broken(actions: &[LeaderAction]) -> bool {
    (0..RANKS).all(|rank| {
        actions.iter().any(|action| matches!(action, Send(to, ToMember::Broken { .. }) if *to == rank))
    })
}

fn is_closed(actions: &[LeaderAction]) -> bool {
    actions.iter().any(|action| matches!(action, Closed { .. }))
}

fn decided(at: u64, committed: bool) -> LeaderAction {
    Decided { at, plan: OTHER, committed }
}
