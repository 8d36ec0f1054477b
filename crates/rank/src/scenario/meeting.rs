//! Groups on several streams of which only a part is compressed or tried: the vendor has the rest in groups of its own, and
//! knows the streams of these alone. Still the whole group waits for all of its streams, and all of them for it.

use std::time::Duration;

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::DataType;

use super::arguments::enqueue_configured;
use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::messages::Messages;
use super::piece::Piece;
use super::tracked::{Tracked, trial_calls};
use super::{Case, Job, Seen};
use crate::collective::{Collective, Form};
use crate::error::RankError;

/// Far more than come before the first trial, at that pace.
const MOST_UNTIL_TRIED: usize = 1500;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![
        Case::new("meeting/what_is_passed_on_before_a_turn", |job| {
            crosswise(job, passed_on(), true, in_turn)
        }),
        Case::new("meeting/what_is_passed_on_behind_a_turn", |job| {
            crosswise(job, passed_on(), false, in_turn)
        }),
        Case::new("meeting/messages", messages),
        Case::new("meeting/captured", captured),
        Case::new("meeting/captured_beside_an_empty_call", |job| {
            captured_beside(job, |job, comm, empty| empty.enqueue(job, comm, &job.stream))
        }),
        // For ranks that try their calls.
        Case::new("tried/groups_on_two_streams", tried),
    ];
    if Collective::AllReduce.is_in(&job.nccl, Form::Config) {
        let configured = |job: &mut Job| {
            crosswise(job, passed_on(), true, |job, comm, piece, _| enqueue_configured(job, comm, piece))
        };
        cases.push(Case::new("meeting/what_is_passed_on_at_once", configured));
        cases.push(Case::new("meeting/at_once_and_empty_beside_a_captured_call", |job| {
            captured_beside(job, |job, comm, empty| enqueue_configured(job, comm, empty))
        }));
    }
    cases
}

/// Long, so that whoever does not wait for it is too early.
fn passed_on() -> Spec {
    Spec::sum(DataType::INT32, SEVERAL_STEPS)
}

fn compressible() -> Spec {
    Spec::sum(DataType::FLOAT16, SEVERAL_STEPS)
}

fn in_turn(job: &Job, comm: &Tracked, piece: &Piece, stream: &Stream) -> Result<(), RankError> {
    piece.enqueue(job, comm, stream)
}

/// A call on the job's stream whose input is written, and whose result is used, on the stream of the other call of its group.
fn crosswise(
    job: &mut Job,
    spec: Spec,
    comes_first: bool,
    call: impl Fn(&Job, &Tracked, &Piece, &Stream) -> Result<(), RankError>,
) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let (mut piece, beside) = (Piece::new(job, &comm, spec)?, Piece::new(job, &comm, compressible())?);
    let copy = job.gpu.alloc(piece.spec.bytes())?;
    for round in 0..3 {
        let upload = piece.rewrite_on(&other, 20 + round)?;
        job.group(|| {
            if comes_first {
                call(job, &comm, &piece, &job.stream)?;
            }
            beside.enqueue(job, &comm, &other)?;
            if comes_first { Ok(()) } else { call(job, &comm, &piece, &job.stream) }
        })?;
        piece.copy_result(&copy, &other)?;
        other.synchronize()?;
        drop(upload);
        let mut output = vec![0; piece.spec.bytes()];
        copy.read(0, &mut output)?;
        piece.judge_result(&comm.expectation, &output, &mut seen);
    }
    job.stream.synchronize()?;
    beside.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    Ok(seen)
}

/// Read when only the stream of the compressed call has come to its end.
fn messages(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let beside = Piece::new(job, &comm, compressible())?;
    for round in 0..3 {
        let messages = Messages::new(job, &comm, round)?;
        job.group(|| {
            messages.send(job, &comm, &job.stream)?;
            beside.enqueue(job, &comm, &other)?;
            messages.receive(job, &comm, &job.stream)
        })?;
        other.synchronize()?;
        messages.judge(&comm, &mut seen)?;
        beside.judge(&comm, &mut seen)?;
    }
    job.stream.synchronize()?;
    comm.check(&mut seen);
    Ok(seen)
}

/// A stream that was forked off the capture comes back to it by the group alone.
fn captured(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (stream, forked, fork) = (job.gpu.stream(true)?, job.gpu.stream(true)?, job.gpu.untimed_event()?);
    let pieces = Piece::all(job, &comm, [compressible(), passed_on()])?;
    let graph = stream.capture(|| {
        fork.record(&stream)?;
        forked.wait(&fork)?;
        job.group(|| {
            pieces[0].enqueue(job, &comm, &stream)?;
            pieces[1].enqueue(job, &comm, &forked)
        })
    })?;
    for _ in 0..2 {
        graph.launch(&stream)?;
    }
    stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    drop(graph);
    Ok(seen)
}

/// An empty call on a stream that is in no capture: there is nothing to wait for.
fn captured_beside(
    job: &mut Job,
    call: impl Fn(&Job, &Tracked, &Piece) -> Result<(), RankError>,
) -> Result<Seen, RankError> {
    let (comm, mut seen, stream) = (job.communicator()?, Seen::new(), job.gpu.stream(true)?);
    let piece = Piece::new(job, &comm, compressible())?;
    let empty = Piece::new(job, &comm, Spec::sum(DataType::FLOAT16, 0))?;
    let graph = stream.capture(|| {
        job.group(|| {
            piece.enqueue(job, &comm, &stream)?;
            call(job, &comm, &empty)
        })
    })?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    piece.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    drop(graph);
    Ok(seen)
}

/// The vendor has the call behind its dry run, and in a group of its own.
fn tried(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let pieces = Piece::all(job, &comm, [compressible(), compressible().seeded(1)])?;
    let copy = job.gpu.alloc(pieces[1].spec.bytes())?;
    // The same number on all ranks: they try at the same calls.
    let tried = || trial_calls(comm.comm.raw()).is_some_and(|calls| calls > 0);
    for _ in 0..MOST_UNTIL_TRIED {
        job.group(|| {
            pieces[0].enqueue(job, &comm, &job.stream)?;
            pieces[1].enqueue(job, &comm, &other)
        })?;
        pieces[1].copy_result(&copy, &job.stream)?;
        job.stream.synchronize()?;
        if tried() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    other.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    seen.expect(tried(), || "no call was tried".into());
    comm.check(&mut seen);
    Ok(seen)
}
