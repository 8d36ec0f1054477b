//! Who sits at which table: a chair per local rank, and the lead of those tables whose rank 0 is local.

use crate::brain::Brain;
use crate::mailbox::Joining;
use crate::seat::{Invitation, Place};
use airamp_agreement::{Hello, Leader, Member, Plan, Rank};
use mio::Token;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After so many calls without an answer the other side is probably gone for good.
const PATIENCE: u32 = 40;
const PAUSE_WITHOUT_HOPE: Duration = Duration::from_secs(30);

/// How a member and its leader talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Both are in this process; this is the other's seat.
    Local(u64),
    Remote(Token),
}

pub(super) struct Chair {
    pub(super) place: Arc<Place>,
    pub(super) invitation: Invitation,
    pub(super) hello: Hello,
    /// Tells this rank from another of the same number.
    pub(super) nonce: u64,
    pub(super) member: Member,
    pub(super) reserved: Box<dyn Fn() -> u64 + Send>,
    pub(super) brain: Option<Box<dyn Brain>>,
    pub(super) lead: Option<Lead>,
    /// Where the leader listens, once known.
    pub(super) leader: Option<SocketAddr>,
    pub(super) link: Option<Link>,
    pub(super) was_linked: bool,
    pub(super) is_known_to_introducer: bool,
    /// A connection that is being made, or that of rank 0 to its introducer.
    pub(super) calling: Option<Token>,
    pub(super) pause: Duration,
    pub(super) tries: u32,
    /// The plan of creation.
    pub(super) first: Option<Plan>,
    /// Off or broken.
    pub(super) is_over: bool,
    /// Makes no connection any more: refused, hung up, or cut off by a test.
    pub(super) is_shut_out: bool,
    /// Frames on connections that this seat has made, for a test that cuts them.
    pub(super) passed: u64,
}

/// What rank 0's process holds for the others.
pub(super) struct Lead {
    pub(super) machine: Leader,
    pub(super) ranks: u32,
    /// Whose Hello the machine has: rank and nonce.
    pub(super) heard: HashMap<Rank, u64>,
    /// Hellos of a second rank with the same number; a few say it all.
    pub(super) seconds: u32,
    pub(super) links: HashMap<Rank, Link>,
    /// Who ever had a link.
    pub(super) linked: HashSet<Rank>,
    pub(super) has_started: bool,
    pub(super) is_closed: bool,
    /// A plan of the brain's is being voted on.
    pub(super) is_changing: bool,
}

impl Chair {
    pub(super) fn new(joining: Joining, nonce: u64) -> Self {
        let Joining { place, invitation, hello, reserved, brain } = joining;
        let lead = (hello.rank == 0).then(|| Lead::new(hello.ranks));
        Self {
            place,
            invitation,
            member: Member::new(hello.clone()),
            hello,
            nonce,
            reserved,
            brain: Some(brain),
            lead,
            leader: None,
            link: None,
            was_linked: false,
            is_known_to_introducer: false,
            calling: None,
            pause: FIRST_PAUSE,
            tries: 0,
            first: None,
            is_over: false,
            is_shut_out: false,
            passed: 0,
        }
    }

    /// How long to wait before the next call; longer each time.
    pub(super) fn next_pause(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        if self.tries > PATIENCE {
            return PAUSE_WITHOUT_HOPE;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// Whoever was linked may have pledged, and takes no for an answer from its leader alone; an introducer may say one late.
    /// Rank 0 is linked to itself, and nobody has pledged before it has heard of all.
    pub(super) fn may_be_refused(&self) -> bool {
        self.lead.as_ref().map_or(!self.was_linked, |lead| !lead.has_heard_all())
    }

    pub(super) fn somebody_answered(&mut self) {
        (self.pause, self.tries) = (FIRST_PAUSE, 0);
    }
}

impl Lead {
    fn new(ranks: u32) -> Self {
        Self {
            machine: Leader::new(ranks),
            ranks,
            heard: HashMap::new(),
            seconds: 0,
            links: HashMap::new(),
            linked: HashSet::new(),
            has_started: false,
            is_closed: false,
            is_changing: false,
        }
    }

    pub(super) fn has_heard_all(&self) -> bool {
        self.heard.len() >= self.ranks as usize
    }
}
