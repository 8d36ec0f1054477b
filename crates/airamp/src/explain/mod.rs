//! `airamp explain`: reads a job's log and says, for each communicator and class of calls, what was decided,
//! with which numbers, and who said no and why. It asks nothing of a running job.

mod communicators;
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use airamp_policy::explain::{Record, WORD, parse_line};
use serde_json::json;

use crate::cli::CommandError;
use crate::streams;
use communicators::Communicator;

/// A line of a log that is longer is not one of ours.
const LONGEST_LINE: u64 = 64 << 10;

const NOTHING_FOUND: &str = "\
airamp: no decision is in the log -> run the job with AIRAMP_LOG=info and AIRAMP_MODE=shadow or on, and AIRAMP_LOG_FILE \
or its standard error as the log; `airamp explain --help` shows how";

const AFTER_HELP: &str = "\
The log is what a job wrote with AIRAMP_LOG=info (or debug): to standard error, or to the file that \
AIRAMP_LOG_FILE names. Lines of other programs, and prefixes before ours, do not matter. Several files may be of \
several ranks; what rank 0 measured is shown, and what each rank said against it.

Decisions: compressed, vendor (not compressed, with the reason), trial (being measured; results are exact), would \
and would-not (shadow mode), frozen (it stays as it is: a graph holds such calls, recapture it to change them; or the \
communicator is ending), withdrawn (a change that did not come about), resumed (an operator's order was taken back).

Exit code: 0 decisions were found, 1 none, 2 wrong arguments, 125 a file cannot be read.

Examples:
  airamp explain airamp.log
  airamp explain rank-*.log
  AIRAMP_LOG=info airamp run --ranks 4 -- python train.py 2>&1 | airamp explain
  airamp explain --json airamp.log | jq '.communicators[].classes[] | select(.decision == \"vendor\").reason'";

/// Say from a job's log what was decided for each communicator and size, and why
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Show every decision in turn, not only the last of each class
    #[arg(long)]
    all: bool,

    /// Logs of the job; standard input unless given, or for `-`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
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
    let communicators = communicators::gathered(found.records);
    if args.json {
        streams::print(&format!("{:#}\n", as_json(&communicators, args.all, found.unreadable)))?;
    } else {
        streams::print(&table::of(&communicators, args.all))?;
    }
    if communicators.is_empty() {
        streams::complain(NOTHING_FOUND);
    }
    Ok(u8::from(communicators.is_empty()))
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

fn as_json(communicators: &[Communicator], all: bool, unreadable: usize) -> serde_json::Value {
    let one = |communicator: &Communicator| {
        let mut value = json!({
            "communicator": communicator.name,
            "ranks": communicator.ranks,
            "said": communicator.said(),
            "classes": communicator.latest(),
        });
        if all {
            value["decisions"] = json!(communicator.records);
        }
        value
    };
    let communicators: Vec<serde_json::Value> = communicators.iter().map(one).collect();
    json!({ "communicators": communicators, "unreadable_lines": unreadable })
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
