//! `airamp print-pages`, hidden: what a release carries besides programs. Man pages and completions come from the
//! same definitions as the parser, the settings file from the settings table. deploy/release/tree calls it.

use std::fs;
use std::path::{Path, PathBuf};

use airamp_settings::{Plain, Setting, TABLE};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, CommandError};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    folder: PathBuf,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let below = |part: &str| -> std::io::Result<PathBuf> {
        let folder = args.folder.join(part);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    man_pages(&below("share/man/man1")?)?;
    for (shell, part, file) in COMPLETIONS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut visible(&Cli::command()), "airamp", &mut text);
        fs::write(below(part)?.join(file), text)?;
    }
    fs::write(below("etc")?.join("airamp.conf"), settings_file())?;
    Ok(0)
}

/// Where each shell looks, below a prefix.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "airamp"),
    (Shell::Zsh, "share/zsh/site-functions", "_airamp"),
    (Shell::Fish, "share/fish/vendor_completions.d", "airamp.fish"),
];

/// The commands without those that only we call: completions would offer them.
fn visible(command: &clap::Command) -> clap::Command {
    let kept = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect::<Vec<_>>();
    let mut copy =
        clap::Command::new("airamp").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    copy = copy.subcommands(kept);
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

/// One page for airamp and one for each command, airamp-run(1) and so on.
fn man_pages(folder: &Path) -> std::io::Result<()> {
    let whole = Cli::command().name("airamp");
    write_page(folder, whole.clone(), "airamp")?;
    for sub in whole.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("airamp-{}", sub.get_name());
        let called = format!("airamp {}", sub.get_name());
        let page = sub.clone().display_name(name.clone()).bin_name(called).version(env!("CARGO_PKG_VERSION"));
        write_page(folder, page, &name)?;
    }
    Ok(())
}

fn write_page(folder: &Path, command: clap::Command, name: &str) -> std::io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).title(name.to_uppercase()).manual("AIRamp-Accel").render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)
}

const SETTINGS_HEAD: &str = "\
# Settings of AIRamp-Accel, for the library, airamp and airampd. TOML with flat keys; every line that is commented out
# shows a default. The environment (AIRAMP_MODE and so on) wins over this file. airamp config shows what holds and
# from where it came, airamp help settings says more about each.
";

/// Every setting with its default, commented out.
fn settings_file() -> String {
    TABLE.iter().fold(SETTINGS_HEAD.to_owned(), |text, setting| text + &described(setting))
}

fn described(setting: &Setting) -> String {
    let doc = wrapped(setting.doc, 116).iter().map(|line| format!("# {line}\n")).collect::<String>();
    let line = match setting.default_value() {
        Plain::Unset => format!("# {} is unset; it takes {}", setting.key, (setting.expects)()),
        Plain::Text(text) => format!("#{} = {text:?}", setting.key),
        Plain::Bytes(_) => format!("#{} = \"{}\"", setting.key, setting.default_value()),
        other => format!("#{} = {other}", setting.key),
    };
    format!("\n{doc}{line}\n")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("begins with one");
        match last.len() {
            0 => last.push_str(word),
            length if length + word.len() < width => *last += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        execute(&Args { folder: folder.path().to_owned() }).expect("written");
        folder
    }

    #[test]
    fn every_command_has_a_man_page_and_hidden_ones_have_none() {
        let folder = written();
        for command in Cli::command().get_subcommands() {
            let page = folder.path().join(format!("share/man/man1/airamp-{}.1", command.get_name()));
            assert_eq!(page.is_file(), !command.is_hide_set(), "{}", command.get_name());
        }
        assert!(folder.path().join("share/man/man1/airamp.1").is_file());
    }

    #[test]
    fn every_shell_completes_commands_and_options_but_not_the_hidden_ones() {
        let folder = written();
        for (_, part, file) in COMPLETIONS {
            let text = fs::read_to_string(folder.path().join(part).join(file)).expect("a script");
            for word in ["doctor", "emulate", "datatypes"] {
                assert!(text.contains(word), "{file}: {word}");
            }
            assert!(!text.contains("print-maps") && !text.contains("print-pages"), "{file}");
        }
    }

    /// Every default of the file, not commented out, is what holds without it.
    #[test]
    fn the_settings_file_is_valid_and_says_the_defaults() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("airamp.conf");
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = settings_file().lines().map(uncommented).collect();
        fs::write(&path, text.join("\n")).expect("a file");
        let loaded = airamp_settings::resolve(&std::iter::empty::<(_, _)>().collect(), &path);
        assert_eq!(loaded.warnings, Vec::<String>::new());
        assert!(loaded.file_read && loaded.settings == airamp_settings::Settings::default());
        let set =
            loaded.effective().filter(|setting| setting.source != airamp_settings::Source::Default).count();
        let unset = TABLE.iter().filter(|row| matches!(row.default_value(), Plain::Unset)).count();
        assert_eq!(set + unset, TABLE.len());
    }
}
