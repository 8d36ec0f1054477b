//! One call of a collective or of Send/Recv: its arguments, their checks, and the work it becomes.
//!
//! The checks and their result codes are NCCL's: a wrong datatype, reduction, root or peer is
//! an invalid argument; an empty collective is dropped without a trace. Pointers are not looked
//! at here, as in NCCL: a bad one is found when the operation runs.

use std::ffi::c_int;
use std::sync::Arc;

use airamp_vendor_abi::nccl::{Comm, DataType, RedOp};

use super::communicator::reductions::Scalar;
use super::communicator::{Communicator, registry};
use super::error::{NcclError, Outcome};
use super::faults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    AllReduce,
    Reduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    AlltoAll,
    AlltoAllv,
    Gather,
    Scatter,
    Send,
    Recv,
}

impl Kind {
    const ALL: [(Self, &'static str); 11] = [
        (Self::AllReduce, "AllReduce"),
        (Self::Reduce, "Reduce"),
        (Self::ReduceScatter, "ReduceScatter"),
        (Self::AllGather, "AllGather"),
        (Self::Broadcast, "Broadcast"),
        (Self::AlltoAll, "AlltoAll"),
        (Self::AlltoAllv, "AlltoAllv"),
        (Self::Gather, "Gather"),
        (Self::Scatter, "Scatter"),
        (Self::Send, "Send"),
        (Self::Recv, "Recv"),
    ];

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).map(|(kind, _)| *kind)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    pub(crate) fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }

    pub(crate) fn is_all_to_all(self) -> bool {
        matches!(self, Self::AlltoAll | Self::AlltoAllv)
    }

    pub(crate) fn is_collective(self) -> bool {
        !matches!(self, Self::Send | Self::Recv)
    }
}

/// The arrays of `ncclAlltoAllv`, one entry per rank.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    pub(crate) send_counts: *const usize,
    pub(crate) send_offsets: *const usize,
    pub(crate) recv_counts: *const usize,
    pub(crate) recv_offsets: *const usize,
}

/// The arguments of a call as they came.
pub(crate) struct Call {
    pub(crate) function: &'static str,
    pub(crate) kind: Kind,
    pub(crate) send: u64,
    pub(crate) recv: u64,
    pub(crate) count: usize,
    pub(crate) datatype: DataType,
    pub(crate) op: RedOp,
    /// The root, or the peer of a Send or Recv.
    pub(crate) root: c_int,
    pub(crate) comm: Comm,
    pub(crate) stream: usize,
    pub(crate) bias: u64,
    pub(crate) vectors: Option<Vectors>,
}

/// A collective whose arguments hold.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    pub(crate) send: u64,
    pub(crate) recv: u64,
    pub(crate) count: usize,
    pub(crate) datatype: DataType,
    pub(crate) op: RedOp,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) root: usize,
    pub(crate) bias: u64,
}

impl Collective {
    pub(crate) fn element(&self) -> usize {
        self.datatype.size().unwrap_or(1)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.count * self.element()
    }
}

/// A Send or a Recv whose arguments hold.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) peer: usize,
    pub(crate) ptr: u64,
    pub(crate) count: usize,
    pub(crate) datatype: DataType,
}

impl Message {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.datatype.size().unwrap_or(1)
    }
}

/// What a call asks of its communicator.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) collective: Option<Collective>,
    pub(crate) sends: Vec<Message>,
    pub(crate) recvs: Vec<Message>,
}

impl Call {
    /// Checks the arguments and says what is to be done; nothing for an empty collective.
    pub(crate) fn check(&self) -> Outcome<Option<(Arc<Communicator>, Work)>> {
        let comm = registry::lookup(self.comm, self.function)?;
        comm.health.usable().inspect_err(|_| comm.name_trouble())?;
        faults::perhaps_die(comm.job_rank);
        let size = comm.membership()?.size();
        let element = self.datatype.size().ok_or_else(|| self.wrong("datatype", self.datatype.0))?;
        let takes_peer = self.kind.has_root() || !self.kind.is_collective();
        if takes_peer && !(0..size as c_int).contains(&self.root) {
            return Err(self.wrong(if self.kind.is_collective() { "root" } else { "peer" }, self.root));
        }
        let scalar = self.reduction(&comm)?;
        let whole = self.count.checked_mul(element).and_then(|bytes| bytes.checked_mul(size));
        whole.filter(|bytes| *bytes < isize::MAX as usize).ok_or_else(|| {
            NcclError::InvalidArgument(format!(
                "{}: a count of {} does not fit in memory",
                self.function, self.count
            ))
        })?;
        if self.kind.is_collective() && self.kind != Kind::AlltoAllv && self.count == 0 {
            return Ok(None);
        }
        let work = self.work(&comm, scalar, element)?;
        Ok(Some((comm, work)))
    }

    fn wrong(&self, what: &str, value: c_int) -> NcclError {
        NcclError::InvalidArgument(format!("{}: {what} {value} does not exist", self.function))
    }

    fn reduction(&self, comm: &Communicator) -> Outcome<Option<Scalar>> {
        if !self.kind.reduces() {
            return Ok(None);
        }
        if self.op.0 < 0 {
            return Err(self.wrong("reduction", self.op.0));
        }
        if self.op.0 < RedOp::FIRST_HANDLE {
            return Ok(None);
        }
        comm.reductions.lookup(self.op, self.datatype).map(Some)
    }

    fn work(&self, comm: &Communicator, scalar: Option<Scalar>, element: usize) -> Outcome<Work> {
        let own = comm.membership()?;
        let (rank, size) = (own.rank, own.size());
        let root = self.root as usize;
        let stride = self.count * element;
        let mut work = Work::default();
        if self.kind.is_collective() {
            work.collective = Some(self.collective(scalar));
        }
        let slice = |base: u64, index: usize| base.wrapping_add((index * stride) as u64);
        match self.kind {
            Kind::Send => work.sends.push(self.message(root, self.send)),
            Kind::Recv => work.recvs.push(self.message(root, self.recv)),
            Kind::AlltoAll => {
                work.sends = (0..size).map(|peer| self.message(peer, slice(self.send, peer))).collect();
                work.recvs = (0..size).map(|peer| self.message(peer, slice(self.recv, peer))).collect();
            }
            Kind::Gather => {
                work.sends.push(self.message(root, self.send));
                if rank == root {
                    work.recvs = (0..size).map(|peer| self.message(peer, slice(self.recv, peer))).collect();
                }
            }
            Kind::Scatter => {
                if rank == root {
                    work.sends = (0..size).map(|peer| self.message(peer, slice(self.send, peer))).collect();
                }
                work.recvs.push(self.message(root, self.recv));
            }
            Kind::AlltoAllv => self.add_vectors(&mut work, size, element)?,
            _ => {}
        }
        Ok(work)
    }

    fn collective(&self, scalar: Option<Scalar>) -> Collective {
        Collective {
            kind: self.kind,
            send: self.send,
            recv: self.recv,
            count: self.count,
            datatype: self.datatype,
            op: self.op,
            scalar,
            root: self.root as usize,
            bias: self.bias,
        }
    }

    fn message(&self, peer: usize, ptr: u64) -> Message {
        Message { peer, ptr, count: self.count, datatype: self.datatype }
    }

    fn add_vectors(&self, work: &mut Work, size: usize, element: usize) -> Outcome {
        let Some(vectors) = self.vectors else {
            return Err(NcclError::null("an array of counts"));
        };
        let messages = |base: u64, counts: *const usize, offsets: *const usize| {
            if counts.is_null() || offsets.is_null() {
                return Err(NcclError::null("an array of counts or offsets"));
            }
            // SAFETY: the caller of ncclAlltoAllv passes arrays with one entry per rank.
            let (counts, offsets) = unsafe {
                (std::slice::from_raw_parts(counts, size), std::slice::from_raw_parts(offsets, size))
            };
            let pieces = (0..size).filter(|peer| counts[*peer] > 0).map(|peer| Message {
                peer,
                ptr: base.wrapping_add((offsets[peer] * element) as u64),
                count: counts[peer],
                datatype: self.datatype,
            });
            Ok(pieces.collect())
        };
        work.sends = messages(self.send, vectors.send_counts, vectors.send_offsets)?;
        work.recvs = messages(self.recv, vectors.recv_counts, vectors.recv_offsets)?;
        Ok(())
    }
}
