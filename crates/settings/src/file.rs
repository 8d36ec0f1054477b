//! Reads the settings file: bounded, only if it is a regular file, and never waiting for anyone.
//! It turns TOML into keys, lines and values; whether they mean anything is decided in `resolve`.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use toml::de::{DeTable, DeValue, Error as TomlError};

use crate::kinds::Given;

/// A settings file larger than this is not a settings file.
pub const MAX_FILE_BYTES: u64 = 64 << 10;
/// Nor is one with more keys, those in tables among them.
const MOST_KEYS: usize = 1000;
/// Of a table's name this much is kept with each key in it; of its own name all.
const MOST_OF_A_TABLES_NAME: usize = 64;
/// Below that tables are named and not looked into.
const MOST_TABLES_DEEP: usize = 8;

/// Why a settings file was ignored as a whole.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("there is no such file")]
    Missing,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is {0}, not a regular file")]
    NotAFile(&'static str),
    #[error("is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    #[error("has more than {MOST_KEYS} keys")]
    TooManyKeys,
    #[error("is not text: invalid UTF-8 on line {line}")]
    NotText { line: usize },
    #[error("is not valid TOML: line {line}: {message}")]
    NotToml { line: usize, message: String },
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Unreadable(error),
        }
    }
}

/// One key of the file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) given: Given,
    /// Of a table the keys that stand in it, each with its path from this one on, and their lines.
    pub(crate) inside: Vec<(String, usize)>,
}

pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, FileError> {
    let text = text_of(read_bounded(path)?)?;
    entries(&text)
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, FileError> {
    // Looked at before it is opened, because opening a device can have effects of its own.
    check(&std::fs::metadata(path)?)?;
    // What stood there may have been replaced since: O_NONBLOCK keeps a FIFO from holding us up.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check(&file.metadata()?)?;
    read_at_most(file)
}

fn check(found: &Metadata) -> Result<(), FileError> {
    let kind = found.file_type();
    let other = match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    };
    match other {
        Some(name) => Err(FileError::NotAFile(name)),
        None if found.len() > MAX_FILE_BYTES => Err(FileError::TooLarge),
        None => Ok(()),
    }
}

fn read_at_most(file: File) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    // The size seen may be stale, and files under /proc claim to be empty.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(FileError::Unreadable)?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(FileError::TooLarge),
        false => Ok(bytes),
    }
}

fn text_of(bytes: Vec<u8>) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        FileError::NotText { line: line_at(error.as_bytes(), good) }
    })
}

fn entries(text: &str) -> Result<Vec<Entry>, FileError> {
    let table = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
    let (mut entries, mut count) = (Vec::new(), 0);
    for (key, line, value) in keys(text, table.get_ref()) {
        let inside = inside(text, &key, value);
        count += inside.len().max(1);
        if count > MOST_KEYS {
            return Err(FileError::TooManyKeys);
        }
        entries.push(Entry { key, line, given: given(value), inside });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn keys<'a>(
    text: &'a str,
    table: &'a DeTable<'a>,
) -> impl Iterator<Item = (String, usize, &'a DeValue<'a>)> + 'a {
    let line = |at| line_at(text.as_bytes(), at);
    table.iter().map(move |(key, value)| {
        (key.get_ref().clone().into_owned(), line(key.span().start), value.get_ref())
    })
}

/// The keys in a table, or in the tables of an array, each with its path: what they are called may say what they are for.
/// No more than show that there are too many.
fn inside(text: &str, key: &str, value: &DeValue<'_>) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    gather(text, value, &as_path(key), MOST_TABLES_DEEP, &mut found);
    found.sort_by_key(|(_, line)| *line);
    found
}

fn gather(text: &str, value: &DeValue<'_>, path: &str, deep: usize, found: &mut Vec<(String, usize)>) {
    match value {
        DeValue::Table(table) => {
            for (key, line, value) in keys(text, table) {
                if found.len() > MOST_KEYS {
                    return;
                }
                let before = found.len();
                if deep > 0 {
                    gather(text, value, &format!("{path}{}", as_path(&key)), deep - 1, found);
                }
                if found.len() == before {
                    found.push((format!("{path}{key}"), line));
                }
            }
        }
        DeValue::Array(values) if deep > 0 => {
            values.iter().for_each(|value| gather(text, value.get_ref(), path, deep - 1, found));
        }
        _ => {}
    }
}

/// A table's name as it stands before each key in it.
fn as_path(key: &str) -> String {
    format!("{}.", key.chars().take(MOST_OF_A_TABLES_NAME).collect::<String>())
}

fn not_toml(text: &str, error: &TomlError) -> FileError {
    let line = line_at(text.as_bytes(), error.span().map_or(0, |span| span.start));
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    FileError::NotToml { line, message }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.clone().into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Given::Other("a whole number beyond 64 bits"), Given::Whole),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Given::Other("a number beyond 64 bits"), Given::Decimal)
        }
        DeValue::Boolean(value) => Given::Switch(*value),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(_) => Given::Other("an array"),
        DeValue::Table(_) => Given::Other("a table"),
    }
}

/// The line, from 1, in which the byte at `offset` lies.
fn line_at(bytes: &[u8], offset: usize) -> usize {
    1 + bytes.iter().take(offset).filter(|byte| **byte == b'\n').count()
}
