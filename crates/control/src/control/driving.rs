//! Drives the machines: events in, and what they want done is done. The brain is asked here. A brain that panics is
//! left alone from then on: its communicator stays as it is.

use super::table::{Chair, Link};
use super::{Control, Work};
use crate::brain::Brain;
use crate::timers::Alarm;
use crate::wire::{self, Down};
use airamp_agreement::{
    At, LeaderAction, LeaderEvent, LeaderTimer, MemberAction, MemberEvent, MemberTimer, Plan, Rank, Settled,
    ToLeader, ToMember, VENDOR_PLAN,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How often a brain that waits for time to pass is asked.
const BRAIN_PAUSE: Duration = Duration::from_secs(1);
/// Creation is the proposal of this number.
const CREATION: u64 = 0;

impl Control {
    pub(super) fn work_off(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Member(id, event) => self.drive_member(id, event),
                Work::Leader(id, event) => self.drive_leader(id, event),
            }
        }
    }

    fn drive_member(&mut self, id: u64, event: MemberEvent) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        if let MemberEvent::Message(ToMember::Propose { at: At::Creation, .. }) = &event
            && let Some(leader) = chair.leader
        {
            chair.place.all_have_come(leader, chair.invitation.token);
        }
        let comes_back = event == MemberEvent::LinkUp;
        for action in chair.member.handle(event) {
            self.do_for_member(id, action);
        }
        // A rank that is out links once more, to say why.
        if comes_back && self.chairs.get(&id).is_some_and(|chair| chair.is_over) {
            self.hang_up(id);
        }
    }

    fn do_for_member(&mut self, id: u64, action: MemberAction) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        let timeouts = self.options.timeouts;
        match action {
            MemberAction::Send(message) => self.send_to_leader(id, message),
            MemberAction::TryPledge { number, at } => {
                let pledged = chair.place.gate.try_pledge(at, &chair.reserved);
                self.work.push_back(Work::Member(id, MemberEvent::Gate { number, pledged }));
            }
            MemberAction::Commit { at, plan } => {
                chair.place.gate.commit(at, plan);
                self.with_brain(id, |brain| brain.committed(at, &plan));
            }
            MemberAction::Abort => chair.place.gate.abort(),
            MemberAction::Settle(step) => self.settle(id, step),
            MemberAction::Lost { reason } => {
                chair.place.gate.lose();
                self.note(id, "is in doubt, its calls fail", &reason);
            }
            MemberAction::Distrusts { reason } => {
                self.note(id, "wants everything left to the vendor", &reason)
            }
            MemberAction::Start(timer) => {
                let after = match timer {
                    MemberTimer::Verdict => timeouts.consensus,
                    MemberTimer::Doubt => timeouts.doubt,
                };
                self.timers.start(Alarm::Member(id, timer), after);
            }
            MemberAction::Stop(timer) => self.timers.stop(Alarm::Member(id, timer)),
        }
    }

    fn send_to_leader(&mut self, id: u64, message: ToLeader) {
        let Some(chair) = self.chairs.get(&id) else { return };
        if message == (ToLeader::Pledge { number: CREATION }) && !chair.place.may_pledge() {
            // The waiting thread has turned away, and the application has the communicator without us.
            return self.work.push_back(Work::Member(id, MemberEvent::Ended));
        }
        let rank = chair.hello.rank;
        match chair.link {
            Some(Link::Local(leader)) => {
                self.work.push_back(Work::Leader(leader, LeaderEvent::From(rank, message)));
            }
            Some(Link::Remote(token)) => match wire::encode(&message) {
                Ok(body) => self.send(token, &body),
                Err(error) => self.lose(token, &error.to_string()),
            },
            None => {}
        }
    }

    fn settle(&mut self, id: u64, step: Settled) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        let (place, brain_hears) = (std::sync::Arc::clone(&chair.place), chair.first);
        match &step {
            Settled::Connect { plan } => chair.first = Some(*plan),
            Settled::On => {
                let plan = brain_hears.unwrap_or(VENDOR_PLAN);
                place.gate.start(plan);
                self.with_brain(id, |brain| brain.committed(0, &plan));
            }
            Settled::Off { .. } => self.is_out(id),
            Settled::Broken { .. } => {
                place.gate.lose();
                self.is_out(id);
            }
        }
        place.settle(step);
    }

    /// No more connections, but for one in which the leader is told why, if it does not know yet.
    fn is_out(&mut self, id: u64) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        chair.is_over = true;
        self.timers.stop(Alarm::Leaderless(id));
        if chair.was_linked {
            self.hang_up(id);
        } else {
            self.timers.start(Alarm::HangUp(id), self.options.timeouts.consensus);
        }
    }

    pub(super) fn hang_up(&mut self, id: u64) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        chair.is_shut_out = true;
        let calling = chair.calling.take();
        let link = match chair.link {
            Some(Link::Remote(token)) => {
                chair.link = None;
                Some(token)
            }
            _ => None,
        };
        calling.into_iter().chain(link).for_each(|token| self.finish(token));
        self.timers.stop(Alarm::Redial(id));
        self.timers.stop(Alarm::HangUp(id));
    }

    fn drive_leader(&mut self, id: u64, event: LeaderEvent) {
        let Some(lead) = self.chairs.get_mut(&id).and_then(|chair| chair.lead.as_mut()) else { return };
        for action in lead.machine.handle(event) {
            self.do_for_leader(id, action);
        }
    }

    fn do_for_leader(&mut self, id: u64, action: LeaderAction) {
        match action {
            LeaderAction::Send(rank, message) => self.send_to_member(id, rank, message),
            LeaderAction::ChooseFirst(capable) => {
                let plan = self.with_brain(id, |brain| brain.first(&capable)).unwrap_or(VENDOR_PLAN);
                self.work.push_back(Work::Leader(id, LeaderEvent::First(plan)));
            }
            LeaderAction::Started => {
                self.with_lead(id, |lead| lead.has_started = true);
                self.with_brain(id, |brain| brain.started());
                self.ask_brain(id);
            }
            LeaderAction::Report(rank, report) => {
                self.with_brain(id, |brain| brain.report(rank, &report));
                self.ask_brain(id);
            }
            LeaderAction::Order(order) => {
                self.with_brain(id, |brain| brain.order(order));
                self.ask_brain(id);
            }
            LeaderAction::Decided { at, plan, committed } => {
                self.with_lead(id, |lead| lead.is_changing = false);
                self.with_brain(id, |brain| brain.decided(at, &plan, committed));
                self.ask_brain(id);
            }
            LeaderAction::Distrusted { reason } => {
                self.note(id, "leaves everything to the vendor", &reason);
                let reason = wire::plain(&reason);
                self.with_brain(id, |brain| brain.distrusted(&reason));
                self.ask_brain(id);
            }
            LeaderAction::Closed { reason } => {
                self.with_lead(id, |lead| lead.is_closed = true);
                self.timers.stop(Alarm::Brain(id));
                let reason = wire::plain(&reason);
                self.with_brain(id, |brain| brain.closed(&reason));
            }
            LeaderAction::Start(timer) => {
                let timeouts = self.options.timeouts;
                let is_child = self.chairs.get(&id).is_some_and(|chair| chair.invitation.is_for_child());
                let after = match timer {
                    LeaderTimer::Grace => timeouts.grace(is_child),
                    LeaderTimer::Verdict => timeouts.consensus,
                    LeaderTimer::Proposal(_) => timeouts.proposal(),
                };
                self.timers.start(Alarm::Leader(id, timer), after);
            }
            LeaderAction::Stop(timer) => self.timers.stop(Alarm::Leader(id, timer)),
        }
    }

    fn send_to_member(&mut self, leader: u64, rank: Rank, message: ToMember) {
        let lead = self.chairs.get(&leader).and_then(|chair| chair.lead.as_ref());
        match lead.and_then(|lead| lead.links.get(&rank)).copied() {
            Some(Link::Local(seat)) => {
                self.work.push_back(Work::Member(seat, MemberEvent::Message(message)));
            }
            Some(Link::Remote(token)) => self.say(token, &Down::Message(message)),
            None => {}
        }
    }

    /// Asks rank 0's brain for a plan, unless one is being voted on.
    pub(super) fn ask_brain(&mut self, id: u64) {
        let Some(lead) = self.chairs.get(&id).and_then(|chair| chair.lead.as_ref()) else { return };
        if !lead.has_started || lead.is_closed || lead.is_changing {
            return;
        }
        if let Some(Some(plan)) = self.with_brain(id, |brain| brain.next()) {
            return self.change(id, plan);
        }
        if self.with_brain(id, |brain| brain.waits()) == Some(true) {
            self.timers.start(Alarm::Brain(id), BRAIN_PAUSE);
        }
    }

    fn change(&mut self, id: u64, plan: Plan) {
        self.with_lead(id, |lead| lead.is_changing = true);
        let Some(chair) = self.chairs.get(&id) else { return };
        let reserved = (chair.reserved)();
        self.work.push_back(Work::Leader(id, LeaderEvent::Change { plan, reserved }));
    }

    fn with_lead(&mut self, id: u64, change: impl FnOnce(&mut super::table::Lead)) {
        if let Some(lead) = self.chairs.get_mut(&id).and_then(|chair| chair.lead.as_mut()) {
            change(lead);
        }
    }

    fn with_brain<T>(&mut self, id: u64, ask: impl FnOnce(&mut dyn Brain) -> T) -> Option<T> {
        let chair = self.chairs.get_mut(&id)?;
        let brain = chair.brain.as_mut()?;
        match catch_unwind(AssertUnwindSafe(|| ask(brain.as_mut()))) {
            Ok(answer) => Some(answer),
            Err(_) => {
                // Dropping what has panicked may panic again.
                std::mem::forget(chair.brain.take());
                self.note(id, "decides no more", "an internal error");
                None
            }
        }
    }

    fn note(&self, id: u64, what: &str, reason: &str) {
        let Some(Chair { hello, invitation, .. }) = self.chairs.get(&id) else { return };
        let (rank, ranks, clique, reason) = (hello.rank, hello.ranks, invitation.clique, wire::plain(reason));
        (self.options.log.warn)(&format!(
            "rank {rank} of {ranks} (communicator {clique:x}) {what}: {reason}"
        ));
    }

    /// The seat is given up by its communicator's end.
    pub(super) fn end(&mut self, id: u64) {
        self.work.push_back(Work::Member(id, MemberEvent::Ended));
        self.work.push_back(Work::Leader(id, LeaderEvent::Ended));
        self.work_off();
        self.hang_up(id);
        self.timers.stop_all_of(id);
        let Some(chair) = self.chairs.remove(&id) else { return };
        let (token, clique, rank) = (chair.invitation.token, chair.invitation.clique, chair.hello.rank);
        self.introductions.is_gone_from(&token, clique, rank, Link::Local(id));
        self.introductions.tidy(&token, clique);
        self.introductions.leads_no_more(&token, clique, id);
        if let Some(Link::Local(leader)) = chair.link
            && let Some(lead) = self.chairs.get_mut(&leader).and_then(|chair| chair.lead.as_mut())
            && lead.links.remove(&rank).is_some()
        {
            self.work.push_back(Work::Leader(leader, LeaderEvent::Lost(rank)));
        }
        for link in chair.lead.into_iter().flat_map(|lead| lead.links.into_values()) {
            match link {
                Link::Remote(token) => self.finish(token),
                Link::Local(seat) => self.local_leader_is_gone(seat),
            }
        }
    }

    fn local_leader_is_gone(&mut self, seat: u64) {
        if let Some(chair) = self.chairs.get_mut(&seat) {
            chair.link = None;
            chair.is_shut_out = true;
            self.work.push_back(Work::Member(seat, MemberEvent::LinkLost));
        }
    }
}
