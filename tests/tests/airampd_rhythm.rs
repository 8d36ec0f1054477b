//! What `airampd` says about the rhythm of jobs: of telemetry that is written here, by the library's own writer, and
//! of a job on the emulator whose rank is held up once.

use std::thread;
use std::time::Duration;

use airamp_telemetry::{Deviation, EventKind, Grew, Kind, PatternState, Slot, now};
use airamp_tests::daemon::Daemon;
use airamp_tests::live::LiveJob;
use airamp_tests::made_up_rank::MadeUpRank;
use serde_json::Value;

const MS: u64 = 1_000_000;

#[test]
fn a_slow_down_is_a_finding_an_event_and_a_metric_and_names_who_computes_longer() {
    let daemon = Daemon::start();
    let ranks: Vec<Rank> = (0..4).map(|rank| Rank::new(&daemon, "slower", rank)).collect();
    for rank in &ranks {
        rank.locked();
    }
    daemon.until("the job is seen", |daemon| job(daemon)["rhythm"]["step_s"] == 0.5);
    for (number, rank) in ranks.iter().enumerate() {
        let grew = if number == 2 { Grew::Compute } else { Grew::Communication };
        let words = [500 * MS, 750 * MS, grew as u64];
        rank.0.writer.event_in_step(EventKind::PaceChanged, Some(rank.slot()), 40, words, "");
        rank.slot().pace_changed();
        rank.slot().deviated(Deviation::Late);
    }
    ranks[0].0.writer.ghosts_measured(2 * MS, MS);
    daemon.until("the slow-down is found", |daemon| finding(daemon, "slower_pace").is_some());
    let found = finding(&daemon, "slower_pace").expect("it was there");
    assert_eq!(found["ranks"], serde_json::json!([2]), "{found}");
    assert!(found["text"].as_str().is_some_and(|text| text.contains("compute grew on rank 2")), "{found}");
    let events = daemon.get("/api/v1/events").json();
    let told = |event: &&Value| event["kind"] == "pace_changed" && event["step"] == 40;
    assert_eq!(events["events"].as_array().map_or(0, |all| all.iter().filter(told).count()), 4, "{events}");
    daemon.until("all is counted", |daemon| {
        let text = daemon.get("/metrics").text();
        let has = |line: &str| text.lines().any(|one| one == line);
        has("airamp_pace_changes_total{workload=\"slower\",rank=\"2\"} 1")
            && has("airamp_pattern_deviations_total{workload=\"slower\",rank=\"3\",kind=\"late\"} 1")
            && has("airamp_pattern_deviations_total{workload=\"slower\",rank=\"3\",kind=\"extra\"} 0")
            && has("airamp_step_seconds{workload=\"slower\",rank=\"0\"} 0.5")
            && has("airamp_ghost_first_kernel_seconds{workload=\"slower\",rank=\"0\",ghosts=\"with\"} 0.001")
            && has("airamp_findings{workload=\"slower\",kind=\"slower_pace\"} 1")
    });
}

#[test]
fn a_job_that_falls_silent_after_steady_steps_has_broken_its_rhythm_until_it_goes_on() {
    let daemon = Daemon::start_with(|_, run| run.env("AIRAMP_HANG_AFTER_MS", "1000"));
    let rank = Rank::new(&daemon, "silent", 0);
    rank.pattern(PatternState::Locked, 20 * MS);
    daemon.until("the silence is found", |daemon| finding(daemon, "rhythm_broken").is_some());
    daemon.until("it is over", |daemon| {
        rank.slot().issued(1, now());
        finding(daemon, "rhythm_broken").is_none()
    });
}

#[test]
fn a_rank_that_is_held_up_once_is_late_for_its_own_rhythm_and_its_peers_are_not() {
    const HELD_UP: usize = 2;
    let daemon = Daemon::start_with(|_, run| run.env("AIRAMP_LATE_AFTER_MS", "300"));
    let steps = ["--compute-ms", "250", "--bytes", "65536"];
    let mut live = LiveJob::start(daemon.folder(), "held", 4, &steps);
    live.await_first_step();
    daemon.until("every rank has found its step", |daemon| {
        let ranks = job(daemon)["ranks"].as_array().cloned().unwrap_or_default();
        ranks.len() == 4 && ranks.iter().all(|rank| rank["rhythm"]["state"] == "locked")
    });
    let step_s = job(&daemon)["rhythm"]["step_s"].as_f64().unwrap_or_default();
    assert!(step_s >= 0.25, "a step takes {step_s} s");
    // On a busy machine another rank may be late as well; then it is tried again.
    let named = (0..8).any(|_| {
        live.signal(HELD_UP, libc::SIGSTOP);
        thread::sleep(Duration::from_millis(700));
        live.signal(HELD_UP, libc::SIGCONT);
        (0..40).any(|_| {
            thread::sleep(Duration::from_millis(250));
            finding(&daemon, "late_call").is_some_and(|found| found["ranks"] == serde_json::json!([HELD_UP]))
        })
    });
    assert!(named, "{:#}", daemon.get("/api/v1/events").json());
}

/// The first that the daemon shows.
fn job(daemon: &Daemon) -> Value {
    daemon.get("/api/v1/node").json()["jobs"][0].clone()
}

fn finding(daemon: &Daemon, kind: &str) -> Option<Value> {
    let node = daemon.get("/api/v1/node").json();
    node["findings"].as_array()?.iter().find(|finding| finding["kind"] == kind).cloned()
}

/// The telemetry of one rank that has issued something.
struct Rank(MadeUpRank);

impl Rank {
    fn new(daemon: &Daemon, job: &str, rank: i32) -> Self {
        let rank = Self(MadeUpRank::new(daemon.folder(), job, rank, 1));
        rank.slot().issued(1, now());
        rank
    }

    fn slot(&self) -> Slot {
        self.0.slots[0]
    }

    fn locked(&self) {
        self.pattern(PatternState::Locked, 500 * MS);
        let words = [24, 500 * MS, Kind::AllReduce as u64];
        self.0.writer.event_in_step(EventKind::PatternLocked, Some(self.slot()), 1, words, "");
    }

    fn pattern(&self, state: PatternState, period_ns: u64) {
        self.slot().pattern(state, 1.0, 24, period_ns, 7);
    }
}
