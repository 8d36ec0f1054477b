//! Starts programs: one in place of this process, or N ranks that live and die together.
//! It sets the environment, prefixes output, passes signals on, and lets no process outlive the job.
//! It knows nothing of GPUs. `airamp run` and `airamp bench` call it.

mod environment;
mod output;
mod ranks;
mod signals;
mod supervisor;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use self::environment::Place;
pub(crate) use self::output::Output;
use self::output::{Closed, Pump};
use self::ranks::Ranks;
pub(crate) use self::signals::{Signals, stop_ourselves};
use self::supervisor::Supervisor;

/// How long ranks have to end after SIGTERM, unless the job says otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Says that airamp itself failed, as with `env` and container tools: programs hardly ever return it.
pub(crate) const FAILED: u8 = 125;

/// A program to start and how.
pub(crate) struct Job {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// How many copies; `None` means that the program takes the place of this process.
    pub(crate) ranks: Option<u32>,
    /// The library for LD_PRELOAD, before whatever the user preloads. Without it the program gets none of
    /// ours, even if LD_PRELOAD names it already.
    pub(crate) preload: Option<PathBuf>,
    /// Folders for LD_LIBRARY_PATH, before the user's.
    pub(crate) library_dirs: Vec<PathBuf>,
    pub(crate) meeting: Meeting,
    /// Further variables; they win over all others.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) output: Output,
    /// The time between SIGTERM and SIGKILL once the job must end.
    pub(crate) grace: Duration,
}

/// Where the ranks find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// At MASTER_ADDR and MASTER_PORT if they are set: the job may be one node's part of a larger one.
    Inherited,
    /// On this machine, whatever is set.
    Here,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("{program}: no such program; give its path, or a name that is in PATH")]
    NoSuchProgram { program: String },
    #[error("{program}: cannot be executed: its interpreter (see its first line) does not exist")]
    NoInterpreter { program: String },
    #[error("{program}: cannot be executed: {error}")]
    NotExecutable { program: String, error: io::Error },
    #[error(
        "{variable} cannot hold the path {path}: it contains a separator (colon, space or semicolon); \
         install to, or link from, a path without one"
    )]
    PathWithSeparator { variable: &'static str, path: PathBuf },
    #[error("no free TCP port for MASTER_PORT: {0}; set MASTER_PORT yourself")]
    NoPort(io::Error),
    #[error("cannot supervise the ranks: {0}")]
    Supervision(#[from] io::Error),
}

impl LaunchError {
    /// The codes that shells and `env` use.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchProgram { .. } => 127,
            Self::NotExecutable { .. } | Self::NoInterpreter { .. } => 126,
            _ => FAILED,
        }
    }

    fn of_start(program: &OsString, error: io::Error) -> Self {
        let is_there = environment::is_in_path(program);
        let program = program.to_string_lossy().into_owned();
        match error.kind() {
            // The kernel says the same of a script whose interpreter is missing.
            io::ErrorKind::NotFound if is_there => Self::NoInterpreter { program },
            io::ErrorKind::NotFound => Self::NoSuchProgram { program },
            _ => Self::NotExecutable { program, error },
        }
    }
}

/// What a command ends with whose ranks, programs of ours, ended with that code: that of a signal by which a person ends
/// programs, else one for all failures.
pub(crate) fn failure(code: u8) -> u8 {
    let asked = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
    if asked.contains(&(i32::from(code) - 128)) { code } else { 1 }
}

impl Job {
    /// A job without ranks, preloading or further variables.
    pub(crate) fn new(program: impl Into<OsString>, args: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            args,
            ranks: None,
            preload: None,
            library_dirs: Vec::new(),
            meeting: Meeting::Inherited,
            env: Vec::new(),
            output: Output::Prefixed,
            grace: GRACE,
        }
    }

    /// Runs the job to its end and returns its exit code: 0, or that of the first rank that failed
    /// (128 + signal if it was killed). Without ranks it returns only if the program cannot be started.
    pub(crate) fn run(self) -> Result<u8, LaunchError> {
        match self.ranks {
            Some(count) => self.run_ranks(count),
            None => Err(self.replace_this_process()),
        }
    }

    fn replace_this_process(self) -> LaunchError {
        match self.command(None) {
            Ok(mut command) => LaunchError::of_start(&self.program, command.exec()),
            Err(error) => error,
        }
    }

    /// Starts the program as a child, whatever `ranks` says, with our own standard input and output.
    pub(crate) fn spawn(&self) -> Result<Child, LaunchError> {
        self.command(None)?.spawn().map_err(|error| LaunchError::of_start(&self.program, error))
    }

    fn run_ranks(self, count: u32) -> Result<u8, LaunchError> {
        let signals = Signals::catch()?;
        let mut ranks = Ranks::start(&self, count)?;
        let mut pump = Pump::new(ranks.take_pipes(), self.output)?;
        let ended = pump.ended()?;
        // The pump stays on this thread because its callback may not leave it, and because the kernel
        // kills the ranks when the thread that started them ends.
        std::thread::scope(|scope| {
            let supervisor = Supervisor::new(ranks, &signals, self.grace);
            let verdict = scope.spawn(move || {
                let verdict = supervisor.run();
                drop(ended);
                verdict
            });
            let closed = pump.run(|| signals.output_is_closed());
            let verdict = verdict.join().map_err(|_| io::Error::other("the supervising thread panicked"))?;
            Ok(if closed == Some(Closed::CannotWrite) { FAILED } else { verdict })
        })
    }

    fn command(&self, place: Option<&Place<'_>>) -> Result<Command, LaunchError> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        environment::set(&mut command, self, place)?;
        Ok(command)
    }
}
