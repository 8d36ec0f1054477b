//! The environment of a started program: ours in front of what the user had, never instead of it.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Job, LaunchError, Meeting};
use crate::artifacts::{self, Artifact};

const PRELOAD: &str = "LD_PRELOAD";
const NCCL_PATH: &str = "AIRAMP_NCCL_PATH";
/// Below those that Linux, as it comes, gives to sockets that name none.
const PORTS: Range<u16> = 10_240..32_768;
/// Where the loader splits it.
const PRELOAD_SEPARATORS: &[u8] = b": ";

/// Sets what every program of the job gets, and for a rank its place among the others.
pub(super) fn set(command: &mut Command, job: &Job, place: Option<&Place<'_>>) -> Result<(), LaunchError> {
    let held = std::env::var_os(PRELOAD).unwrap_or_default();
    match preload(job.preload.as_deref(), &held)? {
        Some(value) if value.is_empty() => command.env_remove(PRELOAD),
        Some(value) => command.env(PRELOAD, value),
        None => command,
    };
    if !job.library_dirs.is_empty() {
        let held = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let is_repeated = |item: &Path| job.library_dirs.iter().any(|folder| folder == item);
        let value = joined("LD_LIBRARY_PATH", b":;", &job.library_dirs, &held, is_repeated)?;
        command.env("LD_LIBRARY_PATH", value);
    }
    if let Some(path) = nccl_to_name(job, airamp_settings::load().settings.nccl_path.is_some()) {
        command.env(NCCL_PATH, path);
    }
    if let Some(Place { rendezvous, rank }) = place {
        rendezvous.describe(command, *rank);
    }
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    Ok(())
}

/// The library's last resort where a program has no NCCL loaded: that of the Python environment we were installed
/// into. What the settings name goes before it, and on the emulator nothing real is wanted.
fn nccl_to_name(job: &Job, is_set: bool) -> Option<PathBuf> {
    let is_wanted = job.preload.is_some() && job.library_dirs.is_empty() && !is_set;
    is_wanted.then(artifacts::nccl_of_this_python).flatten()
}

/// The new value of LD_PRELOAD; nothing where what it holds can stay as it is.
fn preload(library: Option<&Path>, held: &OsStr) -> Result<Option<OsString>, LaunchError> {
    let holds_ours = items(held, PRELOAD_SEPARATORS).any(is_ours);
    if library.is_none() && !holds_ours {
        return Ok(None);
    }
    let ours: Vec<PathBuf> = library.map(Path::to_path_buf).into_iter().collect();
    joined(PRELOAD, PRELOAD_SEPARATORS, &ours, held, is_ours).map(Some)
}

/// Whether it is our library: of this build or another, by its own name or through a link.
fn is_ours(library: &Path) -> bool {
    let has_our_name = |path: &Path| path.file_name() == Some(OsStr::new(Artifact::Library.file_name()));
    has_our_name(library) || library.canonicalize().is_ok_and(|file| has_our_name(&file))
}

fn items<'a>(held: &'a OsStr, separators: &'a [u8]) -> impl Iterator<Item = &'a Path> {
    let items = held.as_bytes().split(|byte| separators.contains(byte));
    items.filter(|item| !item.is_empty()).map(|item| Path::new(OsStr::from_bytes(item)))
}

/// `paths` and then what the variable already holds, but for what is `dropped`.
fn joined(
    variable: &'static str,
    separators: &[u8],
    paths: &[PathBuf],
    held: &OsStr,
    dropped: impl Fn(&Path) -> bool,
) -> Result<OsString, LaunchError> {
    let separates = |byte: &u8| separators.contains(byte);
    if let Some(path) = paths.iter().find(|path| path.as_os_str().as_bytes().iter().any(separates)) {
        return Err(LaunchError::PathWithSeparator { variable, path: path.clone() });
    }
    let kept = items(held, separators).filter(|item| !dropped(item));
    let all: Vec<&OsStr> = paths.iter().map(PathBuf::as_path).chain(kept).map(Path::as_os_str).collect();
    Ok(all.join(OsStr::new(":")))
}

/// Whether there is a file where the program would be looked for.
pub(super) fn is_in_path(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    !program.is_empty() && std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// One rank's place in its job.
pub(super) struct Place<'a> {
    pub(super) rendezvous: &'a Rendezvous,
    pub(super) rank: u32,
}

/// Where the ranks of one job find each other, and how many they are.
pub(super) struct Rendezvous {
    address: OsString,
    port: OsString,
    count: u32,
}

impl Rendezvous {
    pub(super) fn new(count: u32, meeting: Meeting) -> Result<Self, LaunchError> {
        let set = |name| match meeting {
            Meeting::Inherited => std::env::var_os(name).filter(|value| !value.is_empty()),
            Meeting::Here => None,
        };
        let port = match set("MASTER_PORT") {
            Some(port) => port,
            None => free_port().map_err(LaunchError::NoPort)?.to_string().into(),
        };
        Ok(Self { address: set("MASTER_ADDR").unwrap_or_else(|| "127.0.0.1".into()), port, count })
    }

    fn describe(&self, command: &mut Command, rank: u32) {
        command
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", self.count.to_string())
            .env("LOCAL_WORLD_SIZE", self.count.to_string())
            .env("MASTER_ADDR", &self.address)
            .env("MASTER_PORT", &self.port);
    }
}

/// A port that is free now, and none that Linux gives out by itself. Nobody can promise that it still is free when rank 0
/// listens on it; to hold it until then would keep out a program that listens without `SO_REUSEADDR`.
fn free_port() -> std::io::Result<u16> {
    let count = PORTS.end - PORTS.start;
    let start = (RandomState::new().hash_one(0) % u64::from(count)) as u16;
    let ports = (0..count).map(|step| PORTS.start + (start + step) % count);
    let mut free = ports.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    match free.next() {
        Some(port) => Ok(port),
        None => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(ours: &str, held: &str) -> String {
        let value = preload(Some(Path::new(ours)), OsStr::new(held)).expect("joined");
        value.expect("a value").into_string().expect("UTF-8")
    }

    #[test]
    fn ours_comes_first_and_the_users_stay() {
        assert_eq!(preloaded("/a/ours.so", ""), "/a/ours.so");
        assert_eq!(preloaded("/a/ours.so", "/b/x.so /b/y.so:z.so"), "/a/ours.so:/b/x.so:/b/y.so:z.so");
    }

    #[test]
    fn ours_is_not_preloaded_twice() {
        let ours = "/a/libairamp_accel.so";
        let held = "/b/x.so:/a/libairamp_accel.so /c/libairamp_accel.so";
        assert_eq!(preloaded(ours, held), "/a/libairamp_accel.so:/b/x.so");
    }

    #[test]
    fn a_free_port_can_be_listened_on_and_is_none_that_linux_gives_out() {
        let port = free_port().expect("a port");
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        assert!(PORTS.contains(&port), "{port}");
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        let refused = preload(Some(Path::new("/a b/ours.so")), OsStr::new(""));
        assert!(matches!(refused, Err(LaunchError::PathWithSeparator { .. })), "{refused:?}");
    }
}
