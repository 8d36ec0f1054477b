//! An intercepted call as a value: what the dispatcher needs to know of it, and no more.
//!
//! The constructors are the duties named in the table of `vendor-abi`; each exported
//! function builds one of these and hands it on.

use airamp_vendor_abi::nccl::{
    Comm, Config, DataType, NcclResult, RedOp, SHRINK_ABORT, SimInfo, Stream, UniqueId,
};
use std::ffi::{c_int, c_void};
use std::ptr::null;

pub(crate) use Derivation::*;
pub(crate) use Ending::*;
pub(crate) use GroupCall::*;
pub(crate) use Kind::*;
pub(crate) use airamp_telemetry::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derivation {
    Split,
    Shrink,
    Grow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Finalize,
    Destroy,
    Abort,
    Revoke,
    Suspend,
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupCall {
    Start,
    End,
    SimulateEnd,
}

/// A collective or a message: what a group holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) comm: Comm,
    pub(crate) count: usize,
    pub(crate) datatype: DataType,
    /// The root of a collective or the other end of a message; negative where there is none.
    pub(crate) peer: c_int,
    pub(crate) stream: Stream,
    /// Of the one kind that can be compressed.
    pub(crate) all_reduce: Option<AllReduce>,
    /// Whether an argument points to host memory, which may be gone when the call has returned.
    pub(crate) by_pointer: bool,
    /// Of the one kind whose ranks send differently much to each other: elements for each rank, in host memory
    /// that the vendor has read when the call returns. Null for every other kind.
    pub(crate) send_counts: *const usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AllReduce {
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    pub(crate) op: RedOp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// `id` is where the vendor writes it; null for one that only lets a communicator grow.
    Identify {
        id: *mut UniqueId,
    },
    Create {
        at: *mut Comm,
        nranks: c_int,
        rank: c_int,
        config: *const Config,
        id: *const UniqueId,
    },
    CreateAll {
        at: *mut Comm,
        count: c_int,
    },
    /// `detail` is the colour of a split and the flags of a shrink. The ranks that a shrink leaves out are in host memory,
    /// which is there until the call returns.
    Derive {
        how: Derivation,
        parent: Comm,
        at: *mut Comm,
        config: *const Config,
        detail: c_int,
        left_out: *const c_int,
        left_out_count: c_int,
    },
    End {
        how: Ending,
        comm: Comm,
    },
    Group(GroupCall),
    Operation(Operation),
    Operator,
    /// Calls that were made before it have taken over what they need of the operator.
    DropOperator {
        comm: Comm,
    },
    Health {
        comm: Comm,
        error: *mut NcclResult,
    },
}

impl Call {
    /// Whether the parent of a derived communicator is aborted on the way.
    pub(crate) fn aborts_parent(&self) -> bool {
        matches!(self, Self::Derive { how: Shrink, detail, .. } if detail & SHRINK_ABORT != 0)
    }
}

pub(crate) fn identify(id: *mut UniqueId) -> Call {
    Call::Identify { id }
}

/// Communicators that grow are never compressed.
pub(crate) fn identify_growth() -> Call {
    identify(std::ptr::null_mut())
}

pub(crate) fn create(
    at: *mut Comm,
    nranks: c_int,
    rank: c_int,
    config: *mut Config,
    id: *const UniqueId,
) -> Call {
    Call::Create { at, nranks, rank, config, id }
}

/// The ranks meet under the first id.
pub(crate) fn create_by_ids(
    at: *mut Comm,
    nranks: c_int,
    rank: c_int,
    config: *mut Config,
    ids: *const UniqueId,
    id_count: c_int,
) -> Call {
    let id = if id_count > 0 { ids } else { std::ptr::null() };
    create(at, nranks, rank, config, id)
}

pub(crate) fn create_all(at: *mut Comm, count: c_int) -> Call {
    Call::CreateAll { at, count }
}

pub(crate) fn derive(
    how: Derivation,
    parent: Comm,
    at: *mut Comm,
    config: *mut Config,
    detail: c_int,
) -> Call {
    Call::Derive { how, parent, at, config, detail, left_out: null(), left_out_count: 0 }
}

pub(crate) fn shrink(
    parent: Comm,
    at: *mut Comm,
    config: *mut Config,
    flags: c_int,
    left_out: *const c_int,
    left_out_count: c_int,
) -> Call {
    Call::Derive { how: Shrink, parent, at, config, detail: flags, left_out, left_out_count }
}

pub(crate) fn end(how: Ending, comm: Comm) -> Call {
    Call::End { how, comm }
}

pub(crate) fn group(call: GroupCall) -> Call {
    Call::Group(call)
}

/// NCCL takes a simulated end without a place for the estimate for an ordinary one.
pub(crate) fn simulate(info: *mut SimInfo) -> Call {
    Call::Group(if info.is_null() { End } else { SimulateEnd })
}

/// A collective or a message with nothing in host memory.
pub(crate) fn collective(
    kind: Kind,
    comm: Comm,
    count: usize,
    datatype: DataType,
    peer: c_int,
    stream: Stream,
) -> Call {
    collective_by_pointer(kind, comm, count, datatype, peer, stream, null())
}

pub(crate) fn collective_by_pointer(
    kind: Kind,
    comm: Comm,
    count: usize,
    datatype: DataType,
    peer: c_int,
    stream: Stream,
    host_memory: *const c_void,
) -> Call {
    let (by_pointer, send_counts) = (!host_memory.is_null(), null());
    Call::Operation(Operation {
        kind,
        comm,
        count,
        datatype,
        peer,
        stream,
        all_reduce: None,
        by_pointer,
        send_counts,
    })
}

/// It has no count of its own, and is never empty.
pub(crate) fn all_to_all_v(
    comm: Comm,
    datatype: DataType,
    stream: Stream,
    send_counts: *const usize,
) -> Call {
    match collective_by_pointer(Kind::AllToAllV, comm, 1, datatype, -1, stream, send_counts.cast()) {
        Call::Operation(operation) => Call::Operation(Operation { send_counts, ..operation }),
        other => other,
    }
}

pub(crate) fn all_reduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: DataType,
    op: RedOp,
    comm: Comm,
    stream: Stream,
) -> Call {
    all_reduce_by_pointer(send, recv, count, datatype, op, comm, stream, null())
}

pub(crate) fn all_reduce_by_pointer(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: DataType,
    op: RedOp,
    comm: Comm,
    stream: Stream,
    host_memory: *const c_void,
) -> Call {
    let (kind, by_pointer) = (Kind::AllReduce, !host_memory.is_null());
    let all_reduce = Some(AllReduce { send, recv, op });
    let (peer, send_counts) = (-1, null());
    Call::Operation(Operation {
        kind,
        comm,
        count,
        datatype,
        peer,
        stream,
        all_reduce,
        by_pointer,
        send_counts,
    })
}

pub(crate) fn health(comm: Comm, error: *mut NcclResult) -> Call {
    Call::Health { comm, error }
}

pub(crate) fn operator() -> Call {
    Call::Operator
}

pub(crate) fn drop_operator(comm: Comm) -> Call {
    Call::DropOperator { comm }
}
