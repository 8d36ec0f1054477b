//! How communicators end, and what may be under way then; and what two hundred of them leave behind.

use std::time::{Duration, Instant};

use airamp_vendor_abi::nccl::{DataType, NcclResult};

use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::tracked::{Tracked, compressed_calls};
use super::{Case, Job, Seen};
use crate::error::RankError;
use crate::nccl::{Communicator, Making};

/// Communicators that are made and ended one after the other.
const MANY: usize = 200;
const PATIENCE: Duration = Duration::from_secs(5);
/// After so many, whatever is allocated once has been.
const SETTLED: usize = 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("lifetimes/destroyed_with_work_pending", destroyed),
        Case::new("lifetimes/finalized_and_destroyed_with_work_pending", finalized),
        Case::new("lifetimes/aborted_with_work_pending", aborted),
        Case::new("lifetimes/a_graph_outlives_its_communicator", graph_outlives),
        Case::new("lifetimes/destroyed_with_a_graph_in_flight", graph_in_flight),
        Case::new("lifetimes/not_waited_for_at_creation", non_blocking),
        Case::new("lifetimes/groups_that_are_not_waited_for_beside_another", beside_non_blocking),
        Case::new("lifetimes/two_hundred_leave_nothing_behind", two_hundred),
    ]
}

fn long(seed: usize) -> Spec {
    Spec::sum(DataType::FLOAT16, SEVERAL_STEPS).seeded(seed)
}

/// One call on a new communicator: whatever ended before has left a working job.
pub(super) fn use_another(job: &mut Job, seen: &mut Seen) -> Result<(), RankError> {
    let comm = job.communicator()?;
    let pieces = Piece::all(job, &comm, [various(3), long(4)])?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, seen))?;
    comm.check(seen);
    comm.comm.destroy()
}

/// Enqueues long calls and ends the communicator at once; the work is done all the same.
fn ended_by(job: &mut Job, end: impl Fn(Communicator) -> Result<(), RankError>) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..4).map(long))?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    comm.check(&mut seen);
    let Tracked { comm, expectation, .. } = comm;
    end(comm)?;
    job.stream.synchronize()?;
    for piece in &pieces {
        piece.judge_by(&expectation, &mut seen)?;
    }
    use_another(job, &mut seen)?;
    Ok(seen)
}

fn destroyed(job: &mut Job) -> Result<Seen, RankError> {
    ended_by(job, Communicator::destroy)
}

fn finalized(job: &mut Job) -> Result<Seen, RankError> {
    ended_by(job, |comm| {
        comm.finalize()?;
        comm.destroy()
    })
}

/// What the aborted calls would have written is undefined; nothing else may suffer.
fn aborted(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..4).map(long))?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    comm.check(&mut seen);
    job.wait_for_everyone()?;
    comm.comm.abort()?;
    job.stream.synchronize()?;
    drop(pieces);
    use_another(job, &mut seen)?;
    Ok(seen)
}

fn graph_outlives(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let piece = Piece::new(job, &comm, long(1))?;
    piece.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    let graph = job.stream.capture(|| piece.enqueue(job, &comm, &job.stream))?;
    graph.launch(&job.stream)?;
    job.stream.synchronize()?;
    piece.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    let Tracked { comm, expectation, .. } = comm;
    comm.destroy_during(|| {
        use_another(job, &mut seen)?;
        piece.fill(job)?;
        graph.launch(&job.stream)?;
        job.stream.synchronize()?;
        piece.judge_by(&expectation, &mut seen)?;
        drop(graph);
        Ok(())
    })?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

fn graph_in_flight(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let piece = Piece::new(job, &comm, long(2))?;
    piece.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    let graph = job.stream.capture(|| piece.enqueue(job, &comm, &job.stream))?;
    graph.launch(&job.stream)?;
    graph.launch(&job.stream)?;
    comm.check(&mut seen);
    // A vendor may wait for the graph in Destroy, or not: by then it is only running.
    drop(graph);
    let Tracked { comm, expectation, .. } = comm;
    comm.destroy()?;
    job.stream.synchronize()?;
    piece.judge_by(&expectation, &mut seen)?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

/// Whether a rank waits is its own affair, so that nothing is compressed.
fn non_blocking(job: &mut Job) -> Result<Seen, RankError> {
    let (id, mut seen) = (job.new_id()?, Seen::new());
    let (rank, size) = (job.world.rank, job.world.size);
    let comm = Communicator::init(&job.nccl, Making::NonBlocking, id, rank, size)?;
    comm.settle(Ok(()))?;
    let comm = Tracked::never_compressed(comm, job.expectation);
    let pieces = Piece::all(job, &comm, (0..3).map(various))?;
    for piece in &pieces {
        comm.comm.settle(piece.enqueue(job, &comm, &job.stream))?;
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    let compressed = compressed_calls(comm.comm.raw()).unwrap_or(0);
    seen.expect(compressed == 0, || format!("{compressed} calls were compressed"));
    job.wait_for_everyone()?;
    comm.comm.abort()?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

/// The end of such a group says that it is in progress, while the process has a communicator that compresses. (NCCL
/// refuses a group with both.)
fn beside_non_blocking(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, id, mut seen) = (job.communicator()?, job.new_id()?, Seen::new());
    let (rank, size) = (job.world.rank, job.world.size);
    let other = Communicator::init(&job.nccl, Making::NonBlocking, id, rank, size)?;
    other.settle(Ok(()))?;
    let other = Tracked::never_compressed(other, job.expectation);
    let (of_comm, of_other) =
        (Piece::all(job, &comm, (0..4).map(various))?, Piece::all(job, &other, (4..8).map(various))?);
    for (one, another) in of_comm.chunks(2).zip(of_other.chunks(2)) {
        one.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
        let calls =
            || another.iter().try_for_each(|piece| in_progress(piece.enqueue(job, &other, &job.stream)));
        other.comm.settle(job.group(calls))?;
    }
    job.stream.synchronize()?;
    of_comm.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    of_other.iter().try_for_each(|piece| piece.judge(&other, &mut seen))?;
    comm.check(&mut seen);
    job.wait_for_everyone()?;
    other.comm.abort()?;
    comm.comm.destroy()?;
    Ok(seen)
}

/// Work in progress is no failure.
fn in_progress(called: Result<(), RankError>) -> Result<(), RankError> {
    match called {
        Err(error) if error.nccl_code() == Some(NcclResult::IN_PROGRESS.0) => Ok(()),
        other => other,
    }
}

fn two_hundred(job: &mut Job) -> Result<Seen, RankError> {
    let mut seen = Seen::new();
    let mut settled = (0, 0);
    for number in 0..MANY {
        let comm = job.communicator()?;
        let piece = Piece::new(job, &comm, various(number))?;
        piece.enqueue(job, &comm, &job.stream)?;
        job.stream.synchronize()?;
        piece.judge(&comm, &mut seen)?;
        comm.check(&mut seen);
        comm.comm.destroy()?;
        drop(piece);
        if number == SETTLED {
            settled = held(job)?;
        }
    }
    // Connections are closed behind the scenes: what is held may take a moment to fall.
    let deadline = Instant::now() + PATIENCE;
    let mut now = held(job)?;
    while (now.0 > settled.0 || now.1 > settled.1) && Instant::now() < deadline {
        std::thread::yield_now();
        now = measured(job)?;
    }
    seen.expect(now.0 <= settled.0, || format!("{} bytes on the device became {}", settled.0, now.0));
    seen.expect(now.1 <= settled.1, || format!("{} descriptors became {}", settled.1, now.1));
    Ok(seen)
}

/// What is held when every process is at rest.
fn held(job: &mut Job) -> Result<(usize, usize), RankError> {
    job.wait_for_everyone()?;
    measured(job)
}

/// Device memory in use and open descriptors of this process.
fn measured(job: &Job) -> Result<(usize, usize), RankError> {
    let memory = job.gpu.memory_info()?;
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    Ok((memory.total - memory.free, descriptors))
}
