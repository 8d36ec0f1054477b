//! How the members of a new communicator find each other: all join one process, which sends each
//! the list of all.
//!
//! The root keeps no communicator: it may be a launcher that takes no part. A gathering is
//! known by its key alone and comes into being with its first arrival. Ranks that disagree
//! (size, a rank claimed twice) are told so instead of being left waiting.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;

use airamp_vendor_abi::nccl::NcclResult;

use super::switchboard::{self, Stop};
use super::unique_id::SHARED_MAGIC;
use super::wire::{MEMBER_BYTES, Member, Preamble, Reader, Writer};
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::lock;

/// More ranks than any job has; a larger number is a broken request.
const MOST_RANKS: u32 = 1 << 16;

#[derive(Default)]
struct Root {
    open: HashMap<u64, Gathering>,
    /// Keys that have served: an id is good for one communicator.
    spent: HashSet<u64>,
}

struct Gathering {
    size: u32,
    arrived: HashMap<u32, (Member, TcpStream)>,
}

static ROOT: Mutex<Option<Root>> = Mutex::new(None);

/// What the root answers: a number that no other communicator has, and all members in order.
pub(crate) struct Assembly {
    pub(crate) session: u64,
    pub(crate) members: Vec<Member>,
}

/// Joins the gathering at `root` and waits for the others.
pub(crate) fn join(
    root: SocketAddr,
    key: u64,
    size: usize,
    rank: usize,
    member: Member,
    stop: Stop<'_>,
) -> Outcome<Assembly> {
    let preamble = Preamble::Join { key, size: size as u32, rank: rank as u32, member };
    let stream = switchboard::dial(root, &preamble, stop)?;
    let mut head = [0; 16];
    switchboard::read_exact(&stream, &mut head, stop)?;
    let mut reader = Reader(&head);
    let garbled = || NcclError::Remote("the root sent something that is no list of ranks".into());
    let code = reader.u32().ok_or_else(garbled)?;
    let length = reader.u32().ok_or_else(garbled)?;
    let session = reader.u64().ok_or_else(garbled)?;
    if length > MOST_RANKS * MEMBER_BYTES as u32 {
        return Err(garbled());
    }
    let mut body = vec![0; length as usize];
    switchboard::read_exact(&stream, &mut body, stop)?;
    if code != 0 {
        return Err(NcclError::from_wire(code, String::from_utf8_lossy(&body).into_owned()));
    }
    let members: Option<Vec<Member>> = body.chunks_exact(MEMBER_BYTES).map(Member::decode).collect();
    let members = members.filter(|members| members.len() == size).ok_or_else(garbled)?;
    Ok(Assembly { session, members })
}

/// Takes a rank in; called by the switchboard's thread.
pub(crate) fn arrive(key: u64, size: u32, rank: u32, member: Member, mut stream: TcpStream) {
    let mut root = lock(&ROOT);
    let root = root.get_or_insert_default();
    if let Some(objection) = root.objection(key, size, rank) {
        refuse(&mut stream, &objection);
        // The others would wait for somebody who cannot come.
        for (_, mut waiting) in root.open.remove(&key).into_iter().flat_map(|open| open.arrived.into_values())
        {
            refuse(&mut waiting, &objection);
        }
        return;
    }
    let open = root.open.entry(key).or_insert_with(|| Gathering { size, arrived: HashMap::new() });
    open.arrived.insert(rank, (member, stream));
    if open.arrived.len() == open.size as usize {
        let complete = root.open.remove(&key);
        if key != SHARED_MAGIC {
            root.spent.insert(key);
        }
        complete.into_iter().for_each(Gathering::dismiss);
    }
}

impl Root {
    fn objection(&self, key: u64, size: u32, rank: u32) -> Option<String> {
        if self.spent.contains(&key) {
            return Some("this unique id has already made a communicator".into());
        }
        if size == 0 || size > MOST_RANKS || rank >= size {
            return Some(format!("rank {rank} of {size} cannot be"));
        }
        let open = self.open.get(&key)?;
        if open.size != size {
            return Some(format!("rank {rank} says that there are {size} ranks, others say {}", open.size));
        }
        open.arrived.contains_key(&rank).then(|| format!("two callers say that they are rank {rank}"))
    }
}

impl Gathering {
    fn dismiss(self) {
        let mut writer = Writer::default();
        writer.u32(0);
        writer.u32(self.size * MEMBER_BYTES as u32);
        writer.u64(switchboard::random());
        for rank in 0..self.size {
            writer.bytes.extend(self.arrived[&rank].0.encode());
        }
        for (_, mut stream) in self.arrived.into_values() {
            // A rank that died meanwhile is missed by its neighbours.
            let _ = stream.write_all(&writer.bytes);
        }
    }
}

fn refuse(stream: &mut TcpStream, why: &str) {
    let mut writer = Writer::default();
    writer.u32(NcclResult::INVALID_USAGE.0 as u32);
    writer.u32(why.len() as u32);
    writer.u64(0);
    writer.bytes.extend(why.as_bytes());
    let _ = stream.write_all(&writer.bytes);
}
