//! `airamp-rank`: one rank of a job. Finds the GPU and NCCL by `dlopen`, meets its
//! peers through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and probes, measures,
//! loads kernels, plays traces or checks conformance. Results are JSON lines on stdout; what went wrong is on stderr.
//! Started by `airamp doctor`, `airamp bench` and the tests, and runs on any NCCL.

mod bench;
mod collective;
mod conformance;
mod digest;
mod error;
mod exchange;
mod fast_path;
mod lane;
mod loader_check;
mod nccl;
mod numbers;
mod pattern;
mod probe;
mod replay;
mod scenario;
mod session;
mod steps;
mod watchdog;
mod world;

use std::process::ExitCode;

use airamp_vendor::gpu::Kind;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "airamp-rank", version, about = "One rank: probe, bench, kernels, conformance or scenarios")]
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
    /// Time AllReduce, the vendor's own and ours, and compare the results with the exact ones.
    Bench(bench::Arguments),
    /// Time any collectives and check their results.
    Collectives(bench::collectives::Arguments),
    /// Check every kind of call against its exact result.
    Conformance(conformance::Arguments),
    /// Make compressed calls directly that share something, or of which a part fails.
    FastPath(fast_path::Arguments),
    /// Use NCCL as applications do, and check what comes out with and without compression.
    Scenario(scenario::Arguments),
    /// Make the calls of a trace again.
    Replay(replay::Arguments),
    /// Run equal steps, with a collective each, until told otherwise.
    Steps(steps::Arguments),
    /// Load the kernels for a device and try them there.
    Kernels(loader_check::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let kind = if arguments.hip { Kind::Hip } else { Kind::Cuda };
    let done = match arguments.command {
        Command::Probe { json: _ } => probe::run(arguments.hip.then_some(Kind::Hip)),
        Command::Bench(bench) => bench::run(kind, &bench),
        Command::Collectives(collectives) => bench::collectives::run(kind, &collectives),
        Command::Conformance(conformance) => conformance::run(kind, &conformance),
        Command::FastPath(fast_path) => fast_path::run(kind, &fast_path),
        Command::Scenario(scenario) => scenario::run(kind, &scenario),
        Command::Replay(replay) => replay::run(kind, &replay),
        Command::Steps(steps) => steps::run(kind, &steps),
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
