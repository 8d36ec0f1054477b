//! Counters over the restarts of a job's processes, as a scraper sees them: none goes backwards and none vanishes while
//! the daemon lives, whether a process ends, is killed, or is replaced by one with the same rank.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use airamp_tests::daemon::Daemon;
use airamp_tests::live::LiveJob;

const RANKS: u32 = 2;
const STEPS: u64 = 200;
const LIMIT: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(200);

/// Every sample of a counter or histogram that was ever seen, with its last value.
#[derive(Default)]
struct Counters {
    last: BTreeMap<String, f64>,
    scrapes: usize,
}

impl Counters {
    #[track_caller]
    fn scrape(&mut self, daemon: &Daemon) {
        let answer = daemon.get("/metrics");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let now = samples(&answer.text());
        for (name, before) in &self.last {
            let after = now.get(name).unwrap_or_else(|| panic!("{name} vanished; it was {before}"));
            assert!(after >= before, "{name} went from {before} to {after}");
        }
        self.last = now;
        self.scrapes += 1;
    }

    /// Of all ranks together.
    fn all_reduces(&self) -> f64 {
        let wanted =
            |name: &str| name.starts_with("airamp_collective_calls_total{") && name.contains("all_reduce\"");
        self.last.iter().filter(|(name, _)| wanted(name)).map(|(_, value)| value).sum()
    }

    fn looks(&self) -> f64 {
        self.last["airampd_looks_total"]
    }

    /// Scrapes until so many calls are counted.
    #[track_caller]
    fn until(&mut self, daemon: &Daemon, calls: f64) {
        let deadline = Instant::now() + LIMIT;
        while self.all_reduces() < calls {
            assert!(
                Instant::now() < deadline,
                "{} calls are counted, not {calls}: {:#?}",
                self.all_reduces(),
                self.last
            );
            self.scrape(daemon);
            thread::sleep(EVERY);
        }
    }
}

/// The samples of families that only grow, in the older text format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let types: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let grows = |sample: &str| {
        let name = sample.split('{').next().unwrap_or(sample);
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        matches!(
            (types.get(name), types.get(family)),
            (Some(&"counter"), _) | (_, Some(&"histogram" | &"counter"))
        )
    };
    // The daemon's own processor time and the like grow too, but only AIRamp's are claimed here; the node's hardware may
    // come and go.
    let ours = |sample: &str| !sample.starts_with("airamp_device_") && !sample.starts_with("airamp_nic_");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let pairs =
        lines.filter_map(|line| line.rsplit_once(' ')).filter(|(sample, _)| grows(sample) && ours(sample));
    pairs
        .map(|(sample, value)| {
            (sample.to_owned(), value.parse().unwrap_or_else(|_| panic!("{sample} is {value}")))
        })
        .collect()
}

#[test]
fn no_counter_goes_backwards_while_a_jobs_ranks_end_are_killed_and_come_again() {
    let daemon = Daemon::start();
    let base = daemon.folder();
    let mut counters = Counters::default();
    let steps = STEPS.to_string();
    let each_run = (STEPS * u64::from(RANKS)) as f64;
    for round in 1..=3 {
        let before = counters.all_reduces();
        let live = LiveJob::start(base, "again", RANKS, &["--compute-ms", "2", "--steps", &steps]);
        counters.until(&daemon, before + each_run);
        for outcome in live.finish() {
            outcome.assert_success();
        }
        assert_eq!(counters.all_reduces(), before + each_run, "round {round}");

        let mut live = LiveJob::start(base, "again", RANKS, &["--compute-ms", "2"]);
        live.await_first_step();
        counters.until(&daemon, before + each_run + 50.0);
        // One by its own, the rest by the end of the job.
        live.signal(0, libc::SIGKILL);
        counters.scrape(&daemon);
        drop(live);
        counters.scrape(&daemon);
        // Two whole looks at least, so that all that it did is counted.
        let (end, looks) = (Instant::now() + Duration::from_secs(3), counters.looks());
        while Instant::now() < end || counters.looks() < looks + 3.0 {
            assert!(Instant::now() < end + LIMIT, "{} looks", counters.looks());
            counters.scrape(&daemon);
            thread::sleep(EVERY);
        }
    }
    assert!(
        counters.scrapes > 30 && counters.last.len() > 10,
        "{} scrapes of {:?}",
        counters.scrapes,
        counters.last
    );
}
