//! Every collective gives the right result on every rank, whatever the count, type and reduction.

mod nccl;

use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::nccl::{DataType, RedOp, ScalarResidence};
use nccl::{Buffer, Rank, destroy, new_stream, ok, ranks, sync};

const F32: DataType = DataType::FLOAT32;

fn value(rank: usize, index: usize) -> f32 {
    (rank * 3 + index % 17) as f32
}

fn input(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|index| value(rank, index)).collect()
}

fn total(size: usize, index: usize) -> f32 {
    (0..size).map(|rank| value(rank, index)).sum()
}

#[test]
fn all_reduce_sums_ragged_counts_in_place_and_not() {
    ranks(3, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        for count in [1, 2, 3, 7, 1000, 100_003] {
            let expected: Vec<f32> = (0..count).map(|index| total(3, index)).collect();
            let send = Buffer::of(&input(rank.rank, count));
            let recv = Buffer::of(&vec![-1.0; count]);
            // SAFETY: the arguments are what the header asks for.
            ok(unsafe { ncclAllReduce(send.ptr(), recv.ptr(), count, F32, RedOp::SUM, comm, stream as _) });
            sync(stream);
            assert_eq!(recv.values(), expected);
            assert_eq!(send.values(), input(rank.rank, count), "the send buffer is left alone");
            ok(nccl::all_reduce(&send, comm, stream));
            sync(stream);
            assert_eq!(send.values(), expected);
        }
        destroy(comm);
    });
}

#[test]
fn rooted_collectives_serve_their_root() {
    ranks(4, |rank: Rank| {
        let (comm, stream, count) = (rank.comm(0), new_stream(), 300_001);
        for root in 0..4 {
            let send = Buffer::of(&input(rank.rank, count));
            let recv = Buffer::of(&vec![-1.0; count]);
            // SAFETY: the arguments are what the header asks for.
            ok(unsafe {
                ncclReduce(send.ptr(), recv.ptr(), count, F32, RedOp::SUM, root, comm, stream as _)
            });
            sync(stream);
            let expected =
                (0..count).map(|index| if rank.rank == root as usize { total(4, index) } else { -1.0 });
            assert_eq!(recv.values(), expected.collect::<Vec<_>>());
            // SAFETY: as above.
            ok(unsafe { ncclBroadcast(send.ptr(), recv.ptr(), count, F32, root, comm, stream as _) });
            sync(stream);
            assert_eq!(recv.values(), input(root as usize, count));
        }
        destroy(comm);
    });
}

#[test]
fn gathering_and_scattering_put_each_part_in_its_place() {
    ranks(3, |rank: Rank| {
        let (comm, stream, count) = (rank.comm(0), new_stream(), 5001);
        let own = Buffer::of(&input(rank.rank, count));
        let all = Buffer::of(&vec![-1.0; 3 * count]);
        let everybody: Vec<f32> = (0..3).flat_map(|other| input(other, count)).collect();
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclAllGather(own.ptr(), all.ptr(), count, F32, comm, stream as _) });
        sync(stream);
        assert_eq!(all.values(), everybody);
        let part = Buffer::of(&vec![-1.0; count]);
        // SAFETY: as above.
        ok(unsafe { ncclReduceScatter(all.ptr(), part.ptr(), count, F32, RedOp::SUM, comm, stream as _) });
        sync(stream);
        let expected: Vec<f32> = input(rank.rank, count).iter().map(|value| 3.0 * value).collect();
        assert_eq!(part.values(), expected);
        let gathered = Buffer::of(&vec![-1.0; 3 * count]);
        // SAFETY: as above.
        ok(unsafe { ncclGather(own.ptr(), gathered.ptr(), count, F32, 1, comm, stream as _) });
        sync(stream);
        assert_eq!(gathered.values() == everybody, rank.rank == 1);
        // SAFETY: as above.
        ok(unsafe { ncclScatter(gathered.ptr(), part.ptr(), count, F32, 1, comm, stream as _) });
        sync(stream);
        assert_eq!(part.values(), input(rank.rank, count));
        // SAFETY: as above.
        ok(unsafe { ncclAlltoAll(all.ptr(), gathered.ptr(), count, F32, comm, stream as _) });
        sync(stream);
        let expected: Vec<f32> = (0..3).flat_map(|_| input(rank.rank, count)).collect();
        assert_eq!(gathered.values(), expected);
        destroy(comm);
    });
}

#[test]
fn every_datatype_and_reduction_gives_small_numbers_exactly() {
    ranks(2, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        for (datatype, name) in DataType::ALL {
            for (op, op_name) in RedOp::BUILT_IN {
                // Rank 0 has 2, rank 1 has 4.
                let expected = match op {
                    RedOp::SUM => 6,
                    RedOp::PROD => 8,
                    RedOp::MAX => 4,
                    RedOp::MIN => 2,
                    _ => 3,
                };
                let buffer = Buffer::new(&encode(datatype, 2 + 2 * rank.rank as u8).repeat(33));
                // SAFETY: the arguments are what the header asks for.
                ok(unsafe { ncclAllReduce(buffer.ptr(), buffer.ptr(), 33, datatype, op, comm, stream as _) });
                sync(stream);
                assert_eq!(buffer.bytes(), encode(datatype, expected).repeat(33), "{name} {op_name}");
            }
        }
        destroy(comm);
    });
}

/// A small whole number in each datatype.
fn encode(datatype: DataType, value: u8) -> Vec<u8> {
    let float = f32::from(value);
    match datatype {
        DataType::INT8 | DataType::UINT8 => vec![value],
        DataType::INT32 | DataType::UINT32 => u32::from(value).to_ne_bytes().to_vec(),
        DataType::INT64 | DataType::UINT64 => u64::from(value).to_ne_bytes().to_vec(),
        DataType::FLOAT16 => half::f16::from_f32(float).to_ne_bytes().to_vec(),
        DataType::BFLOAT16 => half::bf16::from_f32(float).to_ne_bytes().to_vec(),
        DataType::FLOAT32 => float.to_ne_bytes().to_vec(),
        DataType::FLOAT64 => f64::from(value).to_ne_bytes().to_vec(),
        // Exponent and the top of the mantissa are the same bits of the short types.
        DataType::FLOAT8_E5M2 => vec![half::f16::from_f32(float).to_bits().to_be_bytes()[0]],
        _ => vec![((half::f16::from_f32(float).to_bits() >> 7) - (8 << 3)) as u8],
    }
}

#[test]
fn results_have_the_same_bits_on_all_ranks_and_in_every_run() {
    ranks(4, |rank: Rank| {
        let (comm, stream, count) = (rank.comm(0), new_stream(), 50_021);
        // Values whose sum depends on the order of addition.
        let awkward: Vec<f32> = (0..count).map(|i| 1.0f32 / (1 + i + 7919 * rank.rank) as f32).collect();
        let mut first: Option<Vec<u8>> = None;
        for _ in 0..5 {
            let buffer = Buffer::of(&awkward);
            ok(nccl::all_reduce(&buffer, comm, stream));
            sync(stream);
            let bytes = buffer.bytes();
            let all = Buffer::new(&vec![0; 4 * bytes.len()]);
            // SAFETY: the arguments are what the header asks for.
            ok(unsafe { ncclAllGather(buffer.ptr(), all.ptr(), count, F32, comm, stream as _) });
            sync(stream);
            assert_eq!(all.bytes(), bytes.repeat(4), "ranks differ");
            assert_eq!(*first.get_or_insert(bytes.clone()), bytes, "runs differ");
        }
        destroy(comm);
    });
}

#[test]
fn premulsum_scales_by_host_and_by_device_scalars() {
    ranks(2, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        let mut factor = 0.5f32;
        let on_device = Buffer::of(&[3.0]);
        for (scalar, residence, expected) in [
            ((&raw mut factor).cast(), ScalarResidence::HOST_IMMEDIATE, 1.5),
            (on_device.ptr(), ScalarResidence::DEVICE, 9.0),
        ] {
            let mut op = RedOp(0);
            // SAFETY: the arguments are what the header asks for.
            ok(unsafe { ncclRedOpCreatePreMulSum(&mut op, scalar, F32, residence, comm) });
            assert_eq!(op, RedOp(5), "a destroyed handle comes back");
            let buffer = Buffer::of(&[1.0 + rank.rank as f32; 10]);
            // SAFETY: as above.
            ok(unsafe { ncclAllReduce(buffer.ptr(), buffer.ptr(), 10, F32, op, comm, stream as _) });
            sync(stream);
            assert_eq!(buffer.values(), [expected; 10]);
            // SAFETY: as above.
            ok(unsafe { ncclRedOpDestroy(op, comm) });
        }
        destroy(comm);
    });
}

#[test]
fn rccls_own_functions_work_too() {
    ranks(2, |rank: Rank| {
        let (comm, stream) = (rank.comm(0), new_stream());
        // Rank r sends r + 1 elements to rank 0 and 2 to rank 1.
        let send = Buffer::of(&[10.0 * rank.rank as f32, 1.0, 2.0, 3.0]);
        let recv = Buffer::of(&[-1.0; 4]);
        let (send_counts, send_offsets) = ([rank.rank + 1, 2], [0, 2]);
        let (recv_counts, recv_offsets) = if rank.rank == 0 { ([1, 2], [0, 1]) } else { ([2, 2], [0, 2]) };
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe {
            ncclAllToAllv(
                send.ptr(),
                send_counts.as_ptr(),
                send_offsets.as_ptr(),
                recv.ptr(),
                recv_counts.as_ptr(),
                recv_offsets.as_ptr(),
                F32,
                comm,
                stream as _,
            )
        });
        sync(stream);
        let expected = if rank.rank == 0 { [0.0, 10.0, 1.0, -1.0] } else { [2.0, 3.0, 2.0, 3.0] };
        assert_eq!(recv.values(), expected);
        let bias = Buffer::of(&[100.0; 4]);
        let data = Buffer::of(&[1.0, 2.0, 3.0, 4.0]);
        // SAFETY: as above.
        ok(unsafe {
            ncclAllReduceWithBias(data.ptr(), data.ptr(), 4, F32, RedOp::SUM, comm, stream as _, bias.ptr())
        });
        sync(stream);
        assert_eq!(data.values(), [102.0, 104.0, 106.0, 108.0]);
        destroy(comm);
    });
}
