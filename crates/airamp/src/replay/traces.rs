//! The files of a replay: those that were named, those of a folder in the order of their ranks, or one that was made up.

use std::path::{Path, PathBuf};

use airamp_trace::synthesise::synthesise;
use airamp_trace::{Trace, read_file, write_file};
use tempfile::TempDir;

use crate::cli::CommandError;

pub(super) struct Traces {
    /// Absolute; the first one's calls are played.
    pub(super) files: Vec<PathBuf>,
    pub(super) source: String,
    /// Of the largest communicator.
    pub(super) ranks: u32,
    /// Holds what was made up until it is played.
    _made_up: Option<TempDir>,
}

impl Traces {
    pub(super) fn made_up(recipe: &str) -> Result<Self, CommandError> {
        let trace = synthesise(recipe).map_err(CommandError::Arguments)?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("trace.jsonl");
        write_file(&trace, &file)?;
        Ok(Self::new(vec![file], &trace, Some(folder)))
    }

    pub(super) fn found(named: &[PathBuf]) -> Result<Self, CommandError> {
        let mut files = Vec::new();
        for path in named {
            files.extend(if path.is_dir() { of_folder(path)? } else { vec![std::path::absolute(path)?] });
        }
        let first = files.first().ok_or_else(|| CommandError::Arguments("no trace".into()))?;
        let wrong = |path: &Path, why: &dyn std::fmt::Display| {
            CommandError::Arguments(format!("{}: {why}", path.display()))
        };
        let trace = read_file(first).map_err(|error| wrong(first, &error))?;
        // All of them now: a rank that finds its file wrong lets the others wait.
        for file in files.iter().skip(1) {
            read_file(file).map_err(|error| wrong(file, &error))?;
        }
        if trace.calls.is_empty() {
            return Err(wrong(first, &"no calls"));
        }
        Ok(Self::new(files, &trace, None))
    }

    fn new(files: Vec<PathBuf>, trace: &Trace, made_up: Option<TempDir>) -> Self {
        let ranks = trace.communicators.iter().map(|communicator| communicator.ranks).max().unwrap_or(1);
        Self { files, source: trace.source.clone(), ranks, _made_up: made_up }
    }
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let entries = std::fs::read_dir(std::path::absolute(folder)?)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    if files.is_empty() {
        return Err(CommandError::Arguments(format!("{}: no files *.jsonl", folder.display())));
    }
    files.sort_by_key(|path| (number_in(path), path.clone()));
    Ok(files)
}

/// Of rank-12.jsonl 12.
fn number_in(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits: String =
        name.chars().skip_while(|letter| !letter.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_folder_come_in_the_order_of_their_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let trace = synthesise("ddp steps=3 ranks=16").unwrap();
        for name in ["rank-10.jsonl", "rank-2.jsonl", "rank-0.jsonl", "notes.txt"] {
            write_file(&trace, &folder.path().join(name)).unwrap();
        }
        let found = Traces::found(&[folder.path().to_owned()]).unwrap();
        let names: Vec<String> =
            found.files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["rank-0.jsonl", "rank-2.jsonl", "rank-10.jsonl"]);
        assert_eq!(found.ranks, 16);
    }

    #[test]
    fn what_cannot_be_played_is_a_wrong_argument() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.jsonl");
        let exit_code = |path: &Path| Traces::found(&[path.to_owned()]).err().map(|error| error.exit_code());
        assert_eq!(exit_code(folder.path()), Some(2), "an empty folder");
        assert_eq!(exit_code(&file), Some(2), "no such file");
        std::fs::write(&file, "{}\n").unwrap();
        assert_eq!(exit_code(&file), Some(2), "no trace");
        write_file(&Trace::default(), &file).unwrap();
        assert_eq!(exit_code(&file), Some(2), "no calls");
    }
}
