//! Moves the data of a ring plan: sends to the next rank and receives from the one before at the same
//! time, on one thread, and combines what comes in.
//!
//! Contributions are added in ring order whatever the timing, so results have the same bits on
//! every rank and in every run.

use super::buffers::Buffers;
use super::header::{HEADER_BYTES, Header};
use super::plans::{self, Cursor, Plan, Shape};
use super::{Broken, await_links, closed, enter};
use crate::nccl::call::{Collective, Kind};
use crate::nccl::communicator::Communicator;
use crate::nccl::net::link::{Link, Progress};

/// Most bytes per system call, and the size of the buffer in which contributions are combined:
/// large enough to amortise the call, small enough for the second-level cache.
const CHUNK: usize = 256 * 1024;

/// Runs one collective to its end.
pub(super) fn run(comm: &Communicator, collective: &Collective, sequence: u64) -> Result<(), Broken> {
    let own = comm.membership().map_err(|_| Broken::Interrupted)?;
    let (rank, size) = (own.rank, own.size());
    let mut buffers = Buffers::prepare(collective, rank, size)?;
    if size == 1 {
        buffers.finish_alone();
        return Ok(());
    }
    let header = Header::of(collective, sequence);
    enter(comm, &header, header.kind.has_root());
    if matches!(collective.kind, Kind::Gather | Kind::Scatter) {
        return Ok(());
    }
    let plan = plan_for(collective, rank, size);
    buffers.scratch = vec![0; plan.scratch];
    let links = comm.links();
    let (Some(out), Some(into)) = (links.ring_out.clone(), links.ring_in.clone()) else {
        return Err(Broken::Interrupted);
    };
    drop(links);
    let (next, previous) = (own.next(), own.previous());
    let mut ring = Ring { comm, header: &header, out: &out, into: &into, next, previous };
    // AlltoAll has no data on the ring, but everybody has to mean it.
    let checks_only = plan.sends.is_empty() && plan.receives.is_empty();
    if checks_only || !plan.sends.is_empty() {
        ring.write_all(&header.encode())?;
    }
    if checks_only || !plan.receives.is_empty() {
        ring.expect()?;
    }
    ring.drive(&plan, &mut buffers)
}

fn plan_for(collective: &Collective, rank: usize, size: usize) -> Plan {
    let shape = Shape { rank, size, count: collective.count, element: collective.element(), slot: 2 * CHUNK };
    match collective.kind {
        Kind::AllReduce => plans::all_reduce(shape),
        Kind::ReduceScatter => plans::reduce_scatter(shape),
        Kind::AllGather => plans::all_gather(shape),
        Kind::Broadcast => plans::broadcast(shape, collective.root),
        Kind::Reduce => plans::reduce(shape, collective.root),
        _ => Plan::default(),
    }
}

/// The two links of a rank in its ring.
struct Ring<'a> {
    comm: &'a Communicator,
    header: &'a Header,
    out: &'a Link,
    into: &'a Link,
    next: usize,
    previous: usize,
}

impl Ring<'_> {
    fn write_all(&self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.out.write(bytes, &self.comm.bucket).map_err(closed(self.next))? {
                Progress::Bytes(count) => bytes = &bytes[count..],
                Progress::Blocked => self.wait(true, false, None)?,
                Progress::Shaped(pause) => self.wait(false, false, Some(pause))?,
            }
        }
        Ok(())
    }

    /// Reads the header of the rank before and compares.
    fn expect(&self) -> Result<(), Broken> {
        let mut bytes = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.into.read(&mut bytes[filled..]).map_err(closed(self.previous))? {
                Progress::Bytes(count) => filled += count,
                _ => self.wait(false, true, None)?,
            }
        }
        let theirs = Header::decode(&bytes).ok_or(Broken::Closed(self.previous))?;
        match self.header.compare(&theirs) {
            Some(mismatch) => Err(Broken::Disagreement(self.previous, mismatch)),
            None => Ok(()),
        }
    }

    fn wait(&self, out: bool, into: bool, pause: Option<std::time::Duration>) -> Result<(), Broken> {
        let mut wanted = Vec::with_capacity(2);
        if out {
            wanted.push(libc::pollfd { fd: self.out.fd(), events: libc::POLLOUT, revents: 0 });
        }
        if into {
            wanted.push(libc::pollfd { fd: self.into.fd(), events: libc::POLLIN, revents: 0 });
        }
        let peer = if into { self.previous } else { self.next };
        await_links(self.comm, &mut wanted, pause, || (peer, self.header.describe()))
    }

    /// Both streams of a plan, until both are at their end.
    fn drive(&mut self, plan: &Plan, buffers: &mut Buffers) -> Result<(), Broken> {
        let (mut sending, mut receiving) = (Cursor::default(), Cursor::default());
        let mut staging = Staging { bytes: vec![0; CHUNK], filled: 0 };
        loop {
            let sent = self.send_some(plan, buffers, &mut sending, receiving.total)?;
            let received = self.receive_some(plan, buffers, &mut receiving, sending.total, &mut staging)?;
            match (sent, received) {
                (Step::Done, Step::Done) => return Ok(()),
                (Step::Moved, _) | (_, Step::Moved) => {}
                (sent, received) => {
                    let pause = match sent {
                        Step::Shaped(pause) => Some(pause),
                        _ => None,
                    };
                    self.wait(sent == Step::Blocked, received == Step::Blocked, pause)?;
                }
            }
        }
    }

    fn send_some(
        &self,
        plan: &Plan,
        buffers: &mut Buffers,
        cursor: &mut Cursor,
        received: usize,
    ) -> Result<Step, Broken> {
        let Some((piece, ready)) = plan.sendable(cursor, received) else {
            return Ok(Step::Done);
        };
        if ready == 0 {
            return Ok(Step::Dependent);
        }
        let region = buffers.place(piece.place).part(piece.offset + cursor.within, ready.min(4 * CHUNK));
        match self.out.write(region.bytes(), &self.comm.bucket).map_err(closed(self.next))? {
            Progress::Bytes(count) => {
                cursor.advance(count);
                Ok(Step::Moved)
            }
            Progress::Blocked => Ok(Step::Blocked),
            Progress::Shaped(pause) => Ok(Step::Shaped(pause)),
        }
    }

    fn receive_some(
        &self,
        plan: &Plan,
        buffers: &mut Buffers,
        cursor: &mut Cursor,
        sent: usize,
        staging: &mut Staging,
    ) -> Result<Step, Broken> {
        let Some((piece, room)) = plan.receivable(cursor, sent) else {
            return Ok(Step::Done);
        };
        let progress = match piece.own {
            None if room == 0 => return Ok(Step::Dependent),
            None => {
                let mut target = buffers.place(piece.place).part(piece.offset + cursor.within, room);
                let progress = self.into.read(target.bytes_mut()).map_err(closed(self.previous))?;
                if let Progress::Bytes(count) = progress {
                    cursor.advance(count);
                }
                progress
            }
            Some(own) => {
                // A block that is not a whole number of elements waits for its rest.
                let element = buffers.datatype.size().unwrap_or(1);
                let room = (room / element * element).min(staging.bytes.len());
                if room == staging.filled {
                    return Ok(Step::Dependent);
                }
                let progress = self
                    .into
                    .read(&mut staging.bytes[staging.filled..room])
                    .map_err(closed(self.previous))?;
                if let Progress::Bytes(count) = progress {
                    let whole = staging.gained(count, element);
                    buffers.take_in(piece, own, cursor.within, &mut staging.bytes[..whole]);
                    staging.drop_front(whole);
                    cursor.advance(whole);
                }
                progress
            }
        };
        Ok(if progress == Progress::Blocked { Step::Blocked } else { Step::Moved })
    }
}

/// How a stream fared in one round.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Moved,
    /// The socket holds it up.
    Blocked,
    /// The other stream has to move first.
    Dependent,
    Shaped(std::time::Duration),
    Done,
}

/// Bytes that came in and are combined as soon as an element is whole.
struct Staging {
    bytes: Vec<u8>,
    filled: usize,
}

impl Staging {
    fn gained(&mut self, count: usize, element: usize) -> usize {
        self.filled += count;
        self.filled / element * element
    }

    fn drop_front(&mut self, whole: usize) {
        self.bytes.copy_within(whole..self.filled, 0);
        self.filled -= whole;
    }
}
