//! The compressed AllReduce called directly, not through the library: the kernels, a lane of a
//! communicator, and lanes as the benchmark uses them, each with one wire format and all that its
//! calls need.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use airamp_codec::{Element, Format};
use airamp_fast_path::{Call, LaneParts, Plan, Post, Shape, enqueue};
use airamp_kernels::{KernelSet, Loader};
use airamp_vendor::gpu::Gpu;
use airamp_vendor_abi::cuda::DevicePtr;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::collective::{self, Collective, Form};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::session::Session;

/// The folder that the settings name for kernels, as the library reads it.
pub(crate) fn kernel_folder() -> Option<PathBuf> {
    airamp_settings::load().settings.kernel_dir
}

/// The kernels for the current device, from that folder or the embedded ones.
pub(crate) fn kernels(gpu: &Gpu) -> Result<Arc<KernelSet>, RankError> {
    let folder = kernel_folder();
    let loaded = Loader::new(folder.clone()).load(gpu);
    loaded.map(Arc::new).map_err(|error| match folder {
        Some(folder) => refused(format!("AIRAMP_KERNEL_DIR ({}) cannot be used: {error}", folder.display())),
        None => refused(error),
    })
}

/// What the settings say of the nodes; no ranks have agreed on anything here, so that `auto` means nothing.
pub(crate) fn ranks_per_node() -> usize {
    airamp_settings::load().settings.ranks_per_node.map_or(1, |number| number as usize)
}

/// A lane of this rank on `comm`, not connected yet.
pub(crate) fn acquire(
    session: &Session,
    comm: &Communicator,
    kernels: &Arc<KernelSet>,
    arena_bytes: usize,
    format: Format,
) -> Result<airamp_fast_path::Lane, RankError> {
    let gpu = session.gpu.clone();
    let parts = LaneParts {
        context: gpu.current_context()?.ok_or_else(|| refused("no context is current"))?,
        gpu,
        kernels: Arc::clone(kernels),
        functions: session.nccl.functions,
        comm: comm.raw(),
        rank: comm.rank,
        ranks: comm.size,
        arena_bytes,
        format,
        lean_messages: airamp_settings::load().settings.lean_messages,
    };
    let mut lane = airamp_fast_path::Lane::acquire(parts).map_err(refused)?;
    lane.lie_on_nodes(ranks_per_node());
    Ok(lane)
}

pub(crate) fn refused(error: impl ToString) -> RankError {
    RankError::Compression(error.to_string())
}

/// A lane of the benchmark.
pub(crate) struct Lane {
    format: Format,
    lane: airamp_fast_path::Lane,
    added_bytes: usize,
    calls: Cell<u64>,
}

impl Lane {
    /// One lane for each format, on the session's communicator; every rank opens the same ones.
    pub(crate) fn open(
        session: &Session,
        kernels: &Arc<KernelSet>,
        formats: &[Format],
        arena_bytes: usize,
    ) -> Result<Vec<Self>, RankError> {
        let mut lanes = Vec::new();
        settle_the_vendor(session)?;
        for format in formats {
            let before = session.gpu.memory_info()?.free;
            let lane = acquire(session, &session.comm, kernels, arena_bytes, *format)?;
            airamp_fast_path::Lane::connect(&[&lane]).map_err(refused)?;
            let added_bytes = before.saturating_sub(session.gpu.memory_info()?.free);
            lanes.push(Self { format: *format, lane, added_bytes, calls: Cell::new(0) });
        }
        Ok(lanes)
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Device memory that acquiring and connecting the lane took.
    pub(crate) fn added_bytes(&self) -> usize {
        self.added_bytes
    }

    /// An error is the reason, the same on every rank, why such a call cannot be compressed.
    pub(crate) fn plan(&self, count: usize, shape: Shape) -> Result<Plan, String> {
        self.lane.plan(count, shape).map_err(|error| error.to_string())
    }

    /// How its calls can be cut, the usual way first.
    pub(crate) fn shapes(&self) -> &'static [Shape] {
        self.lane.shapes()
    }

    /// Puts the AllReduce on the session's stream.
    ///
    /// # Safety
    /// Input and output are device memory of the plan's elements until the stream has passed the call.
    pub(crate) unsafe fn all_reduce(
        &self,
        session: &Session,
        input: DevicePtr,
        output: DevicePtr,
        element: Element,
        plan: Plan,
        average: bool,
    ) -> Result<(), RankError> {
        let index = self.calls.replace(self.calls.get() + 1);
        let call = Call { input, output, element, average };
        let post = Post { lane: &self.lane, plan, call, stream: session.stream.raw(), index, dry: None };
        // SAFETY: the caller vouches for input and output, the session keeps communicator and stream.
        unsafe { enqueue(&[post]) }.map_err(refused)
    }
}

/// What the vendor takes for an AllReduce of its own is not what a lane adds.
fn settle_the_vendor(session: &Session) -> Result<(), RankError> {
    let call = collective::Call {
        form: Form::Plain,
        collective: Collective::AllReduce,
        send: session.send.at(0),
        recv: session.recv.at(0),
        count: 1,
        datatype: DataType::FLOAT32,
        op: RedOp::SUM,
        root: 0,
    };
    call.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())?;
    Ok(session.stream.synchronize()?)
}
