//! `airamp dump`: one file for whoever is to help: settings, versions, what the jobs did and why, and what the doctor
//! finds. It reads and changes nothing but that file, and keeps what is private out of it.

mod archive;
mod calls;
mod contents;
mod environment;
mod manifest;
mod privacy;
mod versions;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use archive::Document;

use crate::cli::CommandError;
use crate::doctor::may_create_in;
use crate::observe::Which;
use crate::streams;

/// In which the files of the archive lie.
const FOLDER: &str = "airamp-dump";

const AFTER_HELP: &str = "\
The bundle is a compressed tar archive of text files; README.txt in it says what each of them is. Look into it before \
you send it: `tar -xOzf BUNDLE`.

In it: settings in force and where they come from, versions (airamp, library, NCCL, driver, kernel, system, GPUs), what \
`airamp status --json`, `airamp explain` and `airamp doctor` say, the last calls of each process (kind, size, path, \
times), the list of the evidence that airampd keeps, counters of GPUs and network.

Not in it: your data, logs, tokens or keys, command lines, environment variables other than AIRAMP_* and NCCL_* (and of \
those only values that are settings), paths in home folders. Names of hosts, users and jobs and addresses are replaced, \
unless --with-names is given.

Exit code: 0 the bundle is written, 1 it is written but no job was seen, 2 wrong arguments, 125 it could not be written.

Examples:
  airamp dump
  airamp dump --job 4711 --out 4711.tar.gz
  airamp dump --out - | ssh help 'cat > bundle.tar.gz'";

/// Write a support bundle: settings, versions, decisions, events, counters; no user data
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The file to write, which must not be there yet; `-` for standard output; airamp-dump-SECONDS.tar.gz unless given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Keep the names of hosts, users and jobs, and addresses
    #[arg(long)]
    with_names: bool,

    #[command(flatten)]
    which: Which,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let to = destination(args)?;
    let (mut documents, has_jobs) = contents::gathered(&args.which, args.with_names);
    documents.insert(0, manifest::of(&documents, args.with_names));
    match &to {
        None => print(&documents)?,
        Some(path) => write_file(path, &documents).map_err(|error| cannot_write(path, &error))?,
    }
    if let Some(path) = &to {
        streams::complain(&format!("airamp: {} is written; look into it before you send it", path.display()));
    }
    if !has_jobs {
        streams::complain("airamp: no job was seen, so the bundle is about the machine alone");
    }
    Ok(u8::from(!has_jobs))
}

/// `None` is standard output. Refused before anything is gathered.
fn destination(args: &Args) -> Result<Option<PathBuf>, CommandError> {
    let path = match &args.out {
        Some(path) if path == Path::new("-") => {
            if io::stdout().is_terminal() {
                let text = "--out -: standard output is a terminal, and a bundle is no text; send it to a file or a pipe";
                return Err(CommandError::Arguments(text.to_owned()));
            }
            return Ok(None);
        }
        Some(path) => path.clone(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            PathBuf::from(format!("airamp-dump-{now}.tar.gz"))
        }
    };
    if path.symlink_metadata().is_ok() {
        let error = "it is there already, and nothing is overwritten; give another name with --out";
        return Err(cannot_write(&path, &io::Error::new(io::ErrorKind::AlreadyExists, error)));
    }
    match refused_by(folder_of(&path)) {
        Some(error) => Err(cannot_write(&path, &error)),
        None => Ok(Some(path)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why nothing can be made in that folder.
fn refused_by(folder: &Path) -> Option<io::Error> {
    let found = match folder.metadata() {
        Ok(found) if !found.is_dir() => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        Ok(_) => may_create_in(folder),
        Err(error) => Err(error),
    };
    found.err().map(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
}

fn print(documents: &[Document]) -> io::Result<()> {
    let mut bytes = Vec::new();
    archive::write(&mut bytes, FOLDER, documents)?;
    streams::write_all(&streams::stdout()?, &bytes)
}

/// Whole or not at all, and for this user alone.
fn write_file(path: &Path, documents: &[Document]) -> io::Result<()> {
    let file = tempfile::NamedTempFile::new_in(folder_of(path))?;
    archive::write(file.as_file(), FOLDER, documents)?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Io(io::Error::new(error.kind(), format!("{} cannot be written: {error}", path.display())))
}
