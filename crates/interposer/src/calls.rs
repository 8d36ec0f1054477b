//! An intercepted call as a value: what the dispatcher needs to know of it, and no more.
//!
//! The constructors are the duties named in the table of `vendor-abi`; each exported
//! function builds one of these and hands it on.

use airamp_vendor_abi::nccl::{Comm, Config, SHRINK_ABORT, SimInfo};
use std::ffi::c_int;

pub(crate) use Derivation::*;
pub(crate) use Ending::*;
pub(crate) use GroupCall::*;
pub(crate) use Kind::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce,
    AllReduceWithBias,
    Reduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    AllToAll,
    AllToAllV,
    Gather,
    Scatter,
    Send,
    Recv,
}

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

#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Identify,
    Create { at: *mut Comm, nranks: c_int, rank: c_int, config: *const Config },
    CreateAll { at: *mut Comm, count: c_int },
    Derive { how: Derivation, parent: Comm, at: *mut Comm, config: *const Config, aborts_parent: bool },
    End { how: Ending, comm: Comm },
    Group(GroupCall),
    Collective { kind: Kind, comm: Comm, count: usize },
    Operator,
}

pub(crate) fn identify() -> Call {
    Call::Identify
}

pub(crate) fn create(at: *mut Comm, nranks: c_int, rank: c_int, config: *mut Config) -> Call {
    Call::Create { at, nranks, rank, config }
}

pub(crate) fn create_all(at: *mut Comm, count: c_int) -> Call {
    Call::CreateAll { at, count }
}

pub(crate) fn derive(
    how: Derivation,
    parent: Comm,
    at: *mut Comm,
    config: *mut Config,
    flags: c_int,
) -> Call {
    let aborts_parent = how == Shrink && flags & SHRINK_ABORT != 0;
    Call::Derive { how, parent, at, config, aborts_parent }
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

pub(crate) fn collective(kind: Kind, comm: Comm, count: usize) -> Call {
    Call::Collective { kind, comm, count }
}

pub(crate) fn operator() -> Call {
    Call::Operator
}
