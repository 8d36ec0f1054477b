//! A running `airampd` on a free port, with nothing of this machine's own settings and telemetry in it.
//! It is killed when it is dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::airampd;
use crate::http::{self, Answer};
use crate::live::Live;
use crate::process::{Outcome, Run};

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Daemon {
    live: Live,
    pub address: SocketAddr,
    folder: TempDir,
}

impl Daemon {
    pub fn start() -> Self {
        Self::start_with(|_, run| run)
    }

    /// `adjust` gets a folder of the test's own, and the run.
    pub fn start_with(adjust: impl FnOnce(&Path, Run) -> Run) -> Self {
        Self::listening("127.0.0.1:0", adjust)
    }

    pub fn listening(address: &str, adjust: impl FnOnce(&Path, Run) -> Run) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let run = run(folder.path()).arg("--listen").arg(address);
        let mut live = Live::start(&adjust(folder.path(), run));
        let line = live.first_line();
        let address = line.parse().unwrap_or_else(|error| panic!("{line:?} is no address: {error}"));
        Self { live, address, folder }
    }

    pub fn get(&self, path: &str) -> Answer {
        http::get(self.address, path, &[])
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn pid(&self) -> u32 {
        self.live.pid()
    }

    pub fn complaints(&self) -> String {
        self.live.complaints()
    }

    pub fn signal(&self, signal: i32) {
        self.live.signal(signal);
    }

    pub fn finish(self) -> Outcome {
        self.live.finish()
    }

    /// Reads the settings again, and comes back when it has said so.
    #[track_caller]
    pub fn reload(&self) {
        let said = |text: &str| {
            text.matches("were read again").count() + text.matches("nothing was changed").count()
        };
        let before = said(&self.complaints());
        self.signal(libc::SIGHUP);
        self.until("it has reloaded", |daemon| said(&daemon.complaints()) > before);
    }

    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.complaints());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A line of /proc/PID/status in bytes, such as `VmRSS`.
    pub fn memory(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let value = status
            .lines()
            .find_map(|row| row.strip_prefix(line)?.strip_prefix(':'))
            .expect("there is such a line");
        value.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Processor time of all its threads.
    pub fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
        let of_task = |folder: PathBuf| {
            let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
        };
        Duration::from_nanos(tasks.flatten().map(|task| of_task(task.path())).sum())
    }
}

/// The program with the folder for its telemetry and settings, and no other argument.
pub fn run(folder: &Path) -> Run {
    let settings = folder.join("airamp.conf");
    if !settings.exists() {
        std::fs::write(&settings, "").expect("a settings file");
    }
    Run::new(airampd()).env("AIRAMP_CONFIG", settings).env("AIRAMP_TELEMETRY_DIR", folder)
}
