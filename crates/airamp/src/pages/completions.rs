//! What a shell offers after `airamp`, from the definitions of the parser: commands and options, without those that only we
//! call, and after `airamp help` all that it answers. `airampd` says its own (`--completions`).

use std::sync::LazyLock;

use airamp_settings::{ENVIRONMENT_ONLY, TABLE};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::help;

/// Where each shell looks, below a prefix.
pub(super) const FILES: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "airamp"),
    (Shell::Zsh, "share/zsh/site-functions", "_airamp"),
    (Shell::Fish, "share/fish/vendor_completions.d", "airamp.fish"),
];

pub(super) fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut offered(&Cli::command()), "airamp", &mut text);
    if shell == Shell::Fish {
        text.extend(topics_for_fish().into_bytes());
    }
    text
}

fn offered(command: &Command) -> Command {
    let kept = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect::<Vec<_>>();
    let mut copy = Command::new("airamp").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    copy = copy.subcommands(kept);
    // Any word is an argument of `airamp help`, which says what is alike; to a shell it is one of these.
    copy = copy.mut_subcommand("help", |sub| {
        sub.mut_arg("words", |words| words.value_parser(PossibleValuesParser::new(topics())))
    });
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

/// All that `airamp help` takes: commands, pages of the guide, settings.
fn topics() -> Vec<PossibleValue> {
    // The names of its values must last.
    static WHOLE: LazyLock<Command> = LazyLock::new(Cli::command);
    let commands = WHOLE.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        PossibleValue::new(sub.get_name()).help(about)
    });
    let pages = help::topics().map(|(name, about)| PossibleValue::new(name).help(about));
    let settings = TABLE.iter().map(|setting| setting.env);
    let variables = settings.chain(ENVIRONMENT_ONLY.iter().map(|(name, _)| *name));
    commands.chain(pages).chain(variables.map(|name| PossibleValue::new(name).help("a setting"))).collect()
}

/// clap_complete leaves out what is no option.
fn topics_for_fish() -> String {
    let line = |topic: PossibleValue| {
        let about = topic.get_help().map(ToString::to_string).unwrap_or_default();
        let about = about.replace('\\', "\\\\").replace('\'', "\\'");
        let name = topic.get_name();
        format!(
            "complete -c airamp -n \"__fish_airamp_using_subcommand help\" -f -a \"{name}\" -d '{about}'\n"
        )
    };
    topics().into_iter().map(line).collect()
}
