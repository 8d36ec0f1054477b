//! `airamp explain`: says, for each communicator and class of calls, what was decided, with which numbers, and who
//! said no and why; from a job's log, or from the telemetry of processes that run. It asks nothing of the job itself.

mod communicators;
mod live;
mod sentences;
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use airamp_observer::view::Node;
use airamp_policy::explain::{Record, WORD, parse_line};
use serde_json::json;

use crate::cli::CommandError;
use crate::config::without_control_characters;
use crate::observe::Which;
use crate::streams;
use communicators::Communicator;
use live::JobSaid;
pub(crate) use table::{class, ranks};

/// A line of a log that is longer is not one of ours.
const LONGEST_LINE: u64 = 64 << 10;

const NOTHING_FOUND: &str = "\
airamp: no decision is in the log -> run the job with AIRAMP_LOG=info and AIRAMP_MODE=shadow or on, and AIRAMP_LOG_FILE \
or its standard error as the log; `airamp explain --help` shows how";

const AFTER_HELP: &str = "\
Without a file and at a terminal, or with --live, --job or --telemetry-dir, the jobs that run on this machine are \
explained, and those that ended a short while ago: what their processes' telemetry holds, without a log. Otherwise a \
log is read.

The log is what a job wrote with AIRAMP_LOG=info (or debug): to standard error, or to the file that \
AIRAMP_LOG_FILE names. Lines of other programs, and prefixes before ours, do not matter. Several files may be of \
several ranks; what rank 0 measured is shown, and what each rank said against it.

Decisions: compressed, vendor (not compressed, with the reason), trial (being measured; results are exact), would \
and would-not (shadow mode), frozen (it stays as it is: a graph holds such calls, recapture it to change them; or the \
communicator is ending), withdrawn (a change that did not come about), resumed (an operator's order was taken back).

Exit code: 0 decisions were found, 1 none, 2 wrong arguments, 125 a file cannot be read.

Examples:
  airamp explain                              the jobs that run here
  airamp explain --job 4711 --json
  airamp explain airamp.log
  airamp explain rank-*.log
  AIRAMP_LOG=info airamp run --ranks 4 -- python train.py 2>&1 | airamp explain
  airamp explain --json airamp.log | jq '.communicators[].classes[] | select(.decision == \"vendor\").reason'";

/// Say what was decided for each communicator and size, and why: in running jobs, or from a log
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Show every decision in turn, not only the last of each class
    #[arg(long)]
    all: bool,

    /// Explain the jobs that run on this machine, also where standard input is no terminal
    #[arg(long, conflicts_with = "files")]
    live: bool,

    #[command(flatten)]
    which: Which,

    /// Logs of the job; standard input if that is no terminal, or for `-`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Args {
    fn is_live(&self) -> Result<bool, CommandError> {
        let chooses = self.which.job.is_some() || !self.which.telemetry_dir.is_empty();
        if chooses && !self.files.is_empty() {
            let text = "--job and --telemetry-dir choose among running jobs; a log is read as it is";
            return Err(CommandError::Arguments(text.to_owned()));
        }
        Ok(self.live || chooses || self.files.is_empty() && io::stdin().is_terminal())
    }
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    if args.is_live()? {
        let seen = live::look(&args.which);
        return show(&Explained::live(seen.records, seen.jobs), args, &seen.advice);
    }
    let mut found = Found::default();
    if args.files.is_empty() {
        found.read(io::stdin().lock())?;
    }
    for file in &args.files {
        read_file(file, &mut found).map_err(|error| unreadable(file, &error))?;
    }
    if found.unreadable > 0 {
        streams::complain(&format!("airamp: {} lines of decisions cannot be read", found.unreadable));
    }
    show(&Explained::of_log(found), args, NOTHING_FOUND)
}

fn show(explained: &Explained, args: &Args, advice: &str) -> Result<u8, CommandError> {
    if args.json {
        streams::print(&format!("{:#}\n", explained.as_json(args.all)))?;
    } else {
        streams::print(&explained.as_text(args.all))?;
    }
    if explained.communicators.is_empty() {
        streams::complain(&without_control_characters(advice));
    }
    Ok(u8::from(explained.communicators.is_empty()))
}

/// What was decided, and where that is known from.
pub(crate) struct Explained {
    communicators: Vec<Communicator>,
    /// Only of jobs that are looked at.
    jobs: Option<Vec<JobSaid>>,
    /// Only of logs.
    unreadable: usize,
}

impl Explained {
    fn live(records: Vec<Record>, jobs: Vec<JobSaid>) -> Self {
        Self { communicators: communicators::gathered(records), jobs: Some(jobs), unreadable: 0 }
    }

    fn of_log(found: Found) -> Self {
        let communicators = communicators::gathered(found.records);
        Self { communicators, jobs: None, unreadable: found.unreadable }
    }

    /// The jobs of a look at this machine.
    pub(crate) fn of_node(which: &Which, node: Node) -> Self {
        let seen = live::of(which, node);
        Self::live(seen.records, seen.jobs)
    }

    pub(crate) fn as_text(&self, all: bool) -> String {
        let heading = self.jobs.as_deref().map(live::heading).unwrap_or_default();
        let tables = table::of(&self.communicators, all);
        let between = if heading.is_empty() || tables.is_empty() { "" } else { "\n" };
        format!("{heading}{between}{tables}")
    }

    pub(crate) fn as_json(&self, all: bool) -> serde_json::Value {
        let communicators: Vec<serde_json::Value> =
            self.communicators.iter().map(|communicator| communicator_as_json(communicator, all)).collect();
        let mut value = json!({ "communicators": communicators, "unreadable_lines": self.unreadable });
        if let Some(jobs) = &self.jobs {
            value["jobs"] = json!(jobs);
        }
        value
    }
}

fn communicator_as_json(communicator: &Communicator, all: bool) -> serde_json::Value {
    let latest = communicator.latest();
    let sentences: Vec<String> = latest.iter().map(|record| sentences::of(record)).collect();
    let mut value = json!({
        "communicator": communicator.name,
        "ranks": communicator.ranks,
        "said": communicator.said(),
        "classes": latest,
        "sentences": sentences,
    });
    if all {
        value["decisions"] = json!(communicator.records);
    }
    value
}

fn read_file(file: &Path, found: &mut Found) -> io::Result<()> {
    if file == Path::new("-") {
        return found.read(io::stdin().lock());
    }
    found.read(BufReader::new(File::open(file)?))
}

fn unreadable(file: &Path, error: &io::Error) -> CommandError {
    CommandError::Io(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// What the lines of a log gave.
#[derive(Default)]
struct Found {
    records: Vec<Record>,
    /// Lines that begin as a decision and are none; a log may be cut anywhere.
    unreadable: usize,
}

impl Found {
    /// Lines are bytes: what an application writes beside ours is anything at all.
    fn read(&mut self, mut from: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.take(&String::from_utf8_lossy(&line));
        }
    }

    fn take(&mut self, line: &str) {
        match parse_line(line) {
            Some(record) => self.records.push(record),
            None if looks_like_ours(line) => self.unreadable += 1,
            None => {}
        }
    }
}

fn looks_like_ours(line: &str) -> bool {
    line.split_once(WORD).is_some_and(|(before, rest)| before.contains("airamp") && rest.starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_long_lines_and_half_lines_are_no_decisions() {
        let mut found = Found::default();
        let mut log = b"some decision {was} made\n\xff\xfe\n".to_vec();
        log.extend(vec![b'x'; 3 * LONGEST_LINE as usize]);
        log.extend(b"\nairamp info rank 0: decision {\"communicator\":\"00\n");
        found.read(&log[..]).expect("bytes");
        assert_eq!((found.records.len(), found.unreadable), (0, 1));
    }
}
