//! `airamp run`: turns its arguments into a `Job`.

use std::ffi::OsString;
use std::time::Duration;

use crate::artifacts::{self, Artifact};
use crate::cli::CommandError;
use crate::emulator::{self, Vendor};
use crate::launch::{Job, Output};
use crate::whole::whole;

const AFTER_HELP: &str = "\
Without --ranks the program takes the place of airamp: its exit code and signals are its own.

With --ranks N airamp starts N copies with RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and \
MASTER_PORT set (an address or port that is already set is kept), puts `[rank] ` before each line of their \
output, and passes SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 on. Rank 0 reads standard input \
unless that is a terminal. When a rank fails, the others get SIGTERM and, after the grace time, SIGKILL, with \
all that they started; airamp returns that rank's exit code, or 128 + signal if it was killed.

Exit codes of airamp itself: 2 wrong arguments, 125 airamp failed, 126 the program cannot be executed, 127 \
there is no such program.

Examples:
  airamp run -- python train.py
  AIRAMP_LOG=info airamp run --ranks 2 -- python train.py --epochs 1
  airamp run --emulate --ranks 4 -- airamp-rank conformance
  airamp run --emulate --no-preload --ranks 4 -- ./program     for comparison: without the library";

/// Start a program with the library preloaded
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Start N copies of the program as the ranks of one job
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024), allow_negative_numbers = true)]
    ranks: Option<u32>,

    /// Let the program find the emulated GPU and NCCL before any real ones
    #[arg(long)]
    emulate: bool,

    /// With --emulate: an AMD machine, with HIP and RCCL only
    #[arg(long, requires = "emulate")]
    hip: bool,

    /// Do not preload the library, nor inherit it in LD_PRELOAD
    #[arg(long)]
    no_preload: bool,

    /// With --ranks: seconds between SIGTERM and SIGKILL when the job must end
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, requires = "ranks")]
    #[arg(allow_negative_numbers = true)]
    grace: Duration,

    /// The program and its arguments, after `--`
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub(crate) fn execute(args: Args) -> Result<u8, CommandError> {
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let mut job = Job::new(program, words.collect());
    job.ranks = args.ranks;
    job.output = Output::Prefixed;
    job.grace = args.grace;
    if !args.no_preload {
        job.preload = Some(artifacts::find(Artifact::Library)?);
    }
    if args.emulate {
        let vendor = if args.hip { Vendor::HipOnly } else { Vendor::Both };
        job.library_dirs.push(emulator::folder(vendor)?);
    }
    Ok(job.run()?)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds from 0 to 3600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    if !(0.0..=3600.0).contains(&seconds) {
        return Err(expected());
    }
    Ok(Duration::from_secs_f64(seconds))
}
