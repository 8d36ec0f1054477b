//! `scenario fault`: a job to which the environment does something. It calls AllReduce again and again,
//! waits for each as a framework's watchdog does (bounded, and with an eye on the communicator's
//! state), and reports what came of each call. It judges nothing: the harness knows what was done.

use std::time::{Duration, Instant};

use airamp_vendor::gpu::GpuError;
use airamp_vendor_abi::cuda::CudaError;
use serde::Serialize;

use super::expected::{Expectation, Spec};
use super::messages::{Messages, spec};
use super::piece::Piece;
use super::streams::various;
use super::tracked::{Tracked, compressed_calls};
use super::{Job, Seen, print_line};
use crate::error::RankError;

const CALLS: usize = 8;
/// Bounds a hang; a peer that is lost shows in a fraction of it.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Serialize)]
struct Report {
    process: usize,
    /// What the communicator's creation returned; without one there are no calls.
    creation: i32,
    /// Each call that was made.
    calls: Vec<Step>,
    /// The communicator's state after the last one.
    async_error: i32,
    /// Calls that the library says it compressed; nothing without the library.
    compressed: Option<u64>,
    /// Whether an allocation of the program itself was refused once.
    own_allocation_refused: bool,
    /// What GPU or NCCL said when it could not go on.
    error: Option<String>,
    /// What was wrong with the results of further communicators, each at the place of the one before.
    again: Option<String>,
}

#[derive(Serialize)]
struct Step {
    returned: i32,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// The call returned an error.
    Refused,
    /// The communicator had an error before the result was there, or with it.
    Lost,
    /// Neither a result nor an error.
    Stuck,
    Exact,
    Compressed,
    /// The compressed result, but for elements that are no numbers.
    Marked,
    /// A result that is none of these, without any error.
    Wrong,
}

/// How the calls are made.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// Each in a group of its own.
    pub(super) grouped: bool,
    /// A mistake: rank 0 sends a message before the first call, which rank 1 awaits after it.
    pub(super) misplaced: bool,
    /// Afterwards, communicators that are not compressed, made and used one after the other.
    pub(super) again: bool,
}

const AGAIN: usize = 3;

pub(super) fn run(job: &mut Job, manner: Manner) -> Result<bool, RankError> {
    let made = job.communicator();
    let mut report = Report {
        process: job.world.rank,
        creation: 0,
        calls: Vec::new(),
        async_error: 0,
        compressed: None,
        own_allocation_refused: false,
        error: None,
        again: None,
    };
    let comm = match made {
        Ok(comm) => comm,
        Err(error) => {
            report.creation = error.nccl_code().ok_or(error)?;
            print_line(&report);
            return Ok(true);
        }
    };
    let worked = work(job, &comm, manner, &mut report);
    report.error = worked.err().map(|error| error.to_string());
    report.async_error = job.nccl.async_error(comm.comm.raw())?;
    report.compressed = compressed_calls(comm.comm.raw());
    let well = report.error.is_none() && report.calls.iter().all(|step| step.returned == 0);
    let ended = if well && report.async_error == 0 { comm.comm.destroy() } else { comm.comm.abort() };
    if let Err(error) = ended {
        report.error.get_or_insert(error.to_string());
    }
    if manner.again {
        job.wait_for_everyone()?;
        for _ in 0..AGAIN {
            report.again = report.again.or(use_exactly(job)?);
        }
    }
    print_line(&report);
    Ok(true)
}

/// Of a communicator that one of the ranks keeps from compressing.
fn use_exactly(job: &mut Job) -> Result<Option<String>, RankError> {
    let (made, mut seen) = (job.communicator()?, Seen::new());
    let comm = Tracked::never_compressed(made.comm, job.expectation);
    let pieces = Piece::all(job, &comm, (0..2).map(various))?;
    for piece in &pieces {
        if let Err(error) = job.group(|| piece.enqueue(job, &comm, &job.stream)) {
            seen.expect(false, || error.to_string());
        }
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    job.wait_for_everyone()?;
    comm.comm.abort()?;
    Ok(seen.mismatch)
}

fn work(job: &Job, comm: &Tracked, manner: Manner, report: &mut Report) -> Result<(), RankError> {
    let messages = if manner.misplaced { Some(Messages::new(job, comm, 0)?) } else { None };
    for number in 0..CALLS {
        let spec = if manner.misplaced { spec(number) } else { various(number) };
        let piece = allocated(job, comm, spec, &mut report.own_allocation_refused)?;
        let call = || piece.enqueue(job, comm, &job.stream);
        let called = match messages.as_ref().filter(|_| number == 0) {
            Some(messages) => misplaced(job, comm, messages, call),
            None if manner.grouped => job.group(call),
            None => call(),
        };
        let step = step(job, comm, called, &piece)?;
        let lost = matches!(step.outcome, Outcome::Lost | Outcome::Stuck);
        report.calls.push(step);
        // What was enqueued before a loss may still be written to: its memory is given up with it.
        if lost {
            std::mem::forget(piece);
            return Ok(());
        }
    }
    Ok(())
}

/// Tries once more where memory was refused: the fault is one allocation's.
fn allocated(job: &Job, comm: &Tracked, spec: Spec, refused: &mut bool) -> Result<Piece, RankError> {
    match Piece::new(job, comm, spec) {
        Err(RankError::Gpu(GpuError::Call { code, .. })) if code == CudaError::OUT_OF_MEMORY.0 => {
            *refused = true;
            Piece::new(job, comm, spec)
        }
        made => made,
    }
}

fn misplaced(
    job: &Job,
    comm: &Tracked,
    messages: &Messages,
    call: impl FnOnce() -> Result<(), RankError>,
) -> Result<(), RankError> {
    if comm.comm.rank == 0 {
        messages.send_to(1, job, comm, &job.stream)?;
    }
    call()?;
    if comm.comm.rank == 1 {
        messages.receive_from(0, job, comm, &job.stream)?;
    }
    Ok(())
}

fn step(job: &Job, comm: &Tracked, called: Result<(), RankError>, piece: &Piece) -> Result<Step, RankError> {
    let returned = match called {
        Ok(()) => 0,
        Err(error) => error.nccl_code().ok_or(error)?,
    };
    if returned != 0 {
        return Ok(Step { returned, outcome: Outcome::Refused });
    }
    let outcome = match arrived(job, comm)? {
        Some(interruption) => interruption,
        None => classify(job, comm, piece)?,
    };
    Ok(Step { returned, outcome })
}

/// Waits for the stream; what kept it from arriving, if anything did.
fn arrived(job: &Job, comm: &Tracked) -> Result<Option<Outcome>, RankError> {
    let done = job.gpu.untimed_event()?;
    done.record(&job.stream)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reached = done.is_reached()?;
        if job.nccl.async_error(comm.comm.raw())? != 0 {
            return Ok(Some(Outcome::Lost));
        }
        if reached {
            return Ok(None);
        }
        if Instant::now() > deadline {
            return Ok(Some(Outcome::Stuck));
        }
        std::thread::yield_now();
    }
}

fn classify(job: &Job, comm: &Tracked, piece: &Piece) -> Result<Outcome, RankError> {
    let (output, ranks) = (piece.result()?, comm.comm.size);
    let vendor = Expectation { format: None, ..job.expectation };
    let fits = |expectation: &Expectation| expectation.fault(&piece.spec, ranks, &output).is_none();
    Ok(match () {
        () if fits(&vendor) => Outcome::Exact,
        () if fits(&job.expectation) => Outcome::Compressed,
        () if job.expectation.is_marked(&piece.spec, ranks, &output) => Outcome::Marked,
        () => Outcome::Wrong,
    })
}
