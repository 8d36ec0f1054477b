//! `airamp`: starts programs with the library, shows settings, checks a machine, measures, shows and explains what
//! jobs do, gives orders, shows the guide.
//! The modules here are one per command; what they share is `launch`, `observe`, `artifacts`, `columns`,
//! `streams` and `whole`.
//! It never calls GPU code, and so none is linked: what needs a GPU is asked of `airamp-rank`, a process of its
//! own. Of the fast path it uses the plan, of the kernels the code objects, of the policy the explanations; all are pure.
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where `streams` says what is wrong")]

mod artifacts;
mod bench;
mod cli;
mod columns;
mod config;
mod doctor;
mod dump;
mod emulator;
mod explain;
mod help;
mod kernels;
mod launch;
mod observe;
mod orders;
mod pages;
mod pattern;
mod plan;
mod record;
mod replay;
mod run;
mod status;
mod streams;
mod whole;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, CommandError};

fn main() -> ExitCode {
    end_quietly_when_nobody_reads();
    match execute(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            streams::complain(&format!("airamp: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn execute(command: Command) -> Result<u8, CommandError> {
    match command {
        Command::Run(args) => run::execute(args),
        Command::Bench(args) => bench::execute(&args),
        Command::Config(args) => config::execute(&args),
        Command::Disable(args) => orders::disable(&args),
        Command::Doctor(args) => doctor::execute(&args),
        Command::Dump(args) => dump::execute(&args),
        Command::Enable(args) => orders::enable(&args),
        Command::Emulator(args) => emulator::execute(&args),
        Command::Explain(args) => explain::execute(&args),
        Command::Help(args) => help::execute(&args),
        Command::Kernels(args) => kernels::execute(&args),
        Command::Pattern(args) => pattern::execute(&args),
        Command::Plan(args) => plan::execute(&args),
        Command::Record(args) => record::execute(args),
        Command::Replay(args) => replay::execute(&args),
        Command::Status(args) => status::execute(&args),
        Command::PrintMaps => doctor::print_maps(),
        Command::PrintPages(args) => pages::execute(&args),
    }
}

/// `airamp config | head` should end like any other program. Rust ignores SIGPIPE by default and would
/// panic at the next line; `launch` ignores it again while a job runs, to end that in order.
fn end_quietly_when_nobody_reads() {
    // SAFETY: called before any other thread exists; SIG_DFL is a valid disposition for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
