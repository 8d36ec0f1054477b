//! The program that is recorded: a child with the library preloaded and a telemetry folder of its own, so that nobody
//! else's processes are in it. It goes on if we are killed.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use tempfile::TempDir;

use crate::artifacts::{self, Artifact};
use crate::cli::CommandError;
use crate::launch::{self, Job};

pub(super) struct Started {
    child: Child,
    code: Option<u8>,
    telemetry: TempDir,
    /// A terminal sends Ctrl-C and the like to the program itself, too.
    has_terminal: bool,
}

impl Started {
    pub(super) fn start(command: Vec<OsString>) -> Result<Self, CommandError> {
        let telemetry = folder_in_memory()?;
        let mut words = command.into_iter();
        let mut job = Job::new(words.next().unwrap_or_default(), words.collect());
        job.preload = Some(artifacts::find(Artifact::Library)?);
        job.env = vec![
            ("AIRAMP_TELEMETRY".to_owned(), "1".to_owned()),
            ("AIRAMP_TELEMETRY_DIR".to_owned(), telemetry.path().to_string_lossy().into_owned()),
        ];
        let child = job.spawn()?;
        Ok(Self { child, code: None, telemetry, has_terminal: io::stdin().is_terminal() })
    }

    pub(super) fn telemetry(&self) -> PathBuf {
        self.telemetry.path().to_owned()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        if self.code.is_none() {
            // A child that cannot be waited for is gone.
            let status = self.child.try_wait().unwrap_or_else(|_| Some(ExitStatusExt::from_raw(1 << 8)));
            self.code = status.map(|status| match (status.code(), status.signal()) {
                (Some(code), _) => code as u8,
                (None, signal) => 128_u8.saturating_add(signal.unwrap_or(0) as u8),
            });
        }
        self.code.is_some()
    }

    pub(super) fn code(&self) -> u8 {
        self.code.unwrap_or(launch::FAILED)
    }

    /// Passes signals on, and stops where Ctrl-Z has stopped the program: the shell waits for us.
    pub(super) fn heed(&mut self, signals: Vec<i32>) {
        for signal in signals {
            self.pass_on(signal);
            if signal == libc::SIGTSTP {
                launch::stop_ourselves();
            }
        }
    }

    fn pass_on(&self, signal: i32) {
        let from_terminal = matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP);
        match signal {
            libc::SIGCHLD | libc::SIGPIPE => {}
            _ if from_terminal && self.has_terminal => {}
            _ if self.code.is_some() => {}
            // SAFETY: kill has no memory preconditions. The child is not reaped yet, so its number is its own.
            _ => unsafe {
                libc::kill(self.child.id() as i32, signal);
            },
        }
    }
}

/// The library would refuse a network's file system, and a disk could make the program wait.
fn folder_in_memory() -> io::Result<TempDir> {
    let named = |base: &Path| tempfile::Builder::new().prefix("airamp-record-").tempdir_in(base);
    named(Path::new("/dev/shm")).or_else(|_| named(&std::env::temp_dir()))
}
