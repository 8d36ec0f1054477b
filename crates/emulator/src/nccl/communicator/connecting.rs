//! The first use of an algorithm or of a pair, which blocks the calling thread until the peer enters
//! the same call.
//!
//! All communicators of a group connect together, in three phases: dial everybody, let everybody
//! in, await everybody's answer. So one thread can hold several ranks, as long as it groups them.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use super::Communicator;
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
}

struct Dialled<'a> {
    comm: &'a Communicator,
    purpose: Purpose,
    peer: usize,
    stream: TcpStream,
}

/// Makes whatever links are missing.
pub(crate) fn connect(all: &[(Arc<Communicator>, Needs)]) -> Outcome {
    let mut dialled = Vec::new();
    for (comm, needs) in all {
        let missing = missing_out(comm, needs)?;
        for (purpose, peer) in missing {
            dialled.push(dial(comm, purpose, peer)?);
        }
    }
    for (comm, needs) in all {
        for (purpose, peer) in missing_in(comm, needs)? {
            let_in(comm, purpose, peer)?;
        }
    }
    dialled.into_iter().try_for_each(Dialled::await_answer)
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

fn dial(comm: &Communicator, purpose: Purpose, peer: usize) -> Outcome<Dialled<'_>> {
    let stream = dial_plain(comm, purpose, peer)?;
    Ok(Dialled { comm, purpose, peer, stream })
}

fn dial_plain(comm: &Communicator, purpose: Purpose, peer: usize) -> Outcome<TcpStream> {
    let own = comm.membership()?;
    let preamble = Preamble::Link { key: own.key, from: own.rank as u32, to: peer as u32, purpose };
    switchboard::dial(own.members[peer].address, &preamble, &|| comm.expects(peer))
}

fn let_in(comm: &Communicator, purpose: Purpose, peer: usize) -> Outcome {
    let own = comm.membership()?;
    let name = LinkName { key: own.key, from: peer, to: own.rank, purpose };
    let mut stream = switchboard::claim(name, &|| comm.expects(peer))?;
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
        let Self { comm, purpose, peer, stream } = self;
        switchboard::read_exact(&stream, &mut [0], &|| comm.expects(peer))?;
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
