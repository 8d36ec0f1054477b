//! `airamp status`: what the jobs of this machine do, live in a terminal, as text, or as JSON. It reads the processes'
//! telemetry files itself; neither a daemon nor the processes are asked anything.

mod draw;
mod keys;
mod live;
mod overview;
mod plain;
mod quantities;
mod screen;
mod sections;
mod table;

use std::io::{self, IsTerminal};
use std::time::Duration;

use airamp_observer::view::Node;

use crate::cli::CommandError;
use crate::observe::Which;
use crate::streams;

const EVERY: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
Shown are the processes of this user with the library in them (as root: of all users): those that run, and those \
that ended a short while ago. Neither airampd nor a restart of the job is needed.

In a terminal the view is live: 1 to 6 or Tab choose the section (overview, ranks, communicators, classes, calls, \
events), n and b the job, the arrows scroll, space holds what is shown, ? explains, q leaves. Elsewhere, or with --once, \
everything is printed once; rates are those of half a second. With NO_COLOR set there is no colour.

A line that begins with `!` says what is wrong (a late rank, a hang with the ranks that are missing, …) and what to do.

Exit code: 0 a job is there (live: q was pressed), 1 none is, 2 wrong arguments, 125 airamp failed, 128 + signal when \
ended by one.

Examples:
  airamp status
  airamp status --job 4711 --watch 5
  airamp status --once | less
  airamp status --json | jq '.jobs[] | {job, bound_by, gain}'
  airamp status --json --watch 10 >> status.jsonl     one line every ten seconds
  airamp status --json | jq -r '.findings[].text'     what is wrong now";

/// Show what running jobs carry, what AIRamp does with it, and which rank is late
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,

    /// Print everything once as text and end
    #[arg(long)]
    once: bool,

    /// Print one JSON object, as airampd's /api/v1/node gives it
    #[arg(long)]
    json: bool,

    /// Seconds between two looks, 0.1 to 3600; live: 1 unless given; with --once or --json: print again and again
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    watch: Option<Duration>,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    if !args.json && !args.once && is_terminal() {
        return Ok(live::run(&args.which, args.watch.unwrap_or(EVERY))?);
    }
    match args.watch {
        None => once(args),
        Some(every) => again_and_again(args, every),
    }
}

/// A terminal that can move its cursor, and somebody at it.
fn is_terminal() -> bool {
    let can_draw = std::env::var_os("TERM").is_none_or(|name| name != "dumb");
    can_draw && io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn once(args: &Args) -> Result<u8, CommandError> {
    let node = args.which.seen();
    if args.json {
        streams::print(&format!("{:#}\n", serde_json::to_value(&node).map_err(io::Error::from)?))?;
    } else {
        streams::print(&plain::of(&node))?;
    }
    if node.jobs.is_empty() {
        streams::complain(&args.which.nothing_found(&node));
    }
    Ok(u8::from(node.jobs.is_empty()))
}

/// Until somebody ends it, or nobody reads it.
fn again_and_again(args: &Args, every: Duration) -> Result<u8, CommandError> {
    let mut observer = args.which.observer();
    observer.look();
    loop {
        std::thread::sleep(every);
        let node: Node = args.which.of(observer.look());
        let text = match args.json {
            true => format!("{}\n", serde_json::to_string(&node).map_err(io::Error::from)?),
            false => format!("{}\n", plain::of(&node)),
        };
        streams::print(&text)?;
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds from 0.1 to 3600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    if !(0.1..=3600.0).contains(&seconds) {
        return Err(expected());
    }
    Ok(Duration::from_secs_f64(seconds))
}
