//! The collectives: how many elements each takes and gives, where its parts lie when
//! it is done in place, what its result is, and how it is called. Shared by the
//! conformance cases and the benchmark.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use airamp_vendor_abi::nccl::{Comm, DataType, RedOp, Stream};

use crate::error::RankError;
use crate::nccl::{Nccl, invoke};
use crate::pattern::{Reduction, input, reduced};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    AllReduce,
    Reduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    Bcast,
    AllToAll,
    Gather,
    Scatter,
}

/// Under which of its names a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// The `*Config` functions of NCCL 2.32, with no configuration.
    Config,
}

/// One call of a collective on buffers that exist.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) form: Form,
    pub(crate) collective: Collective,
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    pub(crate) count: usize,
    pub(crate) datatype: DataType,
    pub(crate) op: RedOp,
    pub(crate) root: i32,
}

impl Collective {
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::AllReduce, "all_reduce"),
        (Self::Reduce, "reduce"),
        (Self::ReduceScatter, "reduce_scatter"),
        (Self::AllGather, "all_gather"),
        (Self::Broadcast, "broadcast"),
        (Self::Bcast, "bcast"),
        (Self::AllToAll, "all_to_all"),
        (Self::Gather, "gather"),
        (Self::Scatter, "scatter"),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(collective, _)| *collective)
    }

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// Whether one rank differs from the others.
    pub(crate) fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Bcast | Self::Gather | Self::Scatter)
    }

    /// `ncclBcast` has one buffer, and NCCL does not define AlltoAll in place.
    pub(crate) fn placements(self) -> &'static [bool] {
        match self {
            Self::Bcast => &[true],
            Self::AllToAll => &[false],
            _ => &[false, true],
        }
    }

    /// Elements of the input and of the output, for the count of the call.
    pub(crate) fn elements(self, count: usize, ranks: usize) -> (usize, usize) {
        match self {
            Self::ReduceScatter | Self::Scatter => (count * ranks, count),
            Self::AllGather | Self::Gather => (count, count * ranks),
            Self::AllToAll => (count * ranks, count * ranks),
            _ => (count, count),
        }
    }

    /// Where the input and the output begin in the one buffer of a call in place.
    pub(crate) fn places_in_place(self, count: usize, rank: usize) -> (usize, usize) {
        match self {
            Self::ReduceScatter | Self::Scatter => (0, rank * count),
            Self::AllGather | Self::Gather => (rank * count, 0),
            _ => (0, 0),
        }
    }

    /// The output of `rank`; `None` where the call leaves its memory as it was.
    pub(crate) fn expected(
        self,
        datatype: DataType,
        reduction: Reduction,
        (ranks, rank, root): (usize, usize, usize),
        count: usize,
    ) -> Option<Vec<u8>> {
        let part = |of: usize, elements: Range<usize>| {
            input(datatype, reduction, ranks, of, elements.start, elements.len())
        };
        let own = rank * count..(rank + 1) * count;
        Some(match self {
            Self::AllReduce => reduced(datatype, reduction, ranks, 0, count),
            Self::Reduce if rank == root => reduced(datatype, reduction, ranks, 0, count),
            Self::ReduceScatter => reduced(datatype, reduction, ranks, own.start, count),
            Self::AllGather => (0..ranks).flat_map(|of| part(of, 0..count)).collect(),
            Self::Gather if rank == root => (0..ranks).flat_map(|of| part(of, 0..count)).collect(),
            Self::Broadcast | Self::Bcast => part(root, 0..count),
            Self::AllToAll => (0..ranks).flat_map(|of| part(of, own.clone())).collect(),
            Self::Scatter => part(root, own),
            Self::Reduce | Self::Gather => return None,
        })
    }

    /// Whether this NCCL has the function.
    pub(crate) fn is_in(self, nccl: &Nccl, form: Form) -> bool {
        let f = &nccl.functions;
        match (form, self) {
            (Form::Plain, Self::AllToAll) => f.ncclAlltoAll.is_some() || f.ncclAllToAll.is_some(),
            (Form::Plain, Self::Gather) => f.ncclGather.is_some(),
            (Form::Plain, Self::Scatter) => f.ncclScatter.is_some(),
            (Form::Plain, _) => true,
            (Form::Config, Self::Bcast) => false,
            (Form::Config, _) => f.ncclAllReduceConfig.is_some(),
        }
    }
}

impl Call {
    /// Puts the collective on the stream.
    pub(crate) fn enqueue(&self, nccl: &Nccl, comm: Comm, stream: Stream) -> Result<(), RankError> {
        match self.form {
            Form::Plain => self.plain(nccl, comm, stream),
            Form::Config => self.with_config(nccl, comm, stream),
        }
    }

    fn plain(&self, nccl: &Nccl, comm: Comm, stream: Stream) -> Result<(), RankError> {
        let Self { send, recv, count, datatype, op, root, .. } = *self;
        match self.collective {
            Collective::AllReduce => {
                invoke!(nccl, ncclAllReduce(send, recv, count, datatype, op, comm, stream))
            }
            Collective::Reduce => {
                invoke!(nccl, ncclReduce(send, recv, count, datatype, op, root, comm, stream))
            }
            Collective::ReduceScatter => {
                invoke!(nccl, ncclReduceScatter(send, recv, count, datatype, op, comm, stream))
            }
            Collective::AllGather => invoke!(nccl, ncclAllGather(send, recv, count, datatype, comm, stream)),
            Collective::Broadcast => {
                invoke!(nccl, ncclBroadcast(send, recv, count, datatype, root, comm, stream))
            }
            Collective::Bcast => invoke!(nccl, ncclBcast(recv, count, datatype, root, comm, stream)),
            // RCCL spells it with a capital T.
            Collective::AllToAll if nccl.functions.ncclAlltoAll.is_none() => {
                invoke!(nccl, ncclAllToAll(send, recv, count, datatype, comm, stream))
            }
            Collective::AllToAll => invoke!(nccl, ncclAlltoAll(send, recv, count, datatype, comm, stream)),
            Collective::Gather => {
                invoke!(nccl, ncclGather(send, recv, count, datatype, root, comm, stream))
            }
            Collective::Scatter => {
                invoke!(nccl, ncclScatter(send, recv, count, datatype, root, comm, stream))
            }
        }
    }

    fn with_config(&self, nccl: &Nccl, comm: Comm, stream: Stream) -> Result<(), RankError> {
        let Self { send, recv, count, datatype, op, root, .. } = *self;
        let none = ptr::null();
        match self.collective {
            Collective::AllReduce => {
                invoke!(nccl, ncclAllReduceConfig(send, recv, count, datatype, op, comm, stream, none))
            }
            Collective::Reduce => {
                invoke!(nccl, ncclReduceConfig(send, recv, count, datatype, op, root, comm, stream, none))
            }
            Collective::ReduceScatter => {
                invoke!(nccl, ncclReduceScatterConfig(send, recv, count, datatype, op, comm, stream, none))
            }
            Collective::AllGather => {
                invoke!(nccl, ncclAllGatherConfig(send, recv, count, datatype, comm, stream, none))
            }
            Collective::Broadcast | Collective::Bcast => {
                invoke!(nccl, ncclBroadcastConfig(send, recv, count, datatype, root, comm, stream, none))
            }
            Collective::AllToAll => {
                invoke!(nccl, ncclAlltoAllConfig(send, recv, count, datatype, comm, stream, none))
            }
            Collective::Gather => {
                invoke!(nccl, ncclGatherConfig(send, recv, count, datatype, root, comm, stream, none))
            }
            Collective::Scatter => {
                invoke!(nccl, ncclScatterConfig(send, recv, count, datatype, root, comm, stream, none))
            }
        }
    }
}
