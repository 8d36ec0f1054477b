//! Application bugs are errors that name themselves, and lost peers are errors too: nothing hangs.

mod nccl;

use std::time::Duration;

use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::cuda::CudaError;
use airamp_vendor_abi::nccl::{DataType, NcclResult, RedOp};
use nccl::{
    Buffer, Ended, Rank, all_reduce, async_error, destroy, group, named, new_stream, ok, ranks, ranks_with,
    recv, send, sync, try_sync, use_device, wait_until,
};

const F32: DataType = DataType::FLOAT32;

#[test]
fn a_count_mismatch_is_named_and_fails_on_both_sides() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        let count = 10 * (1 + rank.rank);
        // SAFETY: the arguments are what the header asks for, but for what is tested.
        ok(unsafe { ncclAllReduce(buffer.ptr(), buffer.ptr(), count, F32, RedOp::SUM, comm, stream as _) });
        assert_ne!(try_sync(stream), CudaError::SUCCESS);
        assert_eq!(async_error(comm), NcclResult::INVALID_USAGE);
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::INVALID_USAGE);
    };
    ranks_with(
        2,
        &[],
        body,
        named(&["AllReduce(10 x float32, sum)", "AllReduce(20 x float32, sum)", "rank 0", "rank 1"]),
    );
}

#[test]
fn mismatched_collectives_are_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        // SAFETY: the arguments are what the header asks for, but for what is tested.
        ok(unsafe {
            match rank.rank {
                0 => ncclAllGather(buffer.ptr(), buffer.ptr(), 10, F32, comm, stream as _),
                _ => ncclReduceScatter(buffer.ptr(), buffer.ptr(), 10, F32, RedOp::SUM, comm, stream as _),
            }
        });
        assert_ne!(try_sync(stream), CudaError::SUCCESS);
    };
    ranks_with(2, &[], body, named(&["AllGather", "ReduceScatter"]));
}

#[test]
fn two_roots_of_one_broadcast_are_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        // SAFETY: the arguments are what the header asks for, but for what is tested.
        let result = unsafe { ncclBcast(buffer.ptr(), 100, F32, rank.rank as i32, comm, stream as _) };
        // Whether the host call still sees it depends on who was faster.
        assert!([NcclResult::SUCCESS, NcclResult::INVALID_USAGE].contains(&result), "{result:?}");
        wait_until("the error", || async_error(comm) == NcclResult::INVALID_USAGE);
    };
    ranks_with(
        2,
        &[],
        body,
        named(&["Broadcast(100 x float32, root 0)", "Broadcast(100 x float32, root 1)"]),
    );
}

#[test]
fn a_message_that_does_not_fit_is_named() {
    let body = |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let buffer = Buffer::of(&vec![1.0; 100 + 28 * rank.rank]);
        ok(if rank.rank == 0 { send(&buffer, 1, comm, stream) } else { recv(&buffer, 0, comm, stream) });
        if rank.rank == 1 {
            assert_ne!(try_sync(stream), CudaError::SUCCESS);
        }
        wait_until("the error", || async_error(comm) == NcclResult::INVALID_USAGE);
    };
    ranks_with(2, &[], body, |ended| {
        ended[0].expect_success();
        named(&["Recv(128 x float32)", "Send(100 x float32)"])(&ended[1..]);
    });
}

#[test]
fn a_destroyed_communicator_is_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        destroy(comm);
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::INVALID_ARGUMENT);
        // SAFETY: the function checks the handle.
        assert_eq!(unsafe { ncclCommDestroy(comm) }, NcclResult::INVALID_ARGUMENT);
    };
    ranks_with(1, &[], body, named(&["ncclAllReduce", "destroyed"]));
}

#[test]
fn an_address_that_is_not_device_memory_is_named() {
    let body = |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let wrong = 0x10 as *mut std::ffi::c_void;
        // SAFETY: the address is wrong on purpose; the emulator has to find out.
        ok(unsafe { ncclAllReduce(wrong, wrong, 10, F32, RedOp::SUM, comm, stream as _) });
        assert_eq!(try_sync(stream), CudaError::ILLEGAL_ADDRESS);
    };
    ranks_with(1, &[], body, named(&["0x10", "not device memory"]));
}

#[test]
fn a_stream_of_another_device_is_refused_and_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        use_device(1);
        let elsewhere = new_stream();
        assert_eq!(all_reduce(&buffer, comm, elsewhere), NcclResult::UNHANDLED_CUDA_ERROR);
        sync(elsewhere);
    };
    ranks_with(1, &[], body, named(&["a stream of device 1", "a communicator of device 0"]));
}

#[test]
fn a_peer_that_dies_is_a_remote_error_and_not_a_hang() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 1 << 20]));
        ok(all_reduce(&buffer, comm, stream));
        rank.meet("all are connected");
        for _ in 0..2 {
            let result = all_reduce(&buffer, comm, stream);
            assert!([NcclResult::SUCCESS, NcclResult::REMOTE_ERROR].contains(&result));
            sync(stream);
        }
        wait_until("the error", || async_error(comm) == NcclResult::REMOTE_ERROR);
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::REMOTE_ERROR);
        // SAFETY: the argument is what the header asks for.
        ok(unsafe { ncclCommAbort(comm) });
        // The device is well: a new communicator of one works on it.
        let mut alone = std::ptr::null_mut();
        // SAFETY: as above.
        ok(unsafe { ncclCommInitAll(&mut alone, 1, std::ptr::null()) });
        ok(all_reduce(&buffer, alone, stream));
        sync(stream);
    };
    ranks_with(3, &[("AIRAMP_EMU_DIE_AT_CALL", "1:2")], body, |ended| {
        assert_eq!(ended[1].code, None, "rank 1 was killed");
        for survivor in [&ended[0], &ended[2]] {
            survivor.expect_success();
            assert!(survivor.stderr.contains("airamp emulator: rank 1 of 3 was lost"), "{}", survivor.stderr);
        }
    });
}

#[test]
fn a_peer_that_dies_before_its_first_call_wakes_the_host() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::REMOTE_ERROR);
    };
    ranks_with(2, &[("AIRAMP_EMU_DIE_AT_CALL", "1:1")], body, |ended| ended[0].expect_success());
}

#[test]
fn a_peer_that_has_destroyed_the_communicator_is_not_waited_for() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        if rank.rank == 0 {
            destroy(comm);
            rank.await_signal("rank 1 was told");
        } else {
            assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::REMOTE_ERROR);
            rank.signal("rank 1 was told");
        }
    });
}

#[test]
fn ranks_that_end_without_a_word_leave_no_message_behind() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        if rank.rank == 1 {
            wait_until("the end of rank 0", || async_error(comm) == NcclResult::REMOTE_ERROR);
        }
    };
    ranks_with(2, &[], body, |ended| {
        ended.iter().for_each(Ended::expect_success);
        assert!(!ended[1].stderr.contains("airamp emulator"), "{}", ended[1].stderr);
    });
}

#[test]
fn abort_from_another_thread_wakes_a_stream_and_a_host_call() {
    ranks(2, |rank: Rank| {
        let (comm, other, stream) = (rank.comm(0), rank.comm(1), new_stream());
        let buffer = Buffer::of(&[1.0; 1000]);
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        if rank.rank == 0 {
            // Rank 1 never comes: the stream waits on the first, the host on the second.
            ok(all_reduce(&buffer, comm, stream));
            let (a, b) = (comm as usize, other as usize);
            let aborter = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                // SAFETY: the handles are live; abort may come from any thread.
                unsafe {
                    ok(ncclCommAbort(a as _));
                    ok(ncclCommAbort(b as _));
                }
            });
            assert_ne!(all_reduce(&buffer, other, new_stream()), NcclResult::SUCCESS);
            sync(stream);
            aborter.join().expect("no panic");
            rank.signal("aborted");
        } else {
            rank.await_signal("aborted");
            wait_until("the lost peer", || async_error(comm) == NcclResult::REMOTE_ERROR);
        }
    });
}

#[test]
fn arguments_are_refused_with_nccls_codes() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        let (ptr, stream_ptr) = (buffer.ptr(), stream as *mut std::ffi::c_void);
        let null = std::ptr::null_mut();
        // SAFETY: wrong arguments are the point; none of them is dereferenced.
        unsafe {
            let reduce = |datatype, op, comm| {
                ncclAllReduce(ptr, ptr, 8, DataType(datatype), RedOp(op), comm, stream_ptr)
            };
            for wrong in [
                reduce(7, 0, null),
                reduce(12, 0, comm),
                reduce(-1, 0, comm),
                reduce(7, 5, comm),
                reduce(7, -1, comm),
            ] {
                assert_eq!(wrong, NcclResult::INVALID_ARGUMENT);
            }
            for root in [-1, 2] {
                assert_eq!(
                    ncclBroadcast(ptr, ptr, 8, F32, root, comm, stream_ptr),
                    NcclResult::INVALID_ARGUMENT
                );
                assert_eq!(ncclSend(ptr, 8, F32, root, comm, stream_ptr), NcclResult::INVALID_ARGUMENT);
            }
            assert_eq!(
                ncclAllReduce(ptr, ptr, usize::MAX, F32, RedOp::SUM, comm, stream_ptr),
                NcclResult::INVALID_ARGUMENT
            );
            assert_eq!(ncclGroupEnd(), NcclResult::INVALID_USAGE);
            assert_eq!(ncclGetVersion(std::ptr::null_mut()), NcclResult::INVALID_ARGUMENT);
            assert_eq!(
                ncclCommInitRank(std::ptr::null_mut(), 1, rank.id(1), 0),
                NcclResult::INVALID_ARGUMENT
            );
            let mut out = std::ptr::null_mut();
            assert_eq!(ncclCommInitRank(&mut out, 2, rank.id(1), 2), NcclResult::INVALID_ARGUMENT);
            ok(ncclCommDestroy(null));
            ok(ncclCommAbort(null));
            // Nothing of this counted as a use: an empty collective is dropped even unconnected.
            ok(ncclAllReduce(null, null, 0, F32, RedOp::SUM, comm, stream_ptr));
        }
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 8]);
        destroy(comm);
    });
}

#[test]
fn an_error_inside_a_group_launches_nothing_of_it() {
    ranks(1, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[4.0; 8]));
        let ended = group(|| {
            // SAFETY: the arguments are what the header asks for, but for the root.
            unsafe {
                ok(ncclAllReduce(buffer.ptr(), buffer.ptr(), 8, F32, RedOp::AVG, comm, stream as _));
                assert_eq!(
                    ncclBcast(buffer.ptr(), 8, F32, 7, comm, stream as _),
                    NcclResult::INVALID_ARGUMENT
                );
            }
        });
        assert_eq!(ended, NcclResult::INVALID_ARGUMENT);
        // A message to oneself that nobody receives is a mistake too.
        assert_eq!(send(&buffer, 0, comm, stream), NcclResult::INVALID_USAGE);
        assert_eq!(airamp_emulator::gpu::stream::query(stream), Ok(()));
        destroy(comm);
    });
}

#[test]
fn ranks_that_disagree_on_their_number_are_told() {
    ranks(2, |rank: Rank| {
        let mut comm = std::ptr::null_mut();
        // SAFETY: the arguments are what the header asks for, but for the size.
        let result =
            unsafe { ncclCommInitRank(&mut comm, 2 + rank.rank as i32, rank.id(0), rank.rank as i32) };
        assert_eq!(result, NcclResult::INVALID_USAGE);
        assert!(comm.is_null() && nccl::last_error().contains("ranks"), "{}", nccl::last_error());
    });
}
