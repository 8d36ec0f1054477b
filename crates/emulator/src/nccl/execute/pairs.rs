//! Point-to-point messages: all of a group make progress together, those of one pair in order.
//!
//! Each message is a header and its bytes on the pair's one connection, so a Send is matched
//! with whatever Recv comes next for that pair, as in NCCL; a size that does not fit is named.

use std::collections::BTreeMap;
use std::sync::Arc;

use airamp_vendor_abi::nccl::RedOp;

use super::header::{HEADER_BYTES, Header};
use super::{Broken, Region, await_links, closed};
use crate::nccl::call::{Kind, Message};
use crate::nccl::communicator::Communicator;
use crate::nccl::net::link::{Link, Progress};
use crate::nccl::net::shaping::Bucket;

/// Most bytes that one pair moves before the others get their turn.
const CHUNK: usize = 1024 * 1024;

/// The messages of one direction of one pair.
struct Channel {
    peer: usize,
    link: Arc<Link>,
    queue: Vec<(Header, Region)>,
    current: usize,
    /// The header of the current message, to send or as far as it came.
    head: [u8; HEADER_BYTES],
    /// Bytes of the current message that moved, header included.
    moved: usize,
}

enum Step {
    Moved,
    Blocked,
    Shaped(std::time::Duration),
    Done,
}

pub(super) fn run(comm: &Communicator, sends: &[Message], recvs: &[Message]) -> Result<(), Broken> {
    if sends.is_empty() && recvs.is_empty() {
        return Ok(());
    }
    let rank = comm.membership().map_err(|_| Broken::Interrupted)?.rank;
    copy_own(rank, sends, recvs)?;
    let mut outgoing = channels(comm, rank, sends, Kind::Send)?;
    let mut incoming = channels(comm, rank, recvs, Kind::Recv)?;
    loop {
        let mut wanted = Vec::new();
        let (mut moved, mut pause) = (false, None);
        for channel in &mut outgoing {
            match channel.send(&comm.bucket)? {
                Step::Moved => moved = true,
                Step::Blocked => wanted.push(channel.poll(libc::POLLOUT)),
                Step::Shaped(length) => pause = Some(length),
                Step::Done => {}
            }
        }
        for channel in &mut incoming {
            match channel.receive()? {
                Step::Moved => moved = true,
                Step::Done => {}
                _ => wanted.push(channel.poll(libc::POLLIN)),
            }
        }
        if moved {
            continue;
        }
        if wanted.is_empty() && pause.is_none() {
            return Ok(());
        }
        let unfinished = || incoming.iter().chain(&outgoing).find_map(Channel::unfinished);
        await_links(comm, &mut wanted, pause, || unfinished().unwrap_or_default())?;
    }
}

/// What a rank sends itself does not travel.
fn copy_own(rank: usize, sends: &[Message], recvs: &[Message]) -> Result<(), Broken> {
    let own = |message: &&Message| message.peer == rank;
    for (send, recv) in sends.iter().filter(own).zip(recvs.iter().filter(own)) {
        let source = Region::resolve(send.ptr, send.bytes())?;
        Region::resolve(recv.ptr, recv.bytes())?.copy_from(source);
    }
    Ok(())
}

fn channels(
    comm: &Communicator,
    rank: usize,
    messages: &[Message],
    kind: Kind,
) -> Result<Vec<Channel>, Broken> {
    let links = comm.links();
    let known = if kind == Kind::Send { &links.to } else { &links.from };
    let mut channels: BTreeMap<usize, Channel> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.peer != rank) {
        let link = known.get(&message.peer).ok_or(Broken::Interrupted)?;
        let header = Header::new(kind, message.datatype, RedOp::SUM, 0, message.count, link.number());
        let region = Region::resolve(message.ptr, message.bytes())?;
        let fresh = || Channel {
            peer: message.peer,
            link: link.clone(),
            queue: Vec::new(),
            current: 0,
            head: [0; HEADER_BYTES],
            moved: 0,
        };
        channels.entry(message.peer).or_insert_with(fresh).queue.push((header, region));
    }
    Ok(channels.into_values().collect())
}

impl Channel {
    /// The peer and the message that is not over yet.
    fn unfinished(&self) -> Option<(usize, String)> {
        self.queue.get(self.current).map(|(header, _)| (self.peer, header.describe()))
    }

    fn poll(&self, events: i16) -> libc::pollfd {
        libc::pollfd { fd: self.link.fd(), events, revents: 0 }
    }

    fn send(&mut self, bucket: &Bucket) -> Result<Step, Broken> {
        let Some((header, region)) = self.queue.get(self.current) else {
            return Ok(Step::Done);
        };
        if self.moved == 0 {
            self.head.copy_from_slice(&header.encode());
        }
        let bytes = match self.moved.checked_sub(HEADER_BYTES) {
            None => &self.head[self.moved..],
            Some(done) => &region.bytes()[done..(done + CHUNK).min(region.len)],
        };
        let len = region.len;
        match self.link.write(bytes, bucket).map_err(closed(self.peer))? {
            Progress::Bytes(count) => Ok(self.advance(count, len)),
            Progress::Blocked => Ok(Step::Blocked),
            Progress::Shaped(pause) => Ok(Step::Shaped(pause)),
        }
    }

    fn receive(&mut self) -> Result<Step, Broken> {
        let Some((header, region)) = self.queue.get_mut(self.current) else {
            return Ok(Step::Done);
        };
        let len = region.len;
        let progress = match self.moved.checked_sub(HEADER_BYTES) {
            None => {
                let progress = self.link.read(&mut self.head[self.moved..]).map_err(closed(self.peer))?;
                if progress == Progress::Bytes(HEADER_BYTES - self.moved) {
                    let theirs = Header::decode(&self.head).ok_or(Broken::Closed(self.peer))?;
                    if let Some(mismatch) = header.compare_bytes(&theirs) {
                        return Err(Broken::Disagreement(self.peer, mismatch));
                    }
                }
                progress
            }
            Some(done) => {
                let end = (done + CHUNK).min(len);
                self.link.read(&mut region.bytes_mut()[done..end]).map_err(closed(self.peer))?
            }
        };
        match progress {
            Progress::Bytes(count) => Ok(self.advance(count, len)),
            _ => Ok(Step::Blocked),
        }
    }

    fn advance(&mut self, count: usize, len: usize) -> Step {
        self.moved += count;
        if self.moved == HEADER_BYTES + len {
            self.current += 1;
            self.moved = 0;
        }
        Step::Moved
    }
}
