//! Chaos: jobs and faults by chance. A seed is a job (ranks, communicators, calls) with faults; it is run on the emulator
//! without the library and with it, and what came is compared. The same seed is the same job and the same faults; what the
//! machine does meanwhile is not in the seed. `chaos` (src/bin) and tests/chaos.rs drive it; docs/chaos.md tells how.

pub mod apply;
pub mod chance;
pub mod fault;
pub mod job;
pub mod judge;
pub mod planner;
pub mod report;
pub mod runner;
pub mod shrink;
pub mod soak;

use std::time::Duration;

use job::Job;
use judge::Verdict;

/// The ranks of these jobs wait for each other for a few seconds. A machine that stands still for longer than this (others' work
/// at real-time priority, a suspended virtual machine) ends such waits by itself.
const STILL: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 4;
const MOST_BARE: usize = 8;

/// Runs a job both ways and compares. What fails while the machine stood still says nothing, and is run again.
pub fn try_job(job: &Job) -> Verdict {
    let mut attempt = 1;
    loop {
        let (verdict, stood_still) = compare(job);
        if verdict.is_fine() || stood_still < STILL || attempt == ATTEMPTS {
            return verdict;
        }
        println!("seed {}: the machine stood still for {stood_still:.1?}; once more", job.seed);
        attempt += 1;
    }
}

/// With the longest that the machine stood still in it. What fails is run more often without the library, to tell its own chance
/// from ours: whether a rank is done before it hears of another's death may go one way in most runs.
fn compare(job: &Job) -> (Verdict, Duration) {
    let mut bare = vec![runner::run(job, false)];
    let with = runner::run(job, true);
    let stood_still = bare[0].stood_still.max(with.stood_still);
    let mut verdict = judge::judge(job, &bare, &with);
    while verdict.depends_on_the_bare_run() && bare.len() < MOST_BARE {
        bare.push(runner::run(job, false));
        verdict = judge::judge(job, &bare, &with);
    }
    (verdict, stood_still)
}
