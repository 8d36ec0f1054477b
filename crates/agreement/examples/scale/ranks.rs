//! A job: the leader, its members, their gates and timers. The leader's thread does one thing after the other, and each
//! takes the time that decoding, the machine and encoding take here and now, and that its system calls were measured
//! to take. Members do the same beside each other.

use crate::heap::bytes_of;
use crate::network::{Network, Wire};
use crate::sockets::SocketCost;
use airamp_agreement::{
    Capable, Gate, Hello, Leader, LeaderEvent, LeaderTimer, Member, MemberEvent, MemberTimer, Plan, Rank,
    Settled, Term, VENDOR_PLAN,
};
use std::collections::HashMap;
use std::time::Duration;

/// In front of every message.
pub(crate) const HEADER_BYTES: usize = 8;
pub(crate) const GRACE: Duration = Duration::from_millis(800);
pub(crate) const VERDICT: Duration = Duration::from_secs(5);
pub(crate) const DOUBT: Duration = Duration::from_secs(30);
pub(crate) const PROPOSAL: Duration = Duration::from_secs(2);

pub(crate) enum Event {
    /// A rank begins to create the communicator.
    Join(Rank),
    VendorInitReturns,
    IntroducedAtLeader(Rank, Vec<u8>),
    /// The introducer has told the rank where the leader listens.
    Introduced(Rank),
    LinkedAtLeader(Rank),
    AtLeader(Rank, Vec<u8>),
    AtMember(Rank, Vec<u8>),
    LeaderTime(LeaderTimer),
    MemberTime(Rank, MemberTimer),
}

/// What a part of the job took.
#[derive(Clone, Default)]
pub(crate) struct Part {
    pub(crate) agreed: bool,
    pub(crate) time: Duration,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) leader_busy: Duration,
    pub(crate) leader_handled: u64,
    /// What the leader held when it held most, of the moments looked at.
    pub(crate) leader_bytes: usize,
}

pub(crate) struct Seat {
    pub(crate) hello: Hello,
    pub(crate) member: Member,
    pub(crate) gate: Gate,
    pub(crate) settled: Vec<Settled>,
    pub(crate) heard: Duration,
}

pub(crate) struct Job {
    pub(crate) network: Network<Event>,
    pub(crate) cost: SocketCost,
    pub(crate) leader: Leader,
    pub(crate) leader_free: Duration,
    pub(crate) seats: Vec<Seat>,
    pub(crate) leader_timers: HashMap<LeaderTimer, (Duration, u64)>,
    pub(crate) member_timers: HashMap<(Rank, MemberTimer), (Duration, u64)>,
    pub(crate) joined: u32,
    pub(crate) decided: Option<bool>,
    pub(crate) began: Duration,
    pub(crate) part: Part,
    pub(crate) reserved: u64,
}

impl Job {
    pub(crate) fn new(ranks: u32, wire: Wire, cost: SocketCost) -> Self {
        let seat = |rank| Seat {
            hello: hello(rank, ranks),
            member: Member::new(hello(rank, ranks)),
            gate: Gate::new(),
            settled: Vec::new(),
            heard: Duration::ZERO,
        };
        Self {
            network: Network::new(wire, ranks),
            cost,
            leader: Leader::new(ranks),
            leader_free: Duration::ZERO,
            seats: (0..ranks).map(seat).collect(),
            leader_timers: HashMap::new(),
            member_timers: HashMap::new(),
            joined: 0,
            decided: None,
            began: Duration::ZERO,
            part: Part::default(),
            reserved: 1_000,
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.seats.len()
    }

    /// All ranks come at about the same time, and nothing of ours hides behind the vendor's init: it returns as soon
    /// as all have entered it.
    pub(crate) fn create(&mut self) {
        for rank in 0..self.ranks() as Rank {
            let time = self.network.some_jitter();
            self.network.at(time, Event::Join(rank));
        }
        self.run();
        self.finish(|seat| matches!(seat.settled.last(), Some(Settled::Connect { .. })));
    }

    pub(crate) fn begin(&mut self) {
        for rank in 0..self.ranks() as Rank {
            self.tell_member(rank, MemberEvent::Connected(Ok(())), Duration::ZERO);
        }
        self.run();
        self.finish(|seat| seat.settled.last() == Some(&Settled::On));
    }

    pub(crate) fn switch(&mut self) {
        let mut plan: Plan = VENDOR_PLAN;
        plan[0] = 1;
        self.decided = None;
        let change = LeaderEvent::Change { plan, reserved: self.reserved };
        self.tell_leader(change, Duration::ZERO);
        self.run();
        let decided = self.decided == Some(true);
        let newest = self.seats[0].gate.newest();
        self.finish(|seat| decided && seat.gate.newest() == newest && seat.gate.pledged().is_none());
        self.reserved += 1_000;
    }

    pub(crate) fn take_part(&mut self) -> Part {
        std::mem::take(&mut self.part)
    }

    pub(crate) fn look_at_leader(&mut self) {
        self.part.leader_bytes = self.part.leader_bytes.max(bytes_of(&self.leader));
    }

    /// The part ends when the last rank has heard.
    fn finish(&mut self, agreed: impl Fn(&Seat) -> bool) {
        self.look_at_leader();
        self.part.agreed = self.seats.iter().all(agreed);
        let heard = self.seats.iter().map(|seat| seat.heard).max().unwrap_or_default();
        self.part.time = heard.saturating_sub(self.began);
        self.began = self.network.now();
    }

    /// Until nothing is under way but timers.
    fn run(&mut self) {
        while self.network.len() > self.leader_timers.len() + self.member_timers.len() {
            let Some(event) = self.network.pop() else { return };
            self.happen(event);
        }
        self.leader_free = self.leader_free.max(self.network.now());
        self.network.pass_to(self.leader_free);
    }
}

fn hello(rank: Rank, ranks: u32) -> Hello {
    let terms = [
        "library",
        "mode",
        "wire format",
        "min bytes",
        "arena bytes",
        "min speedup",
        "max vnmse",
        "blocking",
    ];
    Hello { rank, ranks, terms: terms.map(term).to_vec() }
}

pub(crate) fn capable() -> Capable {
    let terms = ["architecture", "kernels", "captures", "vendor's version"].map(term).to_vec();
    Capable { terms, host: 1, tunings: vec![(1, 1); 4] }
}

fn term(name: &str) -> Term {
    Term { name: name.to_owned(), value: "a value of some length".to_owned() }
}
