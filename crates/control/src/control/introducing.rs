//! The introducer: in the process that made the id, and in a leader's for its children. It keeps the Hellos, tells
//! every rank where its leader listens, and the leader who has come. Then it is needed no more.

use super::connection::Role;
use super::introductions::{Welcome, Whereabouts};
use super::table::{Chair, Link};
use super::{Control, Work};
use crate::wire::{Down, Prelude};
use airamp_agreement::{Hello, LeaderEvent, MemberEvent, Rank, ToMember};
use mio::Token;
use std::net::SocketAddr;

/// A rank that asks for its leader.
pub(super) struct Arriving {
    pub(super) prelude: Prelude,
    pub(super) hello: Hello,
    pub(super) via: Option<Link>,
    /// Where rank 0 listens, if it is in another process.
    pub(super) listening: Option<SocketAddr>,
}

impl Control {
    pub(super) fn introduce(&mut self, who: Arriving) {
        let Arriving { prelude, hello, via, listening } = who;
        let (id, number, rank) = (prelude.token, prelude.clique, hello.rank);
        let Some(clique) = self.introductions.clique(&id, number) else {
            return self.refuse_if_any(via, "there are too many communicators under this id");
        };
        if let Some(reason) = clique.refused.clone() {
            return self.refuse_if_any(via, &reason);
        }
        match clique.welcome(hello, prelude.seat, via) {
            Welcome::TooMany => return self.refuse_if_any(via, "too many ranks have come"),
            Welcome::NumberIsTaken => {
                self.refuse_if_any(via, &format!("another process is rank {rank} already"));
                return self.point_out_seconds(&id, number);
            }
            Welcome::Taken(before) => {
                if let Some(Link::Remote(old)) = before {
                    self.finish(old);
                }
            }
        }
        self.take_hello(via);
        let Some(clique) = self.introductions.clique(&id, number) else { return };
        if rank != 0 {
            return self.point_out(&id, number, rank);
        }
        clique.leader = match (via, listening) {
            (Some(Link::Local(seat)), _) => Some(Whereabouts::Here(seat)),
            (_, Some(address)) => Some(Whereabouts::At(address)),
            (_, None) => None,
        };
        let ranks: Vec<Rank> = clique.arrivals.keys().copied().collect();
        for rank in ranks {
            self.point_out(&id, number, rank);
        }
        self.point_out_seconds(&id, number);
    }

    fn take_hello(&mut self, via: Option<Link>) {
        match via {
            Some(Link::Local(seat)) => {
                if let Some(chair) = self.chairs.get_mut(&seat) {
                    chair.is_known_to_introducer = true;
                    chair.place.hello_is_taken();
                }
            }
            Some(Link::Remote(token)) => self.say(token, &Down::Taken),
            None => {}
        }
    }

    /// Tells the leader of the rank, and the rank of the leader, if there is one yet.
    fn point_out(&mut self, id: &[u8; 16], number: u64, rank: Rank) {
        let Some(clique) = self.introductions.clique(id, number) else { return };
        let Some(leader) = clique.leader else { return };
        let via_leader = clique.arrivals.get(&0).and_then(|leader| leader.via);
        let Some(arrival) = clique.arrivals.get_mut(&rank) else { return };
        let (nonce, via) = (arrival.nonce, arrival.via);
        match leader {
            Whereabouts::Here(seat) => {
                let hello = arrival.hand_on();
                match (self.hear(seat, hello, nonce), via) {
                    (_, None) => {}
                    (Err(reason), Some(via)) => self.refuse(via, &reason),
                    (Ok(()), Some(via)) => self.link_here(seat, rank, via),
                }
            }
            Whereabouts::At(address) if rank != 0 => {
                if via_leader.is_some() && !arrival.is_handed_on {
                    let hello = arrival.hand_on();
                    self.tell_of(via_leader, hello, nonce);
                }
                self.tell_where(via, address);
            }
            Whereabouts::At(_) => {}
        }
    }

    fn point_out_seconds(&mut self, id: &[u8; 16], number: u64) {
        let Some(clique) = self.introductions.clique(id, number) else { return };
        let Some(leader) = clique.leader else { return };
        let via_leader = clique.arrivals.get(&0).and_then(|leader| leader.via);
        for (hello, nonce) in clique.seconds.clone() {
            match leader {
                Whereabouts::Here(seat) => drop(self.hear(seat, hello, nonce)),
                Whereabouts::At(_) => self.tell_of(via_leader, hello, nonce),
            }
        }
    }

    /// The connection to the introducer is the link from now on, since the leader is here too.
    fn link_here(&mut self, leader: u64, rank: Rank, via: Link) {
        match via {
            Link::Remote(token) => self.link_remote(token, leader, rank, &Down::LeaderHere),
            Link::Local(seat) => {
                self.link(leader, rank, via);
                self.is_linked(seat, Link::Local(leader));
            }
        }
    }

    /// Over a connection to which that can be said: a dead one would be lost to nobody.
    pub(super) fn link_remote(&mut self, token: Token, leader: u64, rank: Rank, words: &Down) {
        self.set_role(token, Role::Member { leader, rank });
        self.say(token, words);
        if self.connections.contains_key(&token) {
            self.link(leader, rank, Link::Remote(token));
        }
    }

    /// The leader can reach the rank from now on.
    pub(super) fn link(&mut self, leader: u64, rank: Rank, link: Link) {
        let Some(lead) = self.chairs.get_mut(&leader).and_then(|chair| chair.lead.as_mut()) else { return };
        lead.linked.insert(rank);
        if let Some(Link::Remote(old)) = lead.links.insert(rank, link).filter(|old| *old != link) {
            self.finish(old);
        }
        self.work.push_back(Work::Leader(leader, LeaderEvent::Linked(rank)));
    }

    fn tell_of(&mut self, leader: Option<Link>, hello: Hello, seat: u64) {
        if let Some(Link::Remote(token)) = leader {
            self.say(token, &Down::Came { hello, seat });
        }
    }

    fn tell_where(&mut self, via: Option<Link>, address: SocketAddr) {
        match via {
            Some(Link::Remote(token)) => self.say(token, &Down::LeaderAt(address)),
            Some(Link::Local(seat)) => self.leader_is_at(seat, address),
            None => {}
        }
    }

    pub(super) fn nobody_can_lead(&mut self, id: &[u8; 16], number: u64, reason: &str) {
        let Some(clique) = self.introductions.clique(id, number) else { return };
        clique.refused = Some(reason.to_owned());
        let waiting: Vec<Link> = clique.arrivals.values().filter_map(|arrival| arrival.via).collect();
        waiting.into_iter().for_each(|via| self.refuse(via, reason));
    }

    fn refuse_if_any(&mut self, via: Option<Link>, reason: &str) {
        if let Some(via) = via {
            self.refuse(via, reason);
        }
    }

    pub(super) fn refuse(&mut self, via: Link, reason: &str) {
        let reason = reason.to_owned();
        match via {
            Link::Remote(token) => {
                self.set_role(token, Role::Closing);
                self.say(token, &Down::Refused { reason });
                self.finish(token);
            }
            Link::Local(seat) => {
                if self.chairs.get(&seat).is_some_and(Chair::may_be_refused) {
                    let off = ToMember::Off { reason };
                    self.work.push_back(Work::Member(seat, MemberEvent::Message(off)));
                }
            }
        }
    }
}
