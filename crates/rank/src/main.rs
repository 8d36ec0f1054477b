//! `airamp-rank`: one rank of a job. Finds the GPU and NCCL by `dlopen`, meets its
//! peers through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and probes, measures,
//! loads kernels or checks conformance. Results are JSON lines on stdout; what went wrong is on stderr.
//! Started by `airamp doctor`, `airamp bench` and the tests, and runs on any NCCL.

mod bench;
mod collective;
mod compressed;
mod conformance;
mod digest;
mod error;
mod loader_check;
mod nccl;
mod numbers;
mod pattern;
mod probe;
mod session;
mod watchdog;
mod world;

use std::process::ExitCode;

use airamp_vendor::gpu::Kind;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "airamp-rank", version, about = "One rank: probe, bench, kernels or conformance")]
struct Arguments {
    /// Use HIP and RCCL instead of CUDA and NCCL.
    #[arg(long, global = true)]
    hip: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say which GPU runtime, devices and NCCL this process finds.
    Probe {
        /// One JSON object (the only form; the flag is for readers of scripts).
        #[arg(long)]
        json: bool,
    },
    /// Time collectives and check their results.
    Bench(bench::Arguments),
    /// Check every kind of call against its exact result.
    Conformance(conformance::Arguments),
    /// Time the compressed AllReduce beside the vendor's, called directly.
    Compressed(compressed::Arguments),
    /// Load the kernels for a device and try them there.
    Kernels(loader_check::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let kind = if arguments.hip { Kind::Hip } else { Kind::Cuda };
    let done = match arguments.command {
        Command::Probe { json: _ } => probe::run(arguments.hip.then_some(Kind::Hip)),
        Command::Bench(bench) => bench::run(kind, &bench),
        Command::Conformance(conformance) => conformance::run(kind, &conformance),
        Command::Compressed(compressed) => compressed::run(kind, &compressed),
        Command::Kernels(kernels) => loader_check::run(kind, &kernels),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("airamp-rank: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
