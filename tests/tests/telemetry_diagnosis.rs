//! What the observer says about real jobs on the emulator to which something is done: a rank stopped, killed, slow, or
//! one that leaves a collective out; and that it says nothing about a healthy one. Deadlines are generous; how long it
//! took is printed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use airamp_observer::view::{Bound, CommunicatorState, Finding, FindingKind, Job, Node, Rank};
use airamp_observer::{Observer, Options};
use airamp_tests::live::LiveJob;
use airamp_tests::{Run, standstill};
use tempfile::TempDir;

const RANKS: u32 = 4;
const LIMIT: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(250);
/// A rank is late by a second: on a machine that stands still for nearly as long any one may be.
const STILL: Duration = Duration::from_millis(800);

/// An observer of one folder, and all that it has found so far.
struct Watcher {
    observer: Observer,
    found: Vec<Finding>,
}

impl Watcher {
    fn new(base: &Path, hang_after: Duration) -> Self {
        let options = Options { bases: vec![base.to_path_buf()], hang_after, ..Options::default() };
        Self { observer: Observer::new(options), found: Vec::new() }
    }

    fn look(&mut self) -> Node {
        let node = self.observer.look();
        for finding in &node.findings {
            if !self.found.iter().any(|known| known.kind == finding.kind && known.ranks == finding.ranks) {
                self.found.push(finding.clone());
            }
        }
        node
    }

    /// Looks until it sees what is wanted.
    #[track_caller]
    fn until(&mut self, what: &str, wanted: impl Fn(&Node) -> bool) -> Node {
        let deadline = Instant::now() + LIMIT;
        loop {
            let node = self.look();
            if wanted(&node) {
                return node;
            }
            assert!(
                Instant::now() < deadline,
                "{what} was not seen. Findings: {:#?}\njobs: {:#?}",
                self.found,
                node.jobs
            );
            thread::sleep(EVERY);
        }
    }

    /// Looks for so long, so that there is something to compare with.
    fn watch_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look();
            thread::sleep(EVERY);
        }
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn job<'a>(node: &'a Node, name: &str) -> Option<&'a Job> {
    node.jobs.iter().find(|job| job.label == name)
}

fn calls(node: &Node, name: &str) -> u64 {
    job(node, name).map_or(0, |job| job.totals.calls.iter().map(|row| row.calls).sum())
}

fn find(node: &Node, kind: FindingKind) -> Option<&Finding> {
    node.findings.iter().find(|finding| finding.kind == kind)
}

/// A job that was seen at work, with its watcher.
fn at_work(base: &Path, name: &str, arguments: &[&str], hang_after: Duration) -> (LiveJob, Watcher) {
    let mut live = LiveJob::start(base, name, RANKS, arguments);
    let mut watcher = Watcher::new(base, hang_after);
    live.await_first_step();
    watcher.until("the job", |node| {
        job(node, name).is_some_and(|job| job.ranks_here == u64::from(RANKS)) && calls(node, name) > 100
    });
    watcher.watch_for(Duration::from_secs(2));
    (live, watcher)
}

fn assert_named_when_stopped(name: &str, arguments: &[&str]) {
    standstill::unless_for(STILL, || assert_named_at_once_and_alone(name, arguments));
}

/// Stops a rank for two seconds while looking on.
fn assert_named_at_once_and_alone(name: &str, arguments: &[&str]) {
    const STOPPED: u32 = 2;
    let base = folder();
    let (live, mut watcher) = at_work(base.path(), name, arguments, Duration::from_secs(60));
    assert!(
        watcher.found.iter().all(|finding| finding.kind != FindingKind::LateRank),
        "{:#?}",
        watcher.found
    );
    let pid = i32::try_from(live.pid(STOPPED as usize)).expect("a process id fits");
    live.signal(STOPPED as usize, libc::SIGSTOP);
    let stopped = Instant::now();
    let waker = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        // SAFETY: kill has no memory effects; the process is a child that the job still holds.
        unsafe { libc::kill(pid, libc::SIGCONT) };
    });
    let late =
        |node: &Node| find(node, FindingKind::LateRank).is_some_and(|finding| finding.ranks == [STOPPED]);
    watcher.until("the late rank", late);
    eprintln!(
        "{name}: rank {STOPPED} was named {:.2} s after it was stopped",
        stopped.elapsed().as_secs_f64()
    );
    waker.join().expect("it was woken");
    let named = |finding: &&Finding| finding.kind == FindingKind::LateRank;
    assert!(
        watcher.found.iter().filter(named).all(|finding| finding.ranks == [STOPPED]),
        "{:#?}",
        watcher.found
    );

    let before = calls(&watcher.look(), name);
    watcher.until("the end of it", |node| {
        find(node, FindingKind::LateRank).is_none() && calls(node, name) > before
    });
}

#[test]
fn a_rank_that_is_stopped_is_named_as_the_late_one_in_a_job_of_small_calls() {
    assert_named_when_stopped("small", &["--bytes", "16384"]);
}

#[test]
fn a_rank_that_is_stopped_is_named_as_the_late_one_in_a_job_of_steps() {
    assert_named_when_stopped("steps", &["--bytes", "1048576", "--compute-ms", "10"]);
}

#[test]
fn a_rank_that_is_stopped_is_named_as_the_late_one_in_a_job_that_runs_ahead() {
    assert_named_when_stopped("ahead", &["--bytes", "65536", "--compute-ms", "2", "--wait-every", "32"]);
}

#[test]
fn a_rank_that_leaves_out_a_collective_is_named_with_what_it_left_out() {
    standstill::unless_for(STILL, || {
        let base = folder();
        let arguments = ["--compute-ms", "5", "--leave-out", "1:150"];
        let (_live, mut watcher) = at_work(base.path(), "left-out", &arguments, Duration::from_secs(3));
        let node = watcher.until("the hang", |node| find(node, FindingKind::Hang).is_some());
        let finding = find(&node, FindingKind::Hang).expect("it was found");
        eprintln!("{}", finding.text);
        assert_eq!(
            (&finding.ranks[..], finding.sequence, finding.job.as_str()),
            (&[1][..], Some(150), "left-out")
        );
        let job = job(&node, "left-out").expect("the job");
        let communicator =
            job.communicators.iter().find(|one| one.name == finding.communicator).expect("it is named");
        assert_eq!(communicator.state, CommunicatorState::Hung);
        assert_eq!((&communicator.missing[..], communicator.behind_sequence), (&[1][..], Some(150)));
        let hung = |finding: &&Finding| finding.kind == FindingKind::Hang;
        assert!(
            watcher.found.iter().filter(hung).all(|finding| finding.ranks == [1]),
            "{:#?}",
            watcher.found
        );
    });
}

#[test]
fn a_rank_that_is_killed_is_named_as_the_one_that_is_gone() {
    standstill::unless_for(STILL, || {
        let base = folder();
        let arguments = ["--compute-ms", "5", "--stay"];
        let (live, mut watcher) = at_work(base.path(), "killed", &arguments, Duration::from_secs(3));
        live.signal(3, libc::SIGKILL);
        let gone = |finding: &Finding| matches!(finding.kind, FindingKind::Hang | FindingKind::DeadProcess);
        let node = watcher
            .until("the dead rank", |node| node.findings.iter().any(|one| gone(one) && one.ranks == [3]));
        let finding = node.findings.iter().find(|one| gone(one)).expect("it was found");
        eprintln!("{:?}: {}", finding.kind, finding.text);
        assert_eq!(finding.job, "killed");
        assert!(finding.sequence.is_some_and(|sequence| sequence > 1), "{finding:#?}");
        watcher.watch_for(Duration::from_secs(4));
        assert!(
            watcher.found.iter().filter(|one| gone(one)).all(|one| one.ranks == [3]),
            "{:#?}",
            watcher.found
        );
    });
}

#[test]
fn a_rank_that_became_inert_is_accused_of_nothing_while_its_job_goes_on() {
    standstill::unless_for(STILL, || {
        let base = folder();
        let panics = |rank, run: Run| match rank {
            1 => run.env("AIRAMP_INJECT_PANIC", "ncclAllReduce:before"),
            _ => run,
        };
        let mut live = LiveJob::start_with(base.path(), "inert", RANKS, &["--compute-ms", "5"], panics);
        let mut watcher = Watcher::new(base.path(), Duration::from_secs(3));
        live.await_first_step();
        let is_inert = |node: &Node| {
            job(node, "inert").is_some_and(|job| job.ranks.iter().any(|rank| rank.state == "inert"))
        };
        watcher.until("the inert rank", is_inert);
        let before = calls(&watcher.look(), "inert");
        watcher.watch_for(Duration::from_secs(6));
        assert!(calls(&watcher.look(), "inert") > before + 100, "the others go on");
        let accused = |finding: &&Finding| matches!(finding.kind, FindingKind::Hang | FindingKind::LateRank);
        assert_eq!(watcher.found.iter().find(accused), None);
    });
}

#[test]
fn a_rank_that_computes_longer_in_each_step_is_named_as_what_the_job_waits_for() {
    standstill::unless_for(STILL, || {
        let base = folder();
        let arguments = ["--compute-ms", "10", "--slow", "1:20", "--bytes", "262144"];
        let (_live, mut watcher) = at_work(base.path(), "straggler", &arguments, Duration::from_secs(60));
        let bound =
            |node: &Node| job(node, "straggler").is_some_and(|job| job.bound_by.what == Bound::Straggler);
        let node = watcher.until("the straggler", bound);
        let why = job(&node, "straggler").map(|job| job.bound_by.why.clone()).expect("the job");
        eprintln!("{why}");
        assert!(why.contains("rank 1"), "{why}");
        // At a single look another may have been later, on a busy machine.
        watcher.until("rank 1 as the slowest", |node| job(node, "straggler").and_then(slowest) == Some(1));
    });
}

fn slowest(job: &Job) -> Option<u32> {
    let lag = |rank: &Rank| rank.lag_s.unwrap_or(0.0);
    job.ranks.iter().max_by(|one, other| lag(one).total_cmp(&lag(other))).and_then(|rank| rank.rank)
}

#[test]
fn a_healthy_job_with_jitter_is_not_accused_of_anything() {
    standstill::unless_for(STILL, || {
        let base = folder();
        let arguments = ["--compute-ms", "10", "--jitter-ms", "10", "--bytes", "262144"];
        let (_live, mut watcher) = at_work(base.path(), "healthy", &arguments, Options::default().hang_after);
        watcher.watch_for(Duration::from_secs(20));
        // On a machine that gets busier a call may really take much longer than those before it, a rank really come late, and
        // all steps really take longer; the claims about made-up times say when these are false.
        let may_be = [FindingKind::LatencySpike, FindingKind::LateCall, FindingKind::SlowerPace];
        let false_ones: Vec<_> =
            watcher.found.iter().filter(|finding| !may_be.contains(&finding.kind)).collect();
        assert!(false_ones.is_empty(), "{false_ones:#?}");
        let node = watcher.look();
        assert!(calls(&node, "healthy") > 500, "{:#?}", node.totals);
        assert!(
            job(&node, "healthy").is_some_and(|job| job.bound_by.what != Bound::Straggler),
            "{:#?}",
            node.jobs
        );
    });
}
