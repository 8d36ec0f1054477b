//! The environment of a started program: ours in front of what the user had, never instead of it.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Job, LaunchError};

/// Sets what every program of the job gets, and for a rank its place among the others.
pub(super) fn set(command: &mut Command, job: &Job, place: Option<&Place<'_>>) -> Result<(), LaunchError> {
    if let Some(library) = &job.preload {
        // The loader splits LD_PRELOAD at colons and at spaces.
        let value = in_front("LD_PRELOAD", b": ", std::slice::from_ref(library))?;
        command.env("LD_PRELOAD", value);
    }
    if !job.library_dirs.is_empty() {
        let value = in_front("LD_LIBRARY_PATH", b":;", &job.library_dirs)?;
        command.env("LD_LIBRARY_PATH", value);
    }
    if let Some(Place { rendezvous, rank }) = place {
        rendezvous.describe(command, *rank);
    }
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    Ok(())
}

/// `paths` and then what the variable already holds, without repeating them.
fn in_front(variable: &'static str, separators: &[u8], paths: &[PathBuf]) -> Result<OsString, LaunchError> {
    let held = std::env::var_os(variable).unwrap_or_default();
    joined(variable, separators, paths, &held)
}

fn joined(
    variable: &'static str,
    separators: &[u8],
    paths: &[PathBuf],
    held: &OsStr,
) -> Result<OsString, LaunchError> {
    let separates = |byte: &u8| separators.contains(byte);
    if let Some(path) = paths.iter().find(|path| path.as_os_str().as_bytes().iter().any(separates)) {
        return Err(LaunchError::PathWithSeparator { variable, path: path.clone() });
    }
    let kept = held
        .as_bytes()
        .split(separates)
        .map(OsStr::from_bytes)
        .filter(|item| !item.is_empty() && !paths.iter().any(|path| path == Path::new(item)));
    let items: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).chain(kept).collect();
    Ok(items.join(OsStr::new(":")))
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
    /// Keeps MASTER_ADDR and MASTER_PORT if they are set.
    pub(super) fn new(count: u32) -> Result<Self, LaunchError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
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

/// A port that is free now. Nobody can promise that it still is when rank 0 listens on it.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preload(ours: &str, held: &str) -> String {
        let paths = [PathBuf::from(ours)];
        joined("LD_PRELOAD", b": ", &paths, OsStr::new(held)).expect("joined").into_string().expect("UTF-8")
    }

    #[test]
    fn ours_comes_first_and_the_users_stay() {
        assert_eq!(preload("/a/ours.so", ""), "/a/ours.so");
        assert_eq!(preload("/a/ours.so", "/b/x.so /b/y.so:z.so"), "/a/ours.so:/b/x.so:/b/y.so:z.so");
    }

    #[test]
    fn ours_is_not_preloaded_twice() {
        assert_eq!(preload("/a/ours.so", "/b/x.so:/a/ours.so"), "/a/ours.so:/b/x.so");
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        let refused = joined("LD_PRELOAD", b": ", &[PathBuf::from("/a b/ours.so")], OsStr::new(""));
        assert!(matches!(refused, Err(LaunchError::PathWithSeparator { .. })), "{refused:?}");
    }
}
