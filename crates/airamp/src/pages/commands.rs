//! The man pages of airamp and of its commands, from the definitions of the parser: the same words as `--help`, in a man
//! page's sections. A command within a command, as in `airamp kernels build`, is part of that one's page.

use std::fs;
use std::path::Path;

use airamp_settings::{DEFAULT_EVIDENCE_DIR, DEFAULT_FILE, ENVIRONMENT_ONLY, TABLE};
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::epilogue::Epilogue;
use super::roff::{Page, bold, italic, reference};
use crate::cli::Cli;

/// airamp(1), airamp-run(1) and so on.
pub(super) fn write(folder: &Path, date: &str) -> std::io::Result<()> {
    let mut whole = Cli::command();
    whole.build();
    let page = page(&whole, "airamp", date, |page| {
        for sub in shown(&whole) {
            page.item(&reference(&page_name(sub), 1), &about(sub));
        }
    });
    fs::write(folder.join("airamp.1"), page)?;
    for command in shown(&whole) {
        let name = page_name(command);
        let page = self::page(command, &name, date, |page| {
            shown(command).for_each(|nested| part_about(page, nested));
        });
        fs::write(folder.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

/// What `airamp --help` need not say.
const WHOLE: &str = "\
The library, libairamp_accel.so, stands between a program and NCCL or RCCL, watches every collective, and compresses AllReduce on \
the wire where all ranks agree on it and where it pays. It changes no result until it is told to (`AIRAMP_MODE=on`).";

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn page_name(command: &Command) -> String {
    format!("airamp-{}", command.get_name())
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn page(command: &Command, name: &str, date: &str, commands: impl Fn(&mut Page)) -> String {
    let mut page = Page::new(name, 1, date, &about(command));
    let epilogue = Epilogue::of(&after_help(command));
    page.section("SYNOPSIS");
    page.raw(&synopsis(command));
    shown(command).filter(|_| name != "airamp").for_each(|nested| page.raw(&synopsis(nested)));
    page.section("DESCRIPTION");
    page.paragraph(&format!("{}.", about(command)));
    if name == "airamp" {
        page.paragraph(WHOLE);
    }
    epilogue.prose.iter().for_each(|paragraph| page.paragraph(paragraph));
    if command.has_subcommands() {
        page.section("COMMANDS");
        commands(&mut page);
    }
    page.section("OPTIONS");
    options(&mut page, command);
    exit_status(&mut page, &epilogue);
    let words = words_of(command);
    environment(&mut page, name, &words);
    files(&mut page, name);
    if !epilogue.examples.is_empty() {
        page.section("EXAMPLES");
        page.as_it_stands(epilogue.examples.iter().map(String::as_str));
    }
    page.section("SEE ALSO");
    page.raw(&see_also(command, name, &words));
    page.text()
}

fn after_help(command: &Command) -> String {
    let text = command.get_after_long_help().or_else(|| command.get_after_help());
    text.map(ToString::to_string).unwrap_or_default()
}

/// A command within a command: its options are few.
fn part_about(page: &mut Page, nested: &Command) {
    page.subsection(nested.get_name());
    page.paragraph(&format!("{}.", about(nested)));
    options(page, nested);
}

/// Each option with the name of its value; what belongs together is not broken.
fn synopsis(command: &Command) -> String {
    let mut words =
        vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name())).replace(' ', "\\ ")];
    let arguments = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let (positional, options): (Vec<_>, Vec<_>) = arguments().partition(|argument| argument.is_positional());
    for argument in options.into_iter().filter(|option| !is_ours(option)).chain(positional) {
        let is_again =
            matches!(argument.get_action(), ArgAction::Append) && argument.get_value_delimiter().is_none();
        let name = head(argument).replace(", ", "|").replace(' ', "\\ ");
        let whole = if argument.is_required_set() { name } else { format!("[{name}]") };
        // Of one without a name the dots are there already.
        words.push(if is_again && !argument.is_positional() { whole + "..." } else { whole });
    }
    if command.has_subcommands() {
        words.push(italic("COMMAND"));
    }
    words.join(" ")
}

/// `--help` and `--version`, which every program has.
fn is_ours(option: &Arg) -> bool {
    matches!(
        option.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

/// `-o, --output FOLDER`, or `FILE...`.
fn head(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| bold(&format!("-{short}")));
    let long = argument.get_long().map(|long| bold(&format!("--{long}")));
    let mut words = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    let taken = argument.get_num_args().filter(|taken| taken.takes_values());
    if let (Some(taken), Some(names)) = (taken, argument.get_value_names()) {
        let names: Vec<_> = names.iter().map(|name| italic(name)).collect();
        let more = if taken.max_values() > names.len() { "..." } else { "" };
        let space = if words.is_empty() { "" } else { " " };
        words += &format!("{space}{}{more}", names.join(" "));
    }
    words
}

fn options(page: &mut Page, command: &Command) {
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let mut body = help_of(argument);
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() && argument.get_num_args().is_some_and(|taken| taken.takes_values()) {
            body += &format!(" [default: {}]", defaults.join(","));
        }
        let values: Vec<_> =
            argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
        let takes_values = argument.get_num_args().is_some_and(|taken| taken.takes_values());
        if takes_values && !values.is_empty() && !argument.is_hide_possible_values_set() {
            let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
            body += &format!(" [possible values: {}]", names.join(", "));
        }
        page.item(&head(argument), &body);
    }
}

fn help_of(argument: &Arg) -> String {
    argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// Those that hold for every command that says nothing else.
const USUAL_CODES: [(&str, &str); 3] =
    [("0", "all went well"), ("2", "wrong arguments"), ("125", "airamp failed")];

fn exit_status(page: &mut Page, epilogue: &Epilogue) {
    page.section("EXIT STATUS");
    if let Some(sentence) = &epilogue.of_codes {
        page.paragraph(sentence);
    }
    if epilogue.codes.is_empty() {
        USUAL_CODES.iter().for_each(|(code, meaning)| page.item(&bold(code), meaning));
    }
    epilogue.codes.iter().for_each(|(code, meaning)| page.item(&bold(code), meaning));
}

/// All that a command says of itself and of its options.
fn words_of(command: &Command) -> String {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).map(help_of);
    let nested = shown(command).map(words_of);
    let own = [about(command), after_help(command)];
    own.into_iter().chain(arguments).chain(nested).collect::<Vec<_>>().join("\n")
}

/// The variables that the page speaks of; airamp(1) has those that stand in no file.
fn environment(page: &mut Page, name: &str, words: &str) {
    let settings = TABLE.iter().map(|setting| (setting.env, setting.doc));
    let all = ENVIRONMENT_ONLY.iter().copied().chain(settings);
    let is_whole = name == "airamp";
    let wanted = |variable: &str| match is_whole {
        true => ["AIRAMP_CONFIG", "AIRAMP_HOME"].contains(&variable),
        false => is_said(words, variable),
    };
    let rows: Vec<_> = all.filter(|(variable, _)| wanted(variable)).collect();
    if rows.is_empty() {
        return;
    }
    page.section("ENVIRONMENT");
    rows.iter().for_each(|(variable, doc)| page.item(&bold(variable), doc));
    let others = if is_whole { "Every setting" } else { "Every other setting" };
    page.raw(&format!("{others} of {} is a variable too.", reference("airamp.conf", 5)));
}

/// Whether it stands there as a word: AIRAMP_LOG is none of AIRAMP_LOG_FILE.
fn is_said(words: &str, variable: &str) -> bool {
    words.match_indices(variable).any(|(at, _)| {
        let next = words[at + variable.len()..].chars().next();
        !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
    })
}

fn files(page: &mut Page, name: &str) {
    let settings = (DEFAULT_FILE, "The settings, unless AIRAMP_CONFIG names another file.");
    let telemetry =
        ("/dev/shm/airamp-UID", "What the processes of a user with the library tell of themselves.");
    let evidence = (DEFAULT_EVIDENCE_DIR, "Records of calls around anomalies, which airampd keeps.");
    let known: &[(&str, &str)] = match name {
        "airamp" => &[settings, telemetry, evidence],
        "airamp-config" | "airamp-run" | "airamp-plan" => &[settings],
        "airamp-doctor" => &[settings, telemetry],
        "airamp-explain" | "airamp-status" | "airamp-record" => &[telemetry],
        "airamp-dump" => &[settings, telemetry, evidence],
        _ => &[],
    };
    if !known.is_empty() {
        page.section("FILES");
    }
    known.iter().for_each(|(path, what)| page.item(&italic(path), what));
}

/// The whole, the settings, and the pages of what this one speaks of.
fn see_also(command: &Command, name: &str, words: &str) -> String {
    let mut pages = Vec::new();
    let mut whole = Cli::command();
    whole.build();
    if name == "airamp" {
        pages.extend([reference("airamp-node", 1), reference("airamp-srun", 1)]);
    } else {
        pages.push(reference("airamp", 1));
        let others = shown(&whole).filter(|other| other.get_name() != command.get_name());
        let spoken_of = others.filter(|other| is_said(words, &format!("airamp {}", other.get_name())));
        pages.extend(spoken_of.map(|other| reference(&page_name(other), 1)));
    }
    if name == "airamp-run" {
        pages.push(reference("airamp-srun", 1));
    }
    pages.push(reference("airamp.conf", 5));
    if name == "airamp" || words.contains("airampd") {
        pages.push(reference("airampd", 8));
    }
    let guide = format!("; {} lists the pages of the guide.", bold("airamp help"));
    format!("{}{}", pages.join(", "), if name == "airamp" { &guide } else { "" })
}
