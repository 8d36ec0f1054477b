//! `airamp pattern`: what the library would learn from the calls of a trace, and how right it would be: it plays the
//! calls to the same code (`policy::rhythm`), as they are and with delays planted in them. It reads files and starts nothing.

mod delays;
mod judge;
mod playing;
mod report;
mod stragglers;

use std::path::{Path, PathBuf};

use airamp_trace::synthesise::synthesise;
use airamp_trace::{Trace, read_file};

use self::judge::{Judgement, Trial, judge};
use crate::cli::CommandError;
use crate::streams;
use crate::whole::whole;

const AFTER_HELP: &str = "\
Each communicator of a trace has a rhythm of its own. found after is how often the step that was followed longest had come \
when it was found; predicted is the share of all later calls that were forecast in kind, datatype and size; late are calls \
of the trace as it is that were called late and were, by the eight steps before; false late is the share of calls that were \
called late and were not. Then delays are planted before calls of random steps: seen is the share of them at which one of \
the next calls was called late.

Exit code: 0 judged, 2 wrong arguments, 125 a trace cannot be read.

Examples:
  airamp pattern trace                                 a folder of `airamp record`
  airamp pattern --recipe 'ddp buckets=24 jitter=0.1'
  airamp pattern --straggler 0.1 --json trace/rank-0.jsonl";

/// Judge what the pattern of a trace's calls tells
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files of `airamp record`, or folders of them
    #[arg(value_name = "TRACE", required_unless_present = "recipe", conflicts_with = "recipe")]
    traces: Vec<PathBuf>,

    /// A made-up trace instead, as "ddp buckets=24 seed=7"; docs/traces.md lists the recipes
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<String>,

    /// The planted delays, as a part of the step
    #[arg(long, value_name = "PART", default_value_t = 0.2, value_parser = part, allow_negative_numbers = true)]
    straggler: f64,

    /// Where the delays are planted depends on this number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let trial = Trial { part: args.straggler, seed: args.seed };
    let judgements: Vec<Judgement> =
        traces(args)?.iter().map(|(name, trace)| judge(name, trace, &trial)).collect();
    let text = if args.json { report::json(&judgements, &trial) } else { report::table(&judgements, &trial) };
    streams::print(&text)?;
    Ok(0)
}

fn traces(args: &Args) -> Result<Vec<(String, Trace)>, CommandError> {
    if let Some(recipe) = &args.recipe {
        return Ok(vec![(recipe.clone(), synthesise(recipe).map_err(CommandError::Arguments)?)]);
    }
    let mut traces = Vec::new();
    for path in files(&args.traces)? {
        let trace = read_file(&path)
            .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
        traces.push((name_of(&path), trace));
    }
    Ok(traces)
}

fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut held: Vec<PathBuf> = std::fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
        held.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        held.sort();
        if held.is_empty() {
            return Err(CommandError::Arguments(format!("{}: no files *.jsonl", path.display())));
        }
        files.append(&mut held);
    }
    Ok(files)
}

/// File and folder: every recording has a rank-0.
fn name_of(path: &Path) -> String {
    let part =
        |of: Option<&Path>| of.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let file = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    part(path.parent()).map_or(file.clone(), |folder| format!("{folder}/{file}"))
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.01..=4.0).contains(&part) => Ok(part),
        _ => Err("a part of the step, 0.01 to 4".into()),
    }
}
