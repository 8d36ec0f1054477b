//! The command line as a whole: its commands, its help, and how a failure becomes an exit code.
//! Each command's own arguments are beside its code.

use clap::{Parser, Subcommand};

use crate::artifacts::MissingArtifact;
use crate::emulator::EmulatorError;
use crate::kernels::KernelsError;
use crate::launch::{self, LaunchError};
use crate::{
    bench, config, doctor, dump, emulator, explain, help, kernels, orders, pages, pattern, plan, record,
    replay, run, status,
};

const AFTER_HELP: &str = "\
Examples:
  airamp doctor                                   is this machine ready?
  airamp bench                                    is the compressed AllReduce faster, how exact is it?
  airamp plan cluster.toml                        what would a cluster gain?
  airamp run -- python train.py                   a program with the library preloaded
  airamp run --ranks 4 -- python train.py         four copies of it, one per rank
  airamp run --emulate --ranks 4 -- ./program     the same without a GPU
  airamp status                                   what running jobs carry, and which rank is late
  airamp explain                                  what was decided in them, and why
  airamp dump                                     a bundle of all that for support
  airamp record -- python train.py                write down the calls of a job
  airamp replay airamp-trace                      make them again, on the emulator or on GPUs
  airamp pattern airamp-trace                     what the library learns from them, and how right it is
  airamp disable                                  switch compression off in running jobs

`airamp COMMAND --help` says more about each command, `airamp help` lists the topics of the guide.";

#[derive(Debug, Parser)]
#[command(name = "airamp", version, about = "Run and check programs with AIRamp-Accel", after_help = AFTER_HELP)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Bench(bench::Args),
    Config(config::Args),
    Doctor(doctor::Args),
    Disable(orders::DisableArgs),
    Enable(orders::EnableArgs),
    Dump(dump::Args),
    Emulator(emulator::Args),
    Explain(explain::Args),
    Help(help::Args),
    Status(status::Args),
    Kernels(kernels::Args),
    Pattern(pattern::Args),
    Plan(plan::Args),
    Record(record::Args),
    Replay(replay::Args),
    /// Prints what is mapped into this process; `doctor` asks it of itself, with the library preloaded.
    #[command(hide = true, name = doctor::PRINT_MAPS)]
    PrintMaps,
    /// Writes man pages, completions and the settings file of a release into a folder.
    #[command(hide = true)]
    PrintPages(pages::Args),
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Missing(#[from] MissingArtifact),
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    #[error(transparent)]
    Kernels(#[from] KernelsError),
    /// What the argument parser cannot see, because it takes more than one argument.
    #[error("{0}")]
    Arguments(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl CommandError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Launch(error) => error.exit_code(),
            Self::Arguments(_) | Self::Kernels(KernelsError::UnknownArchitecture { .. }) => 2,
            _ => launch::FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use clap::CommandFactory;

    const PAGE: &str = include_str!("../../../docs/airamp.md");

    #[test]
    fn an_architecture_that_there_is_not_is_a_wrong_argument() {
        let error = KernelsError::UnknownArchitecture { given: "sm_1".into(), known: "sm_90".into() };
        assert_eq!(CommandError::from(error).exit_code(), 2);
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_in_the_reference_page() {
        fn check(command: &clap::Command, called: &str) {
            assert!(PAGE.contains(called), "{called} is not in docs/airamp.md");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(
                    PAGE.contains(&format!("--{option}")),
                    "{called} --{option} is not in docs/airamp.md"
                );
            }
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                check(sub, &format!("{called} {}", sub.get_name()));
            }
        }
        check(&Cli::command(), "airamp");
    }

    /// The commands of the page's blocks of text, which are synopses: of each the names of the command, as `kernels list`, and its
    /// options.
    fn synopses() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
        let blocks = PAGE.split("\n```text\n").skip(1);
        let texts = blocks.map(|block| block.split("\n```").next().expect("its text"));
        let commands = texts.flat_map(|text| text.split("airamp ").skip(1));
        let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        let of = |command: &'static str| {
            let names = command.split_whitespace().take_while(is_name).collect();
            let words = command.split(|c: char| c.is_whitespace() || "[]()|".contains(c));
            (names, words.filter(|word| word.starts_with('-') && *word != "--" && *word != "-").collect())
        };
        commands.map(of).collect()
    }

    #[test]
    fn the_synopses_have_every_command_and_option_and_no_other() {
        let mut whole = Cli::command();
        whole.build();
        let mut missing = BTreeSet::new();
        note_missing(&whole, "", &mut missing);
        for (names, options) in synopses() {
            let found = names.iter().try_fold(&whole, |command, name| command.find_subcommand(name));
            let command = found.unwrap_or_else(|| panic!("there is no airamp {names:?}"));
            for option in options {
                let is_it =
                    |argument: &&clap::Arg| argument_names(argument).iter().any(|name| name == option);
                let argument = command.get_arguments().find(is_it);
                let argument = argument.unwrap_or_else(|| panic!("airamp {names:?} has no {option}"));
                missing.remove(&format!("{} {}", names.join(" "), argument.get_id()));
            }
            missing.remove(&names.join(" "));
        }
        assert!(missing.is_empty(), "not in the synopses of docs/airamp.md: {missing:?}");
    }

    /// Every command without others below it, and every option, as `bench json`.
    fn note_missing(command: &clap::Command, called: &str, missing: &mut BTreeSet<String>) {
        let options = command.get_arguments().filter(|argument| argument.get_long().is_some());
        let own = options.filter(|option| {
            !option.is_hide_set() && option.get_id() != "help" && option.get_id() != "version"
        });
        missing.extend(own.map(|option| format!("{called} {}", option.get_id())));
        if !command.has_subcommands() {
            missing.insert(called.to_owned());
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            note_missing(sub, format!("{called} {}", sub.get_name()).trim_start(), missing);
        }
    }

    fn argument_names(argument: &clap::Arg) -> Vec<String> {
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        let short = argument.get_short().map(|short| format!("-{short}"));
        long.into_iter().map(|long| format!("--{long}")).chain(short).collect()
    }
}
