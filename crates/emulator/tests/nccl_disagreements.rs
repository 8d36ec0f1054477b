//! Ranks that call different things: named on every rank where it can be known, and named as a long
//! wait where it cannot.

mod nccl;

use std::time::Duration;

use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult};
use nccl::{
    Buffer, Ended, Rank, all_reduce, async_error, destroy, group, named, new_stream, ok, ranks_with, recv,
    send, sync, wait_until,
};

const F32: DataType = DataType::FLOAT32;

/// Connects the ring and all pairs.
fn warm_up(rank: &Rank, comm: Comm, stream: usize) {
    let (out, into) = (Buffer::of(&[1.0; 8]), Buffer::of(&[1.0; 8]));
    ok(all_reduce(&out, comm, stream));
    ok(group(|| {
        for peer in (0..rank.size).filter(|peer| *peer != rank.rank) {
            ok(send(&out, peer, comm, stream));
            ok(recv(&into, peer, comm, stream));
        }
    }));
    sync(stream);
}

/// The last rank calls AllReduce while the others call something that does not use the ring.
fn rooted_against_all_reduce(rank: &Rank, warm: bool, rooted: impl Fn(&Buffer, Comm, usize) -> NcclResult) {
    let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 30]));
    if warm {
        warm_up(rank, comm, stream);
    }
    let odd_one_out = rank.rank == rank.size - 1;
    let result = if odd_one_out { all_reduce(&buffer, comm, stream) } else { rooted(&buffer, comm, stream) };
    // A rank whose own links are made returns before the others find out.
    assert!([NcclResult::SUCCESS, NcclResult::INVALID_USAGE].contains(&result), "{result:?}");
    wait_until("the error", || async_error(comm) == NcclResult::INVALID_USAGE);
}

fn gather(buffer: &Buffer, comm: Comm, stream: usize) -> NcclResult {
    let into = Buffer::of(&[0.0; 30]);
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclGather(buffer.ptr(), into.ptr(), 10, F32, 0, comm, stream as _) }
}

fn scatter(buffer: &Buffer, comm: Comm, stream: usize) -> NcclResult {
    let into = Buffer::of(&[0.0; 30]);
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclScatter(buffer.ptr(), into.ptr(), 10, F32, 0, comm, stream as _) }
}

const GATHER: &[&str] = &["Gather(10 x float32, root 0)", "AllReduce(30 x float32, sum)"];
const SCATTER: &[&str] = &["Scatter(10 x float32, root 0)", "AllReduce(30 x float32, sum)"];

#[test]
fn a_first_gather_against_an_all_reduce_is_named() {
    ranks_with(2, &[], |rank: Rank| rooted_against_all_reduce(&rank, false, gather), named(GATHER));
}

#[test]
fn a_gather_against_an_all_reduce_is_named() {
    ranks_with(2, &[], |rank: Rank| rooted_against_all_reduce(&rank, true, gather), named(GATHER));
}

#[test]
fn a_first_scatter_against_an_all_reduce_is_named() {
    ranks_with(3, &[], |rank: Rank| rooted_against_all_reduce(&rank, false, scatter), named(SCATTER));
}

#[test]
fn a_scatter_against_an_all_reduce_is_named() {
    ranks_with(3, &[], |rank: Rank| rooted_against_all_reduce(&rank, true, scatter), named(SCATTER));
}

#[test]
fn a_first_all_to_all_against_an_all_reduce_is_named() {
    let all_to_all = |buffer: &Buffer, comm: Comm, stream: usize| {
        let into = Buffer::of(&[0.0; 30]);
        // SAFETY: the arguments are what the header asks for.
        unsafe { ncclAlltoAll(buffer.ptr(), into.ptr(), 10, F32, comm, stream as _) }
    };
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 30]));
        let result = if rank.rank == 0 {
            all_to_all(&buffer, comm, stream)
        } else {
            all_reduce(&buffer, comm, stream)
        };
        assert!([NcclResult::SUCCESS, NcclResult::INVALID_USAGE].contains(&result), "{result:?}");
        wait_until("the error", || async_error(comm) == NcclResult::INVALID_USAGE);
    };
    ranks_with(2, &[], body, named(&["AlltoAll(10 x float32)", "AllReduce(30 x float32, sum)"]));
}

#[test]
fn a_first_gather_with_two_roots_is_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 20]));
        let root = 1 - rank.rank as i32;
        // SAFETY: the arguments are what the header asks for, but for what is tested.
        let result = unsafe { ncclGather(buffer.ptr(), buffer.ptr(), 10, F32, root, comm, stream as _) };
        assert_eq!(result, NcclResult::INVALID_USAGE);
    };
    ranks_with(2, &[], body, named(&["Gather(10 x float32, root 0)", "Gather(10 x float32, root 1)"]));
}

#[test]
fn a_first_use_that_is_captured_is_not_compared_with_what_runs_before_its_graph() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 20]));
        let into = Buffer::of(&[1.0; 20]);
        airamp_emulator::gpu::capture::begin(stream, airamp_vendor_abi::cuda::CAPTURE_MODE_GLOBAL)
            .expect("a capture");
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclGather(buffer.ptr(), into.ptr(), 10, F32, 0, comm, stream as _) });
        let graph = airamp_emulator::gpu::capture::end(stream).expect("a graph");
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(async_error(comm), NcclResult::SUCCESS);
        airamp_emulator::gpu::graph::destroy(graph).expect("the graph's end");
        destroy(comm);
    };
    ranks_with(2, &[], body, |ended| ended.iter().for_each(Ended::expect_success));
}

#[test]
fn a_mismatch_is_still_named_when_the_communicator_is_destroyed_and_the_process_ends_at_once() {
    let body = |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        warm_up(&rank, comm, stream);
        let buffer = Buffer::of(&vec![1.0; 100 + 28 * rank.rank]);
        ok(if rank.rank == 0 { send(&buffer, 1, comm, stream) } else { recv(&buffer, 0, comm, stream) });
        while async_error(comm) == NcclResult::SUCCESS {
            std::hint::spin_loop();
        }
        destroy(comm);
        std::process::exit(0);
    };
    ranks_with(2, &[], body, |ended| {
        for ended in ended {
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert!(ended.stderr.contains("Recv(128 x float32) from rank 0"), "{}", ended.stderr);
            for consequence in ["destroyed", "never received"] {
                assert!(!ended.stderr.contains(consequence), "{}", ended.stderr);
            }
        }
    });
}

#[test]
fn a_communicator_destroyed_inside_the_group_that_uses_it_is_named() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        let ended = group(|| {
            ok(all_reduce(&buffer, comm, stream));
            destroy(comm);
        });
        assert_eq!(ended, NcclResult::INVALID_USAGE);
        sync(stream);
    };
    ranks_with(1, &[], body, named(&["destroyed inside a group", "AllReduce"]));
}

#[test]
fn a_message_that_nobody_received_is_named_when_its_communicator_is_destroyed() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        warm_up(&rank, comm, stream);
        ok(send(&buffer, 1 - rank.rank, comm, stream));
        sync(stream);
        rank.meet("both have sent");
        destroy(comm);
    };
    ranks_with(2, &[], body, named(&["Send(100 x float32)", "never received"]));
}

/// Aborts a communicator once its long wait must have been told.
fn abort_later(comm: Comm) -> std::thread::JoinHandle<()> {
    let comm = comm as usize;
    std::thread::spawn(move || {
        // In parts: a machine that stands still takes away one of them, and the wait is over by the clock meanwhile.
        (0..120).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
        // SAFETY: the handle is live; abort may come from any thread.
        ok(unsafe { ncclCommAbort(comm as _) });
    })
}

#[test]
fn a_host_call_that_waits_long_for_a_peer_says_so() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        let aborter = abort_later(comm);
        let result =
            if rank.rank == 0 { all_reduce(&buffer, comm, stream) } else { send(&buffer, 0, comm, stream) };
        assert_ne!(result, NcclResult::SUCCESS);
        aborter.join().expect("no panic");
    };
    ranks_with(2, &[], body, |ended| {
        named(&["rank 0 has waited 10 s for rank 1 to enter", "AllReduce"])(&ended[..1]);
        named(&["rank 1 has waited 10 s for rank 0 to enter", "Send"])(&ended[1..]);
    });
}

#[test]
fn an_operation_that_waits_long_for_a_peer_says_so() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        warm_up(&rank, comm, stream);
        let aborter = abort_later(comm);
        ok(if rank.rank == 0 { all_reduce(&buffer, comm, stream) } else { recv(&buffer, 0, comm, stream) });
        sync(stream);
        aborter.join().expect("no panic");
    };
    ranks_with(2, &[], body, |ended| {
        named(&["rank 0 has waited 10 s for rank 1", "AllReduce(8 x float32, sum)"])(&ended[..1]);
        named(&["rank 1 has waited 10 s for rank 0", "Recv(8 x float32)"])(&ended[1..]);
    });
}
