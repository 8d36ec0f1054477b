//! `airamp help`: the help of a command, a page of the guide in the terminal, or one setting.
//! It owns the list of topics (`topics`) and how a page becomes text (`render`, `inline`, `grid`). The pages are those of
//! `docs/`, embedded as they are: nothing is written twice, and nothing is fetched.

mod grid;
mod inline;
mod render;
mod topics;

use std::io::IsTerminal;

use clap::CommandFactory;

use crate::cli::{Cli, CommandError};
use crate::streams;
use render::Look;
use topics::Topic;

/// Lines of more than about a hundred letters are hard to read, however wide the terminal is.
const WIDEST: usize = 100;
const NARROWEST: usize = 40;
const USUAL: usize = 80;

const AFTER_HELP: &str = "\
Examples:
  airamp help                    commands and topics
  airamp help quick-start        a page of the guide
  airamp help AIRAMP_MODE        one setting
  airamp help run                a command, as `airamp run --help`
  airamp help runbook | less     page by page";

/// Show a page of the guide, a setting, or the help of a command
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A topic, a setting (AIRAMP_…), or a command and its sub-command; nothing: what there is
    #[arg(value_name = "TOPIC")]
    words: Vec<String>,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let text = match args.words.as_slice() {
        [] => overview(),
        words => answer(words)?,
    };
    streams::print(&text)?;
    Ok(0)
}

/// The pages of the guide by name, and what each tells.
pub(crate) fn topics() -> impl Iterator<Item = (&'static str, &'static str)> {
    topics::ALL.iter().map(|topic| (topic.name, topic.about))
}

fn answer(words: &[String]) -> Result<String, CommandError> {
    let name = words[0].as_str();
    if let ([_], Some(topic)) = (words, topics::find(name)) {
        return Ok(page(topic, topic.text));
    }
    if let ([_], Some(setting)) = (words, setting(name)) {
        return Ok(setting);
    }
    of_command(words).ok_or_else(|| CommandError::Arguments(unknown(&words.join(" "))))
}

fn page(topic: &Topic, text: &str) -> String {
    render::page(text, topic.path, look())
}

/// The part of the settings page about one of them, or what it says of one that is in the environment only.
fn setting(name: &str) -> Option<String> {
    let topic = topics::find("settings")?;
    let name = name.to_uppercase();
    let part = part_about(topic.text, &name).or_else(|| {
        let (_, about) = airamp_settings::ENVIRONMENT_ONLY.iter().find(|(known, _)| *known == name)?;
        Some(format!("\n{about}\n\nIn the environment only; it has no key in the settings file.\n"))
    });
    Some(page(topic, &format!("# {name}\n{}", part?)))
}

fn part_about(page: &str, name: &str) -> Option<String> {
    let (_, from_there) = page.split_once(&format!("\n## {name}\n"))?;
    from_there.split("\n## ").next().map(str::to_owned)
}

fn of_command(words: &[String]) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        found = found.find_subcommand_mut(word)?;
    }
    Some(found.render_long_help().to_string())
}

fn overview() -> String {
    let rows = topics::ALL.iter().map(|topic| [topic.name.to_owned(), topic.about.to_owned()]);
    let list =
        crate::columns::aligned(["TOPIC", "WHAT IT TELLS"], rows.collect(), &["TOPIC", "WHAT IT TELLS"]);
    let commands = Cli::command().render_help();
    format!(
        "{commands}\nTopics, for `airamp help TOPIC`; a setting such as AIRAMP_MODE is one too:\n\n{list}"
    )
}

fn unknown(asked: &str) -> String {
    let alike = alike(asked);
    let hint =
        if alike.is_empty() { String::new() } else { format!(" (did you mean {}?)", alike.join(" or ")) };
    format!("there is no command, topic or setting `{asked}`{hint}; `airamp help` lists what there is")
}

/// Who asks for a setting is not sent to a topic that begins with the same letters.
fn alike(asked: &str) -> Vec<String> {
    if asked.to_uppercase().starts_with("AIRAMP_") {
        return airamp_settings::nearest_variable(asked).map(str::to_owned).into_iter().collect();
    }
    let commands = Cli::command();
    let names =
        commands.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let topics = topics::ALL.iter().map(|topic| topic.name);
    names.chain(topics).filter(|name| topics::is_like(name, asked)).map(str::to_owned).collect()
}

fn look() -> Look {
    let is_terminal = std::io::stdout().is_terminal();
    let size = ratatui::crossterm::terminal::size().ok().filter(|_| is_terminal);
    // A terminal that does not know its width says 0.
    let width = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0).unwrap_or(USUAL);
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    Look { width: width.clamp(NARROWEST, WIDEST), is_bold: is_terminal && colour }
}

#[cfg(test)]
mod tests;
