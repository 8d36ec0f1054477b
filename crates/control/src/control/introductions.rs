//! Who may come in, and who has come: tokens, the communicators under each, and the ranks that asked for their
//! leader. Bounded in every direction; what is old and leads nowhere goes first.

use super::table::Link;
use airamp_agreement::{Hello, Rank};
use mio::Token;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

const MOST_TOKENS: usize = 1024;
const MOST_CLIQUES: usize = 1024;
const MOST_ARRIVALS: usize = 8192;
const MOST_SECONDS: usize = 4;
/// Far longer than a creation waits: whoever was introduced by then asks no more. Without it, a process that makes one
/// communicator after the other would hold what it knows of the last thousand.
const IDLE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Introductions {
    known: Vec<Known>,
}

struct Known {
    token: [u8; 16],
    used: Instant,
    /// Somebody came with it.
    was_shown: bool,
    cliques: HashMap<u64, Clique>,
}

/// The ranks of one communicator, as far as they have come here.
pub(super) struct Clique {
    used: Instant,
    pub(super) leader: Option<Whereabouts>,
    pub(super) arrivals: BTreeMap<Rank, Arrival>,
    /// Hellos of ranks whose number was taken.
    pub(super) seconds: Vec<(Hello, u64)>,
    /// Why nobody can be led.
    pub(super) refused: Option<String>,
}

pub(super) struct Arrival {
    pub(super) hello: Hello,
    pub(super) nonce: u64,
    pub(super) via: Option<Link>,
    /// The leader has the Hello, and its terms are no longer kept here.
    pub(super) is_handed_on: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// In this process, on this seat.
    Here(u64),
    At(SocketAddr),
}

/// What became of an arrival.
pub(super) enum Welcome {
    /// As new, or come back; with the connection that it had before.
    Taken(Option<Link>),
    NumberIsTaken,
    TooMany,
}

impl Introductions {
    pub(super) fn invite(&mut self, token: [u8; 16]) {
        if self.find(&token).is_some() {
            return;
        }
        self.forget_idle(Instant::now());
        if self.known.len() >= MOST_TOKENS {
            self.forget_oldest();
        }
        self.known.push(Known { token, used: Instant::now(), was_shown: false, cliques: HashMap::new() });
    }

    pub(super) fn knows(&mut self, token: &[u8; 16]) -> bool {
        self.find(token).is_some()
    }

    /// The communicator, as new if nobody has asked for it yet. `None`: a stranger's token, or too many.
    pub(super) fn clique(&mut self, token: &[u8; 16], clique: u64) -> Option<&mut Clique> {
        let known = self.find(token)?;
        (known.used, known.was_shown) = (Instant::now(), true);
        if known.cliques.len() >= MOST_CLIQUES && !known.cliques.contains_key(&clique) {
            let idle = known.cliques.iter().filter(|(_, clique)| !clique.is_led_here());
            let oldest = *idle.min_by_key(|(_, clique)| clique.used)?.0;
            known.cliques.remove(&oldest);
        }
        let clique = known.cliques.entry(clique).or_insert_with(Clique::new);
        clique.used = known.used;
        Some(clique)
    }

    /// The seat of the communicator's leader, if that is here.
    pub(super) fn leader_here(&mut self, token: &[u8; 16], clique: u64) -> Option<u64> {
        match self.find(token)?.cliques.get(&clique)?.leader {
            Some(Whereabouts::Here(seat)) => Some(seat),
            _ => None,
        }
    }

    pub(super) fn leads(&mut self, token: [u8; 16], clique: u64, seat: u64) {
        self.invite(token);
        if let Some(clique) = self.clique(&token, clique) {
            clique.leader = Some(Whereabouts::Here(seat));
        }
    }

    pub(super) fn leads_no_more(&mut self, token: &[u8; 16], clique: u64, seat: u64) {
        if self.leader_here(token, clique) == Some(seat)
            && let Some(known) = self.find(token)
        {
            known.cliques.remove(&clique);
            known.cliques.shrink_to_fit();
        }
    }

    /// The rank can no longer be told anything on this connection.
    pub(super) fn is_gone(&mut self, token: &[u8; 16], clique: u64, rank: Rank, connection: Token) {
        self.is_gone_from(token, clique, rank, Link::Remote(connection));
    }

    pub(super) fn is_gone_from(&mut self, token: &[u8; 16], clique: u64, rank: Rank, via: Link) {
        let clique = self.find(token).and_then(|known| known.cliques.get_mut(&clique));
        if let Some(arrival) = clique.and_then(|clique| clique.arrivals.get_mut(&rank))
            && arrival.via == Some(via)
        {
            arrival.via = None;
        }
    }

    /// To be asked after a rank has gone: whether all have been introduced to a leader elsewhere. Then none of them is kept. One that
    /// comes again is told where the leader is, as if it were new; the leader knows whether it is.
    pub(super) fn tidy(&mut self, token: &[u8; 16], clique: u64) {
        let clique = self.find(token).and_then(|known| known.cliques.get_mut(&clique));
        if let Some(clique) = clique.filter(|clique| clique.is_over()) {
            clique.arrivals = BTreeMap::new();
        }
    }

    /// What was asked for once, and not for long, and nobody waits for. A token that nobody has shown yet is kept: ranks may come late.
    fn forget_idle(&mut self, now: Instant) {
        let is_recent = |used: Instant| now.saturating_duration_since(used) < IDLE;
        for known in &mut self.known {
            let waits = |clique: &Clique| clique.arrivals.values().any(|arrival| arrival.via.is_some());
            known.cliques.retain(|_, clique| clique.is_led_here() || waits(clique) || is_recent(clique.used));
            known.cliques.shrink_to_fit();
        }
        self.known.retain(|known| !known.was_shown || !known.cliques.is_empty() || is_recent(known.used));
    }

    /// Every token is compared, each in constant time: how long it takes tells a stranger nothing.
    fn find(&mut self, token: &[u8; 16]) -> Option<&mut Known> {
        let mut found = None;
        for (at, known) in self.known.iter().enumerate() {
            if bool::from(known.token.ct_eq(token)) {
                found = Some(at);
            }
        }
        self.known.get_mut(found?)
    }

    fn forget_oldest(&mut self) {
        let idle = |(_, known): &(usize, &Known)| !known.cliques.values().any(Clique::is_led_here);
        let oldest = self.known.iter().enumerate().filter(idle).min_by_key(|(_, known)| known.used);
        if let Some((at, _)) = oldest {
            self.known.swap_remove(at);
        }
    }
}

impl Arrival {
    /// The Hello for the leader, once: there may be thousands of ranks, and the leader keeps what it needs. A rank
    /// says it again when it links.
    pub(super) fn hand_on(&mut self) -> Hello {
        self.is_handed_on = true;
        let terms = std::mem::take(&mut self.hello.terms);
        Hello { terms, ..self.hello }
    }
}

impl Clique {
    fn new() -> Self {
        Self {
            used: Instant::now(),
            leader: None,
            arrivals: BTreeMap::new(),
            seconds: Vec::new(),
            refused: None,
        }
    }

    fn is_led_here(&self) -> bool {
        matches!(self.leader, Some(Whereabouts::Here(_)))
    }

    /// All ranks have come, the leader elsewhere knows of them, and none is connected any more.
    fn is_over(&self) -> bool {
        let is_done = |(rank, arrival): (&Rank, &Arrival)| {
            arrival.via.is_none() && (*rank == 0 || arrival.is_handed_on)
        };
        let ranks = self.arrivals.values().map(|arrival| arrival.hello.ranks).max().unwrap_or(0);
        matches!(self.leader, Some(Whereabouts::At(_)))
            && self.arrivals.len() as u64 >= u64::from(ranks)
            && self.arrivals.iter().all(is_done)
    }

    pub(super) fn welcome(&mut self, hello: Hello, nonce: u64, via: Option<Link>) -> Welcome {
        let full = self.arrivals.len() >= MOST_ARRIVALS;
        match self.arrivals.get_mut(&hello.rank) {
            Some(before) if before.nonce == nonce => {
                let old = std::mem::replace(&mut before.via, via);
                Welcome::Taken(old.filter(|old| Some(*old) != via))
            }
            Some(_) => {
                if self.seconds.len() < MOST_SECONDS {
                    self.seconds.push((hello, nonce));
                }
                Welcome::NumberIsTaken
            }
            None if full => Welcome::TooMany,
            None => {
                self.arrivals.insert(hello.rank, Arrival { hello, nonce, via, is_handed_on: false });
                Welcome::Taken(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(rank: Rank) -> Hello {
        Hello { rank, ranks: 2, terms: Vec::new() }
    }

    #[test]
    fn a_token_that_nobody_made_leads_nowhere() {
        let mut introductions = Introductions::default();
        introductions.invite([1; 16]);
        let mut other = [1; 16];
        other[15] = 0;
        assert!(introductions.knows(&[1; 16]));
        assert!(!introductions.knows(&other));
        assert!(introductions.clique(&other, 0).is_none());
    }

    #[test]
    fn tokens_and_communicators_are_bounded_and_those_that_are_led_here_stay() {
        let mut introductions = Introductions::default();
        introductions.leads([0; 16], 7, 42);
        for number in 1..3 * MOST_TOKENS as u64 {
            let mut token = [1; 16];
            token[..8].copy_from_slice(&number.to_le_bytes());
            introductions.invite(token);
        }
        assert_eq!(introductions.known.len(), MOST_TOKENS);
        for clique in 0..3 * MOST_CLIQUES as u64 {
            assert!(introductions.clique(&[0; 16], clique).is_some());
        }
        assert_eq!(introductions.find(&[0; 16]).unwrap().cliques.len(), MOST_CLIQUES);
        assert_eq!(introductions.leader_here(&[0; 16], 7), Some(42));
    }

    #[test]
    fn ranks_that_were_introduced_to_a_leader_elsewhere_are_not_kept() {
        let (mut introductions, token) = (Introductions::default(), [1; 16]);
        introductions.invite(token);
        let connection = |rank: Rank| Token(rank as usize);
        for rank in [0, 1] {
            let clique = introductions.clique(&token, 7).unwrap();
            clique.welcome(hello(rank), 5, Some(Link::Remote(connection(rank))));
            clique.leader = Some(Whereabouts::At(([127, 0, 0, 1], 9).into()));
        }
        let gone = |introductions: &mut Introductions, rank: Rank| {
            introductions.is_gone(&token, 7, rank, connection(rank));
            introductions.tidy(&token, 7);
            introductions.clique(&token, 7).unwrap().arrivals.len()
        };
        assert_eq!(gone(&mut introductions, 1), 2, "the leader is still there, and has not heard of rank 1");
        introductions.clique(&token, 7).unwrap().arrivals.get_mut(&1).unwrap().hand_on();
        assert_eq!(gone(&mut introductions, 0), 0);
        assert!(introductions.clique(&token, 7).unwrap().leader.is_some(), "who comes again is told where");
    }

    #[test]
    fn what_is_idle_is_forgotten_but_not_what_is_led_here_or_waited_for_or_was_never_shown() {
        let mut introductions = Introductions::default();
        let (led, shown, new, awaited) = ([1; 16], [2; 16], [3; 16], [4; 16]);
        introductions.leads(led, 7, 42);
        introductions.clique(&led, 8);
        introductions.invite(shown);
        introductions.clique(&shown, 7);
        introductions.invite(awaited);
        let clique = introductions.clique(&awaited, 7).unwrap();
        clique.welcome(hello(1), 5, Some(Link::Remote(Token(1))));
        introductions.invite(new);
        let now = Instant::now();
        introductions.forget_idle(now);
        assert_eq!(introductions.known.len(), 4);
        introductions.forget_idle(now + IDLE + IDLE);
        assert!(introductions.knows(&led) && introductions.knows(&new) && !introductions.knows(&shown));
        assert_eq!(
            introductions.clique(&awaited, 7).unwrap().arrivals.len(),
            1,
            "it still waits for its leader"
        );
        assert_eq!(introductions.find(&led).unwrap().cliques.len(), 1);
        introductions.leads_no_more(&led, 7, 42);
        introductions.forget_idle(now + IDLE + IDLE);
        assert!(!introductions.knows(&led));
    }

    #[test]
    fn a_return_is_told_from_a_second_rank_of_the_same_number() {
        let mut clique = Clique::new();
        let (first, again) = (Link::Remote(Token(1)), Link::Remote(Token(2)));
        assert!(matches!(clique.welcome(hello(1), 5, Some(first)), Welcome::Taken(None)));
        assert!(
            matches!(clique.welcome(hello(1), 5, Some(again)), Welcome::Taken(Some(old)) if old == first)
        );
        assert!(matches!(clique.welcome(hello(1), 6, Some(first)), Welcome::NumberIsTaken));
        assert_eq!(clique.seconds.len(), 1);
    }
}
