//! An operator's orders to running processes: one Unix socket per process, in a folder that is the user's alone.
//! `airamp disable` sends them; the control thread of each process takes them.

use crate::wire::{self, Frames};
use airamp_agreement::{Order, PROTOCOL};
use mio::net::UnixListener;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that does not answer in this time is left out.
const PATIENCE: Duration = Duration::from_secs(2);
const ENDING: &str = "sock";

/// What one process said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub pid: u32,
    pub job: String,
    /// How many of its communicators were told.
    pub communicators: u32,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub order: Order,
    /// Only processes of this job are meant.
    pub job: Option<String>,
}

/// Gives the order to every process of this user, or to those of one job. A process that does not answer is left out.
pub fn send(order: Order, job: Option<&str>) -> io::Result<Vec<Answer>> {
    match folder() {
        Some(folder) => send_in(&folder, order, job),
        None => Ok(Vec::new()),
    }
}

/// The same for the sockets of another folder.
pub fn send_in(folder: &Path, order: Order, job: Option<&str>) -> io::Result<Vec<Answer>> {
    match check(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        outcome => outcome?,
    }
    let request = Request { order, job: job.map(str::to_owned) };
    let mut answers = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == ENDING)
            && let Ok(answer) = ask(&path, &request)
        {
            answers.push(answer);
        }
    }
    answers.retain(|answer| job.is_none_or(|job| answer.job == job));
    answers.sort_by_key(|answer| answer.pid);
    Ok(answers)
}

fn ask(path: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            // Nobody listens any more: what a process that has ended left behind.
            fs::remove_file(path)?;
            return Err(error);
        }
        outcome => outcome?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let invalid = |error: wire::WireError| io::Error::new(ErrorKind::InvalidData, error.to_string());
    let body = wire::encode(request).map_err(invalid)?;
    stream.write_all(&wire::frame(PROTOCOL, &body).map_err(invalid)?)?;
    let mut frames = Frames::default();
    let mut bytes = [0; 4096];
    loop {
        if let Some(frame) = frames.take().map_err(invalid)? {
            return wire::decode(&frame.body).map_err(invalid);
        }
        match stream.read(&mut bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => frames.push(&bytes[..count]),
        }
    }
}

/// Where this user's sockets lie.
pub(crate) fn folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    // SAFETY: geteuid has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    Some(match runtime.filter(|path| path.is_dir()) {
        Some(path) => path.join("airamp"),
        None => PathBuf::from(format!("/tmp/airamp-{user}")),
    })
}

/// The socket of this process.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => check(folder)?,
    }
    // Processes of other containers may have the same number and the same folder.
    for again in 0..8 {
        let name = match again {
            0 => format!("{}.{ENDING}", std::process::id()),
            _ => format!("{}-{again}.{ENDING}", std::process::id()),
        };
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() && UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
        }
        match UnixListener::bind(&path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
            Ok(listener) => {
                fs::set_permissions(&path, Permissions::from_mode(0o600))?;
                return Ok(listener);
            }
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// A folder that others could write to, or that is theirs, is not used.
fn check(folder: &Path) -> io::Result<()> {
    let found = folder.symlink_metadata()?;
    // SAFETY: geteuid has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let path = folder.display();
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{path} is not a folder of this user alone")))
}
