//! Communicators that are made from others by Shrink, and by Split of what was shrunk: each is compressed like any
//! other, with the bits of its own ranks. Who is left out makes no call, and goes on with the parent.

use super::piece::Piece;
use super::streams::various;
use super::tracked::Tracked;
use super::{Case, Job, Seen};
use crate::error::RankError;

const CALLS: usize = 5;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = Vec::new();
    if job.nccl.functions.ncclCommShrink.is_some() && job.world.size > 2 {
        cases.push(Case::new("children/shrunk_by_the_last_rank", |job| shrunk(job, job.world.size - 1)));
        // The one at which the ranks of a child meet.
        cases.push(Case::new("children/shrunk_by_the_first_rank", |job| shrunk(job, 0)));
        cases.push(Case::new("children/shrunk_and_then_split", shrunk_and_split));
    }
    if job.nccl.functions.ncclCommShrink.is_some() && job.world.size > 3 {
        cases.push(Case::new("children/shrunk_without_one_and_then_another", shrunk_repeatedly));
    }
    cases
}

/// Calls on one communicator, judged when all are done.
fn use_it(job: &Job, comm: &Tracked, seed: usize, seen: &mut Seen) -> Result<(), RankError> {
    let pieces = Piece::all(job, comm, (seed..seed + CALLS).map(various))?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, comm, &job.stream))?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(comm, seen))?;
    comm.check(seen);
    Ok(())
}

fn shrink(job: &Job, parent: &Tracked, left_out: usize) -> Result<Option<Tracked>, RankError> {
    if job.world.rank == left_out {
        return Ok(None);
    }
    let child = parent.comm.shrink(&[left_out as i32])?;
    Ok(child.map(|child| Tracked::new(child, job.expectation)))
}

/// The child before the parent and behind it, so that a mix-up of their messages would show.
fn shrunk(job: &mut Job, left_out: usize) -> Result<Seen, RankError> {
    let (parent, mut seen) = (job.communicator()?, Seen::new());
    use_it(job, &parent, 0, &mut Seen::new())?;
    let child = shrink(job, &parent, left_out)?;
    let mut apart = Seen::new();
    for round in 1..3 {
        if let Some(child) = &child {
            let pieces = Piece::all(job, child, (10 * round..10 * round + CALLS).map(various))?;
            pieces.iter().try_for_each(|piece| piece.enqueue(job, child, &job.stream))?;
            job.stream.synchronize()?;
            pieces.iter().try_for_each(|piece| piece.judge(child, &mut apart))?;
        }
        let piece = Piece::new(job, &parent, various(round))?;
        piece.enqueue(job, &parent, &job.stream)?;
        job.stream.synchronize()?;
        piece.judge(&parent, &mut seen)?;
    }
    parent.check(&mut seen);
    if let Some(child) = child {
        child.check(&mut apart);
        child.comm.destroy()?;
    }
    seen.take_in(apart);
    parent.comm.destroy()?;
    Ok(seen)
}

/// A child of a child, with its ranks in the opposite order.
fn shrunk_and_split(job: &mut Job) -> Result<Seen, RankError> {
    let (parent, mut seen) = (job.communicator()?, Seen::new());
    let (child, mut apart) = (shrink(job, &parent, 1)?, Seen::new());
    if let Some(child) = child {
        let grandchild = child.comm.split(0, -(job.world.rank as i32))?;
        let grandchild = grandchild.map(|it| Tracked::new(it, job.expectation));
        use_it(job, &child, 20, &mut apart)?;
        if let Some(grandchild) = grandchild {
            use_it(job, &grandchild, 30, &mut apart)?;
            grandchild.comm.destroy()?;
        }
        child.comm.destroy()?;
    }
    use_it(job, &parent, 40, &mut seen)?;
    seen.take_in(apart);
    parent.comm.destroy()?;
    Ok(seen)
}

/// Children of one parent, each without another rank: the ranks do not make the same number of them. Each is made twice,
/// while those before it are in use.
fn shrunk_repeatedly(job: &mut Job) -> Result<Seen, RankError> {
    let (parent, mut seen) = (job.communicator()?, Seen::new());
    let mut children = Vec::new();
    for left_out in [2, 3, 2, 3] {
        children.push(shrink(job, &parent, left_out)?);
        let mut apart = Seen::new();
        for (number, child) in children.iter().enumerate() {
            if let Some(child) = child {
                use_it(job, child, 10 * number, &mut apart)?;
            }
        }
        seen.take_in(apart);
    }
    use_it(job, &parent, 40, &mut seen)?;
    children.into_iter().flatten().try_for_each(|child| child.comm.destroy())?;
    parent.comm.destroy()?;
    Ok(seen)
}
