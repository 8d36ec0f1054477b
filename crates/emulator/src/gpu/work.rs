//! What a stream carries: operations with what they touch, and uses of events.

use std::sync::Arc;

use super::Fault;
use super::chain::Chain;
use super::event::Event;
use super::graph::Body;

/// A stretch of memory that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub ptr: u64,
    pub len: usize,
    pub write: bool,
    /// Written by atomic operations alone, which need no order among themselves.
    pub atomic: bool,
}

impl Touch {
    pub fn read(ptr: u64, len: usize) -> Self {
        Self { ptr, len, write: false, atomic: false }
    }

    pub fn write(ptr: u64, len: usize) -> Self {
        Self { ptr, len, write: true, atomic: false }
    }

    /// Atomic additions.
    pub fn add(ptr: u64, len: usize) -> Self {
        Self { ptr, len, write: true, atomic: true }
    }
}

/// One execution of an operation, on a queue's worker thread. It is dropped without
/// being called once the device has a sticky error.
pub type Run = Box<dyn FnOnce() -> Result<(), Fault> + Send>;

/// Work for a stream.
#[derive(Clone)]
pub struct Operation {
    /// What messages call it.
    pub label: String,
    /// What it accesses, for the detection of races.
    pub touches: Vec<Touch>,
    /// Called when the operation is enqueued for execution, in the order of the queue:
    /// at submission, or for a captured one at every launch of the graph. It runs under
    /// the device's submission lock and must not call the device.
    pub prepare: Arc<dyn Fn() -> Run + Send + Sync>,
}

/// The kind of node that a piece of work becomes in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Kernel,
    Memcpy,
    Memset,
    Host,
    EventRecord,
    EventWait,
    Empty,
}

/// What can be put on a stream or into a graph.
#[derive(Clone)]
pub(super) enum Work {
    Operation(NodeKind, Operation),
    /// A kernel that is in order with the others of a chain too.
    Chained(Chain, Operation),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// A mark that only gathers dependencies.
    Nothing,
    /// The same, which keeps a launched graph and its user objects until then.
    Keep(Arc<Body>),
}

impl Work {
    pub(super) fn kind(&self) -> NodeKind {
        match self {
            Self::Operation(kind, _) => *kind,
            Self::Chained(..) => NodeKind::Kernel,
            Self::Record(_) => NodeKind::EventRecord,
            Self::Wait(_) => NodeKind::EventWait,
            Self::Nothing | Self::Keep(_) => NodeKind::Empty,
        }
    }
}
