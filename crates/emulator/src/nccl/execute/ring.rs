//! Moves the data of a ring plan: sends to the next rank and receives from the one before at the same
//! time, on one thread, and combines what comes in.
//!
//! Contributions are added in ring order whatever the timing, so results have the same bits on
//! every rank and in every run.

use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::header::{HEADER_BYTES, Header};
use super::plans::{self, Cursor, Place, Plan, ReceivePiece, Shape};
use super::{Broken, Region, announce_header, closed};
use crate::nccl::call::{Collective, Kind};
use crate::nccl::communicator::Communicator;
use crate::nccl::communicator::reductions::Scalar;
use crate::nccl::elements::{self, Combine};
use crate::nccl::net::link::{self, Link, Progress};

/// Most bytes per system call, and the size of the buffer in which contributions are combined:
/// large enough to amortise the call, small enough for the second-level cache.
const CHUNK: usize = 256 * 1024;

/// Runs one collective to its end.
pub(super) fn run(comm: &Communicator, collective: &Collective) -> Result<(), Broken> {
    let own = comm.membership().map_err(|_| Broken::Interrupted)?;
    let (rank, size) = (own.rank, own.size());
    let mut buffers = Buffers::prepare(collective, rank, size)?;
    if size == 1 {
        buffers.finish_alone();
        return Ok(());
    }
    let Collective { kind, datatype, op, root, count, .. } = *collective;
    let header = Header::new(kind, datatype, op, root as i32, count, comm.log.number());
    if kind.has_root() {
        announce_header(comm, &header);
    }
    if matches!(kind, Kind::Gather | Kind::Scatter) {
        return Ok(());
    }
    let plan = plan_for(collective, rank, size);
    buffers.scratch = vec![0; plan.scratch];
    let links = comm.links();
    let (Some(out), Some(into)) = (links.ring_out.clone(), links.ring_in.clone()) else {
        return Err(Broken::Interrupted);
    };
    drop(links);
    let mut ring = Ring { comm, out: &out, into: &into, next: own.next(), previous: own.previous() };
    // AlltoAll has no data on the ring, but everybody has to mean it.
    let checks_only = plan.sends.is_empty() && plan.receives.is_empty();
    if checks_only || !plan.sends.is_empty() {
        ring.write_all(&header.encode())?;
    }
    if checks_only || !plan.receives.is_empty() {
        ring.expect(&header)?;
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

/// The memory of one collective, and its arithmetic.
struct Buffers {
    input: Region,
    output: Region,
    bias: Option<Region>,
    scratch: Vec<u8>,
    /// Holds the scaled contribution where there is no room for it in the user's memory.
    scaled: Vec<u8>,
    datatype: DataType,
    combine: Combine,
    divide_by: Option<usize>,
}

impl Buffers {
    fn prepare(collective: &Collective, rank: usize, size: usize) -> Result<Self, Broken> {
        let bytes = collective.bytes();
        let is_root = collective.root == rank;
        let (input, output) = match collective.kind {
            Kind::AllReduce => (bytes, bytes),
            Kind::Reduce => (bytes, if is_root { bytes } else { 0 }),
            Kind::ReduceScatter => (bytes * size, bytes),
            Kind::AllGather => (bytes, bytes * size),
            Kind::Broadcast => (if is_root { bytes } else { 0 }, bytes),
            _ => (0, 0),
        };
        let bias = (collective.bias != 0).then(|| Region::resolve(collective.bias, bytes)).transpose()?;
        let integer_average = collective.op == RedOp::AVG && !elements::is_float(collective.datatype);
        let mut buffers = Self {
            input: Region::resolve(collective.send, input)?,
            output: Region::resolve(collective.recv, output)?,
            bias,
            scratch: Vec::new(),
            scaled: Vec::new(),
            datatype: collective.datatype,
            combine: match collective.op {
                RedOp::PROD => Combine::Prod,
                RedOp::MAX => Combine::Max,
                RedOp::MIN => Combine::Min,
                _ => Combine::Sum,
            },
            divide_by: (collective.kind.reduces() && integer_average).then_some(size),
        };
        if let Some(factor) = factor(collective, size)? {
            buffers.scale(collective.kind, &factor);
        }
        match collective.kind {
            Kind::AllGather => buffers.output.part(rank * bytes, bytes).copy_from(buffers.input),
            Kind::Broadcast if is_root => buffers.output.copy_from(buffers.input),
            _ => {}
        }
        Ok(buffers)
    }

    /// Multiplies this rank's contribution, which from now on is read from the copy.
    fn scale(&mut self, kind: Kind, factor: &[u8]) {
        if kind == Kind::AllReduce {
            self.output.copy_from(self.input);
            self.input = self.output;
        } else {
            self.scaled = self.input.bytes().to_vec();
            self.input = Region { ptr: self.scaled.as_mut_ptr(), len: self.scaled.len() };
        }
        elements::scale(self.datatype, self.input.bytes_mut(), factor);
    }

    /// One rank: its contribution is the result.
    fn finish_alone(&mut self) {
        let len = self.output.len.min(self.input.len);
        let mut output = self.output.part(0, len);
        output.copy_from(self.input);
        finish(self.datatype, self.divide_by, self.bias, output.bytes_mut());
    }

    fn place(&mut self, place: Place) -> Region {
        match place {
            Place::Input => self.input,
            Place::Output => self.output,
            Place::Scratch => Region { ptr: self.scratch.as_mut_ptr(), len: self.scratch.len() },
        }
    }

    /// Combines whole elements that came in for a piece and puts them where they belong.
    fn take_in(&mut self, piece: &ReceivePiece, own: usize, within: usize, incoming: &mut [u8]) {
        let contribution = self.input.part(own + within, incoming.len());
        elements::combine(self.combine, self.datatype, incoming, contribution.bytes());
        if piece.finish {
            let bias = self.bias.map(|bias| bias.part(piece.offset + within, incoming.len()));
            finish(self.datatype, self.divide_by, bias, incoming);
        }
        let mut target = self.place(piece.place).part(piece.offset + within, incoming.len());
        target.bytes_mut().copy_from_slice(incoming);
    }
}

fn finish(datatype: DataType, divide_by: Option<usize>, bias: Option<Region>, data: &mut [u8]) {
    if let Some(ranks) = divide_by {
        elements::divide(datatype, data, ranks);
    }
    if let Some(bias) = bias {
        elements::combine(Combine::Sum, datatype, data, bias.bytes());
    }
}

/// What each contribution is multiplied with: the factor of a PreMulSum, or 1/n for an average
/// of floats, which is how NCCL computes it.
fn factor(collective: &Collective, size: usize) -> Result<Option<Vec<u8>>, Broken> {
    match collective.scalar {
        Some(Scalar::Immediate(bytes)) => Ok(Some(bytes.to_vec())),
        Some(Scalar::Device(ptr)) => Ok(Some(Region::resolve(ptr, collective.element())?.bytes().to_vec())),
        None => {
            let averages = collective.kind.reduces() && collective.op == RedOp::AVG;
            let scales = averages && elements::is_float(collective.datatype);
            Ok(scales.then(|| elements::reciprocal(collective.datatype, size)))
        }
    }
}

/// The two links of a rank in its ring.
struct Ring<'a> {
    comm: &'a Communicator,
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
    fn expect(&self, mine: &Header) -> Result<(), Broken> {
        let mut bytes = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.into.read(&mut bytes[filled..]).map_err(closed(self.previous))? {
                Progress::Bytes(count) => filled += count,
                _ => self.wait(false, true, None)?,
            }
        }
        let theirs = Header::decode(&bytes).ok_or(Broken::Closed(self.previous))?;
        match mine.compare(&theirs) {
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
        link::wait(&mut wanted, pause).map_err(|_| Broken::Interrupted)
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
