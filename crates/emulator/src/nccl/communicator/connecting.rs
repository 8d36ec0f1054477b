//! The first use of an algorithm or of a pair, which blocks the calling thread until the peer enters
//! the same call.
//!
//! All communicators of a group connect together, in three phases: dial everybody, let everybody
//! in, await everybody's answer. So one thread can hold several ranks, as long as it groups them.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::{Communicator, LONG_WAIT, PATIENCE};
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::net::link::Link;
use crate::nccl::net::switchboard::{self, LinkName};
use crate::nccl::net::wire::{Preamble, Purpose};

/// The links that a group uses on one communicator.
#[derive(Clone, Default)]
pub(crate) struct Needs {
    pub(crate) ring: bool,
    pub(crate) to: BTreeSet<usize>,
    pub(crate) from: BTreeSet<usize>,
    /// What the links are for, as a message names it.
    pub(crate) purpose: String,
}

struct Dialled<'a> {
    comm: &'a Communicator,
    purpose: Purpose,
    peer: usize,
    stream: TcpStream,
    needs: &'a Needs,
}

/// Makes whatever links are missing.
pub(crate) fn connect(all: &[(Arc<Communicator>, Needs)]) -> Outcome {
    let mut dialled = Vec::new();
    for (comm, needs) in all {
        let missing = missing_out(comm, needs)?;
        for (purpose, peer) in missing {
            let stream = dial(comm, purpose, peer)?;
            dialled.push(Dialled { comm, purpose, peer, stream, needs });
        }
    }
    for (comm, needs) in all {
        for (purpose, peer) in missing_in(comm, needs)? {
            let_in(comm, purpose, peer, needs).map_err(|error| explained(comm, error))?;
        }
    }
    dialled.into_iter().try_for_each(|dialled| {
        let comm = dialled.comm;
        dialled.await_answer().map_err(|error| explained(comm, error))
    })
}

/// A peer that gives up closes its connections, and may say why a moment later.
fn explained(comm: &Communicator, error: NcclError) -> NcclError {
    match error {
        NcclError::Remote(_) => comm.health.explanation(PATIENCE).unwrap_or(error),
        other => other,
    }
}

/// Whether a group makes links that were not there.
pub(crate) fn is_first_use(comm: &Communicator, needs: &Needs) -> Outcome<bool> {
    Ok(!missing_out(comm, needs)?.is_empty() || !missing_in(comm, needs)?.is_empty())
}

fn missing_out(comm: &Communicator, needs: &Needs) -> Outcome<Vec<(Purpose, usize)>> {
    let next = comm.membership()?.next();
    let links = comm.links();
    let ring = (needs.ring && links.ring_out.is_none()).then_some((Purpose::Ring, next));
    let pairs =
        needs.to.iter().filter(|peer| !links.to.contains_key(peer)).map(|peer| (Purpose::Pair, *peer));
    Ok(ring.into_iter().chain(pairs).collect())
}

fn missing_in(comm: &Communicator, needs: &Needs) -> Outcome<Vec<(Purpose, usize)>> {
    let previous = comm.membership()?.previous();
    let links = comm.links();
    let ring = (needs.ring && links.ring_in.is_none()).then_some((Purpose::Ring, previous));
    let pairs =
        needs.from.iter().filter(|peer| !links.from.contains_key(peer)).map(|peer| (Purpose::Pair, *peer));
    Ok(ring.into_iter().chain(pairs).collect())
}

fn dial(comm: &Communicator, purpose: Purpose, peer: usize) -> Outcome<TcpStream> {
    let own = comm.membership()?;
    let preamble = Preamble::Link { key: own.key, from: own.rank as u32, to: peer as u32, purpose };
    switchboard::dial(own.members[peer].address, &preamble, &|| comm.expects(peer))
}

/// Ends a wait that has no point any more, and names one that takes long.
fn patience<'a>(comm: &'a Communicator, peer: usize, needs: &'a Needs) -> impl Fn() -> Outcome + 'a {
    let began = Instant::now();
    move || {
        if began.elapsed() >= LONG_WAIT {
            comm.name_long_wait(peer, &format!("to enter {}", needs.purpose));
        }
        comm.expects(peer)
    }
}

fn let_in(comm: &Communicator, purpose: Purpose, peer: usize, needs: &Needs) -> Outcome {
    let own = comm.membership()?;
    let name = LinkName { key: own.key, from: peer, to: own.rank, purpose };
    let mut stream = switchboard::claim(name, &patience(comm, peer, needs))?;
    stream.write_all(&[1]).map_err(|error| lost(peer, &error))?;
    let link = Arc::new(Link::new(stream).map_err(|error| lost(peer, &error))?);
    let mut links = comm.links();
    match purpose {
        Purpose::Ring => links.ring_in = Some(link),
        _ => drop(links.from.insert(peer, link)),
    }
    drop(links);
    comm.health.interruption()
}

impl Dialled<'_> {
    fn await_answer(self) -> Outcome {
        let Self { comm, purpose, peer, stream, needs } = self;
        switchboard::read_exact(&stream, &mut [0], &patience(comm, peer, needs))?;
        let link = Arc::new(Link::new(stream).map_err(|error| lost(peer, &error))?);
        let mut links = comm.links();
        match purpose {
            Purpose::Ring => links.ring_out = Some(link),
            _ => drop(links.to.insert(peer, link)),
        }
        drop(links);
        // Whoever failed the communicator meanwhile did not see this link to close it.
        comm.health.interruption()
    }
}

fn lost(peer: usize, error: &std::io::Error) -> NcclError {
    NcclError::Remote(format!("rank {peer} was lost while connecting: {error}"))
}
