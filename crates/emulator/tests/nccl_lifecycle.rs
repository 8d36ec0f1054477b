//! Communicators by every path, several per process, non-blocking ones, captures and groups.

mod nccl;

use std::thread;
use std::time::Duration;

use airamp_emulator::gpu::{capture, graph, replay, stream};
use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::cuda::CAPTURE_MODE_THREAD_LOCAL;
use airamp_vendor_abi::nccl::{
    Comm, Config, DataType, NcclResult, RedOp, SIM_INFO_MAGIC, SPLIT_NOCOLOR, SimInfo,
};
use nccl::{
    Buffer, Ended, Rank, all_reduce, async_error, destroy, group, new_id, new_stream, ok, ranks, ranks_with,
    sync, use_device, wait_until,
};

const NONE: Comm = std::ptr::null_mut();

fn count(comm: Comm) -> i32 {
    let mut count = 0;
    // SAFETY: the arguments are what the header asks for.
    ok(unsafe { ncclCommCount(comm, &mut count) });
    count
}

fn rank_in(comm: Comm) -> i32 {
    let mut rank = 0;
    // SAFETY: the arguments are what the header asks for.
    ok(unsafe { ncclCommUserRank(comm, &mut rank) });
    rank
}

#[test]
fn one_thread_holds_several_ranks_when_it_groups_them() {
    ranks(1, |_| {
        let mut comms = [NONE; 3];
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommInitAll(comms.as_mut_ptr(), 3, [2, 0, 1].as_ptr()) });
        let mut device = -1;
        // SAFETY: as above.
        ok(unsafe { ncclCommCuDevice(comms[0], &mut device) });
        assert_eq!((device, rank_in(comms[2]), count(comms[1])), (2, 2, 3));
        let work: Vec<(Buffer, usize)> = [2, 0, 1]
            .map(|device| {
                use_device(device);
                (Buffer::of(&vec![1.0 + device as f32; 1000]), new_stream())
            })
            .into();
        ok(group(|| {
            for (comm, (buffer, stream)) in comms.iter().zip(&work) {
                ok(all_reduce(buffer, *comm, *stream));
            }
        }));
        for (buffer, stream) in &work {
            sync(*stream);
            assert_eq!(buffer.values(), [6.0; 1000]);
        }
        comms.into_iter().for_each(destroy);
    });
}

#[test]
fn ranks_may_be_spread_over_processes_and_threads() {
    ranks(2, |rank: Rank| {
        let id = rank.id(0);
        let (process, threads) = (rank.rank, 0..2);
        let threads: Vec<_> = threads
            .map(|thread| {
                std::thread::spawn(move || {
                    use_device(thread);
                    let mut comm = NONE;
                    // SAFETY: the arguments are what the header asks for.
                    ok(unsafe { ncclCommInitRank(&mut comm, 4, id, 2 * process as i32 + thread) });
                    let (buffer, stream) = (Buffer::of(&[1.0; 77]), new_stream());
                    ok(all_reduce(&buffer, comm, stream));
                    sync(stream);
                    assert_eq!(buffer.values(), [4.0; 77]);
                    destroy(comm);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

#[test]
fn two_ranks_on_one_device_are_refused() {
    ranks(1, |_| {
        let mut comms = [NONE; 2];
        // SAFETY: the arguments are what the header asks for.
        let result = unsafe { ncclCommInitAll(comms.as_mut_ptr(), 2, [1, 1].as_ptr()) };
        assert_eq!((result, comms), (NcclResult::INVALID_USAGE, [NONE; 2]));
    });
}

#[test]
fn a_split_orders_by_key_and_leaves_out_who_has_no_colour() {
    ranks(4, |rank: Rank| {
        let (world, stream) = (rank.comm(0), new_stream());
        let colour = if rank.rank == 3 { SPLIT_NOCOLOR } else { 7 };
        let mut part = world;
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommSplit(world, colour, -(rank.rank as i32), &mut part, std::ptr::null_mut()) });
        if rank.rank == 3 {
            assert!(part.is_null());
        } else {
            assert_eq!((count(part), rank_in(part)), (3, 2 - rank.rank as i32));
            let buffer = Buffer::of(&[1.0; 5]);
            ok(all_reduce(&buffer, part, stream));
            sync(stream);
            assert_eq!(buffer.values(), [3.0; 5]);
            destroy(part);
        }
        destroy(world);
    });
}

#[test]
fn survivors_shrink_away_from_a_dead_rank() {
    let body = |rank: Rank| {
        let (world, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 5000]));
        ok(all_reduce(&buffer, world, stream));
        rank.meet("all are connected");
        let result = all_reduce(&buffer, world, stream);
        assert!([NcclResult::SUCCESS, NcclResult::REMOTE_ERROR].contains(&result));
        wait_until("the lost rank", || async_error(world) == NcclResult::REMOTE_ERROR);
        let mut left = NONE;
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommShrink(world, [1].as_mut_ptr(), 1, &mut left, std::ptr::null_mut(), 1) });
        assert_eq!((count(left), rank_in(left)), (2, rank.rank as i32 / 2));
        let buffer = Buffer::of(&[1.0; 5]);
        ok(all_reduce(&buffer, left, stream));
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 5]);
        // SAFETY: as above.
        ok(unsafe { ncclCommAbort(world) });
        destroy(left);
    };
    ranks_with(3, &[("AIRAMP_EMU_DIE_AT_CALL", "1:2")], body, |ended| {
        [&ended[0], &ended[2]].into_iter().for_each(Ended::expect_success);
    });
}

#[test]
fn a_communicator_grows_by_a_rank_that_brings_its_id() {
    ranks(3, |rank: Rank| {
        let stream = new_stream();
        let mut grown = NONE;
        let file = std::env::temp_dir().join(format!("airamp-grow-{}", hex(&rank.id(0).internal[..8])));
        // SAFETY: the arguments are what the header asks for.
        unsafe {
            if rank.rank == 2 {
                rank.await_signal("the id is there");
                let bytes = std::fs::read(&file).expect("the id");
                let id = airamp_vendor_abi::nccl::UniqueId { internal: bytes.try_into().expect("128 bytes") };
                ok(ncclCommGrow(NONE, 3, &id, 2, &mut grown, std::ptr::null_mut()));
                std::fs::remove_file(&file).expect("the id is removed");
            } else {
                let mut pair = NONE;
                ok(ncclCommInitRank(&mut pair, 2, rank.id(0), rank.rank as i32));
                if rank.rank == 1 {
                    let mut id = new_id();
                    ok(ncclCommGetUniqueId(pair, &mut id));
                    std::fs::write(&file, id.internal).expect("the id is written");
                    rank.signal("the id is there");
                }
                ok(ncclCommGrow(pair, 3, std::ptr::null(), -1, &mut grown, std::ptr::null_mut()));
                destroy(pair);
            }
        }
        let buffer = Buffer::of(&[1.0; 5]);
        ok(all_reduce(&buffer, grown, stream));
        sync(stream);
        assert_eq!((buffer.values(), rank_in(grown)), (vec![3.0; 5], rank.rank as i32));
        destroy(grown);
    });
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_non_blocking_communicator_says_in_progress_and_later_success() {
    ranks(2, |rank: Rank| {
        let (stream, buffer) = (new_stream(), Buffer::of(&[1.0; 5]));
        let mut config = Config { blocking: 0, ..Config::undefined(23_203) };
        let mut comm = NONE;
        if rank.rank == 1 {
            rank.await_signal("rank 0 is not blocked");
        }
        // SAFETY: the arguments are what the header asks for.
        let result =
            unsafe { ncclCommInitRankConfig(&mut comm, 2, rank.id(0), rank.rank as i32, &mut config) };
        assert_eq!(result, NcclResult::IN_PROGRESS);
        if rank.rank == 0 {
            assert_eq!(async_error(comm), NcclResult::IN_PROGRESS);
            assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::INVALID_ARGUMENT, "used too early");
            rank.signal("rank 0 is not blocked");
        }
        wait_until("success", || async_error(comm) == NcclResult::SUCCESS);
        assert!(all_reduce(&buffer, comm, stream).is_accepted());
        wait_until("the launch", || async_error(comm) == NcclResult::SUCCESS);
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 5]);
        // SAFETY: as above.
        assert!(unsafe { ncclCommFinalize(comm) }.is_accepted());
        wait_until("the end", || async_error(comm) == NcclResult::SUCCESS);
        destroy(comm);
    });
}

#[test]
fn a_captured_collective_runs_at_every_replay_and_not_at_capture() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 3000]));
        // The first use connects inside of the capture.
        capture::begin(stream, CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
        ok(all_reduce(&buffer, comm, stream));
        let graph = capture::end(stream).expect("a graph");
        let executable = replay::instantiate(graph).expect("an executable graph");
        assert_eq!(buffer.values(), [1.0; 3000]);
        for power in 1..=5 {
            replay::launch(executable, stream).expect("a launch");
            // Live calls and replays take their turns.
            if power == 3 {
                ok(all_reduce(&buffer, comm, stream));
            }
        }
        sync(stream);
        assert_eq!(buffer.values(), [64.0; 3000]);
        graph::destroy(graph).expect("the graph's end");
        replay::destroy(executable).expect("the executable's end");
        destroy(comm);
    });
}

#[test]
fn a_communicator_ends_when_no_graph_holds_its_work_any_more() {
    type End = unsafe extern "C" fn(Comm) -> NcclResult;
    let ends: [End; 3] = [ncclCommDestroy, ncclCommAbort, ncclCommFinalize];
    ranks(2, move |rank: Rank| {
        for (index, end) in ends.into_iter().enumerate() {
            let (comm, stream, buffer) = (rank.comm(index), new_stream(), Buffer::of(&[1.0; 3000]));
            capture::begin(stream, CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
            ok(all_reduce(&buffer, comm, stream));
            let graph = capture::end(stream).expect("a graph");
            let executable = replay::instantiate(graph).expect("an executable graph");
            graph::destroy(graph).expect("the graph's end");
            // An abort would interrupt a peer that is not through with its first call.
            rank.meet(&format!("captured {index}"));
            let held = comm as usize;
            // SAFETY: the communicator lives, and any thread may end it.
            let ending = thread::spawn(move || ok(unsafe { end(held as Comm) }));
            thread::sleep(Duration::from_millis(100));
            assert!(!ending.is_finished(), "the executable graph holds it");
            replay::destroy(executable).expect("the executable's end");
            ending.join().expect("the end");
            rank.meet(&format!("end {index}"));
        }
    });
}

#[test]
fn a_simulated_end_launches_nothing() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 100]));
        let mut info = SimInfo {
            size: size_of::<SimInfo>(),
            magic: SIM_INFO_MAGIC,
            version: 23_203,
            estimated_time: -1.0,
        };
        // SAFETY: the arguments are what the header asks for.
        unsafe {
            ok(ncclGroupStart());
            ok(all_reduce(&buffer, comm, stream));
            ok(ncclGroupSimulateEnd(&mut info));
            assert_eq!(ncclGroupEnd(), NcclResult::INVALID_USAGE, "the group is closed");
        }
        assert!(info.estimated_time > 0.0);
        assert_eq!(stream::query(stream), Ok(()));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 100], "only the call after the simulation took effect");
        destroy(comm);
    });
}

#[test]
fn the_address_of_a_destroyed_communicator_comes_back_at_once() {
    ranks(2, |rank: Rank| {
        let first = rank.comm(0);
        destroy(first);
        assert_eq!(rank.comm(1), first);
    });
}

#[test]
fn an_id_serves_once() {
    ranks(1, |rank: Rank| {
        destroy(rank.comm(0));
        let mut comm = NONE;
        // SAFETY: the arguments are what the header asks for.
        assert_eq!(unsafe { ncclCommInitRank(&mut comm, 1, rank.id(0), 0) }, NcclResult::INVALID_USAGE);
    });
}

#[test]
fn ranks_meet_at_the_address_of_nccl_comm_id() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a free port")
        .port();
    let address = format!("127.0.0.1:{port}");
    let body = |rank: Rank| {
        let (stream, buffer) = (new_stream(), Buffer::of(&[1.0; 5]));
        // The same address serves one communicator after another.
        for _ in 0..2 {
            let id = new_id();
            let mut comm = NONE;
            // SAFETY: the arguments are what the header asks for.
            ok(unsafe { ncclCommInitRank(&mut comm, 2, id, rank.rank as i32) });
            ok(all_reduce(&buffer, comm, stream));
            sync(stream);
            destroy(comm);
        }
        assert_eq!(buffer.values(), [4.0; 5]);
    };
    let judge = |ended: &[Ended]| ended.iter().for_each(Ended::expect_success);
    ranks_with(2, &[("NCCL_COMM_ID", &address)], body, judge);
}

#[test]
fn a_revoked_communicator_still_makes_children() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 5]));
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommRevoke(comm, 0) });
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::INVALID_USAGE);
        assert_eq!(async_error(comm), NcclResult::SUCCESS);
        let mut child = NONE;
        // SAFETY: as above.
        ok(unsafe { ncclCommSplit(comm, 0, rank.rank as i32, &mut child, std::ptr::null_mut()) });
        ok(all_reduce(&buffer, child, stream));
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 5]);
        destroy(child);
        destroy(comm);
    });
}

#[test]
fn a_shaped_link_carries_the_right_bytes() {
    let body = |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let (buffer, all) = (Buffer::of(&[1.0; 100_000]), Buffer::of(&[0.0; 200_000]));
        ok(all_reduce(&buffer, comm, stream));
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclAlltoAll(all.ptr(), all.ptr(), 0, DataType::FLOAT32, comm, stream as _) });
        // SAFETY: as above.
        ok(unsafe { ncclAllGather(buffer.ptr(), all.ptr(), 100_000, DataType::FLOAT32, comm, stream as _) });
        // SAFETY: as above.
        ok(unsafe {
            ncclReduce(all.ptr(), all.ptr(), 200_000, DataType::FLOAT32, RedOp::MAX, 0, comm, stream as _)
        });
        sync(stream);
        assert_eq!(all.values(), vec![2.0; 200_000]);
        destroy(comm);
    };
    let judge = |ended: &[Ended]| ended.iter().for_each(Ended::expect_success);
    ranks_with(2, &[("AIRAMP_EMU_LINK_GBPS", "0.5")], body, judge);
}
