//! One communicator's compressed path on this rank: all it needs, acquired before the rank pledges
//! to use it. Afterwards nothing in it allocates, and nothing but its end gives anything back.

use crate::arena::{Arena, STATS_ROOM};
use crate::connect;
use crate::error::FastPathError;
use crate::first_launches;
use crate::measurement::{MEASUREMENTS, Measurement};
use crate::memo::Memo;
use crate::plan::{Plan, Unsuitable, fitting_variant, largest_packet_bytes};
use crate::ranks::Ranks;
use crate::shape::{Algorithm, Shape};
use crate::wire::Wire;
use airamp_codec::{Format, Stats};
use airamp_kernels::KernelSet;
use airamp_vendor::Functions;
use airamp_vendor::gpu::{CaptureStatus, Context, Entered, Gpu, GpuError};
use airamp_vendor_abi::cuda;
use airamp_vendor_abi::nccl::Comm;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a lane is made of. Whoever fills it in vouches that `comm` is a live communicator of
/// `functions` with that rank and those ranks, on the device of `context`, for which `kernels` were
/// loaded, and that it outlives every use of the lane.
pub struct LaneParts {
    pub gpu: Gpu,
    pub context: Context,
    pub kernels: Arc<KernelSet>,
    pub functions: &'static Functions,
    pub comm: Comm,
    pub rank: usize,
    pub ranks: usize,
    /// All device memory that the lane takes.
    pub arena_bytes: usize,
    pub format: Format,
    /// A byte is reduced beside the messages of each group; on all ranks or on none.
    pub lean_messages: bool,
}

/// Drop it when [`Lane::is_idle`], or when the device has nothing left to do: pending work and
/// graphs use its memory.
pub struct Lane {
    pub(crate) arena: Arena,
    pub(crate) gpu: Gpu,
    context: Context,
    context_id: Option<u64>,
    pub(crate) kernels: Arc<KernelSet>,
    pub(crate) wire: Wire,
    ranks: Ranks,
    pub(crate) format: Format,
    pub(crate) measurements: [Measurement; MEASUREMENTS],
    arena_bytes: usize,
    codec_ns_per_byte: f64,
    memo: Memo,
    can_capture: bool,
    taken: AtomicBool,
    stopped: AtomicBool,
    /// Every graph that holds the lane has a clone.
    pub(crate) graphs: Arc<GraphHold>,
}

/// What a graph keeps of a lane. The driver drops it on a thread where no GPU call is allowed.
pub(crate) struct GraphHold;

impl Lane {
    /// Takes everything and runs each kernel once, also while somebody captures. What was taken
    /// before an error is given back. All that can go wrong on this rank alone goes wrong here.
    pub fn acquire(parts: LaneParts) -> Result<Self, FastPathError> {
        let LaneParts { gpu, context, kernels, functions, comm, rank, ranks, arena_bytes, format, .. } =
            parts;
        Plan::new(1, ranks, arena_bytes, Shape::usual(ranks))?;
        let (arena, measurements, codec_ns_per_byte) = {
            let _relaxed = gpu.relax_captures()?;
            let _entered = gpu.enter(context)?;
            let arena = Arena::acquire(&gpu, arena_bytes)?;
            first_launches::run_each_kernel(&arena, &kernels, format)?;
            let scratch_bytes = arena_bytes.saturating_sub(STATS_ROOM);
            let codec_ns_per_byte =
                first_launches::time_codec(&arena, &kernels, format, &gpu, scratch_bytes)?;
            (arena, Measurement::acquire_all(&gpu)?, codec_ns_per_byte)
        };
        let beside = parts.lean_messages.then(|| arena.spare_byte());
        let wire = Wire { functions, comm, rank, ranks, beside };
        wire.check()?;
        Ok(Self {
            arena,
            measurements,
            codec_ns_per_byte,
            memo: Memo::new(),
            can_capture: gpu.records_external_events(),
            context_id: gpu.context_id(context),
            gpu,
            context,
            kernels,
            wire,
            ranks: ranks.into(),
            format,
            arena_bytes,
            taken: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            graphs: Arc::new(GraphHold),
        })
    }

    /// How the ranks lie on nodes, which all of them have to be told alike: before the lane is connected, since the shapes
    /// of its calls depend on it. Until then each has a node of its own.
    pub fn lie_on_nodes(&mut self, ranks_per_node: usize) {
        self.ranks = Ranks::new(self.wire.ranks, ranks_per_node);
        // What was cut for other shapes.
        self.memo = Memo::new();
    }

    /// As they were told; 1 where nodes are not even, or nobody knows.
    pub fn ranks_per_node(&self) -> usize {
        self.ranks.per_node()
    }

    /// The steps of a call, the same on every rank that has agreed on arena, nodes and shape.
    pub fn plan(&self, count: usize, shape: Shape) -> Result<Plan, Unsuitable> {
        Plan::new(count, self.ranks, self.arena_bytes, shape)
    }

    /// The same, looked up where such a call came before.
    pub fn known_plan(&self, count: usize, shape: Shape) -> Result<Plan, Unsuitable> {
        let variant =
            self.shapes().iter().position(|known| *known == shape).ok_or(Unsuitable::ForeignShape)?;
        self.memo.plan((count, self.ranks, variant as u8), shape, || self.plan(count, shape))
    }

    /// The same for a dry run of it.
    pub fn dry_plan(&self, count: usize, shape: Shape) -> Result<Plan, Unsuitable> {
        Plan::dry(count, self.ranks, self.arena_bytes, shape)
    }

    /// Of the variants that are tried only where they fit, the one that fits calls of so many elements.
    pub fn fitting_variant(&self, count: usize) -> Option<u8> {
        fitting_variant(count, self.ranks, self.arena_bytes)
    }

    /// The shapes that plans can have here; variant n of a call is the nth.
    pub fn shapes(&self) -> &'static [Shape] {
        Shape::candidates(self.ranks)
    }

    /// Makes the first exchanges with every peer, which would block the host in a later call. Blocks
    /// until all ranks are there, so it belongs into the communicator's creation. All lanes advance
    /// together; they may be on several devices.
    pub fn connect(lanes: &[&Lane]) -> Result<(), FastPathError> {
        Self::connect_while(lanes, &|| true)
    }

    /// The same, as long as `keep_waiting` says so. A lane that was given up has work pending, and so has its
    /// communicator.
    pub fn connect_while(lanes: &[&Lane], keep_waiting: &dyn Fn() -> bool) -> Result<(), FastPathError> {
        connect::connect(lanes, keep_waiting)
    }

    /// Lets a call that is being enqueued by another thread end with an error, and later ones too; or
    /// takes that back.
    pub fn stop(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Whether captured calls can be ordered against others here. A fact of the driver.
    pub fn can_capture(&self) -> bool {
        self.can_capture
    }

    /// Whether what is enqueued on that stream of the communicator's device goes into a graph.
    pub fn is_capturing(&self, stream: cuda::Stream) -> Result<bool, GpuError> {
        let _entered = self.enter()?;
        Ok(self.gpu.borrow_stream(stream).capture_status()? != CaptureStatus::Live)
    }

    /// About how long the codec's kernels take for a call of so many bytes, by a run of them when the lane was made;
    /// some of it beside the exchange.
    pub fn codec_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.codec_ns_per_byte) as u64
    }

    /// The counters of all calls so far as the device wrote them back last; never waits for it.
    pub fn stats(&self) -> Stats {
        self.arena.last_stats()
    }

    /// Whether the device is done with all that was enqueued, and no graph holds the lane.
    pub fn is_idle(&self) -> Result<bool, GpuError> {
        let _relaxed = self.gpu.relax_captures()?;
        let _entered = self.enter()?;
        let unused = Arc::strong_count(&self.graphs) == 1 && self.arena.serial.is_reached()?;
        Ok(unused && self.measurements_are_done()?)
    }

    /// Whether its context is gone, as after `cudaDeviceReset`, and with it all that the lane has: to give anything back would hit
    /// what is at its place now. Not known of every driver.
    pub fn is_lost(&self) -> bool {
        self.context_id.is_some() && self.gpu.context_id(self.context) != self.context_id
    }

    /// Whether any call will send to single peers.
    pub(crate) fn sends(&self) -> bool {
        self.shapes().iter().any(|shape| shape.algorithm != Algorithm::OneShot)
    }

    pub(crate) fn largest_packet_bytes(&self) -> usize {
        largest_packet_bytes(self.ranks, self.arena_bytes)
    }

    pub(crate) fn enter(&self) -> Result<Entered, GpuError> {
        self.gpu.enter(self.context)
    }

    /// Two threads at once on one communicator are against the vendor's rules; then one of them
    /// gets `false`.
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

// SAFETY: the communicator's handle, the only part that is not so by itself, is a name that the
// vendor takes on any thread; `take` orders the calls that use it.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}
