//! An operator's orders to running processes: one Unix socket per process, in a folder that is the user's alone.
//! `airamp disable` sends them; the control thread of each process takes them.

use crate::wire::{self, Frames};
use airamp_agreement::{Order, PROTOCOL};
use mio::net::UnixListener;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, DirEntry, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that does not answer in this time is left out.
const PATIENCE: Duration = Duration::from_secs(2);
const ENDING: &str = "sock";

/// A socket that is just being made refuses too; none takes this long.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// Of old sockets a process looks at so many. Those of living processes are among them.
const MOST_LOOKS: usize = 128;

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
    send_in_each(&everywhere(), order, job)
}

/// The same for the sockets of other folders. One that cannot be used, as that of a session of somebody else, keeps the
/// order from no process that has its socket in another; it is told where nobody has answered.
pub fn send_in_each(folders: &[PathBuf], order: Order, job: Option<&str>) -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    let mut failed = None;
    for folder in folders {
        match send_in(folder, order, job) {
            Ok(more) => answers.extend(more),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    answers.sort_by_key(|answer| answer.pid);
    match failed {
        Some(error) if answers.is_empty() => Err(error),
        _ => Ok(answers),
    }
}

/// The same for the sockets of one folder.
pub fn send_in(folder: &Path, order: Order, job: Option<&str>) -> io::Result<Vec<Answer>> {
    match check(folder) {
        Err(error) if has_no_sockets_of_ours(&error) => return Ok(Vec::new()),
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
    Ok(answers)
}

/// Where nothing is, and where we may not even look: a process of this user could not have made a socket there.
fn has_no_sockets_of_ours(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::EACCES)
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

/// Where the sockets of processes lie that have this one's environment.
pub(crate) fn folder() -> Option<PathBuf> {
    Some(match runtime_folder().filter(|path| path.is_dir()) {
        Some(path) => path.join("airamp"),
        None => without_a_runtime_folder(user()),
    })
}

/// All folders that a process of this user may have chosen: a session has a runtime folder that a batch job does not
/// have, so the environment of whoever orders says nothing about that of the job.
fn everywhere() -> Vec<PathBuf> {
    each_once(runtime_folder(), user())
}

fn each_once(runtime: Option<PathBuf>, user: u32) -> Vec<PathBuf> {
    let mut runtimes = Vec::new();
    for folder in runtime.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]) {
        // By its real name, since it may be reached by two; a folder that is not there has no sockets.
        if let Ok(real) = folder.canonicalize()
            && !runtimes.contains(&real)
        {
            runtimes.push(real);
        }
    }
    runtimes.iter().map(|folder| folder.join("airamp")).chain([without_a_runtime_folder(user)]).collect()
}

fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

fn without_a_runtime_folder(user: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/airamp-{user}"))
}

fn user() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// The socket of this process.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => check(folder)?,
    }
    clear_away(folder);
    // Processes of other containers may have the same number and the same folder.
    for again in 0..8 {
        let name = match again {
            0 => format!("{}.{ENDING}", std::process::id()),
            _ => format!("{}-{again}.{ENDING}", std::process::id()),
        };
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() && has_no_listener(&path) {
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

/// Removes sockets that ended processes left behind: nobody else does unless an order is given, and few ever are. Never waits.
fn clear_away(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else { return };
    let old = files.flatten().filter(is_an_old_socket).map(|file| file.path());
    for path in old.take(MOST_LOOKS).filter(|path| has_no_listener(path)) {
        let _ = fs::remove_file(&path);
    }
}

/// Not by the standard library's `connect`, which waits where a process has stopped and takes no connections.
fn has_no_listener(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    mio::net::UnixStream::connect(path).is_err_and(refused)
}

fn is_an_old_socket(file: &DirEntry) -> bool {
    let named = Path::new(&file.file_name()).extension().is_some_and(|ending| ending == ENDING);
    let is_old = |found: &Metadata| {
        let age = found.modified().ok().and_then(|made| made.elapsed().ok());
        found.file_type().is_socket() && age.is_some_and(|age| age > MADE_WITHIN)
    };
    named && file.metadata().is_ok_and(|found| is_old(&found))
}

/// A folder that others could write to, or that is theirs, is not used.
fn check(folder: &Path) -> io::Result<()> {
    let found = folder.symlink_metadata()?;
    if found.is_dir() && found.uid() == user() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let path = folder.display();
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{path} is not a folder of this user alone")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_asks_in_the_runtime_folder_and_in_the_one_for_jobs_without_each_once() {
        let base = tempfile::tempdir().expect("a folder");
        let (real, linked) = (base.path().join("runtime"), base.path().join("linked"));
        fs::create_dir(&real).expect("a folder");
        std::os::unix::fs::symlink(&real, &linked).expect("a link");
        // A user that no machine has, so that nothing of this one is looked at.
        let nobody = 4_294_967_000;
        let real = real.canonicalize().expect("a real name").join("airamp");
        for runtime in [&linked, &base.path().join("runtime")] {
            let folders = each_once(Some(runtime.clone()), nobody);
            assert_eq!(folders, [real.clone(), PathBuf::from("/tmp/airamp-4294967000")]);
        }
        assert_eq!(each_once(Some("/no/such/folder".into()), nobody), each_once(None, nobody));
    }
}
