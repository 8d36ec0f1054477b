//! `airamp print-pages`, hidden: what a release carries besides programs. Man pages and completions come from the
//! same definitions as the parser, the settings file and its page from the settings table. deploy/release/tree calls it.

mod commands;
mod completions;
mod epilogue;
mod roff;
mod settings;

use std::fs;
use std::path::PathBuf;

use crate::cli::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    folder: PathBuf,
    /// Of the man pages, in their footer
    #[arg(long, default_value = "")]
    date: String,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let below = |part: &str| -> std::io::Result<PathBuf> {
        let folder = args.folder.join(part);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    commands::write(&below("share/man/man1")?, &args.date)?;
    fs::write(below("share/man/man5")?.join("airamp.conf.5"), settings::page(&args.date))?;
    for (shell, part, file) in completions::FILES {
        fs::write(below(part)?.join(file), completions::script(shell))?;
    }
    fs::write(below("etc")?.join("airamp.conf"), settings::file())?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn written() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        execute(&Args { folder: folder.path().to_owned(), date: "2026-11-19".into() }).expect("written");
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
        for (_, part, file) in completions::FILES {
            let text = fs::read_to_string(folder.path().join(part).join(file)).expect("a script");
            for word in ["doctor", "emulate", "datatypes"] {
                assert!(text.contains(word), "{file}: {word}");
            }
            assert!(!text.contains("print-maps") && !text.contains("print-pages"), "{file}");
        }
    }
}
