//! Calls on a communicator that is gone or going, and calls that cannot be made: they return an error,
//! do nothing, and disturb nothing else.

use std::ptr;

use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult};

use super::expected::Spec;
use super::lifetimes::use_another;
use super::messages::{Messages, spec};
use super::piece::Piece;
use super::streams::various;
use super::tracked::{Tracked, compressed_calls};
use super::{Case, Job, Seen};
use crate::collective::Call;
use crate::error::RankError;
use crate::nccl::Communicator;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![Case::new("endings/aborted_inside_an_open_group", |job| ended(job, Ending::Abort))];
    if job.nccl.functions.ncclCommRevoke.is_some() {
        cases.push(Case::new("endings/revoked", revoked));
        cases.push(Case::new("endings/revoked_inside_an_open_group", |job| ended(job, Ending::Revoke)));
        cases.push(Case::new("endings/revoked_by_another_thread", |job| ended(job, Ending::RevokeElsewhere)));
        cases.push(Case::new("endings/revoked_by_another_thread_before_its_call", revoked_before_its_call));
    }
    // A vendor looks at addresses when it uses them, and then it is too late for an error.
    if job.expectation.format.is_some() {
        cases.push(Case::new("endings/nothing_where_a_buffer_should_be", null_buffers));
    }
    cases
}

#[derive(Clone, Copy)]
enum Ending {
    Abort,
    Revoke,
    /// By another thread, as a watchdog does.
    RevokeElsewhere,
}

/// Nothing touches the communicator when the group ends. The rest of the group takes place, or the end
/// is an error and nothing does, as with the vendor alone. Where the program itself did not end it in its group, peers may
/// have made calls then that this rank has not, and where calls are compressed there are no more of them.
fn ended(job: &mut Job, how: Ending) -> Result<Seen, RankError> {
    let (doomed, comm, mut seen) = (job.communicator()?, job.communicator()?, Seen::new());
    let int32 = |seed| Spec::sum(DataType::INT32, 5003).seeded(seed);
    let lost = Piece::all(job, &doomed, [spec(0), int32(0), spec(1)])?;
    let messages = Messages::new(job, &doomed, 1)?;
    let pieces = Piece::all(job, &comm, [spec(2), int32(1), spec(3)])?;
    job.wait_for_everyone()?;
    let call = |comm: &Tracked, piece: &Piece| piece.call_without_effect(job, comm, &job.stream);
    let mut revoked = None;
    let ended = job.group(|| {
        lost.iter().try_for_each(|piece| call(&doomed, piece))?;
        messages.send(job, &doomed, &job.stream)?;
        messages.receive(job, &doomed, &job.stream)?;
        pieces.iter().try_for_each(|piece| call(&comm, piece))?;
        match how {
            Ending::Abort => doomed.comm.abort(),
            Ending::Revoke => revoked.insert(doomed).comm.revoke(),
            Ending::RevokeElsewhere => revoke_elsewhere(job, &revoked.insert(doomed).comm),
        }
    });
    job.stream.synchronize()?;
    lost.iter().try_for_each(|piece| piece.judge_untouched(&mut seen))?;
    if ended.is_ok() {
        pieces.iter().for_each(|piece| comm.note(&piece.spec));
        pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
        comm.check(&mut seen);
    } else {
        pieces.iter().try_for_each(|piece| piece.judge_untouched(&mut seen))?;
        if job.expectation.format.is_some() && matches!(how, Ending::RevokeElsewhere) {
            let next = call(&comm, &pieces[0]);
            seen.expect(next.is_err(), || "a call that peers may take for another was accepted".into());
        }
    }
    job.wait_for_everyone()?;
    revoked.map_or(Ok(()), |doomed| doomed.comm.abort())?;
    comm.comm.abort()?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

/// The call on it is refused, and so is the group; of its other calls nobody knows who has made them.
fn revoked_before_its_call(job: &mut Job) -> Result<Seen, RankError> {
    let (doomed, comm, mut seen) = (job.communicator()?, job.communicator()?, Seen::new());
    let (lost, other) = (Piece::new(job, &doomed, spec(0))?, Piece::new(job, &comm, spec(1))?);
    job.wait_for_everyone()?;
    let call = |comm: &Tracked, piece: &Piece| piece.call_without_effect(job, comm, &job.stream);
    let ended = job.group(|| {
        call(&comm, &other)?;
        revoke_elsewhere(job, &doomed.comm)?;
        seen.expect(call(&doomed, &lost).is_err(), || "a revoked communicator took a call".into());
        Ok(())
    });
    seen.expect(ended.is_err(), || "a group with a call that was refused succeeded".into());
    job.stream.synchronize()?;
    lost.judge_untouched(&mut seen)?;
    other.judge_untouched(&mut seen)?;
    if job.expectation.format.is_some() {
        let next = call(&comm, &other);
        seen.expect(next.is_err(), || "a call that peers may take for another was accepted".into());
    }
    job.wait_for_everyone()?;
    doomed.comm.abort()?;
    comm.comm.abort()?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

fn revoke_elsewhere(job: &Job, comm: &Communicator) -> Result<(), RankError> {
    let (revoke, raw) = (job.nccl.functions.ncclCommRevoke, comm.raw() as usize);
    let revoked = std::thread::scope(|scope| {
        // SAFETY: the communicator lives, and any thread may revoke it.
        scope.spawn(move || revoke.map(|revoke| unsafe { revoke(raw as Comm, 0) })).join()
    });
    let result = revoked.ok().flatten().map_or(NcclResult::INTERNAL_ERROR.0, |result| result.0);
    job.nccl.checked("ncclCommRevoke", NcclResult(result))
}

fn revoked(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (before, after) = (Piece::new(job, &comm, spec(0))?, Piece::new(job, &comm, spec(1))?);
    before.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    before.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    job.wait_for_everyone()?;
    comm.comm.revoke()?;
    let counted = compressed_calls(comm.comm.raw());
    let call = || after.call_without_effect(job, &comm, &job.stream);
    for _ in 0..2 {
        seen.expect(call().is_err(), || "a call on a revoked communicator was accepted".into());
        seen.expect(job.group(call).is_err(), || "a group on a revoked communicator was accepted".into());
    }
    job.stream.synchronize()?;
    after.judge_untouched(&mut seen)?;
    let now = compressed_calls(comm.comm.raw());
    seen.expect(now == counted, || format!("{now:?} calls were compressed, not {counted:?}"));
    job.wait_for_everyone()?;
    // It has failed, and is a parent all the same.
    let child = comm.comm.split(0, job.world.rank as i32)?;
    child.map_or(Ok(()), Communicator::destroy)?;
    comm.comm.abort()?;
    Ok(seen)
}

/// Only the call that names no buffer fails, on whichever rank, and it does not count.
fn null_buffers(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..4).map(various))?;
    for (number, piece) in pieces.iter().enumerate() {
        // The last time on one rank alone.
        if number < 3 || job.world.rank == 0 {
            let call = piece.call();
            let faulty = [Call { send: ptr::null(), ..call }, Call { recv: ptr::null_mut(), ..call }];
            for call in faulty {
                let called = call.enqueue(&job.nccl, comm.comm.raw(), job.stream.raw());
                let code = called.err().and_then(|error| error.nccl_code());
                let right = code == Some(NcclResult::INVALID_ARGUMENT.0);
                seen.expect(right, || format!("a call without a buffer gave {code:?}"));
            }
        }
        comm.check(&mut seen);
        piece.enqueue(job, &comm, &job.stream)?;
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}
