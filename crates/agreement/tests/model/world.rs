//! The state that the checker walks through: the crate's own machines, and around them as little as they need to
//! be wrong in: links, gates, threads of applications, operations on devices.

use crate::gate::Gate;
use crate::link::Link;
use crate::scene::Scene;
use airamp_agreement::{Hello, Leader, LeaderTimer, Member, MemberTimer, Rank, Settled, Term};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) processes: Vec<Process>,
    pub(crate) communicators: Vec<Communicator>,
    pub(crate) crashes_left: u8,
    pub(crate) cuts_left: u8,
    pub(crate) early_left: u8,
    pub(crate) a_timer_fired: bool,
    pub(crate) a_rank_crashed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// The next operation of the program, or the one under way.
    pub(crate) at: usize,
    pub(crate) step: Step,
    /// Calls of the open group: communicator, what goes on the wire.
    pub(crate) group: Option<Vec<(usize, u8)>>,
    /// A call returned an error, and the application gave up.
    pub(crate) failed: bool,
}

/// Where a thread is inside an operation of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Begin,
    InVendorInit,
    Acquiring,
    AwaitsVerdict,
    Connecting,
    AwaitsStart,
    /// The index is reserved and the pledge not looked at yet.
    Reserved(u64),
    Passed(u64),
    /// Enqueued; the host waits for the device (only by mistake).
    Enqueued(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Communicator {
    pub(crate) leader: Option<Arc<Leader>>,
    pub(crate) leader_timers: Vec<LeaderTimer>,
    pub(crate) started: bool,
    /// There will be no change any more, or the leader or a rank trusts nobody.
    pub(crate) given_up: bool,
    pub(crate) proposal_open: bool,
    pub(crate) changes_left: u8,
    /// Shared between states that differ elsewhere.
    pub(crate) seats: Vec<Arc<Seat>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    pub(crate) entered_init: bool,
    pub(crate) connecting: bool,
    pub(crate) member: Option<Arc<Member>>,
    pub(crate) timers: Vec<MemberTimer>,
    pub(crate) hello: HelloIs,
    pub(crate) link: Link,
    pub(crate) settled: VecDeque<Settled>,
    /// Creation is committed, and the rank knows.
    pub(crate) committed: bool,
    /// What creation came to.
    pub(crate) outcome: Option<Outcome>,
    /// The plan to start with.
    pub(crate) first: u8,
    pub(crate) gate: Gate,
    /// The control thread has stored the pledge and not looked at the counter yet: proposal and index.
    pub(crate) pledging: Option<(u64, u64)>,
    /// The vote is given and no verdict heard.
    pub(crate) voted: Option<u64>,
    pub(crate) reserved: u64,
    /// Above the last index whose plan a capture went by.
    pub(crate) gone_by: u64,
    pub(crate) launched: Vec<Launch>,
    /// What graphs hold: by which index, under which plan.
    pub(crate) captured: Vec<(u64, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HelloIs {
    Unsaid,
    UnderWay,
    /// Arrived, or lost.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Off,
    On,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Launch {
    /// Under this plan.
    AllReduce(u8),
    Send(Rank),
    Receive(Rank),
}

impl World {
    pub(crate) fn new(scene: &Scene) -> Self {
        let process = Process { alive: true, at: 0, step: Step::Begin, group: None, failed: false };
        let seat = Seat {
            entered_init: false,
            connecting: false,
            member: None,
            timers: Vec::new(),
            hello: HelloIs::Unsaid,
            link: Link::default(),
            settled: VecDeque::new(),
            committed: false,
            outcome: None,
            first: 0,
            gate: Gate::new(),
            pledging: None,
            voted: None,
            reserved: 0,
            gone_by: 0,
            launched: Vec::new(),
            captured: Vec::new(),
        };
        let communicator = Communicator {
            leader: None,
            leader_timers: Vec::new(),
            started: false,
            given_up: false,
            proposal_open: false,
            changes_left: scene.changes,
            seats: (0..scene.ranks()).map(|_| Arc::new(seat.clone())).collect(),
        };
        Self {
            processes: vec![process; scene.ranks()],
            communicators: vec![communicator; scene.communicators],
            crashes_left: scene.crashes,
            cuts_left: scene.cuts,
            early_left: scene.early,
            a_timer_fired: false,
            a_rank_crashed: false,
        }
    }

    pub(crate) fn seat(&mut self, communicator: usize, rank: usize) -> &mut Seat {
        Arc::make_mut(&mut self.communicators[communicator].seats[rank])
    }

    /// How many operations of each rank are done on each communicator. A communicator does its own in order, and
    /// nothing orders it against another; who depends on whom decides, so the order of completion is no choice.
    pub(crate) fn done(&self) -> Vec<Vec<usize>> {
        self.communicators.iter().map(Communicator::done).collect()
    }

    /// Operations that occupy the device of a rank.
    pub(crate) fn pending(&self, rank: usize) -> usize {
        let done = self.done();
        self.communicators.iter().zip(&done).map(|(c, done)| c.seats[rank].launched.len() - done[rank]).sum()
    }
}

impl Communicator {
    fn done(&self) -> Vec<usize> {
        let mut done = vec![0; self.seats.len()];
        loop {
            let head = |rank: usize| self.seats[rank].launched.get(done[rank]).copied();
            if (0..done.len()).all(|rank| matches!(head(rank), Some(Launch::AllReduce(_)))) {
                done.iter_mut().for_each(|done| *done += 1);
                continue;
            }
            let pair = (0..done.len()).find_map(|from| match head(from) {
                Some(Launch::Send(to)) if head(to as usize) == Some(Launch::Receive(from as Rank)) => {
                    Some((from, to as usize))
                }
                _ => None,
            });
            let Some((from, to)) = pair else { return done };
            done[from] += 1;
            done[to] += 1;
        }
    }
}

impl Seat {
    pub(crate) fn is_on(&self) -> bool {
        self.outcome == Some(Outcome::On)
    }

    /// The lowest index that can be pledged.
    pub(crate) fn free_from(&self) -> u64 {
        self.reserved.max(self.gone_by)
    }

    /// What the rank has put on the wire, by index.
    pub(crate) fn issued(&self) -> impl Iterator<Item = u8> + '_ {
        self.launched.iter().filter_map(|launch| match launch {
            Launch::AllReduce(plan) => Some(*plan),
            Launch::Send(_) | Launch::Receive(_) => None,
        })
    }
}

pub(crate) fn hello(scene: &Scene, rank: usize) -> Hello {
    let value = if scene.other_terms == Some(rank as Rank) { "2" } else { "1" };
    let term = Term { name: "v".into(), value: value.into() };
    Hello { rank: rank as Rank, ranks: scene.ranks() as u32, terms: vec![term] }
}
