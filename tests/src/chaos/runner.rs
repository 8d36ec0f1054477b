//! Runs the ranks of a job, does to them from outside what its faults ask for, and returns how each ended. Bounded: who
//! is not over in time is killed with its group and counts as hung.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::apply::rank_run;
use super::fault::Fault;
use super::job::{Job, PATIENCE_S, PlanFile};
use super::report::Report;
use crate::End;
use crate::process::free_port;

/// Longer than a rank's own patience and its watchdog, so that these speak first.
const DEADLINE: Duration = Duration::from_secs(3 * PATIENCE_S + 30);
const POLL: Duration = Duration::from_millis(5);

/// Of runs in which nothing is injected: no wait of the library's ends one, however busy the machine is.
const OF_LONG_RUNS: [(&str, &str); 2] =
    [("AIRAMP_CONSENSUS_TIMEOUT_MS", "60000"), ("AIRAMP_DOUBT_MS", "120000")];

/// What one rank left.
#[derive(Clone, Debug)]
pub struct Ended {
    pub end: End,
    /// Still there at the deadline, and killed by us.
    pub hung: bool,
    pub report: Option<Report>,
    pub stderr: String,
}

#[derive(Clone, Debug)]
pub struct Ran {
    pub ranks: Vec<Ended>,
    pub took: Duration,
    /// The longest that this process was kept from looking at them: how long the machine stood still.
    pub stood_still: Duration,
}

struct Started {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
}

/// A signal that is due at some time after the start.
struct Due {
    rank: usize,
    at: Duration,
    signal: i32,
}

pub fn run(job: &Job, with: bool) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run_plan(job, &job.plan_file(), folder.path(), with, DEADLINE)
}

/// The same for a plan that is not the job's own: longer, or with other things to tell. Plan and telemetry lie in the
/// folder afterwards.
pub fn run_plan(job: &Job, plan: &PlanFile<'_>, folder: &Path, with: bool, deadline: Duration) -> Ran {
    let (file, telemetry) = (folder.join("plan.json"), folder.join("telemetry"));
    std::fs::create_dir_all(&telemetry).expect("a folder for telemetry");
    let text = serde_json::to_string(plan).expect("a plan is plain data");
    std::fs::write(&file, text).expect("the plan's file");
    let port = free_port().to_string();
    let began = Instant::now();
    let begin = |rank: u32| {
        let run = rank_run(job, rank, &file, &telemetry, with)
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", job.ranks.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", &port);
        let long = if plan.tells_vitals { &OF_LONG_RUNS[..] } else { &[] };
        let run = long.iter().fold(run, |run, (name, value)| run.env(name, value));
        Started::spawn(&run)
    };
    let started: Vec<Started> = (0..job.ranks).map(begin).collect();
    let (hung, stood_still) = watch(&started, signals(job), began, deadline);
    let ranks = started.into_iter().zip(hung).map(|(started, hung)| started.ended(hung)).collect();
    Ran { ranks, took: began.elapsed(), stood_still }
}

fn signals(job: &Job) -> Vec<Due> {
    let ms = Duration::from_millis;
    let mut due = Vec::new();
    for fault in &job.faults {
        match fault {
            Fault::KillAfter { rank, ms: after } => {
                due.push(Due { rank: *rank as usize, at: ms(*after), signal: libc::SIGKILL });
            }
            Fault::Stop { rank, after_ms, for_ms } => {
                let rank = *rank as usize;
                due.push(Due { rank, at: ms(*after_ms), signal: libc::SIGSTOP });
                due.push(Due { rank, at: ms(after_ms + for_ms), signal: libc::SIGCONT });
            }
            _ => {}
        }
    }
    due.sort_by_key(|due| due.at);
    due
}

/// Sends what is due until all are over; which were not, at the deadline, and the longest time between two looks.
fn watch(
    started: &[Started],
    mut due: Vec<Due>,
    began: Instant,
    deadline: Duration,
) -> (Vec<bool>, Duration) {
    let (mut looked, mut longest) = (began.elapsed(), Duration::ZERO);
    loop {
        let now = began.elapsed();
        longest = longest.max(now - looked);
        looked = now;
        while due.first().is_some_and(|next| next.at <= began.elapsed()) {
            let next = due.remove(0);
            started[next.rank].signal(next.signal);
        }
        let over: Vec<bool> = started.iter().map(Started::is_over).collect();
        if over.iter().all(|over| *over) {
            return (vec![false; started.len()], longest);
        }
        if began.elapsed() > deadline {
            started.iter().for_each(|one| one.signal(libc::SIGCONT));
            started.iter().for_each(|one| one.signal(libc::SIGKILL));
            return (over.into_iter().map(|over| !over).collect(), longest);
        }
        std::thread::sleep(POLL);
    }
}

impl Started {
    fn spawn(run: &crate::Run) -> Self {
        let mut command = run.command();
        command.process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {run:?}: {error}"));
        let stdout = collect(child.stdout.take().expect("stdout is piped"));
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        Self { child, stdout, stderr }
    }

    /// Over when nobody holds its output open any more; it is waited for afterwards, so that its number is its own.
    fn is_over(&self) -> bool {
        self.stdout.is_finished() && self.stderr.is_finished()
    }

    /// To its whole group: a rank in a namespace has a parent there.
    fn signal(&self, signal: i32) {
        if self.is_over() {
            return;
        }
        let group = i32::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: kill has no memory effects; the group is the child's own, which has not been waited for.
        unsafe { libc::kill(-group, signal) };
    }

    fn ended(mut self, hung: bool) -> Ended {
        let status = self.child.wait().expect("waiting for a child");
        let stdout = self.stdout.join().expect("collecting stdout");
        let stderr = self.stderr.join().expect("collecting stderr");
        Ended {
            end: status.into(),
            hung,
            report: Report::in_output(&stdout),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An unreadable end of a pipe is its end.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}
