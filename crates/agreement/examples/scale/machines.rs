//! One event at a time: which machine hears it, how long that takes, and what it answers.

use crate::network::Way;
use crate::ranks::{DOUBT, Event, GRACE, HEADER_BYTES, Job, PROPOSAL, VERDICT, capable};
use airamp_agreement::{
    LeaderAction, LeaderEvent, LeaderTimer, MemberAction, MemberEvent, MemberTimer, Rank, Settled, ToLeader,
    VENDOR_PLAN,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

impl Job {
    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Join(rank) => self.join(rank),
            Event::VendorInitReturns => {
                self.tell_leader(LeaderEvent::Present, Duration::ZERO);
                for rank in 0..self.ranks() as Rank {
                    self.tell_member(rank, MemberEvent::Prepared(Ok(capable())), Duration::ZERO);
                }
            }
            Event::IntroducedAtLeader(rank, frame) => {
                let (message, time) = decode(&frame);
                self.tell_leader(
                    LeaderEvent::From(rank, message),
                    time + self.cost.accept + self.cost.receive,
                );
                self.leader_free += self.cost.send;
                self.part.leader_busy += self.cost.send;
                self.network.send(self.leader_free, Way::Down(rank), Event::Introduced(rank));
            }
            Event::Introduced(rank) => {
                // The connection takes a round trip more than a message.
                self.network.send(self.network.now(), Way::Up(rank), Event::LinkedAtLeader(rank));
                self.tell_member(rank, MemberEvent::LinkUp, Duration::ZERO);
            }
            Event::LinkedAtLeader(rank) => {
                self.tell_leader(LeaderEvent::Linked(rank), self.cost.accept + self.cost.receive);
            }
            Event::AtLeader(rank, frame) => {
                let (message, time) = decode(&frame);
                self.tell_leader(LeaderEvent::From(rank, message), time + self.cost.receive);
            }
            Event::AtMember(rank, frame) => {
                let (message, time) = decode(&frame);
                self.tell_member(rank, MemberEvent::Message(message), time + self.cost.receive);
            }
            Event::LeaderTime(timer) => {
                self.leader_timers.remove(&timer);
                self.tell_leader(LeaderEvent::TimeIsUp(timer), Duration::ZERO);
            }
            Event::MemberTime(rank, timer) => {
                self.member_timers.remove(&(rank, timer));
                self.tell_member(rank, MemberEvent::TimeIsUp(timer), Duration::ZERO);
            }
        }
    }

    fn join(&mut self, rank: Rank) {
        let (frame, _) = encode(&ToLeader::Hello(self.seats[rank as usize].hello.clone()));
        self.count(&frame);
        self.network.send(self.network.now(), Way::Introduce(rank), Event::IntroducedAtLeader(rank, frame));
        self.joined += 1;
        if self.joined as usize == self.ranks() {
            self.network.at(self.network.now(), Event::VendorInitReturns);
        }
    }

    /// `before` is what it took until the machine could be told.
    pub(crate) fn tell_leader(&mut self, event: LeaderEvent, before: Duration) {
        let began = Instant::now();
        let actions = self.leader.handle(event);
        let spent = before + began.elapsed();
        self.leader_free = self.leader_free.max(self.network.now()) + spent;
        self.part.leader_busy += spent;
        self.part.leader_handled += 1;
        // Each rank has said Hello, is linked and has said Ready, but for one: there is most to remember.
        if self.part.leader_handled == 3 * self.ranks() as u64 {
            self.look_at_leader();
        }
        for action in actions {
            self.do_for_leader(action);
        }
    }

    fn do_for_leader(&mut self, action: LeaderAction) {
        match action {
            LeaderAction::Send(rank, message) => {
                let (frame, spent) = encode(&message);
                self.count(&frame);
                self.leader_free += spent + self.cost.send;
                self.part.leader_busy += spent + self.cost.send;
                self.network.send(self.leader_free, Way::Down(rank), Event::AtMember(rank, frame));
            }
            LeaderAction::ChooseFirst(_) => self.tell_leader(LeaderEvent::First(VENDOR_PLAN), Duration::ZERO),
            LeaderAction::Decided { committed, .. } => self.decided = Some(committed),
            LeaderAction::Start(timer) => {
                let length = match timer {
                    LeaderTimer::Grace => GRACE,
                    LeaderTimer::Verdict => VERDICT,
                    LeaderTimer::Proposal(_) => PROPOSAL,
                };
                let name = self.network.at(self.leader_free + length, Event::LeaderTime(timer));
                if let Some(old) = self.leader_timers.insert(timer, name) {
                    self.network.take_back(old);
                }
            }
            LeaderAction::Stop(timer) => {
                if let Some(old) = self.leader_timers.remove(&timer) {
                    self.network.take_back(old);
                }
            }
            LeaderAction::Closed { reason } => println!("closed: {reason}"),
            _ => {}
        }
    }

    pub(crate) fn tell_member(&mut self, rank: Rank, event: MemberEvent, before: Duration) {
        let began = Instant::now();
        let actions = self.seats[rank as usize].member.handle(event);
        let time = self.network.now() + before + began.elapsed();
        for action in actions {
            self.do_for_member(rank, action, time);
        }
    }

    fn do_for_member(&mut self, rank: Rank, action: MemberAction, time: Duration) {
        let seat = &mut self.seats[rank as usize];
        match action {
            MemberAction::Send(message) => {
                let (frame, spent) = encode(&message);
                self.count(&frame);
                let leaves = time + spent + self.cost.send;
                self.network.send(leaves, Way::Up(rank), Event::AtLeader(rank, frame));
            }
            MemberAction::TryPledge { number, at } => {
                let pledged = seat.gate.try_pledge(at, || self.reserved);
                self.tell_member(rank, MemberEvent::Gate { number, pledged }, time - self.network.now());
            }
            MemberAction::Commit { at, plan } => {
                seat.gate.commit(at, plan);
                seat.heard = time;
            }
            MemberAction::Abort => {
                seat.gate.abort();
                seat.heard = time;
            }
            MemberAction::Settle(settled) => {
                if settled == Settled::On {
                    seat.gate.start(VENDOR_PLAN);
                }
                seat.settled.push(settled);
                seat.heard = time;
            }
            MemberAction::Start(timer) => {
                let length = if timer == MemberTimer::Verdict { VERDICT } else { DOUBT };
                let name = self.network.at(time + length, Event::MemberTime(rank, timer));
                if let Some(old) = self.member_timers.insert((rank, timer), name) {
                    self.network.take_back(old);
                }
            }
            MemberAction::Stop(timer) => {
                if let Some(old) = self.member_timers.remove(&(rank, timer)) {
                    self.network.take_back(old);
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, frame: &[u8]) {
        self.part.messages += 1;
        self.part.bytes += (HEADER_BYTES + frame.len()) as u64;
    }
}

fn encode<T: Serialize>(message: &T) -> (Vec<u8>, Duration) {
    let began = Instant::now();
    let frame = postcard::to_stdvec(message).expect("our messages can be encoded");
    (frame, began.elapsed())
}

fn decode<T: for<'a> Deserialize<'a>>(frame: &[u8]) -> (T, Duration) {
    let began = Instant::now();
    let message = postcard::from_bytes(frame).expect("what was encoded can be decoded");
    (message, began.elapsed())
}
