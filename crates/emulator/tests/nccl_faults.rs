//! Faults by order: each variable does what it says and no more.

mod nccl;

use std::time::{Duration, Instant};

use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::nccl::NcclResult;
use nccl::{Buffer, Ended, Rank, all_reduce, destroy, group, new_stream, ok, ranks_with, recv, send, sync};

fn all_succeed(ended: &[Ended]) {
    ended.iter().for_each(Ended::expect_success);
}

#[test]
fn a_call_fails_on_order_and_has_no_effect() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        ok(all_reduce(&buffer, comm, stream));
        assert_eq!(all_reduce(&buffer, comm, stream), NcclResult::INTERNAL_ERROR);
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(buffer.values(), [4.0; 8], "two of three calls took effect");
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_FAIL_CALL", "ncclAllReduce:2:3")], body, all_succeed);
}

#[test]
fn a_slow_call_only_takes_its_time() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        let before = Instant::now();
        ok(all_reduce(&buffer, comm, stream));
        assert!(
            before.elapsed() >= Duration::from_millis(60),
            "the call was made to take at least that long"
        );
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(buffer.values(), [4.0; 8]);
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_SLOW_CALL", "ncclAllReduce:60")], body, all_succeed);
}

#[test]
fn a_group_end_that_fails_on_order_closes_its_group_and_launches_nothing() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        assert_eq!(group(|| ok(all_reduce(&buffer, comm, stream))), NcclResult::REMOTE_ERROR);
        // SAFETY: no arguments.
        assert_eq!(unsafe { ncclGroupEnd() }, NcclResult::INVALID_USAGE, "no group is open any more");
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        assert_eq!(buffer.values(), [2.0; 8], "only the call after the group took effect");
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_FAIL_CALL", "ncclGroupEnd:1:6")], body, all_succeed);
}

#[test]
fn an_inner_group_end_that_fails_on_order_fails_the_outer_one_too() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        let outer = group(|| {
            assert_eq!(group(|| ok(all_reduce(&buffer, comm, stream))), NcclResult::REMOTE_ERROR);
        });
        assert_eq!(outer, NcclResult::REMOTE_ERROR);
        sync(stream);
        assert_eq!(buffer.values(), [1.0; 8]);
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_FAIL_CALL", "ncclGroupEnd:1:6")], body, all_succeed);
}

#[test]
fn a_slow_rank_holds_up_every_rank() {
    let body = |rank: Rank| {
        let (comm, stream, buffer) = (rank.comm(0), new_stream(), Buffer::of(&[1.0; 8]));
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        rank.meet("the second call");
        let before = Instant::now();
        ok(all_reduce(&buffer, comm, stream));
        sync(stream);
        // The other rank may have started a little before this one looked at its clock.
        let least = if rank.rank == 1 { 300 } else { 150 };
        assert!(before.elapsed() >= Duration::from_millis(least), "{:?}", before.elapsed());
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_SLOW_RANK", "1:300")], body, all_succeed);
}

#[test]
fn a_link_rate_bounds_collectives_and_messages() {
    let body = |rank: Rank| {
        let (comm, stream, peer) = (rank.comm(0), new_stream(), 1 - rank.rank);
        // Each rank sends 4 MB, of which 256 KiB may go at once: 374 ms at 10 MB/s.
        let (out, into) = (Buffer::of(&vec![1.0; 1_000_000]), Buffer::of(&vec![0.0; 1_000_000]));
        let timed = |what: &str, calls: &dyn Fn()| {
            rank.meet(what);
            let before = Instant::now();
            calls();
            sync(stream);
            assert!(before.elapsed() >= Duration::from_millis(300), "{what}: {:?}", before.elapsed());
        };
        timed("AllReduce", &|| ok(all_reduce(&out, comm, stream)));
        timed("Send and Recv", &|| {
            ok(group(|| {
                ok(send(&out, peer, comm, stream));
                ok(recv(&into, peer, comm, stream));
            }));
        });
        assert_eq!(into.values()[999_999], 2.0);
        destroy(comm);
    };
    ranks_with(2, &[("AIRAMP_EMU_LINK_GBPS", "0.08")], body, all_succeed);
}
