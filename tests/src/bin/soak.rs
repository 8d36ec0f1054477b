//! `soak`: long runs by hand, with the library and without it, and a table of what the processes held.

use std::process::ExitCode;

use airamp_tests::chaos::job::Mode;
use airamp_tests::chaos::soak::{self, Growth, Soak};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Long runs: what a process holds must not grow")]
struct Arguments {
    /// `steady`, `churn` or `forks`.
    which: String,
    #[arg(long, default_value_t = 8)]
    ranks: u32,
    /// Of `steady`, for each of the two runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Of the run without the library; as long if it is not given.
    #[arg(long)]
    bare_seconds: Option<u64>,
    /// Communicators of `churn` in each process, children of `forks`.
    #[arg(long, default_value_t = 1000)]
    number: usize,
    /// Compresses from the first call on instead of trying first.
    #[arg(long)]
    forced: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bare = run(&arguments, false);
    let with = run(&arguments, true);
    let found = with.beyond(&bare);
    found.iter().for_each(|complaint| println!("{complaint}"));
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn run(arguments: &Arguments, with: bool) -> Growth {
    let mode = if arguments.forced { Mode::Forced } else { Mode::On };
    let seconds = if with { arguments.seconds } else { arguments.bare_seconds.unwrap_or(arguments.seconds) };
    let soak = match arguments.which.as_str() {
        "steady" => Soak::steady(arguments.ranks, mode, seconds),
        "churn" => Soak::churn(arguments.ranks, mode, arguments.number),
        "forks" => Soak::forks(arguments.ranks, mode, arguments.number.div_ceil(10)),
        other => panic!("{other} is none of steady, churn and forks"),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = soak.run(folder.path(), with);
    let reports = soak::reports(&ran).unwrap_or_else(|wrong| panic!("{wrong}"));
    let growth = soak::growth(&reports);
    let counted = reports[0].counted;
    println!(
        "{} the library: {:.0} s, {} rounds, {} communicators and {} forks in each of {} processes, {} results exact, {} compressed, {} trials",
        if with { "with" } else { "without" },
        ran.took.as_secs_f64(),
        growth.rounds,
        reports[0].made,
        reports[0].forks,
        reports.len(),
        counted.exact,
        counted.compressed,
        counted.said_trials,
    );
    println!("  after the warm-up and at the end: {growth:?}");
    growth
}
