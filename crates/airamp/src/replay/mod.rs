//! `airamp replay`: has ranks make the calls of a trace again, with the library or without, and shows how long they
//! took. The ranks play and measure (`airamp-rank replay`); this finds the files, starts the ranks and shows.

mod effects;
mod report;
mod traces;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use self::effects::Tried;
use self::report::{Played, Report};
use self::traces::Traces;
use crate::artifacts::{self, Artifact};
use crate::bench::{AS_A_MACHINE_OF_ITS_OWN, SOCKETS_ON_LOOPBACK};
use crate::cli::CommandError;
use crate::emulator::{self, Vendor};
use crate::launch::{self, Job, Meeting, Output};
use crate::streams;
use crate::whole::whole;

/// A rank failed.
const FAILED: u8 = 1;
/// Of a trace of more, unless --ranks says so.
const USUAL_MOST_RANKS: u32 = 8;

const AFTER_HELP: &str = "\
All ranks make the calls of the first trace; rank n takes its times from the nth file, if that has the same calls. What a \
trace does not know is chosen: every communicator spans all ranks, roots are rank 0, messages go around a ring, an \
uneven AllToAll is an even one, captured calls are left out, and all is on one stream. The host waits for the device \
before each burst, as a program does that reads its loss.

wall is from the first call until the device has done the last; behind is the most that a call came later than its \
time; host is the time that a call kept its thread; first is the device's time for the first call of a burst, from when \
it was asked to when it was done, with the wait for other ranks.

Exit code: 0 all ranks have played it, 1 one has not, 2 wrong arguments, 125 airamp failed.

Examples:
  airamp replay trace --speed max                      a folder of `airamp record`, on the emulator
  airamp replay trace --no-preload --json              for comparison: without the library
  airamp replay trace --gpu --ranks 8
  airamp replay --recipe 'fsdp layers=4 steps=20' --largest 64KiB
  AIRAMP_ENABLE_FP8_ALLREDUCE=1 AIRAMP_EMU_LINK_GBPS=1 airamp replay trace --compare-effects 5";

/// Make the calls of a trace again and time them
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files of `airamp record`, or a folder of them
    #[arg(value_name = "TRACE", required_unless_present = "recipe", conflicts_with = "recipe")]
    traces: Vec<PathBuf>,

    /// A made-up trace instead, as "ddp buckets=24 seed=7"; docs/traces.md lists the recipes
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<String>,

    /// How many ranks, 1 to 64; else as many as the largest communicator of the trace had, at most 8
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=64), allow_negative_numbers = true)]
    ranks: Option<u32>,

    /// recorded, max, or a factor: 2 is twice as fast
    #[arg(long, value_name = "SPEED", default_value = "recorded", value_parser = speed, allow_negative_numbers = true)]
    speed: String,

    /// Give calls with a larger buffer so many bytes, as 64KiB
    #[arg(long, value_name = "SIZE", value_parser = airamp_plan::size)]
    largest: Option<usize>,

    /// Make the first so many calls only
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
    calls: Option<u64>,

    /// Do not preload the library
    #[arg(long)]
    no_preload: bool,

    /// Run on this machine's GPUs
    #[arg(long)]
    gpu: bool,

    /// Run on the emulator, as without --gpu
    #[arg(long, conflicts_with = "gpu")]
    emulate: bool,

    /// With --gpu: ranks share GPUs, each as a machine of its own, over sockets on loopback
    #[arg(long, requires = "gpu")]
    share_gpus: bool,

    /// HIP and RCCL instead of CUDA and NCCL
    #[arg(long)]
    hip: bool,

    /// Compare the first call of a burst with each effect of a learnt rhythm, with all and with none, so many times
    #[arg(long, value_name = "ROUNDS", conflicts_with = "no_preload", value_parser = whole::<u32>(1..=1000))]
    #[arg(allow_negative_numbers = true)]
    compare_effects: Option<u32>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let traces = match &args.recipe {
        Some(recipe) => Traces::made_up(recipe)?,
        None => Traces::found(&args.traces)?,
    };
    let ranks = args.ranks.unwrap_or(traces.ranks.clamp(2, USUAL_MOST_RANKS));
    if let Some(rounds) = args.compare_effects {
        return compare(args, &traces, ranks, rounds);
    }
    let (results, verdict) = play(args, &traces, ranks, None)?;
    if verdict > FAILED {
        return Ok(verdict);
    }
    let report = Report { args, source: &traces.source, ranks, results: &results };
    streams::print(&if args.json { report.json() } else { report.table() })?;
    Ok(verdict)
}

/// What the ranks measured, in their order, and 0 if all of them have played it.
fn play(
    args: &Args,
    traces: &Traces,
    ranks: u32,
    effects: Option<&str>,
) -> Result<(Vec<Played>, u8), CommandError> {
    let played = Rc::new(RefCell::new(Vec::new()));
    let mut job = job(args, traces, ranks, played.clone())?;
    job.env.extend(effects.map(|effects| ("AIRAMP_PATTERN_EFFECTS".to_owned(), effects.to_owned())));
    let code = job.run()?;
    let mut results: Vec<Played> = played.take();
    results.sort_by_key(|played| played.rank);
    let all_played = code == 0 && results.len() == ranks as usize;
    Ok((results, if all_played { 0 } else { launch::failure(code) }))
}

fn compare(args: &Args, traces: &Traces, ranks: u32, rounds: u32) -> Result<u8, CommandError> {
    let mut all = Tried::none();
    for round in 0..rounds {
        for place in effects::order(round) {
            let tried = &mut all[place];
            let (results, verdict) = play(args, traces, ranks, Some(tried.setting))?;
            if verdict != 0 {
                return Ok(verdict);
            }
            tried.runs.push(results);
        }
    }
    let json = || effects::json(&all, rounds, &traces.source);
    streams::print(&if args.json { json() } else { effects::table(&all, rounds) })?;
    Ok(0)
}

fn job(
    args: &Args,
    traces: &Traces,
    ranks: u32,
    played: Rc<RefCell<Vec<Played>>>,
) -> Result<Job, CommandError> {
    let program = artifacts::find(Artifact::RankProgram)?;
    let words = words(args, traces);
    let mut job = if args.share_gpus {
        let shell = ["-c", AS_A_MACHINE_OF_ITS_OWN, "rank"].map(OsString::from).into_iter();
        Job::new("/bin/sh", shell.chain([program.into()]).chain(words).collect())
    } else {
        Job::new(program, words)
    };
    job.ranks = Some(ranks);
    job.meeting = Meeting::Here;
    if !args.no_preload {
        job.preload = Some(artifacts::find(Artifact::Library)?);
    }
    if !args.gpu {
        let vendor = if args.hip { Vendor::HipOnly } else { Vendor::Both };
        job.library_dirs.push(emulator::folder(vendor)?);
    }
    if args.gpu {
        job.env.extend(artifacts::nccl_for_ranks());
    }
    if args.share_gpus {
        job.env.extend(SOCKETS_ON_LOOPBACK.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    // A line that is no result is the rank's own affair; who has none has not played.
    job.output = Output::Lines(Box::new(move |_, line| {
        played.borrow_mut().extend(serde_json::from_str::<Played>(line));
    }));
    Ok(job)
}

fn words(args: &Args, traces: &Traces) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.hip.then(|| "--hip".into()).into_iter().collect();
    words.extend(["replay".into(), "--speed".into(), args.speed.clone().into()]);
    if let Some(largest) = args.largest {
        words.extend(["--largest".into(), largest.to_string().into()]);
    }
    if let Some(calls) = args.calls {
        words.extend(["--calls".into(), calls.to_string().into()]);
    }
    words.push("--".into());
    words.extend(traces.files.iter().map(OsString::from));
    words
}

fn speed(text: &str) -> Result<String, String> {
    let is_factor = || text.parse::<f64>().is_ok_and(|factor| (0.001..=1000.0).contains(&factor));
    let is_fit = matches!(text, "recorded" | "max") || is_factor();
    is_fit
        .then(|| text.to_owned())
        .ok_or_else(|| "expected recorded, max, or a factor from 0.001 to 1000".into())
}
