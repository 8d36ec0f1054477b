//! Calls on a communicator that is gone or going, and calls that cannot be made: they return an error,
//! do nothing, and disturb nothing else.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use airamp_vendor::gpu::Kind;
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
use crate::nccl::{Communicator, invoke};
use crate::pattern::Reduction;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![Case::new("endings/aborted_inside_an_open_group", |job| ended(job, Ending::Abort))];
    cases.push(Case::new("endings/by_another_thread_after_an_operator_was_dropped", without_its_operator));
    cases.push(Case::new("endings/in_a_group_with_calls_of_another", beside_another));
    if job.kind == Kind::Cuda {
        cases.push(Case::new("endings/before_the_device_is_reset", reset));
    }
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

/// An operator may be dropped as soon as the call with it is made; a watchdog aborts the communicator before the group
/// ends, and the operator is gone with it.
fn without_its_operator(job: &mut Job) -> Result<Seen, RankError> {
    let (doomed, mut seen) = (job.communicator()?, Seen::new());
    let spec = Spec { reduction: Reduction::PreMulSum, ..Spec::sum(DataType::FLOAT32, 5003) };
    let piece = Piece::new(job, &doomed, spec)?;
    job.wait_for_everyone()?;
    // The end is an error or does nothing, as with the vendor alone.
    let _ended = job.group(|| {
        piece.call_without_effect(job, &doomed, &job.stream)?;
        invoke!(job.nccl, ncclRedOpDestroy(piece.op, doomed.comm.raw()))?;
        doomed.comm.abort_elsewhere()
    });
    job.stream.synchronize()?;
    piece.judge_untouched(&mut seen)?;
    job.wait_for_everyone()?;
    use_another(job, &mut seen)?;
    Ok(seen)
}

/// One that has no calls in the group is finalized and destroyed in it.
fn beside_another(job: &mut Job) -> Result<Seen, RankError> {
    let (over, comm, mut seen) = (job.communicator()?, job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..4).map(various))?;
    job.group(|| {
        pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
        over.comm.finalize()?;
        over.comm.destroy()
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

/// The last of the communicators is aborted, so that what it used has not been given back yet. For the emulator, whose
/// resets leave a program its streams and its memory.
fn reset(job: &mut Job) -> Result<Seen, RankError> {
    let mut seen = Seen::new();
    for _ in 0..2 {
        let (aborted, destroyed) = (job.communicator()?, job.communicator()?);
        job.wait_for_everyone()?;
        destroyed.comm.destroy()?;
        aborted.comm.abort()?;
        let device = job.gpu.current_device()?;
        let code = driver_call(c"cuDevicePrimaryCtxReset_v2", device);
        seen.expect(code == Some(0), || format!("the device was not reset: {code:?}"));
        use_another(job, &mut seen)?;
    }
    Ok(seen)
}

fn driver_call(name: &CStr, argument: c_int) -> Option<c_int> {
    // SAFETY: the driver is loaded and never closed; the function has the signature of its header.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let address = libc::dlsym(library, name.as_ptr());
        let function =
            std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn(c_int) -> c_int>>(address);
        function.map(|function| function(argument))
    }
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
