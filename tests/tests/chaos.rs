//! Jobs and faults by chance on the emulator: with the library every job comes to what it comes to without it. Bounded here;
//! `cargo run --release -p airamp-tests --bin chaos` goes on for as long as one likes. See docs/chaos.md.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use airamp_tests::chaos::job::Job;
use airamp_tests::chaos::{planner, try_job};
use airamp_tests::skip_outside_ci;

/// The same every day, so that a commit fails by what it changes. `AIRAMP_CHAOS_SECONDS` adds those of the day for so long.
const SEEDS: std::ops::Range<u64> = 100..145;

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

/// Disk and clock faults take a namespace, which takes root.
fn can_run(job: &Job) -> bool {
    is_root() || job.faults.iter().all(|fault| !["disk full", "clock"].contains(&fault.kind()))
}

#[track_caller]
fn assert_fine(job: &Job) {
    println!("{}", job.told());
    let verdict = try_job(job);
    assert!(
        verdict.is_fine(),
        "{}\n{}\nrepeat it: chaos --seed {}",
        job.told(),
        verdict.all_complaints().join("\n"),
        job.seed
    );
}

/// Jobs that once did not come to an end. Without `heedless` the program asks for the state of what it has made.
#[test]
fn jobs_that_taught_something_come_to_an_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos");
    let files = std::fs::read_dir(&folder).expect("the folder of such jobs");
    let files = files.map(|file| file.expect("a file of it").path());
    let jobs: Vec<_> = files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect();
    assert!(!jobs.is_empty(), "there are jobs");
    for file in jobs {
        let text = std::fs::read_to_string(file).expect("a job");
        let job: Job = serde_json::from_str(&text).expect("a job as chaos writes it");
        assert_fine(&Job { heedless: true, ..job.clone() });
        assert_fine(&Job { heedless: false, ..job });
    }
}

#[test]
fn jobs_with_faults_come_to_what_they_come_to_without_the_library() {
    if !is_root() {
        skip_outside_ci("only root can make the namespaces that some faults take; the others are run");
    }
    SEEDS.for_each(assert_fine_if_possible);
    let seconds = std::env::var("AIRAMP_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(0)));
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    (1000 * day..).take_while(|_| began.elapsed() < limit).for_each(assert_fine_if_possible);
}

fn assert_fine_if_possible(seed: u64) {
    let job = planner::plan(seed);
    if can_run(&job) {
        assert_fine(&job);
    }
}
