//! Several streams and several communicators at once, none of them waited for before the end. The
//! emulator checks the order of accesses, so a dependency that the library forgets is an error.

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::DataType;

use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::piece::Piece;
use super::tracked::Tracked;
use super::{Case, Equipment, Job, Seen};
use crate::error::RankError;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("streams/two_take_turns", two_take_turns),
        Case::new("streams/the_default_stream_among_them", default_stream),
        Case::new("streams/long_and_short_calls_on_two", long_and_short),
        Case::new("streams/many_communicators", many_communicators),
        Case::new("streams/children_of_a_split", split),
    ]
}

const TYPES: [DataType; 3] = [DataType::FLOAT16, DataType::BFLOAT16, DataType::FLOAT32];

/// Different numbers, types and lengths for every call.
pub(super) fn various(seed: usize) -> Spec {
    let spec = Spec::sum(TYPES[seed % 3], 3000 + 997 * (seed % 7)).seeded(seed);
    Spec { in_place: seed % 4 == 1, shift: seed % 5, ..spec }
}

/// Enqueues each piece on the stream that its place names, waits, and compares everything.
fn spread(job: &Equipment, comm: &Tracked, pieces: &[Piece], streams: &[&Stream]) -> Result<Seen, RankError> {
    let mut seen = Seen::new();
    for (index, piece) in pieces.iter().enumerate() {
        piece.enqueue(job, comm, streams[index % streams.len()])?;
    }
    streams.iter().try_for_each(|stream| stream.synchronize())?;
    pieces.iter().try_for_each(|piece| piece.judge(comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

fn two_take_turns(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other) = (job.communicator()?, job.gpu.stream(true)?);
    let pieces = Piece::all(job, &comm, (0..16).map(various))?;
    spread(job, &comm, &pieces, &[&job.stream, &other])
}

fn default_stream(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, blocking) = (job.communicator()?, job.gpu.stream(false)?);
    let default = job.gpu.borrow_stream(std::ptr::null_mut());
    let pieces = Piece::all(job, &comm, (0..9).map(various))?;
    spread(job, &comm, &pieces, &[&job.stream, &default, &blocking])
}

fn long_and_short(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other) = (job.communicator()?, job.gpu.stream(true)?);
    let long = |seed| Spec::sum(DataType::FLOAT16, SEVERAL_STEPS).seeded(seed);
    let pieces = Piece::all(job, &comm, [long(0), various(1), long(2), various(3), various(4), long(5)])?;
    spread(job, &comm, &pieces, &[&job.stream, &other])
}

/// The calls of all communicators, round by round, on all streams.
fn many_communicators(job: &mut Job) -> Result<Seen, RankError> {
    const ROUNDS: usize = 4;
    let mut seen = Seen::new();
    let streams = [job.gpu.stream(true)?, job.gpu.stream(true)?, job.gpu.stream(true)?];
    let mut comms = Vec::new();
    for _ in 0..5 {
        comms.push(job.communicator()?);
    }
    let reversed = comms[0].comm.split(0, -(job.world.rank as i32))?;
    comms.extend(reversed.map(|child| Tracked::new(child, job.expectation)));
    let mut pieces = Vec::new();
    for (index, comm) in comms.iter().enumerate() {
        pieces.push(Piece::all(job, comm, (0..ROUNDS).map(|round| various(7 * index + round)))?);
    }
    for round in 0..ROUNDS {
        for (index, comm) in comms.iter().enumerate() {
            pieces[index][round].enqueue(job, comm, &streams[(index + round) % streams.len()])?;
        }
    }
    streams.iter().try_for_each(Stream::synchronize)?;
    for (comm, pieces) in comms.iter().zip(&pieces) {
        pieces.iter().try_for_each(|piece| piece.judge(comm, &mut seen))?;
        comm.check(&mut seen);
    }
    Ok(seen)
}

/// Parent and child at once; a child of one rank alone has nobody to exchange with.
fn split(job: &mut Job) -> Result<Seen, RankError> {
    let mut seen = Seen::new();
    let (parent, other) = (job.communicator()?, job.gpu.stream(true)?);
    let rank = job.world.rank as i32;
    let child = parent.comm.split(rank / 2, -rank)?.map(|child| Tracked::new(child, job.expectation));
    let of_parent = Piece::all(job, &parent, (0..4).map(various))?;
    let of_child = match &child {
        Some(child) => Piece::all(job, child, (10..14).map(various))?,
        None => Vec::new(),
    };
    for (index, piece) in of_parent.iter().enumerate() {
        piece.enqueue(job, &parent, &job.stream)?;
        if let (Some(child), Some(piece)) = (&child, of_child.get(index)) {
            piece.enqueue(job, child, &other)?;
        }
    }
    job.stream.synchronize()?;
    other.synchronize()?;
    of_parent.iter().try_for_each(|piece| piece.judge(&parent, &mut seen))?;
    parent.check(&mut seen);
    if let Some(child) = &child {
        let mut apart = Seen::new();
        of_child.iter().try_for_each(|piece| piece.judge(child, &mut apart))?;
        child.check(&mut apart);
        seen.take_in(apart);
    }
    Ok(seen)
}
