//! Groups of AllReduces: on one stream and on several, nested, over several communicators.

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::{DataType, SIM_INFO_MAGIC, SimInfo};

use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::{Case, Job, Seen};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::pattern::Reduction;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("groups/on_one_stream", |job| on_streams(job, 1)),
        Case::new("groups/on_several_streams", |job| on_streams(job, 3)),
        Case::new("groups/every_stream_may_use_every_result", fanned_out),
        Case::new("groups/every_stream_is_waited_for", joined),
        Case::new("groups/nested", nested),
        Case::new("groups/several_communicators", several_communicators),
        Case::new("groups/after_each_other_without_a_wait", after_each_other),
        Case::new("groups/simulated", simulated),
        Case::new("groups/empty", empty),
    ]
}

/// Long, short, too small, empty and not compressible in one group.
fn assorted(seed: usize) -> Vec<Spec> {
    let of = |number: usize| various(seed + number);
    vec![
        of(0),
        Spec::sum(DataType::BFLOAT16, SEVERAL_STEPS).seeded(seed),
        Spec { count: 0, ..of(2) },
        Spec { reduction: Reduction::Max, ..of(3) },
        Spec { count: 100, ..of(4) },
        Spec { reduction: Reduction::Avg, ..of(5) },
        Spec::sum(DataType::INT32, 5003).seeded(seed),
        of(7),
    ]
}

fn on_streams(job: &mut Job, number: usize) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let streams: Vec<Stream> = (0..number).map(|_| job.gpu.stream(true)).collect::<Result<_, _>>()?;
    let pieces = Piece::all(job, &comm, assorted(1))?;
    job.group(|| {
        let mut placed = pieces.iter().enumerate();
        placed.try_for_each(|(index, piece)| piece.enqueue(job, &comm, &streams[index % number]))
    })?;
    streams.iter().try_for_each(Stream::synchronize)?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

/// NCCL lets every stream of a group wait for all of it: a result is copied on another stream than
/// that of its call, and only that one is waited for.
fn fanned_out(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let pieces = Piece::all(job, &comm, [Spec::sum(DataType::FLOAT16, SEVERAL_STEPS), various(1)])?;
    let copy = job.gpu.alloc(pieces[0].spec.bytes())?;
    for _ in 0..3 {
        job.group(|| {
            pieces[0].enqueue(job, &comm, &job.stream)?;
            pieces[1].enqueue(job, &comm, &other)
        })?;
        pieces[0].copy_result(&copy, &other)?;
        other.synchronize()?;
        let mut output = vec![0; pieces[0].spec.bytes()];
        copy.read(0, &mut output)?;
        pieces[0].judge_result(&comm.expectation, &output, &mut seen);
    }
    job.stream.synchronize()?;
    pieces[0].judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    Ok(seen)
}

/// What a stream of the group holds back also holds back the calls on the others: the input of the
/// first call is written on the second call's stream.
fn joined(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let mut pieces = Piece::all(job, &comm, [various(0), various(2)])?;
    for round in 0..3 {
        let upload = pieces[0].rewrite_on(&other, 20 + round)?;
        job.group(|| {
            pieces[0].enqueue(job, &comm, &job.stream)?;
            pieces[1].enqueue(job, &comm, &other)
        })?;
        job.stream.synchronize()?;
        other.synchronize()?;
        drop(upload);
        pieces[0].judge(&comm, &mut seen)?;
        pieces[1].judge(&comm, &mut seen)?;
    }
    comm.check(&mut seen);
    Ok(seen)
}

fn nested(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..5).map(various))?;
    let call = |index: usize| pieces[index].enqueue(job, &comm, &job.stream);
    job.group(|| {
        call(0)?;
        job.group(|| {
            call(1)?;
            job.group(|| call(2))?;
            call(3)
        })?;
        // Nothing of it may have run before the outermost end.
        call(4)
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

fn several_communicators(job: &mut Job) -> Result<Seen, RankError> {
    let (comms, mut seen) = ([job.communicator()?, job.communicator()?, job.communicator()?], Seen::new());
    let streams = [job.gpu.stream(true)?, job.gpu.stream(true)?];
    let mut pieces = Vec::new();
    for (index, comm) in comms.iter().enumerate() {
        pieces.push(Piece::all(job, comm, (0..3).map(|piece| various(5 * index + piece)))?);
    }
    // Long on one communicator, short on the others: their steps differ in number.
    pieces[1].push(Piece::new(job, &comms[1], Spec::sum(DataType::FLOAT16, SEVERAL_STEPS).seeded(2))?);
    job.group(|| {
        let most = pieces.iter().map(Vec::len).max().unwrap_or(0);
        for (round, (comm, pieces)) in
            (0..most).flat_map(|round| comms.iter().zip(&pieces).map(move |own| (round, own)))
        {
            if let Some(piece) = pieces.get(round) {
                piece.enqueue(job, comm, &streams[round % 2])?;
            }
        }
        Ok(())
    })?;
    streams.iter().try_for_each(Stream::synchronize)?;
    for (comm, pieces) in comms.iter().zip(&pieces) {
        pieces.iter().try_for_each(|piece| piece.judge(comm, &mut seen))?;
        comm.check(&mut seen);
    }
    Ok(seen)
}

/// Groups and single calls on two streams, in turn.
fn after_each_other(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let mut pieces = Vec::new();
    for round in 0..4 {
        let of_round = Piece::all(job, &comm, (0..4).map(|piece| various(9 * round + piece)))?;
        pieces.push(of_round);
    }
    for of_round in &pieces {
        job.group(|| {
            of_round[0].enqueue(job, &comm, &job.stream)?;
            of_round[1].enqueue(job, &comm, &other)
        })?;
        of_round[2].enqueue(job, &comm, &other)?;
        job.group(|| of_round[3].enqueue(job, &comm, &job.stream))?;
    }
    job.stream.synchronize()?;
    other.synchronize()?;
    pieces.iter().flatten().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

/// A simulated group runs nothing, and the call after it is the first.
fn simulated(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    if job.nccl.functions.ncclGroupSimulateEnd.is_none() {
        return Ok(seen);
    }
    let pieces = Piece::all(job, &comm, (0..3).map(various))?;
    let mut info = SimInfo {
        size: size_of::<SimInfo>(),
        magic: SIM_INFO_MAGIC,
        version: job.nccl.version()? as u32,
        estimated_time: -1.0,
    };
    invoke!(job.nccl, ncclGroupStart())?;
    let called = pieces.iter().try_for_each(|piece| piece.call_without_effect(job, &comm, &job.stream));
    let ended = invoke!(job.nccl, ncclGroupSimulateEnd(&raw mut info));
    called?;
    ended?;
    job.stream.synchronize()?;
    pieces[0].judge_untouched(&mut seen)?;
    comm.check(&mut seen);
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

fn empty(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let piece = Piece::new(job, &comm, various(3))?;
    job.group(|| Ok(()))?;
    piece.enqueue(job, &comm, &job.stream)?;
    job.group(|| job.group(|| Ok(())))?;
    job.stream.synchronize()?;
    piece.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    Ok(seen)
}
