//! What a communicator compresses with, once all its ranks have agreed.

use crate::calls::Operation;
use airamp_codec::{Element, Stats};
use airamp_fast_path::{Call, FastPathError, Lane, Plan, Post};
use airamp_policy::{AllReduce, Reduction, Rules, eligible};
use airamp_vendor_abi::nccl::{DataType, RedOp};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Active {
    lane: Lane,
    rules: Rules,
    ranks: u32,
    /// Whether every rank can order captured calls; if not, they go to the vendor.
    captures: bool,
    compressed: AtomicU64,
}

/// A call that is to be compressed: the same decision on every rank.
#[derive(Clone, Copy)]
pub(crate) struct Compressed {
    pub(crate) index: u64,
    plan: Plan,
    element: Element,
    average: bool,
}

/// Why an operation cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    FastPath(#[from] FastPathError),
    #[error("a message of somebody else's was taken for one of ours")]
    ForeignMessage,
    #[error("the communicator is ending")]
    Ending,
    #[error("more than {0} streams of one communicator in a group")]
    Streams(usize),
}

impl Failure {
    /// Whether the call has had no effect, for a reason of the application's own.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::FastPath(error) if error.is_refusal())
    }
}

impl Active {
    pub(super) fn new(lane: Lane, rules: Rules, ranks: u32, captures: bool) -> Self {
        Self { lane, rules, ranks, captures, compressed: AtomicU64::new(0) }
    }

    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(super) fn compressed_calls(&self) -> u64 {
        self.compressed.load(Ordering::Relaxed)
    }

    pub(super) fn stats(&self) -> Stats {
        self.lane.stats()
    }

    /// Whether, and how, to compress a call, from facts that all ranks share.
    pub(super) fn decide(&self, operation: &Operation, index: u64) -> Result<Option<Compressed>, Failure> {
        let Some(all_reduce) = operation.all_reduce else {
            return Ok(None);
        };
        let call = AllReduce {
            count: operation.count as u64,
            element: element_of(all_reduce.datatype),
            reduction: reduction_of(all_reduce.op),
            ranks: self.ranks,
        };
        let (Ok((element, reduction)), Ok(plan)) =
            (eligible(&call, &self.rules), self.lane.plan(operation.count))
        else {
            return Ok(None);
        };
        if !self.captures && self.lane.is_capturing(operation.stream).map_err(FastPathError::from)? {
            return Ok(None);
        }
        let element = match element {
            airamp_policy::Element::F16 => Element::F16,
            airamp_policy::Element::Bf16 => Element::Bf16,
            airamp_policy::Element::F32 => Element::F32,
        };
        Ok(Some(Compressed { index, plan, element, average: reduction == Reduction::Average }))
    }

    /// What the fast path needs of a call that is to be compressed.
    pub(super) fn post(&self, operation: &Operation, compressed: &Compressed) -> Result<Post<'_>, Failure> {
        if self.stats().foreign != 0 {
            return Err(Failure::ForeignMessage);
        }
        let (input, output) = operation.all_reduce.map_or((0, 0), |it| (it.send as u64, it.recv as u64));
        let Compressed { index, plan, element, average } = *compressed;
        let call = Call { input, output, element, average };
        Ok(Post { lane: &self.lane, plan, call, stream: operation.stream, index })
    }

    pub(super) fn count_one(&self) {
        self.compressed.fetch_add(1, Ordering::Relaxed);
    }
}

fn element_of(datatype: DataType) -> Option<airamp_policy::Element> {
    match datatype {
        DataType::FLOAT16 => Some(airamp_policy::Element::F16),
        DataType::BFLOAT16 => Some(airamp_policy::Element::Bf16),
        DataType::FLOAT32 => Some(airamp_policy::Element::F32),
        _ => None,
    }
}

fn reduction_of(op: RedOp) -> Option<Reduction> {
    match op {
        RedOp::SUM => Some(Reduction::Sum),
        RedOp::AVG => Some(Reduction::Average),
        _ => None,
    }
}
