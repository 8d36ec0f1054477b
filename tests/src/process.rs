//! Runs a program, or N ranks of it, in a bare environment and bounded in time:
//! a program that does not end is killed with its whole process group, and the
//! test fails with what it had printed. Every suite starts programs through it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// Generous, for two busy cores; a test that needs it has already failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// One program to be run, in the manner of `std::process::Command`.
#[derive(Clone, Debug)]
pub struct Run {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    preload: Vec<PathBuf>,
    library_dirs: Vec<PathBuf>,
    time_limit: Duration,
}

impl Run {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            preload: Vec::new(),
            library_dirs: Vec::new(),
            time_limit: TIME_LIMIT,
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where nothing has set it.
    pub fn env_or(self, name: &str, value: &str) -> Self {
        if self.env.iter().any(|(set, _)| set == name) { self } else { self.env(name, value) }
    }

    /// Adds to `LD_PRELOAD`; the first one named comes first.
    pub fn preload(mut self, library: impl AsRef<Path>) -> Self {
        self.preload.push(library.as_ref().to_path_buf());
        self
    }

    /// Adds to `LD_LIBRARY_PATH`; the first one named is searched first.
    pub fn library_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.library_dirs.push(dir.as_ref().to_path_buf());
        self
    }

    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Runs it to its end. Panics, with the output so far, if it takes too long.
    pub fn run(self) -> Outcome {
        let limit = self.time_limit;
        finish(vec![Started::spawn(&self)], limit).pop().expect("one program was started")
    }

    /// Runs `ranks` copies with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
    /// MASTER_PORT set, and returns their outcomes in rank order.
    pub fn run_ranks(self, ranks: u32) -> Vec<Outcome> {
        self.run_unequal_ranks(ranks, |_, run| run)
    }

    /// The same with ranks that differ: `adjust` makes each one's run from the common one.
    pub fn run_unequal_ranks(self, ranks: u32, adjust: impl Fn(u32, Run) -> Run) -> Vec<Outcome> {
        let limit = self.time_limit;
        let port = free_port().to_string();
        let started = (0..ranks)
            .map(|rank| {
                let one = self
                    .clone()
                    .env("RANK", rank.to_string())
                    .env("LOCAL_RANK", rank.to_string())
                    .env("WORLD_SIZE", ranks.to_string())
                    .env("MASTER_ADDR", "127.0.0.1")
                    .env("MASTER_PORT", &port);
                Started::spawn(&adjust(rank, one))
            })
            .collect();
        finish(started, limit)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, paths) in [("LD_PRELOAD", &self.preload), ("LD_LIBRARY_PATH", &self.library_dirs)] {
            if !paths.is_empty() {
                let joined = std::env::join_paths(paths).expect("no colon in a library's path");
                command.env(name, joined);
            }
        }
        command.envs(self.env.iter().cloned());
        command
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// What a program left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Outcome {
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The lines that the product itself printed: each begins with its name.
    pub fn product_lines(&self) -> Vec<String> {
        self.stderr_text()
            .lines()
            .filter(|line| line.starts_with("airamp") && !line.starts_with("airamp emulator:"))
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    pub fn assert_success(&self) -> &Self {
        assert_eq!(self.end, End::Code(0), "{self}");
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ended with {:?}", self.end)?;
        writeln!(f, "--- stdout\n{}", self.stdout_text())?;
        writeln!(f, "--- stderr\n{}", self.stderr_text())
    }
}

/// A running program whose output two threads collect.
struct Started {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
}

impl Started {
    fn spawn(run: &Run) -> Self {
        let mut child = run
            .command()
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", run.program.display()));
        let stdout = collect(child.stdout.take().expect("stdout is piped"));
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        Self { child, stdout, stderr }
    }

    /// Over when it was waited for and nobody holds its output open any more:
    /// a child that it left behind would.
    fn is_over(&mut self) -> bool {
        let waited = self.child.try_wait().expect("waiting for a child");
        waited.is_some() && self.stdout.is_finished() && self.stderr.is_finished()
    }

    fn kill_group(&self) {
        let group = i32::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: kill has no memory effects. The group is the child's own (made by
        // process_group(0)); it lives on until is_over has seen all its writers gone.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }

    fn outcome(mut self) -> Outcome {
        let status = self.child.wait().expect("waiting for a child");
        Outcome {
            end: status.into(),
            stdout: self.stdout.join().expect("collecting stdout"),
            stderr: self.stderr.join().expect("collecting stderr"),
        }
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An unreadable end of a pipe is its end; the outcome shows what came.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn finish(mut started: Vec<Started>, limit: Duration) -> Vec<Outcome> {
    let deadline = Instant::now() + limit;
    let mut in_time = true;
    while !started.iter_mut().all(Started::is_over) {
        if Instant::now() > deadline {
            in_time = false;
            started.iter().for_each(Started::kill_group);
            break;
        }
        std::thread::sleep(POLL);
    }
    let outcomes: Vec<_> = started.into_iter().map(Started::outcome).collect();
    assert!(
        in_time,
        "not over after {} s, killed:\n{}",
        limit.as_secs(),
        outcomes.iter().map(ToString::to_string).collect::<String>()
    );
    outcomes
}

/// A loopback port that is nobody else's until this program ends, to listen on for one that sets `SO_REUSEADDR`, as Rust's
/// listeners do. It is none that Linux gives out by itself.
pub fn free_port() -> u16 {
    const FIRST: u16 = 10_240;
    const COUNT: u32 = 22_400;
    static TAKEN: Mutex<Vec<Socket>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(64);
    let candidates = (0..COUNT).map(|_| {
        let place = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        FIRST + u16::try_from(place).expect("smaller than the number of ports")
    });
    let mut free = candidates.filter_map(|port| Some((port, taken(port).ok()?)));
    let (port, socket) = free.next().expect("a free loopback port");
    TAKEN.lock().expect("nobody panics with it").push(socket);
    port
}

/// Bound, which one program alone can be without `SO_REUSEADDR`, and with it from then on, so that a listener can join.
fn taken(port: u16) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into())?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_free_port_is_given_once_and_can_be_listened_on_again_and_again() {
        let port = free_port();
        assert_ne!(free_port(), port);
        let refused = taken(port).expect_err("it is taken");
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
        for _ in 0..2 {
            let listener = TcpListener::bind(("127.0.0.1", port)).expect("free for a listener");
            let client = TcpStream::connect(("127.0.0.1", port)).expect("connected");
            let (server, _) = listener.accept().expect("accepted");
            drop((server, client));
        }
        TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens");
    }
}
