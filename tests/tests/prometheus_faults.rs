//! Faults that do not stop a job, planted in real ones, and what a real Prometheus makes of them by the rules of
//! deploy/: a rank that holds the others back, an error above the bound, calls that cannot be compressed as they were
//! meant to be. Beside each runs a job without that fault, of which nothing is said.

use std::net::SocketAddr;
use std::path::Path;

use airamp_tests::live::{Live, LiveJob};
use airamp_tests::prometheus::{Prometheus, installed};
use airamp_tests::{Run, airampd, package_dir};
use serde_json::Value;

/// A daemon for the telemetry below a folder. Killed when dropped.
struct Watching {
    address: SocketAddr,
    _process: Live,
}

impl Watching {
    #[track_caller]
    fn start(base: &Path) -> Self {
        let run = Run::new(airampd()).args(["--listen", "127.0.0.1:0", "--telemetry-dir"]).arg(base);
        let mut process = Live::start(&run);
        let line = process.first_line();
        let address = line.parse().unwrap_or_else(|_| panic!("{line} is no address"));
        Self { address, _process: process }
    }

    /// A Prometheus that scrapes it every second, with the rules, which wait a second where they have minutes.
    fn prometheus(&self) -> Prometheus {
        let address = self.address;
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n  \
             - {{job_name: airampd, static_configs: [{{targets: [\"{address}\"]}}]}}\n"
        );
        Prometheus::start(&configuration, &[("rules.yml", &hasty_rules())])
    }
}

fn hasty_rules() -> String {
    let path = package_dir().join("../deploy/prometheus/airamp.rules.yml");
    let rules = std::fs::read_to_string(path).expect("the rules");
    let line = |line: &str| match line.trim_start().starts_with("for: ") {
        true => format!("{}for: 1s\n", &line[..line.len() - line.trim_start().len()]),
        false => format!("{line}\n"),
    };
    rules.lines().map(line).collect()
}

/// Those of that name that fire now.
fn firing(prometheus: &Prometheus, name: &str) -> Vec<Value> {
    prometheus.firing().into_iter().filter(|alert| alert["alertname"] == name).collect()
}

/// Waits until it fires for the job, and says how. It fires for no other.
#[track_caller]
fn await_alert(prometheus: &Prometheus, name: &str, workload: &str) -> Vec<Value> {
    let of_job = |prometheus: &Prometheus| {
        let found = firing(prometheus, name);
        found.iter().any(|alert| alert["workload"] == workload).then_some(found)
    };
    let found = prometheus.wait(&format!("{name} fires for {workload}"), of_job);
    assert!(found.iter().all(|alert| alert["workload"] == workload), "{name}: {found:?}");
    found
}

/// The job is there, and compared with itself a moment ago it goes on.
fn await_moving(prometheus: &Prometheus, workload: &str, ranks: usize) {
    let moving = format!("changes(airamp_communicator_sequence_issued{{workload=\"{workload}\"}}[5s]) > 2");
    prometheus.wait(&format!("{workload} is seen to move"), |prometheus| {
        (prometheus.query(&moving).len() == ranks).then_some(())
    });
}

#[test]
fn a_rank_that_computes_longer_than_the_others_is_named_as_the_straggler() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let steps = ["--compute-ms", "60", "--bytes", "65536"];
    let slow = [&steps[..], &["--slow", "1:90"]].concat();
    let mut jobs = [
        LiveJob::start(base.path(), "even", 2, &[&steps[..], &["--jitter-ms", "30"]].concat()),
        LiveJob::start(base.path(), "slowed", 3, &slow),
    ];
    jobs.iter_mut().for_each(LiveJob::await_first_step);
    let daemon = Watching::start(base.path());
    let prometheus = daemon.prometheus();
    await_moving(&prometheus, "even", 2);
    let found = await_alert(&prometheus, "AirampStraggler", "slowed");
    assert!(found.iter().all(|alert| alert["rank"] == "1"), "{found:?}");
}

/// What the tuner would not have taken, had it not been told to take any error.
#[test]
fn a_job_that_compresses_with_an_error_above_the_bound_is_named() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let steps = ["--compute-ms", "5", "--bytes", "4194304", "--rough"];
    let job = |name: &str, format: &'static str| {
        LiveJob::start_with(base.path(), name, 2, &steps, |_, run| {
            let run = run.env("AIRAMP_MODE", "on").env("AIRAMP_EMU_LINK_GBPS", "1");
            run.env("AIRAMP_MAX_VNMSE", "1").env("AIRAMP_WIRE_FORMAT", format)
        })
    };
    let mut jobs = [job("exact", "int8"), job("rough", "e5m2")];
    jobs.iter_mut().for_each(LiveJob::await_first_step);
    let daemon = Watching::start(base.path());
    let prometheus = daemon.prometheus();
    for name in ["exact", "rough"] {
        let compressed =
            format!("airamp_collective_calls_total{{workload=\"{name}\",path=\"compressed\"}} > 0");
        prometheus.wait(&format!("{name} compresses"), |prometheus| {
            (prometheus.query(&compressed).len() == 2).then_some(())
        });
    }
    await_alert(&prometheus, "AirampErrorAboveBound", "rough");
}

#[test]
fn a_job_whose_calls_fall_back_for_want_of_kernels_is_named_as_a_storm_and_a_plan_for_the_vendor_is_not() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let nothing = tempfile::tempdir().expect("a folder without kernels");
    let steps = ["--compute-ms", "20", "--bytes", "65536"];
    // No call is so much faster compressed: the plan leaves all to the vendor, by design.
    let by_design = |_, run: Run| run.env("AIRAMP_MODE", "on").env("AIRAMP_MIN_SPEEDUP", "100");
    let without = |rank, run: Run| {
        let run = run.env("AIRAMP_MODE", "on");
        if rank == 1 { run.env("AIRAMP_KERNEL_DIR", nothing.path()) } else { run }
    };
    let mut jobs = [
        LiveJob::start_with(base.path(), "by_design", 2, &steps, by_design),
        LiveJob::start_with(base.path(), "without", 2, &steps, without),
    ];
    jobs.iter_mut().for_each(LiveJob::await_first_step);
    let daemon = Watching::start(base.path());
    let prometheus = daemon.prometheus();
    await_moving(&prometheus, "by_design", 2);
    await_alert(&prometheus, "AirampFallbackStorm", "without");
    for (rank, reason) in [("0", "no_agreement"), ("1", "kernels")] {
        let counted =
            format!("airamp_fallbacks_total{{workload=\"without\",rank=\"{rank}\",reason=\"{reason}\"}} > 0");
        assert_eq!(prometheus.query(&counted).len(), 1, "{counted}");
    }
}
