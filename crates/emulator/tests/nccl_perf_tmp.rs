mod nccl;
use nccl::*;
#[test]
fn perf() {
    let n: usize = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    ranks_with(
        n,
        &[],
        |rank: Rank| {
            let (comm, stream) = (rank.comm(0), new_stream());
            for (dt, name, es) in [(7, "f32", 4usize), (6, "f16", 2), (9, "bf16", 2), (10, "e4m3", 1)] {
                for mib in [64usize] {
                    let b = Buffer::new(&vec![0; mib << 20]);
                    let mut best = f64::MAX;
                    for _ in 0..6 {
                        let t = std::time::Instant::now();
                        ok(unsafe {
                            airamp_emulator::nccl::exports::ncclAllReduce(
                                b.ptr(),
                                b.ptr(),
                                b.len / es,
                                airamp_vendor_abi::nccl::DataType(dt),
                                airamp_vendor_abi::nccl::RedOp::SUM,
                                comm,
                                stream as _,
                            )
                        });
                        sync(stream);
                        best = best.min(t.elapsed().as_secs_f64());
                    }
                    if rank.rank == 0 {
                        eprintln!(
                            "{name} {mib} MiB: {:.1} ms, {:.2} GB/s",
                            best * 1e3,
                            (mib << 20) as f64 / best / 1e9
                        );
                    }
                }
            }
            let b = Buffer::of(&[1.0; 4]);
            let t = std::time::Instant::now();
            for _ in 0..1000 {
                ok(all_reduce(&b, comm, stream));
            }
            let host = t.elapsed();
            sync(stream);
            if rank.rank == 0 {
                eprintln!("tiny: host {:?} total {:?} per call", host / 1000, t.elapsed() / 1000);
            }
            destroy(comm);
        },
        |e| eprintln!("{}", e[0].stderr),
    );
}
