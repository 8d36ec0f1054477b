//! The control threads: what `control` will do around the machines, with every delay, loss and time-out a choice of
//! the checker. One thread per process, so a process between the two halves of a pledge does nothing else.

use crate::link::{Down, Up};
use crate::scene::{Mistake, Scene};
use crate::world::{HelloIs, Outcome, World, hello};
use airamp_agreement::{
    Leader, LeaderAction, LeaderEvent, LeaderTimer, Member, MemberAction, MemberEvent, MemberTimer, Plan,
    Rank, Settled, ToLeader, VENDOR_PLAN,
};
use std::sync::Arc;

const FIRST_PLAN: u8 = 1;

pub(crate) fn plan(id: u8) -> Plan {
    let mut plan = VENDOR_PLAN;
    plan[0] = id;
    plan
}

impl World {
    /// Before the vendor's init: the member is there, and its Hello under way. Rank 0 also hosts the leader.
    pub(crate) fn join(&mut self, scene: &Scene, c: usize, rank: usize) {
        if rank == 0 {
            let leader = Leader::new(scene.ranks() as u32).with_least_margin(scene.margin);
            self.communicators[c].leader = Some(Arc::new(leader));
        }
        let seat = self.seat(c, rank);
        seat.member = Some(Arc::new(Member::new(hello(scene, rank))));
        seat.hello = HelloIs::UnderWay;
    }

    pub(crate) fn control_is_free(&self, rank: usize) -> bool {
        self.processes[rank].alive && self.communicators.iter().all(|c| c.seats[rank].pledging.is_none())
    }

    pub(crate) fn hello_arrives(&mut self, scene: &Scene, c: usize, rank: usize) {
        self.seat(c, rank).hello = HelloIs::Gone;
        let hello = ToLeader::Hello(hello(scene, rank));
        self.tell_leader(scene, c, LeaderEvent::From(rank as Rank, hello));
    }

    pub(crate) fn connect(&mut self, scene: &Scene, c: usize, rank: usize) {
        self.seat(c, rank).link.open();
        self.tell_member(scene, c, rank, MemberEvent::LinkUp);
    }

    pub(crate) fn deliver_up(&mut self, scene: &Scene, c: usize, rank: usize) {
        let from = rank as Rank;
        let event = match self.seat(c, rank).link.take_up() {
            Some(Up::Linked(_)) => LeaderEvent::Linked(from),
            Some(Up::Frame(message)) => LeaderEvent::From(from, message),
            Some(Up::Lost) => LeaderEvent::Lost(from),
            None => return,
        };
        self.tell_leader(scene, c, event);
    }

    pub(crate) fn deliver_down(&mut self, scene: &Scene, c: usize, rank: usize) {
        let event = match self.seat(c, rank).link.take_down() {
            Some(Down::Frame(message)) => MemberEvent::Message(message),
            Some(Down::Lost) => MemberEvent::LinkLost,
            None => return,
        };
        self.tell_member(scene, c, rank, event);
    }

    /// The second half of a pledge: after the store, the look at the counter.
    pub(crate) fn compare(&mut self, scene: &Scene, c: usize, rank: usize) {
        let seat = self.seat(c, rank);
        let Some((number, at)) = seat.pledging.take() else { return };
        let pledged = match scene.mistake {
            Mistake::PledgeInsideGroup => {
                let launched = seat.issued().count() as u64;
                seat.gate.compare(at, launched)
            }
            Mistake::PledgeAtCapture => {
                let reserved = seat.reserved;
                seat.gate.compare(at, reserved)
            }
            _ => {
                let free = seat.free_from();
                seat.gate.compare(at, free)
            }
        };
        self.answer(scene, c, rank, number, at, pledged);
    }

    pub(crate) fn think(&mut self, scene: &Scene, c: usize) {
        let communicator = &mut self.communicators[c];
        communicator.changes_left -= 1;
        communicator.proposal_open = true;
        let id = FIRST_PLAN + scene.changes - communicator.changes_left;
        let reserved = communicator.seats[0].free_from();
        self.tell_leader(scene, c, LeaderEvent::Change { plan: plan(id), reserved });
    }

    pub(crate) fn leader_time(&mut self, scene: &Scene, c: usize, timer: LeaderTimer) {
        self.time_passes();
        self.communicators[c].leader_timers.retain(|running| *running != timer);
        self.tell_leader(scene, c, LeaderEvent::TimeIsUp(timer));
    }

    pub(crate) fn member_time(&mut self, scene: &Scene, c: usize, rank: usize, timer: MemberTimer) {
        self.time_passes();
        self.seat(c, rank).timers.retain(|running| *running != timer);
        self.tell_member(scene, c, rank, MemberEvent::TimeIsUp(timer));
    }

    fn time_passes(&mut self) {
        self.a_timer_fired = true;
        self.early_left = self.early_left.saturating_sub(1);
    }

    /// The process is gone, with what its sockets held. What it had sent may still arrive.
    pub(crate) fn end_process(&mut self, rank: usize) {
        self.processes[rank].alive = false;
        for c in 0..self.communicators.len() {
            self.close(c, rank);
            let seat = self.seat(c, rank);
            seat.pledging = None;
            if seat.hello == HelloIs::UnderWay && rank == 0 {
                seat.hello = HelloIs::Gone;
            }
        }
    }

    pub(crate) fn leave(&mut self, scene: &Scene, c: usize, rank: usize) {
        self.tell_member(scene, c, rank, MemberEvent::Ended);
        if rank == 0 {
            self.tell_leader(scene, c, LeaderEvent::Ended);
        }
        self.close(c, rank);
    }

    fn close(&mut self, c: usize, rank: usize) {
        let communicator = &mut self.communicators[c];
        if rank == 0 {
            communicator.leader = None;
            communicator.leader_timers.clear();
            communicator.seats.iter_mut().for_each(|seat| Arc::make_mut(seat).link.leader_is_gone());
        }
        let seat = self.seat(c, rank);
        seat.link.member_is_gone();
        seat.member = None;
        seat.timers.clear();
    }

    pub(crate) fn tell_leader(&mut self, scene: &Scene, c: usize, event: LeaderEvent) {
        let Some(leader) = &mut self.communicators[c].leader else { return };
        for action in Arc::make_mut(leader).handle(event) {
            self.do_for_leader(scene, c, action);
        }
    }

    fn do_for_leader(&mut self, scene: &Scene, c: usize, action: LeaderAction) {
        let communicator = &mut self.communicators[c];
        match action {
            LeaderAction::Send(to, message) => self.seat(c, to as usize).link.send_down(message),
            LeaderAction::ChooseFirst(_) => self.tell_leader(scene, c, LeaderEvent::First(plan(FIRST_PLAN))),
            LeaderAction::Started => communicator.started = true,
            LeaderAction::Decided { .. } => communicator.proposal_open = false,
            LeaderAction::Closed { .. } => {
                communicator.given_up = true;
                communicator.proposal_open = false;
                communicator.changes_left = 0;
            }
            LeaderAction::Start(timer) => {
                communicator.leader_timers.retain(|running| *running != timer);
                communicator.leader_timers.push(timer);
            }
            LeaderAction::Stop(timer) => communicator.leader_timers.retain(|running| *running != timer),
            LeaderAction::Distrusted { .. } => communicator.given_up = true,
            LeaderAction::Report(..) | LeaderAction::Order(_) => {}
        }
    }

    pub(crate) fn tell_member(&mut self, scene: &Scene, c: usize, rank: usize, event: MemberEvent) {
        let Some(member) = &mut self.seat(c, rank).member else { return };
        for action in Arc::make_mut(member).handle(event) {
            self.do_for_member(scene, c, rank, action);
        }
    }

    fn do_for_member(&mut self, scene: &Scene, c: usize, rank: usize, action: MemberAction) {
        let seat = self.seat(c, rank);
        match action {
            MemberAction::Send(message) => seat.link.send_up(message),
            MemberAction::TryPledge { number, at } => self.try_pledge(scene, c, rank, number, at),
            MemberAction::Commit { at, plan } => {
                seat.voted = None;
                seat.gate.commit(at, plan[0]);
            }
            MemberAction::Abort => {
                seat.voted = None;
                seat.gate.abort();
            }
            MemberAction::Settle(mut settled) => {
                forget_reason(&mut settled);
                // Before the thread hears of it: a change may be committed first.
                match &settled {
                    Settled::Connect { plan } => (seat.committed, seat.first) = (true, plan[0]),
                    Settled::On => seat.gate.start(seat.first),
                    Settled::Off { .. } | Settled::Broken { .. } => {}
                }
                seat.outcome = match &settled {
                    Settled::Off { .. } => Some(Outcome::Off),
                    Settled::On => Some(Outcome::On),
                    Settled::Broken { .. } => Some(Outcome::Broken),
                    Settled::Connect { .. } => seat.outcome,
                };
                seat.settled.push_back(settled);
            }
            MemberAction::Lost { .. } => {
                seat.voted = None;
                seat.gate.lose();
            }
            MemberAction::Start(timer) => {
                seat.timers.retain(|running| *running != timer);
                seat.timers.push(timer);
            }
            MemberAction::Stop(timer) => seat.timers.retain(|running| *running != timer),
            MemberAction::Distrusts { .. } => self.communicators[c].given_up = true,
        }
    }

    fn try_pledge(&mut self, scene: &Scene, c: usize, rank: usize, number: u64, at: u64) {
        match scene.mistake {
            Mistake::CommitWithoutPledge => self.answer(scene, c, rank, number, at, Ok(())),
            Mistake::PledgeAfterLoad => self.seat(c, rank).pledging = Some((number, at)),
            _ => {
                let seat = self.seat(c, rank);
                seat.gate.store_pledge(at);
                seat.pledging = Some((number, at));
            }
        }
    }

    fn answer(
        &mut self,
        scene: &Scene,
        c: usize,
        rank: usize,
        number: u64,
        at: u64,
        pledged: Result<(), u64>,
    ) {
        if pledged.is_ok() {
            self.seat(c, rank).voted = Some(at);
        }
        self.tell_member(scene, c, rank, MemberEvent::Gate { number, pledged });
    }
}

fn forget_reason(settled: &mut Settled) {
    if let Settled::Off { reason } | Settled::Broken { reason } = settled {
        reason.clear();
    }
}
