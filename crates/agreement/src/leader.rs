//! The side of the agreement that counts votes, in the process of the communicator's rank 0. It commits what all ranks
//! have pledged and nothing else, and decides every number once. It believes no rank: what comes out of turn switches
//! compression off, before the commit of creation at once, and after it by a change to the vendor's own calls.

mod changes;
mod events;
mod gathering;
#[cfg(test)]
mod tests;

use crate::message::{At, LAST_INDEX, Plan, Rank, ToLeader, ToMember, one_line};
use changes::Changes;
pub use events::{LeaderAction, LeaderEvent, LeaderTimer};
use gathering::Gathering;
use std::collections::BTreeSet;

/// How far in front of the calls a change is proposed at first, and at least.
const LEAST_MARGIN: u64 = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    ranks: u32,
    least_margin: u64,
    linked: BTreeSet<Rank>,
    /// There will be no change any more, and the brain knows.
    closed: bool,
    /// Somebody lies or is confused, and the brain knows.
    distrusted: bool,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Gathering(Gathering),
    /// All are ready; the brain chooses the first plan.
    Choosing,
    /// Creation is proposed.
    Voting {
        pledged: BTreeSet<Rank>,
    },
    /// Creation is committed.
    Connecting {
        connected: BTreeSet<Rank>,
    },
    On(Changes),
    Off {
        reason: String,
    },
    Broken {
        reason: String,
    },
}

type Actions = Vec<LeaderAction>;

impl Leader {
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks,
            least_margin: LEAST_MARGIN,
            linked: BTreeSet::new(),
            closed: false,
            distrusted: false,
            phase: Phase::Gathering(Gathering::default()),
        }
    }

    /// Another margin to begin with, for models with short programs.
    pub fn with_least_margin(self, least_margin: u64) -> Self {
        Self { least_margin: least_margin.max(1), ..self }
    }

    pub fn handle(&mut self, event: LeaderEvent) -> Vec<LeaderAction> {
        let mut out = Vec::new();
        let before = self.timers();
        self.take(event, &mut out);
        let after = self.timers();
        out.extend(
            before.iter().filter(|timer| !after.contains(timer)).map(|&timer| LeaderAction::Stop(timer)),
        );
        out.extend(
            after.iter().filter(|timer| !before.contains(timer)).map(|&timer| LeaderAction::Start(timer)),
        );
        out
    }

    /// The timers that run in a phase, so that none is ever forgotten.
    fn timers(&self) -> Vec<LeaderTimer> {
        match &self.phase {
            Phase::Gathering(gathering) => gathering.timers(self.ranks),
            Phase::Choosing => vec![LeaderTimer::Verdict],
            Phase::Voting { .. } => vec![LeaderTimer::Proposal(0)],
            Phase::On(changes) => changes.timer().into_iter().collect(),
            Phase::Connecting { .. } | Phase::Off { .. } | Phase::Broken { .. } => Vec::new(),
        }
    }

    fn take(&mut self, event: LeaderEvent, out: &mut Actions) {
        match event {
            LeaderEvent::From(rank, _) | LeaderEvent::Linked(rank) | LeaderEvent::Lost(rank)
                if rank >= self.ranks =>
            {
                self.distrust(&format!("there is no rank {rank} among {}", self.ranks), out);
            }
            LeaderEvent::From(rank, message) if !message.is_within_bounds() => {
                self.distrust(&format!("rank {rank} sent more than any rank does"), out);
            }
            LeaderEvent::From(rank, message) => self.message(rank, message, out),
            LeaderEvent::Linked(rank) => self.linked(rank, out),
            LeaderEvent::Lost(rank) => self.lost(rank, out),
            LeaderEvent::Present => {
                if let Phase::Gathering(gathering) = &mut self.phase {
                    gathering.present();
                }
            }
            LeaderEvent::First(plan) => self.first(plan, out),
            LeaderEvent::Change { reserved: LAST_INDEX.., .. } => self.fail(&counts_no_more(0), out),
            LeaderEvent::Change { plan, reserved } => {
                let all_linked = self.all_are(&self.linked);
                if let (Phase::On(changes), false) = (&mut self.phase, self.closed) {
                    changes.propose(plan, reserved, all_linked.then_some(&self.linked), out);
                }
            }
            LeaderEvent::TimeIsUp(timer) => self.time_is_up(timer, out),
            LeaderEvent::Ended => self.fail("rank 0 has ended the communicator", out),
        }
    }

    fn message(&mut self, rank: Rank, message: ToLeader, out: &mut Actions) {
        match (message, &mut self.phase) {
            (ToLeader::Leave, _) => self.fail(&format!("rank {rank} has left"), out),
            (ToLeader::Distrust { reason }, _) => self.distrust(&format!("rank {rank}: {reason}"), out),
            // Whoever is linked has been told, and whoever comes will be.
            (_, Phase::Off { .. } | Phase::Broken { .. }) => {}
            (ToLeader::Hello(hello), Phase::Gathering(gathering)) => {
                let outcome = gathering.hello(rank, hello, self.ranks);
                self.gathered(outcome, out);
            }
            (ToLeader::Ready(Err(reason)), Phase::Gathering(_) | Phase::Choosing | Phase::Voting { .. }) => {
                self.off(&format!("rank {rank}: {reason}"), out);
            }
            (ToLeader::Ready(Ok(capable)), Phase::Gathering(gathering)) => {
                let outcome = gathering.ready(rank, capable);
                self.gathered(outcome, out);
            }
            (ToLeader::Pledge { number: 0 }, Phase::Voting { pledged }) if !pledged.contains(&rank) => {
                pledged.insert(rank);
                self.commit_creation(out);
            }
            (ToLeader::Refuse { number: 0, reason, .. }, Phase::Voting { .. }) => {
                self.off(&format!("rank {rank}: {reason}"), out);
            }
            (ToLeader::Connected(Ok(())), Phase::Connecting { connected }) => {
                connected.insert(rank);
                self.begin(out);
            }
            (ToLeader::Connected(Err(reason)), Phase::Connecting { .. }) => {
                self.break_down(&format!("rank {rank}: {reason}"), out);
            }
            (ToLeader::Ask { number: 0 }, Phase::Connecting { .. }) => {
                out.push(LeaderAction::Send(rank, ToMember::Commit { number: 0 }));
            }
            (message, Phase::On(_)) => self.message_when_on(rank, message, out),
            (message, _) => self.distrust(&out_of_turn(rank, &message), out),
        }
    }

    fn message_when_on(&mut self, rank: Rank, message: ToLeader, out: &mut Actions) {
        let Phase::On(changes) = &mut self.phase else { return };
        let in_turn = match &message {
            ToLeader::Pledge { number } => changes.pledge(rank, *number, self.ranks, &self.linked, out),
            ToLeader::Refuse { number, reserved, .. } => {
                changes.refuse(rank, *number, *reserved, &self.linked, out)
            }
            ToLeader::Ask { number } => changes.ask(rank, *number, &self.linked, out),
            // Said again over a new link, by which it has been told that all are.
            ToLeader::Connected(Ok(())) => true,
            ToLeader::Report(_) | ToLeader::Order(_) if self.closed => true,
            ToLeader::Report(report) => {
                out.push(LeaderAction::Report(rank, report.clone()));
                true
            }
            ToLeader::Order(order) => {
                out.push(LeaderAction::Order(*order));
                true
            }
            ToLeader::Hello(_)
            | ToLeader::Ready(_)
            | ToLeader::Connected(Err(_))
            | ToLeader::Leave
            | ToLeader::Distrust { .. } => false,
        };
        if !in_turn {
            self.distrust(&out_of_turn(rank, &message), out);
        } else if matches!(message, ToLeader::Refuse { reserved: LAST_INDEX, .. }) {
            self.fail(&counts_no_more(rank), out);
        }
    }

    fn linked(&mut self, rank: Rank, out: &mut Actions) {
        if self.linked.contains(&rank) {
            self.lost(rank, out);
        }
        self.linked.insert(rank);
        match self.phase {
            Phase::Gathering(_) => self.gathered(Ok(()), out),
            _ => self.tell_how_it_stands(rank, out),
        }
    }

    /// Before the commit of creation nobody waits for a rank that may not come back; after it the rank has until the
    /// others' patience ends.
    fn lost(&mut self, rank: Rank, out: &mut Actions) {
        if !self.linked.remove(&rank) {
            return;
        }
        match &mut self.phase {
            Phase::Gathering(_) | Phase::Choosing | Phase::Voting { .. } => {
                self.off(&format!("the connection to rank {rank} was lost"), out);
            }
            Phase::On(changes) => changes.pause(&self.linked, out),
            Phase::Connecting { .. } | Phase::Off { .. } | Phase::Broken { .. } => {}
        }
    }

    fn gathered(&mut self, outcome: Result<(), String>, out: &mut Actions) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if let Err(reason) = outcome {
            return self.off(&reason, out);
        }
        if gathering.is_complete(self.ranks) && self.linked.len() == self.ranks as usize {
            out.push(LeaderAction::ChooseFirst(gathering.take_capable()));
            self.phase = Phase::Choosing;
        }
    }

    fn first(&mut self, plan: Plan, out: &mut Actions) {
        if self.phase == Phase::Choosing {
            self.phase = Phase::Voting { pledged: BTreeSet::new() };
            tell_all(&self.linked, &ToMember::Propose { number: 0, at: At::Creation, plan }, out);
        }
    }

    fn commit_creation(&mut self, out: &mut Actions) {
        if matches!(&self.phase, Phase::Voting { pledged } if self.all_are(pledged)) {
            self.phase = Phase::Connecting { connected: BTreeSet::new() };
            tell_all(&self.linked, &ToMember::Commit { number: 0 }, out);
        }
    }

    fn begin(&mut self, out: &mut Actions) {
        if matches!(&self.phase, Phase::Connecting { connected } if self.all_are(connected)) {
            self.phase = Phase::On(Changes::new(self.least_margin));
            tell_all(&self.linked, &ToMember::Begin, out);
            if !self.closed {
                out.push(LeaderAction::Started);
            }
        }
    }

    fn time_is_up(&mut self, timer: LeaderTimer, out: &mut Actions) {
        if !self.timers().contains(&timer) {
            return;
        }
        match &mut self.phase {
            Phase::Gathering(gathering) => {
                let missing = gathering.missing(timer, self.ranks, &self.linked);
                self.off(&missing, out);
            }
            Phase::Voting { pledged } => {
                let missing = gathering::name_missing(self.ranks, |rank| pledged.contains(&rank));
                self.off(&format!("{missing} did not vote in time"), out);
            }
            Phase::On(changes) => changes.time_is_up(&self.linked, out),
            _ => self.off("rank 0 did not choose a plan in time", out),
        }
    }

    /// A rank is out of the game for an honest reason.
    fn fail(&mut self, reason: &str, out: &mut Actions) {
        match self.phase {
            Phase::Gathering(_) | Phase::Choosing | Phase::Voting { .. } => self.off(reason, out),
            Phase::Connecting { .. } => self.break_down(reason, out),
            Phase::On(_) => self.close(reason, out),
            Phase::Off { .. } | Phase::Broken { .. } => {}
        }
    }

    /// Somebody lies or is confused. Nothing that is agreed breaks by it: where creation is committed the ranks agree to
    /// leave everything to the vendor, as to any other change.
    fn distrust(&mut self, reason: &str, out: &mut Actions) {
        if !matches!(self.phase, Phase::Connecting { .. } | Phase::On(_)) {
            return self.fail(reason, out);
        }
        if self.closed || std::mem::replace(&mut self.distrusted, true) {
            return;
        }
        out.push(LeaderAction::Distrusted { reason: one_line(reason) });
        if let Phase::On(changes) = &mut self.phase {
            changes.give_up(&self.linked, out);
        }
    }

    fn off(&mut self, reason: &str, out: &mut Actions) {
        let reason = one_line(reason);
        tell_all(&self.linked, &ToMember::Off { reason: reason.clone() }, out);
        self.close(&reason, out);
        self.phase = Phase::Off { reason };
    }

    fn break_down(&mut self, reason: &str, out: &mut Actions) {
        let reason = one_line(reason);
        tell_all(&self.linked, &ToMember::Broken { reason: reason.clone() }, out);
        self.close(&reason, out);
        self.phase = Phase::Broken { reason };
    }

    fn close(&mut self, reason: &str, out: &mut Actions) {
        if self.closed {
            return;
        }
        self.closed = true;
        if let Phase::On(changes) = &mut self.phase {
            changes.give_up(&self.linked, out);
        }
        out.push(LeaderAction::Closed { reason: one_line(reason) });
    }

    /// To a rank that may have missed it, before anything else goes to it: one that is not on yet expects no change.
    fn tell_how_it_stands(&self, rank: Rank, out: &mut Actions) {
        let message = match &self.phase {
            Phase::On(_) => ToMember::Begin,
            Phase::Off { reason } => ToMember::Off { reason: reason.clone() },
            Phase::Broken { reason } => ToMember::Broken { reason: reason.clone() },
            _ => return,
        };
        out.push(LeaderAction::Send(rank, message));
    }

    fn all_are(&self, set: &BTreeSet<Rank>) -> bool {
        set.len() == self.ranks as usize
    }
}

fn tell_all(ranks: &BTreeSet<Rank>, message: &ToMember, out: &mut Actions) {
    out.extend(ranks.iter().map(|&rank| LeaderAction::Send(rank, message.clone())));
}

/// A rank whose calls have no index any more can agree to no change.
fn counts_no_more(rank: Rank) -> String {
    format!("rank {rank} counts its calls no more")
}

fn out_of_turn(rank: Rank, message: &ToLeader) -> String {
    let what = match message {
        ToLeader::Hello(_) => "said Hello twice: are there two with this number?",
        ToLeader::Ready(_) => "said Ready out of turn",
        ToLeader::Pledge { .. } => "pledged out of turn",
        ToLeader::Refuse { .. } => "refused out of turn",
        ToLeader::Connected(_) => "connected out of turn",
        ToLeader::Ask { .. } => "asked for a verdict that it cannot await",
        ToLeader::Report(_) | ToLeader::Order(_) | ToLeader::Leave | ToLeader::Distrust { .. } => {
            "spoke out of turn"
        }
    };
    format!("rank {rank} {what}")
}
