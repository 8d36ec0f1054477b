//! A seat's way to its leader: over the introducer at first, by itself after a loss. It goes on calling while the
//! seat lives; how long anybody waits for that is the machine's affair.

use super::connection::{Role, Stream};
use super::introducing::Arriving;
use super::table::{Chair, Link};
use super::{Control, Work};
use crate::listening;
use crate::mailbox::Joining;
use crate::timers::Alarm;
use crate::wire::{Down, Opening, Prelude, Purpose};
use airamp_agreement::{LeaderEvent, MemberEvent, Rank, ToMember};
use mio::Token;
use std::net::SocketAddr;
use std::sync::PoisonError;

impl Control {
    pub(super) fn join(&mut self, joining: Joining) {
        let id = joining.place.id;
        let mut nonce = [0; 8];
        if getrandom::fill(&mut nonce).is_err() {
            // Two ranks of one number would then look the same; the machine sees nothing wrong with one of them.
            nonce = (id ^ u64::from(std::process::id()) << 32).to_le_bytes();
        }
        let chair = Chair::new(joining, u64::from_le_bytes(nonce));
        let (invitation, prelude, hello) = (chair.invitation, prelude(&chair), chair.hello.clone());
        let leads = chair.lead.is_some();
        self.chairs.insert(id, chair);
        self.await_orders();
        if self.is_ours(invitation.address) && self.introductions.knows(&invitation.token) {
            if leads {
                self.introductions.leads(invitation.token, invitation.clique, id);
                self.set_leader(id, invitation.address);
            }
            let via = Some(Link::Local(id));
            return self.introduce(Arriving { prelude, hello, via, listening: None });
        }
        if invitation.address.port() == 0 {
            return self.refuse(Link::Local(id), "the invitation is another process's");
        }
        if leads {
            self.introductions.leads(invitation.token, invitation.clique, id);
            let _ = self.hear(id, hello, prelude.seat);
            self.link(id, 0, Link::Local(id));
            self.is_linked(id, Link::Local(id));
        }
        self.dial(id);
    }

    fn is_ours(&self, address: SocketAddr) -> bool {
        let listening = self.mailbox.listening.lock().unwrap_or_else(PoisonError::into_inner);
        address.port() == 0 || listening.values().any(|own| *own == address)
    }

    pub(super) fn dial(&mut self, id: u64) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        let Some((address, role)) = whom_to_call(chair) else { return };
        match self.call(address, role) {
            Some(token) => self.set_calling(id, Some(token)),
            None => self.dial_later(id),
        }
    }

    fn dial_later(&mut self, id: u64) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        if whom_to_call(chair).is_some() {
            let pause = chair.next_pause();
            self.timers.start(Alarm::Redial(id), pause);
        }
    }

    /// A call went through: say who we are.
    pub(super) fn is_answered(&mut self, token: Token) {
        let Some(connection) = self.connections.get(&token) else { return };
        let (Role::ToIntroducer(id) | Role::ToLeader(id)) = connection.role else { return };
        let is_to_leader = matches!(connection.role, Role::ToLeader(_));
        let Stream::Tcp(stream) = &connection.stream else { return };
        let (local, peer) = (stream.local_addr(), stream.peer_addr());
        if matches!((&local, &peer), (Ok(local), Ok(peer)) if local == peer) {
            // Calling a port that nobody listens on may, rarely, reach the caller itself.
            return self.lose(token, "nobody answers");
        }
        let Some(chair) = self.chairs.get(&id) else { return self.finish(token) };
        let (prelude, terms) = (prelude(chair), chair.hello.terms.clone());
        if self.options.cut.is_some_and(|cut| cut.after == 0 && cut.rank == chair.hello.rank)
            && chair.passed == 0
        {
            return self.cut(id, token);
        }
        let purpose = if is_to_leader {
            Purpose::Link { terms }
        } else if chair.lead.is_none() {
            Purpose::Introduce { terms, listening: None }
        } else {
            match local.and_then(|local| listening::on(&self.mailbox, local.ip())) {
                Ok((address, listener)) => {
                    listener.into_iter().for_each(|listener| self.listen(listener));
                    self.set_leader(id, address);
                    Purpose::Introduce { terms, listening: Some(address) }
                }
                Err(error) => return self.lose(token, &error.to_string()),
            }
        };
        match (Opening { prelude, purpose }).body() {
            Ok(body) => self.send(token, &body),
            Err(error) => self.lose(token, &error.to_string()),
        }
    }

    /// What the introducer or the leader says on a connection that this seat made.
    pub(super) fn is_told(&mut self, id: u64, token: Token, down: Down) {
        let Some(chair) = self.chairs.get_mut(&id) else { return self.finish(token) };
        let is_link = chair.link == Some(Link::Remote(token));
        let is_call = chair.calling == Some(token);
        let is_to_leader = self
            .connections
            .get(&token)
            .is_some_and(|connection| matches!(connection.role, Role::ToLeader(_)));
        match down {
            Down::Message(message) if is_link => {
                self.work.push_back(Work::Member(id, MemberEvent::Message(message)));
            }
            Down::Taken if is_call => {
                chair.somebody_answered();
                chair.is_known_to_introducer = true;
                chair.place.hello_is_taken();
                if is_to_leader {
                    self.is_linked(id, Link::Remote(token));
                }
            }
            Down::LeaderHere if is_call && !is_to_leader && chair.lead.is_none() => {
                chair.leader = Some(chair.invitation.address);
                self.set_role(token, Role::ToLeader(id));
                self.is_linked(id, Link::Remote(token));
            }
            Down::LeaderAt(address) if is_call && !is_to_leader && chair.lead.is_none() => {
                chair.calling = None;
                self.finish(token);
                self.leader_is_at(id, address);
            }
            Down::Came { hello, seat } if is_call && chair.lead.is_some() => {
                let _ = self.hear(id, hello, seat);
                if self.chairs.get(&id).is_some_and(|chair| wanted(chair).is_none()) {
                    self.set_calling(id, None);
                    self.finish(token);
                }
            }
            Down::Refused { reason } if is_call && chair.may_be_refused() => {
                self.is_refused(id, token, reason)
            }
            _ => self.lose(token, "it spoke out of turn"),
        }
    }

    fn is_refused(&mut self, id: u64, token: Token, reason: String) {
        if let Some(chair) = self.chairs.get_mut(&id) {
            (chair.calling, chair.is_shut_out) = (None, true);
        }
        self.finish(token);
        self.refuse(Link::Local(id), &reason);
    }

    /// Whoever this seat called has a library that speaks another version.
    pub(super) fn leader_speaks(&mut self, id: u64, token: Token, protocol: u16) {
        if !self.chairs.get(&id).is_some_and(Chair::may_be_refused) {
            return self.lose(token, "it speaks another version of the protocol");
        }
        let own = self.options.protocol;
        let reason = format!(
            "the process that made the id speaks version {protocol} of the protocol, and this library version {own}"
        );
        self.is_refused(id, token, reason);
    }

    pub(super) fn leader_is_at(&mut self, id: u64, address: SocketAddr) {
        self.set_leader(id, address);
        self.timers.stop(Alarm::Leaderless(id));
        self.dial(id);
    }

    /// This seat can reach its leader from now on.
    pub(super) fn is_linked(&mut self, id: u64, link: Link) {
        let leader = match link {
            Link::Local(leader) => self.chairs.get(&leader).and_then(|chair| chair.leader),
            Link::Remote(_) => None,
        };
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        chair.link = Some(link);
        chair.was_linked = true;
        chair.somebody_answered();
        chair.leader = chair.leader.or(leader);
        if let Link::Remote(token) = link
            && chair.calling == Some(token)
        {
            chair.calling = None;
        }
        self.timers.stop(Alarm::Leaderless(id));
        self.work.push_back(Work::Member(id, MemberEvent::LinkUp));
    }

    pub(super) fn call_is_lost(&mut self, id: u64, token: Token, why: &str) {
        let Some(chair) = self.chairs.get_mut(&id) else { return };
        let rank = chair.hello.rank;
        if chair.calling == Some(token) {
            chair.calling = None;
        }
        if chair.link == Some(Link::Remote(token)) {
            chair.link = None;
            self.work.push_back(Work::Member(id, MemberEvent::LinkLost));
            (self.options.log.debug)(&format!("rank {rank} has lost its leader's connection: {why}"));
        }
        self.dial_later(id);
    }

    pub(super) fn link_of_member_is_lost(&mut self, leader: u64, rank: Rank, token: Token) {
        let Some(lead) = self.chairs.get_mut(&leader).and_then(|chair| chair.lead.as_mut()) else { return };
        if lead.links.get(&rank) == Some(&Link::Remote(token)) {
            lead.links.remove(&rank);
            self.work.push_back(Work::Leader(leader, LeaderEvent::Lost(rank)));
        }
    }

    /// The vendor's init has returned here, so every rank that comes has said Hello.
    pub(super) fn is_present(&mut self, id: u64) {
        let Some(chair) = self.chairs.get(&id) else { return };
        if chair.lead.is_some() {
            self.work.push_back(Work::Leader(id, LeaderEvent::Present));
        } else if chair.leader.is_none() && !chair.was_linked {
            let grace = self.options.timeouts.grace(chair.invitation.is_for_child());
            self.timers.start(Alarm::Leaderless(id), grace);
        }
    }

    pub(super) fn nobody_leads(&mut self, id: u64) {
        let Some(chair) = self.chairs.get(&id) else { return };
        let reason = if chair.is_known_to_introducer {
            "rank 0 has not come: it runs without this library, or could not connect".to_owned()
        } else {
            format!("nobody answers at {}, where the id was made", chair.invitation.address)
        };
        self.work.push_back(Work::Member(id, MemberEvent::Message(ToMember::Off { reason })));
    }

    /// For tests: counts frames on connections that a seat made, and cuts one.
    pub(super) fn count_for_cut(&mut self, token: Token) {
        let Some(cut) = self.options.cut else { return };
        let Some(connection) = self.connections.get(&token) else { return };
        let (Role::ToIntroducer(id) | Role::ToLeader(id)) = connection.role else { return };
        let Some(chair) = self.chairs.get_mut(&id).filter(|chair| chair.hello.rank == cut.rank) else {
            return;
        };
        chair.passed += 1;
        if chair.passed == cut.after {
            self.cut(id, token);
        }
    }

    fn cut(&mut self, id: u64, token: Token) {
        if let Some(chair) = self.chairs.get_mut(&id) {
            let (rank, passed) = (chair.hello.rank, chair.passed);
            (self.options.log.info)(&format!("injected cut: rank {rank} after {passed} frames"));
            chair.passed = passed.max(1);
            chair.is_shut_out = self.options.cut.is_some_and(|cut| cut.forever);
        }
        self.lose(token, "cut by a test");
    }

    pub(super) fn set_calling(&mut self, id: u64, calling: Option<Token>) {
        if let Some(chair) = self.chairs.get_mut(&id) {
            chair.calling = calling;
        }
    }

    fn set_leader(&mut self, id: u64, address: SocketAddr) {
        if let Some(chair) = self.chairs.get_mut(&id) {
            chair.leader = Some(address);
        }
    }
}

/// Rank 0 calls the introducer until it knows everybody; the others call it until they know their leader.
fn whom_to_call(chair: &Chair) -> Option<(SocketAddr, Role)> {
    let id = chair.place.id;
    if chair.calling.is_some() || chair.is_shut_out {
        return None;
    }
    wanted(chair)
        .map(|(address, leader)| (address, if leader { Role::ToLeader(id) } else { Role::ToIntroducer(id) }))
}

fn wanted(chair: &Chair) -> Option<(SocketAddr, bool)> {
    let introducer = chair.invitation.address;
    match (&chair.lead, chair.leader) {
        (Some(lead), leader) => {
            let introduced = lead.has_heard_all() || leader == Some(introducer);
            (!introduced).then_some((introducer, false))
        }
        (None, _) if chair.link.is_some() => None,
        (None, Some(leader)) => Some((leader, true)),
        (None, None) => Some((introducer, false)),
    }
}

fn prelude(chair: &Chair) -> Prelude {
    Prelude {
        token: chair.invitation.token,
        clique: chair.invitation.clique,
        seat: chair.nonce,
        rank: chair.hello.rank,
        ranks: chair.hello.ranks,
    }
}
