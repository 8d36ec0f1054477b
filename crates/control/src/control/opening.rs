//! The first frame of a connection that somebody made to us: it shows a token, or it was a stranger's.

use super::connection::{Role, Stream};
use super::introducing::Arriving;
use super::table::Link;
use super::{Control, Work};
use crate::hub::protocol_term;
use crate::wire::{self, Down, Frame, Opening, Prelude, Purpose};
use airamp_agreement::{Hello, LeaderEvent, Rank, Term, ToLeader};
use mio::Token;

impl Control {
    pub(super) fn open(&mut self, token: Token, frame: &Frame) {
        // Its token may have been made while this turn began.
        self.take_commands();
        let Ok(prelude) = Prelude::read(&frame.body) else {
            return self.lose(token, "a frame that makes no sense");
        };
        if !self.introductions.knows(&prelude.token) {
            return self.lose(token, "it does not know the token");
        }
        if frame.protocol != self.options.protocol {
            return self.meet_another_version(token, &prelude, frame.protocol);
        }
        match Opening::read(&frame.body) {
            Err(error) => self.lose(token, &error.to_string()),
            Ok(Opening { prelude, purpose: Purpose::Introduce { terms, listening } }) => {
                self.forget_unopened(token);
                if let Err(reason) = self.has_room_for(token) {
                    let term = Term { name: "connection".into(), value: format!("none, since {reason}") };
                    return self.turn_away(token, &prelude, [terms, vec![term]].concat(), &reason);
                }
                let (id, clique, rank) = (prelude.token, prelude.clique, prelude.rank);
                self.set_role(token, Role::Introduced { token: id, clique, rank });
                let via = Some(Link::Remote(token));
                self.introduce(Arriving { prelude, hello: hello(&prelude, terms), via, listening });
            }
            Ok(Opening { prelude, purpose: Purpose::Link { terms } }) => {
                self.link_is_opened(token, &prelude, hello(&prelude, terms));
            }
        }
    }

    /// Who comes back after a loss may have pledged, and is never turned away.
    fn has_room_for_the_first_link(&self, token: Token, leader: u64, rank: Rank) -> Result<(), String> {
        let lead = self.chairs.get(&leader).and_then(|chair| chair.lead.as_ref());
        if lead.is_some_and(|lead| lead.linked.contains(&rank)) { Ok(()) } else { self.has_room_for(token) }
    }

    fn has_room_for(&self, token: Token) -> Result<(), String> {
        match self.connections.get(&token).map(|connection| &connection.stream) {
            Some(Stream::Tcp(stream)) => stream.leaves_enough(),
            _ => Ok(()),
        }
    }

    fn link_is_opened(&mut self, token: Token, prelude: &Prelude, hello: Hello) {
        let Some(leader) = self.introductions.leader_here(&prelude.token, prelude.clique) else {
            // A communicator that has ended: whoever is in doubt must not take this for a no.
            self.forget_unopened(token);
            return self.finish(token);
        };
        self.forget_unopened(token);
        let rank = hello.rank;
        if let Err(reason) = self.hear(leader, hello, prelude.seat) {
            return self.refuse(Link::Remote(token), &reason);
        }
        if let Err(reason) = self.has_room_for_the_first_link(token, leader, rank) {
            let event = LeaderEvent::From(rank, ToLeader::Ready(Err(reason.clone())));
            self.work.push_back(Work::Leader(leader, event));
            return self.refuse(Link::Remote(token), &reason);
        }
        self.link_remote(token, leader, rank, &Down::Taken);
    }

    /// Both sides end with 'off', and both say which versions met.
    fn meet_another_version(&mut self, token: Token, prelude: &Prelude, protocol: u16) {
        self.forget_unopened(token);
        let reason = self.versions(prelude.rank, protocol);
        self.turn_away(token, prelude, vec![protocol_term(protocol)], &reason);
    }

    /// The leader hears of the rank by terms that no other has, and so all end with 'off'.
    fn turn_away(&mut self, token: Token, prelude: &Prelude, terms: Vec<Term>, reason: &str) {
        if prelude.rank == 0 {
            self.nobody_can_lead(&prelude.token, prelude.clique, reason);
        } else {
            let hello = hello(prelude, terms);
            self.introduce(Arriving { prelude: *prelude, hello, via: None, listening: None });
        }
        self.refuse(Link::Remote(token), reason);
    }

    pub(super) fn versions(&self, rank: u32, protocol: u16) -> String {
        let own = self.options.protocol;
        format!("rank {rank} speaks version {protocol} of the protocol, and this library version {own}")
    }

    /// The leader's machine gets a rank's Hello, once. An error says why that rank cannot be linked.
    pub(super) fn hear(&mut self, leader: u64, hello: Hello, nonce: u64) -> Result<(), String> {
        let Some(lead) = self.chairs.get_mut(&leader).and_then(|chair| chair.lead.as_mut()) else {
            return Err("there is no leader here".into());
        };
        let (rank, ranks) = (hello.rank, lead.ranks);
        let before = lead.heard.get(&rank).copied();
        let is_second = before.is_some_and(|before| before != nonce);
        if before.is_none() && rank < ranks {
            lead.heard.insert(rank, nonce);
        } else if before.is_none() || is_second {
            lead.seconds += 1;
        }
        if before.is_none() || is_second && lead.seconds <= 4 {
            let event = LeaderEvent::From(rank, ToLeader::Hello(hello));
            self.work.push_back(Work::Leader(leader, event));
        }
        if rank >= ranks {
            return Err(format!("there is no rank {rank} among {ranks}"));
        }
        if is_second { Err(format!("another process is rank {rank} already")) } else { Ok(()) }
    }

    pub(super) fn set_role(&mut self, token: Token, role: Role) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = role;
        }
    }

    pub(super) fn say(&mut self, token: Token, down: &Down) {
        match wire::encode(down) {
            Ok(body) => self.send(token, &body),
            Err(error) => self.lose(token, &error.to_string()),
        }
    }
}

fn hello(prelude: &Prelude, terms: Vec<Term>) -> Hello {
    Hello { rank: prelude.rank, ranks: prelude.ranks, terms }
}
