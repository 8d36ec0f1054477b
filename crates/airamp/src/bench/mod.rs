//! `airamp bench`: the same collectives without and with the library, in turns so that
//! both meet the same noise, and a table of time, throughput and whether the results
//! are the same bits. The ranks measure; this only starts them and compares.

mod measurements;
mod progress;
mod report;
mod size;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use self::measurements::{Line, Measurements, Side};
use self::progress::Progress;
use self::size::Size;
use crate::artifacts::{self, Artifact};
use crate::cli::CommandError;
use crate::emulator::{self, Vendor};
use crate::launch::{Job, Meeting, Output};
use crate::streams;

/// Whichever comes second in a pair of runs comes first in the next pair.
const ROUNDS: [Side; 8] =
    [Side::Bare, Side::With, Side::With, Side::Bare, Side::Bare, Side::With, Side::With, Side::Bare];

const COLLECTIVES: [&str; 8] =
    ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather", "scatter"];
/// Of these each rank needs an element; the others take no part per rank.
const IN_PARTS: [&str; 5] = ["reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"];
/// With the bytes of an element.
const DATATYPES: [(&str, usize); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
];

/// A rank failed with the code that means different results, or with none: the table is not there.
const INCOMPLETE: u8 = 3;

const AFTER_HELP: &str = "\
The time of a measurement is the slowest rank's median, and of the rounds the best one counts. Bus bandwidth \
is what a link carries: the algorithm's bandwidth times 2(N-1)/N for all_reduce and (N-1)/N for the \
collectives that move each part once.

Exit code: 0 the results are right and the same, 1 they are not, 2 wrong arguments, 3 a rank failed (or its own \
code, 128 + signal if it was killed), 125 airamp failed.

Examples:
  airamp bench                                            two emulated ranks, under a minute
  airamp bench --ranks 4 --link-gbps 10 --sizes 64MiB     a network of 10 Gbit/s per rank
  airamp bench --gpu --ranks 8 --datatypes bfloat16       the GPUs of this machine, one rank each";

/// Measure collectives without and with the library
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// How many rank processes
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,

    /// Bytes of a rank's larger buffer, as 512KiB or 64MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1MiB,16MiB")]
    sizes: Vec<Size>,

    /// The types of the elements
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "float32,bfloat16", value_parser = DATATYPES.map(|(name, _)| name))]
    datatypes: Vec<String>,

    /// What is measured
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = COLLECTIVES)]
    #[arg(default_value = "all_reduce,reduce_scatter,all_gather")]
    collectives: Vec<String>,

    /// The emulated network: Gbit/s that each rank can send. Far above what the CPU can move, the table shows
    /// the CPU
    #[arg(long, value_name = "X", conflicts_with = "gpu", default_value = "4", value_parser = gbps)]
    link_gbps: f64,

    /// Timed calls per measurement and round
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// The emulated GPU and NCCL (the default)
    #[arg(long, conflicts_with = "gpu")]
    emulate: bool,

    /// The GPUs and the NCCL of this machine
    #[arg(long)]
    gpu: bool,

    /// HIP and RCCL instead of CUDA and NCCL
    #[arg(long)]
    hip: bool,
}

fn gbps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected a rate in Gbit/s above 0".into()),
    }
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    args.check_sizes()?;
    let bench = Bench::find(args)?;
    let progress = Progress::start(ROUNDS.len());
    let measurements = Rc::new(RefCell::new(Measurements::default()));
    for (round, side) in ROUNDS.into_iter().enumerate() {
        progress.enter_round(round, side);
        let code = bench.run(side, &measurements, &progress)?;
        // Rank processes end with 1 for a wrong result too, which the table then shows.
        if !measurements.borrow_mut().end_round() {
            progress.finish();
            let told = format!("the run {side} ended with exit code {code} before it was complete");
            streams::complain(&format!("airamp bench: {told}"));
            return Ok(if code > 1 { code } else { INCOMPLETE });
        }
    }
    progress.finish();
    let report = report::Report::of(&measurements.borrow(), args.ranks);
    if args.json {
        streams::print(&format!("{}\n", report.json()))?;
    } else {
        streams::print(&report.table())?;
    }
    Ok(u8::from(!report.all_equal()))
}

impl Args {
    /// Refuses a size of which some rank would get nothing.
    fn check_sizes(&self) -> Result<(), CommandError> {
        for collective in &self.collectives {
            let parts = if IN_PARTS.contains(&collective.as_str()) { self.ranks as usize } else { 1 };
            let wanted =
                DATATYPES.iter().filter(|(name, _)| self.datatypes.iter().any(|known| known == name));
            for (datatype, bytes) in wanted {
                let least = parts * bytes;
                if let Some(size) = self.sizes.iter().find(|size| size.bytes() < least) {
                    return Err(CommandError::Arguments(format!(
                        "--sizes: {} is too small: {collective} of {datatype} over {} ranks takes at least \
                         {least} bytes",
                        size::shown(size.bytes()),
                        self.ranks
                    )));
                }
            }
        }
        Ok(())
    }
}

/// What every round of a benchmark has in common.
struct Bench<'a> {
    args: &'a Args,
    rank_program: PathBuf,
    library: PathBuf,
    library_dirs: Vec<PathBuf>,
}

impl<'a> Bench<'a> {
    fn find(args: &'a Args) -> Result<Self, CommandError> {
        let mut library_dirs = Vec::new();
        if !args.gpu {
            let vendor = if args.hip { Vendor::HipOnly } else { Vendor::Both };
            library_dirs.push(emulator::folder(vendor)?);
        }
        let rank_program = artifacts::find(Artifact::RankProgram)?;
        Ok(Self { args, rank_program, library: artifacts::find(Artifact::Library)?, library_dirs })
    }

    fn run(
        &self,
        side: Side,
        measurements: &Rc<RefCell<Measurements>>,
        progress: &Progress,
    ) -> Result<u8, CommandError> {
        let mut job = Job::new(self.rank_program.clone(), self.rank_arguments());
        job.ranks = Some(self.args.ranks);
        job.meeting = Meeting::Here;
        job.preload = (side == Side::With).then(|| self.library.clone());
        job.library_dirs.clone_from(&self.library_dirs);
        if !self.args.gpu {
            job.env.push(("AIRAMP_EMU_LINK_GBPS".into(), self.args.link_gbps.to_string()));
        }
        let (measurements, progress) = (measurements.clone(), progress.clone());
        job.output = Output::Lines(Box::new(move |rank, text| match serde_json::from_str(text) {
            Ok(Line::Progress { done, measurements: total }) if rank == 0 => progress.at(done, total),
            Ok(line) => measurements.borrow_mut().take(side, line),
            Err(_) => progress.line(&format!("[{rank}] {text}")),
        }));
        Ok(job.run()?)
    }

    fn rank_arguments(&self) -> Vec<OsString> {
        let sizes: Vec<String> = self.args.sizes.iter().map(|size| size.bytes().to_string()).collect();
        let mut words = vec![
            "bench".to_owned(),
            format!("--collectives={}", self.args.collectives.join(",")),
            format!("--datatypes={}", self.args.datatypes.join(",")),
            format!("--sizes={}", sizes.join(",")),
            format!("--iterations={}", self.args.iterations),
        ];
        words.extend(self.args.hip.then(|| "--hip".to_owned()));
        words.into_iter().map(OsString::from).collect()
    }
}
