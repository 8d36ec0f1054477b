//! `airamp record`: writes down the calls of a job, one file for each of its ranks. It reads what the library keeps in
//! shared memory anyway: a job that is recorded does nothing else than one that is not, and does not wait for this.

mod calls;
mod command;
mod ranks;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use airamp_trace::{Trace, write_file};

use self::command::Started;
use self::ranks::{Ranks, Whose};
use crate::cli::CommandError;
use crate::launch::{Signals, stop_ourselves};
use crate::streams::complain;
use crate::whole::whole;

/// The ring holds 4,096 calls; a program that fills it faster than this is told how many were lost.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// Nothing was recorded, though the program did well.
const NOTHING: u8 = 1;
const LONGEST_NOTE: usize = 200;

const AFTER_HELP: &str = "\
Each process that makes NCCL calls gets a file in the folder: rank-0.jsonl, or pid-123.jsonl where its environment does \
not say which rank it is. A file has kind, datatype, number of elements, communicator and time of each call, and \
nothing of the data, the program's arguments or its addresses; docs/traces.md describes it. What came too fast to be \
read is counted, and said at the end.

The program is started with the library preloaded, and with a telemetry folder of its own: airampd and `airamp status` \
do not see it meanwhile. With --pid or --job processes are watched that run already, from now on until they end, or \
until Ctrl-C.

Exit code: the program's own (128 + signal if it was killed); 1 nothing was recorded, 2 wrong arguments, 125 airamp \
failed, 126 the program cannot be executed, 127 there is no such program.

Examples:
  airamp record -o trace -- torchrun --nproc-per-node 8 train.py
  airamp record -o trace -- airamp run --emulate --ranks 4 -- airamp-rank steps --steps 100
  airamp record -o trace --for 60 --job 4711
  airamp replay trace";

/// Write down the calls of a job, to play them again
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The folder for the files; it is made, and must not hold a trace yet
    #[arg(short, long, value_name = "FOLDER", default_value = "airamp-trace")]
    output: PathBuf,

    /// Record for so long; the program itself goes on
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    limit: Option<Duration>,

    /// What the files say of where they come from, beside the program's name
    #[arg(long, value_name = "TEXT", value_parser = note)]
    note: Option<String>,

    /// Watch this process, which runs already; may be repeated
    #[arg(long, value_name = "PID", conflicts_with_all = ["job", "command"])]
    #[arg(value_parser = whole::<u32>(1..=i32::MAX as u64), allow_negative_numbers = true)]
    pid: Vec<u32>,

    /// Watch this job's processes on this machine, which run already
    #[arg(long, value_name = "JOB", conflicts_with = "command")]
    job: Option<String>,

    /// With --pid or --job: where the library keeps its telemetry; may be repeated
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    telemetry_dir: Vec<PathBuf>,

    /// The program and its arguments, after `--`
    #[arg(value_name = "CMD", required_unless_present_any = ["pid", "job"], trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub(crate) fn execute(args: Args) -> Result<u8, CommandError> {
    let is_new = prepare(&args.output)?;
    let output = args.output.clone();
    let result = recorded(args);
    if is_new {
        // Only one that is empty goes.
        let _ = std::fs::remove_dir(output);
    }
    result
}

fn recorded(args: Args) -> Result<u8, CommandError> {
    // Before the program is there: nobody can end us then without the files.
    let signals = Signals::catch()?;
    let until = args.limit.map(|limit| Instant::now() + limit);
    let has_time = || until.is_none_or(|until| Instant::now() < until);
    if args.command.is_empty() {
        let whose = if let Some(job) = args.job { Whose::Job(job) } else { Whose::Pids(args.pid) };
        let mut ranks = Ranks::running(args.telemetry_dir, whose);
        ranks.look();
        if ranks.watched() == 0 {
            complain(&nobody(ranks.whose()));
            return Ok(NOTHING);
        }
        complain(&format!("airamp: watching {} processes; Ctrl-C ends it", ranks.watched()));
        while has_time() && ranks.look() && !is_told_to_end(&signals) {}
        return finish(ranks, &args.output, args.note.as_deref(), 0);
    }
    let mut started = Started::start(args.command)?;
    let mut ranks = Ranks::below(started.telemetry());
    while has_time() && !started.has_ended() {
        ranks.look();
        started.heed(signals.wait(LOOK_EVERY));
    }
    // What a process leaves when it ends is there for the last look; the folder is ours until then.
    let recorded = finish(ranks, &args.output, args.note.as_deref(), 0);
    while !started.has_ended() {
        started.heed(signals.wait(Duration::from_millis(200)));
    }
    match started.code() {
        0 => recorded,
        code => recorded.map(|_| code),
    }
}

fn is_told_to_end(signals: &Signals) -> bool {
    let told = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
    let came = signals.wait(LOOK_EVERY);
    if came.contains(&libc::SIGTSTP) {
        stop_ourselves();
    }
    came.iter().any(|signal| told.contains(signal))
}

/// What to do where nobody is there to be watched.
fn nobody(whose: &Whose) -> String {
    let (who, advice) = match whose {
        Whose::Job(job) => {
            let names = "`airamp status --once` shows how the jobs are named, those of one name as 77 and 77#2: give \
                         the name, without the #2; ";
            (format!("no process of job {job:?}"), names)
        }
        Whose::Pids(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            (format!("no process {}", pids.join(" or ")), "")
        }
        Whose::Everybody => ("no process".to_owned(), ""),
    };
    format!(
        "airamp: {who} with the library is seen here -> {advice}a process is seen once it has made a communicator, and by \
         its own user or root; give the folder that AIRAMP_TELEMETRY_DIR names in the job with --telemetry-dir"
    )
}

/// Whether it was made here.
fn prepare(folder: &Path) -> Result<bool, CommandError> {
    let failed = |error| CommandError::Arguments(format!("{}: {error}", folder.display()));
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder).map_err(failed)?;
    let is_trace = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|end| end == "jsonl");
    if std::fs::read_dir(folder).map_err(failed)?.flatten().any(|entry| is_trace(&entry)) {
        let advice = "holds a trace already; give another folder with -o";
        return Err(CommandError::Arguments(format!("{} {advice}", folder.display())));
    }
    Ok(is_new)
}

fn finish(ranks: Ranks, folder: &Path, note: Option<&str>, code: u8) -> Result<u8, CommandError> {
    let traces = ranks.traces(note);
    if traces.is_empty() {
        complain(
            "airamp: no call was recorded -> the program must use NCCL or RCCL, with AIRAMP_TELEMETRY not switched off; \
             `airamp doctor` checks what the library needs",
        );
        return Ok(NOTHING);
    }
    for (name, trace) in &traces {
        let path = folder.join(name);
        write_file(trace, &path).map_err(|error| {
            CommandError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        })?;
    }
    complain(&summary(&traces, folder));
    Ok(code)
}

fn summary(traces: &[(String, Trace)], folder: &Path) -> String {
    let calls: usize = traces.iter().map(|(_, trace)| trace.calls.len()).sum();
    let lost = traces.iter().fold(0_u64, |sum, (_, trace)| sum.saturating_add(trace.lost));
    let seconds = traces.iter().map(|(_, trace)| trace.duration_ns()).max().unwrap_or(0) as f64 / 1e9;
    let (ranks, folder) = (traces.len(), folder.display());
    format!("airamp: recorded {calls} calls of {ranks} processes in {seconds:.1} s, {lost} lost, to {folder}")
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0 to 1000000".to_owned())
}

fn note(text: &str) -> Result<String, String> {
    let is_fit = text.chars().count() <= LONGEST_NOTE && !text.chars().any(char::is_control);
    is_fit
        .then(|| text.to_owned())
        .ok_or_else(|| format!("expected at most {LONGEST_NOTE} printable characters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_label_is_told_the_name() {
        let said = nobody(&Whose::Job("77#2".to_owned()));
        assert!(said.contains("`airamp status --once`") && said.contains("without the #2"), "{said}");
        assert!(!nobody(&Whose::Pids(vec![7])).contains("status"));
    }
}
