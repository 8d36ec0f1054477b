//! The order in which things happen: what blocks the host, what runs after what, what must not wait.

mod nccl;

use std::time::Duration;

use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::stream;
use airamp_vendor_abi::cuda::{CudaError, MEMCPY_DEFAULT};
use nccl::{Buffer, Rank, all_reduce, destroy, group, new_stream, ok, ranks, recv, send, sync, wait_until};

/// Long enough for something that must not happen to happen.
const A_WHILE: Duration = Duration::from_millis(200);

#[test]
fn the_first_collective_blocks_the_host_until_the_peer_enters_it_and_the_second_does_not() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        if rank.rank == 0 {
            rank.signal("rank 0 is about to call");
            ok(all_reduce(&buffer, comm, stream));
            assert!(rank.has_signal("rank 1 calls"), "the host call returned before the peer entered it");
            ok(all_reduce(&buffer, comm, stream));
            rank.signal("rank 0 has called again");
        } else {
            rank.await_signal("rank 0 is about to call");
            std::thread::sleep(A_WHILE);
            rank.signal("rank 1 calls");
            ok(all_reduce(&buffer, comm, stream));
            rank.await_signal("rank 0 has called again");
            ok(all_reduce(&buffer, comm, stream));
        }
        sync(stream);
        assert_eq!(buffer.values(), [4.0; 8]);
        destroy(comm);
    });
}

#[test]
fn the_first_send_of_a_pair_blocks_the_host_although_the_ring_is_connected() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        if rank.rank == 0 {
            rank.signal("rank 0 is about to send");
            ok(send(&buffer, 1, comm, stream));
            assert!(rank.has_signal("rank 1 receives"), "the first Send returned before the peer's Recv");
            ok(send(&buffer, 1, comm, stream));
            rank.signal("rank 0 has sent again");
        } else {
            rank.await_signal("rank 0 is about to send");
            std::thread::sleep(A_WHILE);
            rank.signal("rank 1 receives");
            ok(recv(&buffer, 0, comm, stream));
            rank.await_signal("rank 0 has sent again");
            ok(recv(&buffer, 0, comm, stream));
        }
        sync(stream);
        destroy(comm);
    });
}

#[test]
fn all_messages_of_a_pair_share_one_queue_whatever_their_stream_or_group() {
    ranks(2, |rank: Rank| {
        let comm = rank.comm(0);
        let streams = [new_stream(), new_stream(), new_stream()];
        let buffers: Vec<Buffer> =
            (0..30).map(|i| Buffer::of(&vec![if rank.rank == 0 { i as f32 } else { -1.0 }; 1000])).collect();
        let call = |index: usize| {
            let stream = streams[index % 3];
            ok(if rank.rank == 0 {
                send(&buffers[index], 1, comm, stream)
            } else {
                recv(&buffers[index], 0, comm, stream)
            });
        };
        (0..10).for_each(call);
        ok(group(|| (10..20).for_each(call)));
        // One side groups them, the other does not.
        match rank.rank {
            0 => ok(group(|| (20..30).for_each(call))),
            _ => (20..30).for_each(call),
        }
        streams.into_iter().for_each(sync);
        for (index, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.values(), vec![index as f32; 1000], "message {index}");
        }
        destroy(comm);
    });
}

#[test]
fn operations_of_one_communicator_run_in_the_order_of_their_calls_on_any_stream() {
    ranks(2, |rank: Rank| {
        let comm = rank.comm(0);
        let streams: Vec<usize> = (0..4).map(|_| new_stream()).collect();
        let buffers: Vec<Buffer> = (1..=24).map(|i| Buffer::of(&vec![i as f32; 5000 * (25 - i)])).collect();
        for (index, buffer) in buffers.iter().enumerate() {
            ok(all_reduce(buffer, comm, streams[index % 4]));
        }
        streams.into_iter().for_each(sync);
        for (index, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.values()[0], 2.0 * (index + 1) as f32);
        }
        destroy(comm);
    });
}

#[test]
fn operations_of_one_communicator_may_share_a_buffer_without_events_between_their_streams() {
    ranks(2, |rank: Rank| {
        let (comm, buffer) = (rank.comm(0), Buffer::of(&[1.0; 64]));
        let (first, second) = (new_stream(), new_stream());
        for _ in 0..3 {
            ok(all_reduce(&buffer, comm, first));
            ok(all_reduce(&buffer, comm, second));
        }
        sync(second);
        sync(first);
        assert_eq!(buffer.values(), [64.0; 64]);
        destroy(comm);
    });
}

#[test]
fn communicators_do_not_wait_for_each_other() {
    ranks(2, |rank: Rank| {
        let (a, b) = (rank.comm(0), rank.comm(1));
        let (first, second) = (new_stream(), new_stream());
        let (sum, message) = (Buffer::of(&[1.0; 100]), Buffer::of(&[5.0; 100]));
        // Connected before, or the host would wait for the peer.
        let connect = |peer: usize| {
            if peer == 1 { ok(send(&message, 1, b, second)) } else { ok(recv(&message, 0, b, second)) }
        };
        ok(all_reduce(&sum, a, first));
        connect(1 - rank.rank);
        sync(first);
        sync(second);
        if rank.rank == 0 {
            ok(all_reduce(&sum, a, first));
            ok(send(&message, 1, b, second));
        } else {
            ok(recv(&message, 0, b, second));
            sync(second);
            ok(all_reduce(&sum, a, first));
        }
        sync(first);
        sync(second);
        assert_eq!(sum.values(), [4.0; 100]);
        destroy(a);
        destroy(b);
    });
}

#[test]
fn collectives_run_before_the_messages_of_their_group() {
    ranks(2, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let (sum, large) = (Buffer::of(&[1.0; 100]), Buffer::of(&vec![2.0; 16 << 20]));
        let message = || {
            if rank.rank == 0 { ok(send(&large, 1, comm, stream)) } else { ok(recv(&large, 0, comm, stream)) }
        };
        ok(all_reduce(&sum, comm, stream));
        message();
        sync(stream);
        // The message is too large for any buffer in between: sent first, it would wait for a
        // Recv that comes only after the collective.
        if rank.rank == 0 {
            ok(group(|| {
                message();
                ok(all_reduce(&sum, comm, stream));
            }));
        } else {
            ok(all_reduce(&sum, comm, stream));
            sync(stream);
            message();
        }
        sync(stream);
        assert_eq!(sum.values(), [4.0; 100]);
        destroy(comm);
    });
}

#[test]
fn messages_of_a_group_make_progress_together() {
    ranks(3, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let large = |value: usize| Buffer::of(&vec![value as f32; 4 << 20]);
        let (to_next, to_previous) = (large(rank.rank), large(10 + rank.rank));
        let (from_next, from_previous) = (large(99), large(99));
        let (next, previous) = ((rank.rank + 1) % 3, (rank.rank + 2) % 3);
        // Every rank names its sends first: one after the other would never end.
        ok(group(|| {
            ok(send(&to_next, next, comm, stream));
            ok(send(&to_previous, previous, comm, stream));
            ok(recv(&from_previous, previous, comm, stream));
            ok(recv(&from_next, next, comm, stream));
        }));
        sync(stream);
        assert_eq!(from_previous.values()[12345], previous as f32);
        assert_eq!(from_next.values()[12345], 10.0 + next as f32);
        destroy(comm);
    });
}

#[test]
fn a_group_on_several_streams_waits_for_all_of_them_and_they_for_it() {
    ranks(2, |rank: Rank| {
        let comm = rank.comm(0);
        let (first, second) = (new_stream(), new_stream());
        let (a, b, seen) = (Buffer::of(&[1.0; 64]), Buffer::of(&[10.0; 64]), Buffer::of(&[0.0; 64]));
        ok(all_reduce(&a, comm, first));
        sync(first);
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        stream::launch_host_function(second, move || {
            let _ = gate.lock().expect("no panic").recv();
        })
        .expect("a host function");
        ok(group(|| {
            ok(all_reduce(&a, comm, first));
            ok(all_reduce(&b, comm, second));
        }));
        std::thread::sleep(A_WHILE);
        assert_eq!(
            stream::query(first),
            Err(CudaError::NOT_READY),
            "the group did not wait for its second stream"
        );
        open.send(()).expect("the gate is there");
        // The second stream alone orders this copy after the collective of the first.
        copy::asynchronous(
            second,
            Copy { to: seen.address, from: a.address, len: a.len, direction: MEMCPY_DEFAULT },
        )
        .expect("a copy");
        sync(second);
        assert_eq!(seen.values(), [4.0; 64]);
        assert_eq!(b.values(), [20.0; 64]);
        destroy(comm);
    });
}

#[test]
fn a_host_thread_is_not_held_up_by_a_slow_peer_once_connected() {
    ranks(2, |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 16]));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        if rank.rank == 0 {
            for _ in 0..100 {
                ok(all_reduce(&buffer, comm, stream));
            }
            assert_eq!(stream::query(stream), Err(CudaError::NOT_READY));
            rank.signal("all are enqueued");
        } else {
            wait_until("rank 0's calls", || rank.has_signal("all are enqueued"));
            for _ in 0..100 {
                ok(all_reduce(&buffer, comm, stream));
            }
        }
        sync(stream);
        destroy(comm);
    });
}
