//! How a communicator comes into being: from an id, or out of another one by split, shrink or grow.
//!
//! A call fixes the recipe at once (which meeting, under which number); the work happens in
//! [`establish`], which blocks until all members are there and may run on any thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use airamp_vendor_abi::nccl::SPLIT_NOCOLOR;

use super::Communicator;
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::lock;
use crate::nccl::net::gathering::{self, Assembly};
use crate::nccl::net::switchboard::{self, Board, Doorway, LinkName};
use crate::nccl::net::unique_id::{Meeting, SHARED_MAGIC};
use crate::nccl::net::wire::{Member, Preamble, Purpose};

pub(crate) enum Recipe {
    /// Everybody who holds the id.
    Fresh { meeting: Meeting, size: usize, rank: usize },
    /// The ranks of the parent that named the same colour.
    Split { parent: Arc<Communicator>, color: i32, key: i32, number: u64 },
    /// The ranks of the parent that are not excluded.
    Shrink { parent: Arc<Communicator>, excluded: Vec<usize>, number: u64 },
    /// All ranks of the parent, and newcomers that come with its grow id.
    Grow { parent: Arc<Communicator>, size: usize, number: u64 },
}

/// Where a recipe's ranks meet, and as what this one comes.
struct Place {
    root: SocketAddr,
    key: u64,
    size: usize,
    rank: usize,
}

const SPLIT: u64 = 1;
const SHRINK: u64 = 2;
const GROW: u64 = 3;

impl Recipe {
    pub(crate) fn split(parent: Arc<Communicator>, color: i32, key: i32) -> Self {
        let number = parent.offspring.splits.fetch_add(1, Ordering::Relaxed);
        Self::Split { parent, color, key, number }
    }

    pub(crate) fn shrink(parent: Arc<Communicator>, mut excluded: Vec<usize>) -> Self {
        excluded.sort_unstable();
        excluded.dedup();
        let mut shrinks = lock(&parent.offspring.shrinks);
        let times = shrinks.entry(excluded.clone()).or_default();
        let number = *times;
        *times += 1;
        drop(shrinks);
        Self::Shrink { parent, excluded, number }
    }

    pub(crate) fn grow(parent: Arc<Communicator>, size: usize) -> Self {
        let number = parent.offspring.grows.fetch_add(1, Ordering::Relaxed);
        Self::Grow { parent, size, number }
    }

    fn place(&self) -> Outcome<Place> {
        match self {
            Self::Fresh { meeting, size, rank } => {
                Ok(Place { root: meeting.address, key: meeting.magic, size: *size, rank: *rank })
            }
            Self::Split { parent, number, .. } => {
                let own = parent.membership()?;
                let (root, key) = (own.members[0].address, mix(own.key, SPLIT, *number));
                Ok(Place { root, key, size: own.size(), rank: own.rank })
            }
            Self::Shrink { parent, excluded, number } => {
                let own = parent.membership()?;
                let left: Vec<usize> = (0..own.size()).filter(|rank| !excluded.contains(rank)).collect();
                let place = left.iter().position(|rank| *rank == own.rank);
                let place = place
                    .ok_or_else(|| NcclError::InvalidArgument("an excluded rank cannot shrink".into()))?;
                let root = own.members[left[0]].address;
                let key = excluded.iter().fold(own.key, |key, rank| mix(key, SHRINK, *rank as u64));
                Ok(Place { root, key: mix(key, SHRINK, *number), size: left.len(), rank: place })
            }
            Self::Grow { parent, size, number } => {
                let own = parent.membership()?;
                let meeting = grow_meeting(parent, *number)?;
                Ok(Place { root: meeting.address, key: meeting.magic, size: *size, rank: own.rank })
            }
        }
    }
}

/// The meeting of the next grow, which every rank of the parent can work out by itself.
pub(crate) fn next_grow(parent: &Communicator) -> Outcome<Meeting> {
    grow_meeting(parent, parent.offspring.grows.load(Ordering::Relaxed))
}

fn grow_meeting(parent: &Communicator, number: u64) -> Outcome<Meeting> {
    let own = parent.membership()?;
    Ok(Meeting { magic: mix(own.key, GROW, number), address: own.members[0].address })
}

/// A new meeting at this process.
pub(crate) fn new_meeting() -> Outcome<Meeting> {
    if let Some(shared) = Meeting::from_environment()? {
        return Ok(shared);
    }
    let board = switchboard::open()?;
    Ok(Meeting { magic: switchboard::random(), address: board.address })
}

/// Finds the other members, connects the control ring and makes the communicator ready.
pub(crate) fn establish(comm: &Arc<Communicator>, recipe: &Recipe) -> Outcome {
    let stop = || comm.health.interruption();
    let board = switchboard::open()?;
    let place = recipe.place()?;
    let hosts = matches!(recipe, Recipe::Fresh { meeting, rank: 0, .. } if meeting.magic == SHARED_MAGIC);
    let _doorway = hosts.then(|| Doorway::open(place.root)).transpose()?;
    let member = introduce(comm, recipe, board);
    let assembly = gathering::join(place.root, place.key, place.size, place.rank, member, &stop)?;
    if matches!(recipe, Recipe::Split { color: SPLIT_NOCOLOR, .. }) {
        // It came so that the others need not wait, and belongs to nobody.
        return Ok(());
    }
    let (key, rank, members) = seat(recipe, &place, assembly);
    refuse_shared_device(&members)?;
    let neighbours = match members.len() {
        1 => None,
        size => {
            let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
            let preamble =
                Preamble::Link { key, from: rank as u32, to: next as u32, purpose: Purpose::Control };
            let out = switchboard::dial(members[next].address, &preamble, &stop)?;
            let name = LinkName { key, from: previous, to: rank, purpose: Purpose::Control };
            Some((out, switchboard::claim(name, &stop)?))
        }
    };
    comm.settle_in(key, rank, members, neighbours)
}

fn introduce(comm: &Communicator, recipe: &Recipe, board: Board) -> Member {
    let (color, key) = match recipe {
        Recipe::Split { color, key, .. } => (*color, *key),
        _ => (0, 0),
    };
    Member {
        address: board.address,
        process: board.process,
        device: comm.device,
        job_rank: comm.job_rank as u32,
        color,
        key,
    }
}

/// Which of those who came are in the new communicator, and where this rank sits.
fn seat(recipe: &Recipe, place: &Place, assembly: Assembly) -> (u64, usize, Vec<Member>) {
    let Assembly { session, members } = assembly;
    let Recipe::Split { color, .. } = recipe else {
        return (session, place.rank, members);
    };
    let mut group: Vec<(i32, usize)> = members
        .iter()
        .enumerate()
        .filter(|(_, member)| member.color == *color)
        .map(|(rank, member)| (member.key, rank))
        .collect();
    group.sort_unstable();
    let rank = group.iter().position(|(_, rank)| *rank == place.rank).unwrap_or(0);
    let members = group.iter().map(|(_, rank)| members[*rank].clone()).collect();
    (mix(session, SPLIT, *color as u64), rank, members)
}

/// Two ranks of one communicator on one device would wait for each other on it.
fn refuse_shared_device(members: &[Member]) -> Outcome {
    for (second, member) in members.iter().enumerate() {
        let same = |other: &Member| other.process == member.process && other.device == member.device;
        if let Some(first) = members[..second].iter().position(same) {
            let device = member.device;
            let text = format!("ranks {first} and {second} of a communicator use the same device {device}");
            return Err(NcclError::InvalidUsage(text));
        }
    }
    Ok(())
}

/// A name that all ranks derive alike.
fn mix(key: u64, kind: u64, number: u64) -> u64 {
    let mut value = key ^ kind.rotate_left(56) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        value = (value ^ (value >> 29)).wrapping_mul(factor);
    }
    value ^ (value >> 32)
}
