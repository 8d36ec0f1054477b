//! A job that runs while a test does something to it: stops a rank, kills one, looks on. Its processes are killed when
//! it is dropped, whatever state they are in. What happens in it is said by `airamp-rank steps`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::comparison::Presence;
use crate::process::{Outcome, Run, free_port};
use crate::rank_program;
use crate::scenario::patient;

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(10);

pub struct LiveJob {
    ranks: Vec<Live>,
}

impl LiveJob {
    /// `airamp-rank steps` with the library, in so many processes, which write their telemetry below `base` under this
    /// name of a job.
    pub fn start(base: &Path, name: &str, ranks: u32, arguments: &[&str]) -> Self {
        Self::start_with(base, name, ranks, arguments, |_, run| run)
    }

    pub fn start_with(
        base: &Path,
        name: &str,
        ranks: u32,
        arguments: &[&str],
        adjust: impl Fn(u32, Run) -> Run,
    ) -> Self {
        let run = patient(Run::new(rank_program()).arg("steps").args(arguments));
        let run =
            Presence::Preloaded.applied_to(run).env("AIRAMP_TELEMETRY_DIR", base).env("AIRAMP_JOB", name);
        let run = run.env("WORLD_SIZE", ranks.to_string()).env("NCCL_SOCKET_IFNAME", "lo");
        let run = run.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", free_port().to_string());
        let one = |rank: u32| {
            let own = run.clone().env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
            Live::start(&adjust(rank, own))
        };
        Self { ranks: (0..ranks).map(one).collect() }
    }

    /// Waits until every rank has made its first step.
    #[track_caller]
    pub fn await_first_step(&mut self) {
        let deadline = Instant::now() + LIMIT;
        while !self.ranks.iter().all(|rank| rank.has_said("\"event\":\"running\"")) {
            let over = self.ranks.iter_mut().any(Live::is_over);
            assert!(!over && Instant::now() < deadline, "no first step: {}", self.said());
            thread::sleep(POLL);
        }
    }

    pub fn pid(&self, rank: usize) -> u32 {
        self.ranks[rank].child.id()
    }

    pub fn signal(&self, rank: usize, signal: i32) {
        let pid = i32::try_from(self.pid(rank)).expect("a process id fits");
        // SAFETY: kill has no memory effects; the child is ours and was not waited for unless it is over.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "rank {rank} is not there: {}", self.said());
    }

    /// Waits for the end of all of them.
    #[track_caller]
    pub fn finish(mut self) -> Vec<Outcome> {
        let deadline = Instant::now() + LIMIT;
        while !self.ranks.iter_mut().all(Live::is_over) {
            assert!(Instant::now() < deadline, "not over: {}", self.said());
            thread::sleep(POLL);
        }
        self.ranks.drain(..).map(Live::outcome).collect()
    }

    /// What all of them have printed so far.
    pub fn said(&self) -> String {
        let one = |(number, rank): (usize, &Live)| {
            format!("rank {number}: {} {}\n", rank.out.text(), rank.err.text())
        };
        self.ranks.iter().enumerate().map(one).collect()
    }
}

/// One process, with what it has printed so far.
pub struct Live {
    child: Child,
    out: Printed,
    err: Printed,
}

impl Live {
    pub fn start(run: &Run) -> Self {
        let mut child = run.command().spawn().expect("the program starts");
        let out = Printed::of(child.stdout.take().expect("stdout is piped"));
        let err = Printed::of(child.stderr.take().expect("stderr is piped"));
        Self { child, out, err }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error so far.
    pub fn complaints(&self) -> String {
        self.err.text()
    }

    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.pid()).expect("a process id fits");
        // SAFETY: kill has no memory effects; the child is ours and was not waited for unless it is over.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "it is not there: {}", self.complaints());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let deadline = Instant::now() + LIMIT;
        while !self.is_over() {
            assert!(Instant::now() < deadline, "not over: {} {}", self.out.text(), self.complaints());
            thread::sleep(POLL);
        }
        self.outcome()
    }

    pub fn has_said(&self, word: &str) -> bool {
        self.out.text().contains(word)
    }

    /// Waits for the first line of standard output.
    #[track_caller]
    pub fn first_line(&mut self) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some((line, _)) = self.out.text().split_once('\n') {
                return line.to_owned();
            }
            let said = self.err.text();
            assert!(!self.is_over() && Instant::now() < deadline, "it prints nothing: {said}");
            thread::sleep(POLL);
        }
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("waiting for a child").is_some()
    }

    fn outcome(mut self) -> Outcome {
        let status = self.child.wait().expect("waiting for a child");
        self.out.finish();
        self.err.finish();
        let (stdout, stderr) = (self.out.text().into_bytes(), self.err.text().into_bytes());
        Outcome { end: status.into(), stdout, stderr }
    }
}

impl Drop for Live {
    /// Also of one that is stopped: this signal is not held up. What it has started goes with it.
    fn drop(&mut self) {
        if let (false, Ok(group)) = (self.is_over(), i32::try_from(self.child.id())) {
            // SAFETY: kill has no memory effects; every run leads a process group of its own, and as it was not
            // waited for, its number is not another's.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a process, collected line by line.
struct Printed {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Printed {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&text);
        let reader = thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let mut text = collected.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&String::from_utf8_lossy(&line));
                text.push('\n');
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
