//! One rank of one communicator: who its peers are, its links, its order, its health.
//!
//! Owns what outlives a call. It does not know groups or streams; the launch path connects
//! it and the execute path moves its data. A failure of any kind goes through [`Communicator::fail`],
//! which closes the data links and tells the other ranks.

pub(crate) mod connecting;
pub(crate) mod creation;
pub(crate) mod ending;
pub(crate) mod graphs;
pub(crate) mod health;
pub(crate) mod reductions;
pub(crate) mod registry;
pub(crate) mod turns;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use super::error::{NcclError, Outcome, announce};
use super::execute::header::{Header, Log};
use super::lock;
use super::net::control::{Control, Event, Neighbour};
use super::net::link::Link;
use super::net::shaping::{self, Bucket};
use super::net::switchboard;
use super::net::wire::Member;
use crate::gpu::Chain;
use health::{Health, Phase};

/// How long a closed connection waits for the control ring to say why.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// A wait for a peer is named after this time. It goes on all the same, as in NCCL.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(10);

pub(crate) struct Communicator {
    pub(crate) device: i32,
    /// The rank in the communicator that all of this descends from; fault variables name it.
    pub(crate) job_rank: usize,
    pub(crate) blocking: bool,
    pub(crate) health: Health,
    pub(crate) turns: turns::Turns,
    pub(crate) graphs: graphs::Graphs,
    pub(crate) reductions: reductions::Reductions,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) log: Log,
    membership: OnceLock<Membership>,
    links: Mutex<Links>,
    offspring: Offspring,
    /// Neighbours that have destroyed their side.
    departed: Mutex<Vec<usize>>,
    trouble_named: AtomicBool,
    long_wait_named: AtomicBool,
    /// The emulated device's knowledge of the order that the turns make.
    pub(crate) chain: Chain,
}

/// What is known once all members have found each other.
pub(crate) struct Membership {
    pub(crate) key: u64,
    pub(crate) rank: usize,
    pub(crate) members: Vec<Member>,
    control: Option<Control>,
}

/// The data links that exist so far.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) ring_out: Option<Arc<Link>>,
    pub(crate) ring_in: Option<Arc<Link>>,
    pub(crate) to: HashMap<usize, Arc<Link>>,
    pub(crate) from: HashMap<usize, Arc<Link>>,
}

/// How many children of each kind were made: ranks that count alike meet under the same name. Who is left out of a
/// shrink does not count it, so that shrinks are counted apart by whom they leave out.
#[derive(Default)]
struct Offspring {
    splits: AtomicU64,
    shrinks: Mutex<HashMap<Vec<usize>, u64>>,
    grows: AtomicU64,
}

impl Communicator {
    pub(crate) fn new(device: i32, job_rank: usize, blocking: bool) -> Arc<Self> {
        Arc::new(Self {
            device,
            job_rank,
            blocking,
            health: Health::forming(),
            turns: turns::Turns::default(),
            graphs: graphs::Graphs::default(),
            reductions: reductions::Reductions::default(),
            bucket: shaping::of_device(device),
            log: Log::default(),
            membership: OnceLock::new(),
            links: Mutex::default(),
            offspring: Offspring::default(),
            departed: Mutex::default(),
            trouble_named: AtomicBool::new(false),
            long_wait_named: AtomicBool::new(false),
            chain: Chain::default(),
        })
    }

    /// Who this rank is among whom; an error while the communicator is still forming.
    pub(crate) fn membership(&self) -> Outcome<&Membership> {
        let forming = || NcclError::InvalidArgument("the communicator is not initialised yet".into());
        self.membership.get().ok_or_else(forming)
    }

    /// Takes up its place in the communicator and starts to listen to its neighbours.
    fn settle_in(
        self: &Arc<Self>,
        key: u64,
        rank: usize,
        members: Vec<Member>,
        neighbours: Option<(TcpStream, TcpStream)>,
    ) -> Outcome {
        let failed = |error| NcclError::System(format!("the control ring failed: {error}"));
        let control =
            neighbours.map(|(next, previous)| Control::new(next, previous)).transpose().map_err(failed)?;
        let fresh = self.membership.set(Membership { key, rank, members, control });
        fresh.map_err(|_| NcclError::Internal("a communicator was initialised twice".into()))?;
        // Only now: what the neighbours say is about members that have to be known.
        if let Some(control) = self.control() {
            let weak = Arc::downgrade(self);
            let listener = Box::new(move |neighbour, event| hear(&weak, neighbour, event));
            control.listen(listener).map_err(failed)?;
        }
        self.health.enter(Phase::Ready);
        Ok(())
    }

    pub(crate) fn links(&self) -> std::sync::MutexGuard<'_, Links> {
        lock(&self.links)
    }

    /// Makes the communicator unusable and tells the others why.
    pub(crate) fn fail(&self, error: NcclError) {
        self.fail_heard_from(error, None);
    }

    fn fail_heard_from(&self, error: NcclError, source: Option<Neighbour>) {
        if !self.health.claim(&error) {
            return;
        }
        if let Some(control) = self.control() {
            for neighbour in [Neighbour::Next, Neighbour::Previous] {
                if source != Some(neighbour) {
                    let (code, text) = self.told(&error);
                    control.tell_fault(neighbour, code, &text);
                }
            }
        }
        self.health.show(error);
        self.close_data_links();
    }

    /// Tells the user of a lost peer, once, when it first gets in the way: a rank that merely ends
    /// earlier than the others is no news.
    pub(crate) fn name_trouble(&self) {
        if let Some(NcclError::Remote(text)) = self.health.trouble()
            && !self.trouble_named.swap(true, Ordering::Relaxed)
        {
            announce(&text);
        }
    }

    /// Tells the user, once, that a wait for a peer has become a long one: most likely the ranks
    /// have called what can never meet.
    pub(crate) fn name_long_wait(&self, peer: usize, doing: &str) {
        if !self.long_wait_named.swap(true, Ordering::Relaxed) {
            let own = self.membership.get().map_or(self.job_rank, |membership| membership.rank);
            let seconds = LONG_WAIT.as_secs();
            announce(&format!("rank {own} has waited {seconds} s for rank {peer} {doing}"));
        }
    }

    /// An error once there is no point in waiting for a rank to enter a call.
    pub(crate) fn expects(&self, peer: usize) -> Outcome {
        self.health.interruption()?;
        if lock(&self.departed).contains(&peer) {
            return Err(NcclError::Remote(format!("rank {peer} has already destroyed the communicator")));
        }
        Ok(())
    }

    /// How the other ranks see an error of this one: its device's failure is remote to them.
    fn told(&self, error: &NcclError) -> (u32, String) {
        let rank = self.membership.get().map_or(self.job_rank, |membership| membership.rank);
        let error = match error {
            NcclError::InvalidUsage(_) | NcclError::Remote(_) => error.clone(),
            other => NcclError::Remote(format!("rank {rank} failed: {other}")),
        };
        (error.result().0 as u32, error.to_string())
    }

    pub(crate) fn control(&self) -> Option<&Control> {
        self.membership.get()?.control.as_ref()
    }

    /// Ends every wait for data of this communicator.
    fn close_data_links(&self) {
        let links = self.links();
        let pairs = links.to.values().chain(links.from.values());
        pairs.chain(&links.ring_out).chain(&links.ring_in).for_each(|link| link.close());
        drop(links);
        self.turns.wake();
    }
}

impl Membership {
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn next(&self) -> usize {
        (self.rank + 1) % self.size()
    }

    pub(crate) fn previous(&self) -> usize {
        (self.rank + self.size() - 1) % self.size()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(membership) = self.membership.get() {
            membership.control.iter().for_each(Control::close);
            switchboard::forget(membership.key);
        }
    }
}

/// What the control ring's thread does with an event.
fn hear(comm: &Weak<Communicator>, neighbour: Neighbour, event: Event) {
    let Some(comm) = comm.upgrade() else {
        return;
    };
    let Some(membership) = comm.membership.get() else {
        return;
    };
    let rank = match neighbour {
        Neighbour::Next => membership.next(),
        Neighbour::Previous => membership.previous(),
    };
    match event {
        Event::Left(true) => lock(&comm.departed).push(rank),
        Event::Left(false) => {
            let text = format!("rank {rank} of {} was lost: its connection closed", membership.size());
            comm.fail(NcclError::Remote(text));
        }
        Event::Fault(code, text) => comm.fail_heard_from(NcclError::from_wire(code, text), Some(neighbour)),
        Event::Announcement(bytes) => {
            if let Some(mismatch) = Header::decode(&bytes).and_then(|theirs| comm.log.theirs(theirs)) {
                comm.disagree(rank, &mismatch);
            }
        }
    }
}

impl Communicator {
    /// An operation that another rank began does not fit ours: a bug of the application.
    pub(crate) fn disagree(&self, rank: usize, mismatch: &super::execute::header::Mismatch) {
        let own = self.membership.get().map_or(self.job_rank, |membership| membership.rank);
        self.fail(NcclError::InvalidUsage(mismatch.describe(own, rank)));
    }
}
