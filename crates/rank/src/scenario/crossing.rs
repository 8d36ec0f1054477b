//! Two communicators that the ranks use in different orders, with a wait of the host between. Bare NCCL
//! runs it once both are connected. Compressed calls are connected from the start, so that the
//! program may begin with them, in a capture too.

use airamp_vendor::gpu::GraphExec;

use super::messages::{Messages, spec};
use super::piece::Piece;
use super::tracked::Tracked;
use super::{Case, Job, Seen};
use crate::error::RankError;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![
        Case::new("crossing/live", |job| crossing(job, false, false)),
        Case::new("crossing/live_after_messages", |job| crossing(job, false, true)),
        Case::new("crossing/captured", |job| crossing(job, true, false)),
        Case::new("crossing/captured_after_messages", |job| crossing(job, true, true)),
    ];
    // A single rank has no peer.
    cases.retain(|_| job.layout.iter().sum::<usize>() > 1);
    cases
}

fn crossing(job: &mut Job, captured: bool, after_messages: bool) -> Result<Seen, RankError> {
    let (reducing, sending) = (job.communicator()?, job.communicator()?);
    let (other, mut seen) = (job.gpu.stream(true)?, Seen::new());
    let piece = Piece::new(job, &reducing, spec(0))?;
    let messages = Messages::new(job, &sending, 1)?;
    if job.expectation.format.is_none() {
        piece.enqueue(job, &reducing, &job.stream)?;
        job.stream.synchronize()?;
    }
    let exchange = |rank: usize| match rank {
        0 => messages.send_to(1, job, &sending, &other),
        1 => messages.receive_from(0, job, &sending, &other),
        _ => Ok(()),
    };
    let rank = job.world.rank;
    if after_messages {
        exchange(rank)?;
    }
    let graph = if rank == 1 {
        exchange(rank)?;
        other.synchronize()?;
        reduce(job, &reducing, &piece, captured)?
    } else {
        let graph = reduce(job, &reducing, &piece, captured)?;
        exchange(rank)?;
        graph
    };
    job.stream.synchronize()?;
    other.synchronize()?;
    piece.judge(&reducing, &mut seen)?;
    if rank == 1 {
        messages.judge_from(0, &sending, &mut seen)?;
    }
    reducing.check(&mut seen);
    drop(graph);
    [reducing, sending].into_iter().try_for_each(|comm| comm.comm.destroy())?;
    Ok(seen)
}

/// What is returned is used until the stream has passed.
fn reduce(job: &Job, comm: &Tracked, piece: &Piece, captured: bool) -> Result<Option<GraphExec>, RankError> {
    let enqueue = || piece.enqueue(job, comm, &job.stream);
    if !captured {
        return enqueue().map(|()| None);
    }
    let graph = job.stream.capture(enqueue)?;
    graph.launch(&job.stream)?;
    Ok(Some(graph))
}
