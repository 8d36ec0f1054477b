//! `chaos`: runs jobs with faults by chance, with the library and without it, and tells what differs. `--seed N` repeats one;
//! what fails is shrunk, and the smallest job is printed for `--job FILE`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use airamp_tests::chaos::job::Job;
use airamp_tests::chaos::judge::Verdict;
use airamp_tests::chaos::{planner, runner, shrink, try_job};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Jobs and faults by chance, with the library and without it")]
struct Arguments {
    /// Repeats the job of this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Repeats the job in a file, as it was printed.
    #[arg(long)]
    job: Option<PathBuf>,
    /// The first seed of many.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many faults, at least.
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Ends earlier after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// How long a failing job is shrunk, in seconds.
    #[arg(long, default_value_t = 120)]
    shrink: u64,
    /// A line for each job is appended to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Shows what the ranks wrote.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let one = match (&arguments.job, arguments.seed) {
        (Some(file), _) => Some(read(file)),
        (None, Some(seed)) => Some(planner::plan(seed)),
        (None, None) => None,
    };
    let all_fine = match one {
        Some(job) => run_one(&arguments, &job),
        None => run_many(&arguments),
    };
    if all_fine { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn read(file: &PathBuf) -> Job {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn run_one(arguments: &Arguments, job: &Job) -> bool {
    if arguments.verbose {
        for with in [false, true] {
            show(job, with);
        }
    }
    examined(arguments, job).is_fine()
}

fn show(job: &Job, with: bool) {
    println!("== {} the library", if with { "with" } else { "without" });
    for (rank, ended) in runner::run(job, with).ranks.iter().enumerate() {
        let letters: String =
            ended.report.iter().flat_map(|report| &report.results).map(|told| told.letter).collect();
        let by = ended.report.as_ref().and_then(|report| report.ended.as_ref());
        println!("-- rank {rank}: {:?} hung: {} {letters} {by:?}\n{}", ended.end, ended.hung, ended.stderr);
    }
}

fn run_many(arguments: &Arguments) -> bool {
    let (began, mut kinds) = (Instant::now(), BTreeMap::<&str, usize>::new());
    let (mut failed, mut jobs, mut faults, mut excused) = (Vec::new(), 0, 0, 0);
    let in_time = || arguments.seconds.is_none_or(|limit| began.elapsed() < Duration::from_secs(limit));
    while faults < arguments.faults && in_time() {
        let job = planner::plan(arguments.first + jobs as u64);
        jobs += 1;
        faults += job.faults.len();
        job.faults.iter().for_each(|fault| *kinds.entry(fault.kind()).or_default() += 1);
        let verdict = examined(arguments, &job);
        excused += verdict.excused_ranks;
        if !verdict.is_fine() {
            failed.push(job.seed);
        }
    }
    println!(
        "{jobs} jobs, {faults} faults {kinds:?} in {} s; {excused} ranks stuck in the vendor's creation; failing seeds: {failed:?}",
        began.elapsed().as_secs()
    );
    failed.is_empty()
}

/// Runs a job, tells how it went, and shrinks it if it failed.
fn examined(arguments: &Arguments, job: &Job) -> Verdict {
    let verdict = try_job(job);
    let excused = match verdict.excused_ranks {
        0 => String::new(),
        some => format!(", {some} stuck in the vendor's creation"),
    };
    let line = format!(
        "{} | {} | {} exact, {} compressed, {} ranks failed{excused}, {}/{} ms",
        if verdict.is_fine() { "ok" } else { "FAILED" },
        job.told(),
        verdict.exact,
        verdict.compressed,
        verdict.failed_ranks,
        verdict.took_ms.0,
        verdict.took_ms.1
    );
    println!("{line}");
    if let Some(log) = &arguments.log {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(log);
        opened.and_then(|mut file| writeln!(file, "{line}")).expect("the log can be written");
    }
    if verdict.is_fine() {
        return verdict;
    }
    verdict.all_complaints().iter().for_each(|complaint| println!("  {complaint}"));
    let small = shrink::shrink(job, Duration::from_secs(arguments.shrink), &|job| !try_job(job).is_fine());
    println!("  smallest: {}", serde_json::to_string(&small).expect("a job is plain data"));
    verdict
}
