//! One rank's side of the agreement: from its Hello through creation to the end of the communicator. It decides only
//! what a rank may decide alone: to give up while it has pledged nothing. What it has pledged, only the leader's
//! verdict or an error ends. Changes after creation are in `standing`.

mod events;
mod ordered;
mod standing;
#[cfg(test)]
mod tests;

use crate::message::{At, Capable, Hello, MOST_REPORT_BYTES, Plan, ToLeader, ToMember, one_line};
pub use events::{MemberAction, MemberEvent, MemberTimer, Settled};
use ordered::Ordered;
use standing::Standing;
use std::mem;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    hello: Hello,
    linked: bool,
    order: Option<Ordered>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The vendor's init runs, or what compression needs is being acquired.
    Preparing,
    /// Waits for the link.
    Prepared(Capable),
    /// Has said so, and has pledged nothing.
    Ready,
    /// Has pledged creation with this plan.
    Pledged(Plan),
    /// Creation is committed: the application's thread connects the peers.
    Connecting,
    Connected,
    On(Standing),
    /// Not compressed, on this communicator for ever.
    Out {
        reason: String,
    },
    /// Peers may do what this rank cannot: its calls fail.
    Broken,
    Ended,
}

impl Phase {
    /// The timer that runs in a phase, so that none is ever forgotten.
    fn timer(&self) -> Option<MemberTimer> {
        match self {
            Self::Prepared(_) | Self::Ready => Some(MemberTimer::Verdict),
            Self::Pledged(_) | Self::Connected => Some(MemberTimer::Doubt),
            Self::On(standing) => standing.has_pledged().then_some(MemberTimer::Doubt),
            Self::Preparing | Self::Connecting | Self::Out { .. } | Self::Broken | Self::Ended => None,
        }
    }
}

/// What an event leads to. Nothing is said while the link is down.
struct Outbox {
    linked: bool,
    actions: Vec<MemberAction>,
}

impl Outbox {
    fn say(&mut self, message: ToLeader) {
        if self.linked {
            self.actions.push(MemberAction::Send(message));
        }
    }

    fn act(&mut self, action: MemberAction) {
        self.actions.push(action);
    }

    fn refuse(&mut self, number: u64, reserved: u64, reason: &str) {
        self.say(ToLeader::Refuse { number, reserved, reason: one_line(reason) });
    }
}

impl Member {
    /// The transport sends the Hello, by way of the introducer.
    pub fn new(hello: Hello) -> Self {
        Self { hello, linked: false, order: None, phase: Phase::Preparing }
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    pub fn handle(&mut self, event: MemberEvent) -> Vec<MemberAction> {
        match event {
            MemberEvent::LinkUp => self.linked = true,
            MemberEvent::LinkLost => self.linked = false,
            _ => {}
        }
        let mut out = Outbox { linked: self.linked, actions: Vec::new() };
        let before = self.phase.timer();
        self.take(event, &mut out);
        self.order.take_if(|order| out.actions.iter().any(|action| order.is_heard(action)));
        let after = self.phase.timer();
        if before != after {
            out.actions.extend(before.map(MemberAction::Stop));
            out.actions.extend(after.map(MemberAction::Start));
        }
        out.actions
    }

    fn take(&mut self, event: MemberEvent, out: &mut Outbox) {
        match event {
            MemberEvent::LinkUp => self.link_up(out),
            MemberEvent::LinkLost => self.link_lost(out),
            MemberEvent::Prepared(result) => self.prepared(result, out),
            MemberEvent::Message(message) => self.message(message, out),
            MemberEvent::Gate { number, pledged } => {
                if let Phase::On(standing) = &mut self.phase {
                    standing.gate_answered(number, pledged, out);
                }
            }
            MemberEvent::Connected(result) => self.connected(result, out),
            MemberEvent::Report(report) => {
                if matches!(self.phase, Phase::On(_)) && report.len() <= MOST_REPORT_BYTES {
                    out.say(ToLeader::Report(report));
                }
            }
            MemberEvent::Order(order) => {
                self.order = Some(Ordered::new(order));
                self.pass_order_on(out);
            }
            MemberEvent::TimeIsUp(timer) => self.time_is_up(timer, out),
            MemberEvent::Ended => self.end(out),
        }
    }

    fn link_up(&mut self, out: &mut Outbox) {
        match &mut self.phase {
            Phase::Prepared(_) => self.say_ready(out),
            Phase::Pledged(_) => out.say(ToLeader::Ask { number: 0 }),
            Phase::Connected => out.say(ToLeader::Connected(Ok(()))),
            Phase::On(standing) => standing.link_up(out),
            Phase::Out { reason } => out.say(ToLeader::Ready(Err(reason.clone()))),
            Phase::Broken | Phase::Ended => out.say(ToLeader::Leave),
            Phase::Preparing | Phase::Ready | Phase::Connecting => {}
        }
        self.pass_order_on(out);
    }

    fn link_lost(&mut self, out: &mut Outbox) {
        self.order.iter_mut().for_each(Ordered::link_lost);
        match &mut self.phase {
            Phase::Preparing | Phase::Ready => self.give_up("the connection to rank 0 was lost", out),
            Phase::On(standing) => standing.link_lost(),
            _ => {}
        }
    }

    fn prepared(&mut self, result: Result<Capable, String>, out: &mut Outbox) {
        match (&self.phase, result) {
            (Phase::Preparing, Ok(capable)) => {
                self.phase = Phase::Prepared(capable);
                if out.linked {
                    self.say_ready(out);
                }
            }
            (Phase::Preparing, Err(reason)) => self.give_up(&reason, out),
            _ => {}
        }
    }

    fn say_ready(&mut self, out: &mut Outbox) {
        if let Phase::Prepared(capable) = mem::replace(&mut self.phase, Phase::Ready) {
            out.say(ToLeader::Ready(Ok(capable)));
        }
    }

    fn message(&mut self, message: ToMember, out: &mut Outbox) {
        // What cannot be answered is not pledged either. An Off may come without a link, from the introducer.
        if !out.linked && matches!(message, ToMember::Propose { .. }) {
            return;
        }
        match &mut self.phase {
            Phase::On(standing) => {
                if let Err(contradiction) = standing.message(message, out) {
                    self.lose(&contradiction, out);
                }
            }
            Phase::Out { reason } => {
                if let ToMember::Propose { number, .. } = message {
                    out.refuse(number, 0, reason);
                }
            }
            Phase::Broken | Phase::Ended => {}
            _ => self.message_in_creation(message, out),
        }
    }

    fn message_in_creation(&mut self, message: ToMember, out: &mut Outbox) {
        let committed = matches!(self.phase, Phase::Connecting | Phase::Connected);
        match (message, &self.phase) {
            (ToMember::Propose { number: 0, at: At::Creation, plan }, Phase::Ready) => {
                self.phase = Phase::Pledged(plan);
                out.say(ToLeader::Pledge { number: 0 });
            }
            (ToMember::Commit { number: 0 }, Phase::Pledged(plan)) => {
                out.act(MemberAction::Settle(Settled::Connect { plan: *plan }));
                self.phase = Phase::Connecting;
            }
            // The answer to a question that the verdict has overtaken.
            (ToMember::Commit { number: 0 }, _) if committed => {}
            (ToMember::Begin, Phase::Connected) => {
                self.phase = Phase::On(Standing::new());
                out.act(MemberAction::Settle(Settled::On));
                self.pass_order_on(out);
            }
            (ToMember::Off { reason }, _) if !committed => self.settle_off(&reason, out),
            (ToMember::Abort { number: 0 }, _) if !committed => self.settle_off("rank 0 said no", out),
            (ToMember::Off { reason } | ToMember::Broken { reason }, _) => self.break_down(&reason, out),
            (ToMember::Abort { number: 0 }, _) => {
                self.break_down("rank 0 took back what it had committed", out);
            }
            (message, _) => self.out_of_turn(&message, out),
        }
    }

    /// A rank that has pledged nothing is out, unless its peers may have begun without it; one that has pledged asks
    /// for the end and waits for the verdict, which its peers may have already.
    fn out_of_turn(&mut self, message: &ToMember, out: &mut Outbox) {
        let free = matches!(self.phase, Phase::Preparing | Phase::Prepared(_) | Phase::Ready);
        match message {
            ToMember::Propose { number, .. } if free => {
                out.refuse(*number, 0, "a proposal out of turn");
                self.give_up("rank 0 made a proposal out of turn", out);
            }
            ToMember::Abort { .. } if free => self.give_up("rank 0 spoke out of turn", out),
            _ if free => {
                out.say(ToLeader::Leave);
                self.break_down("rank 0 began without this rank's pledge", out);
            }
            _ => out.say(ToLeader::Leave),
        }
    }

    fn connected(&mut self, result: Result<(), String>, out: &mut Outbox) {
        if self.phase != Phase::Connecting {
            return;
        }
        match result {
            Ok(()) => {
                self.phase = Phase::Connected;
                out.say(ToLeader::Connected(Ok(())));
            }
            Err(reason) => {
                out.say(ToLeader::Connected(Err(one_line(&reason))));
                self.break_down(&reason, out);
            }
        }
    }

    fn time_is_up(&mut self, timer: MemberTimer, out: &mut Outbox) {
        if self.phase.timer() != Some(timer) {
            return;
        }
        match (timer, &self.phase) {
            (MemberTimer::Verdict, _) => self.give_up("no verdict came in time", out),
            (MemberTimer::Doubt, Phase::On(_)) => {
                self.lose("no verdict came in time on a change that this rank had pledged", out);
            }
            (MemberTimer::Doubt, _) => {
                out.say(ToLeader::Leave);
                self.break_down("no verdict came in time after this rank had pledged", out);
            }
        }
    }

    fn end(&mut self, out: &mut Outbox) {
        const REASON: &str = "the communicator has ended";
        match &self.phase {
            Phase::Ended => return,
            Phase::Preparing | Phase::Prepared(_) | Phase::Ready => self.settle_off(REASON, out),
            Phase::Pledged(_) | Phase::Connecting | Phase::Connected => self.break_down(REASON, out),
            Phase::On(_) | Phase::Out { .. } | Phase::Broken => {}
        }
        out.say(ToLeader::Leave);
        self.phase = Phase::Ended;
    }

    /// Leaves alone, which is safe as long as nothing is pledged: without this rank's pledge nothing changes.
    fn give_up(&mut self, reason: &str, out: &mut Outbox) {
        out.say(match self.phase {
            Phase::Ready => ToLeader::Leave,
            _ => ToLeader::Ready(Err(one_line(reason))),
        });
        self.settle_off(reason, out);
    }

    fn settle_off(&mut self, reason: &str, out: &mut Outbox) {
        let reason = one_line(reason);
        self.phase = Phase::Out { reason: reason.clone() };
        out.act(MemberAction::Settle(Settled::Off { reason }));
    }

    fn break_down(&mut self, reason: &str, out: &mut Outbox) {
        self.phase = Phase::Broken;
        out.act(MemberAction::Settle(Settled::Broken { reason: one_line(reason) }));
    }

    /// As `break_down`, when the application has the communicator.
    fn lose(&mut self, reason: &str, out: &mut Outbox) {
        self.phase = Phase::Broken;
        out.say(ToLeader::Leave);
        out.act(MemberAction::Lost { reason: one_line(reason) });
    }

    fn pass_order_on(&mut self, out: &mut Outbox) {
        if out.linked && matches!(self.phase, Phase::On(_)) {
            let order = self.order.as_mut().and_then(Ordered::take);
            order.into_iter().for_each(|order| out.say(ToLeader::Order(order)));
        }
    }
}
