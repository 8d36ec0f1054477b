//! An operator's orders to a job that runs: off on all ranks at one call, and on again, by `airamp disable` and
//! `airamp enable`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use airamp_tests::scenario::Scenario;
use airamp_tests::tuned::{assert_alike, assert_exact};
use airamp_tests::{End, Outcome, Run, airamp};

/// Generous; a test that needs it has already failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// A job that runs until it is told to stop, and says when its results change.
struct Job {
    folder: tempfile::TempDir,
    running: Option<JoinHandle<Vec<Outcome>>>,
}

impl Job {
    fn start(ranks: u32, name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let runtime = folder.path().to_str().expect("UTF-8").to_owned();
        Self::start_in(folder, ranks, name, &runtime)
    }

    /// As a batch system starts it, that gives its jobs no runtime folder.
    fn start_without_a_runtime_folder(ranks: u32, name: &str) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary folder"), ranks, name, "")
    }

    fn start_in(folder: tempfile::TempDir, ranks: u32, name: &str, runtime: &str) -> Self {
        let path = |file: &str| OsString::from(folder.path().join(file));
        let job = Scenario::new("tuned-loop", ranks)
            .args(&["--steps", "100000", "--tensors", "float32:1048576", "--progress"])
            .arg(path("progress"))
            .args(&["--stop-file"])
            .arg(path("stop"))
            .env("AIRAMP_EMU_LINK_GBPS", "1")
            .env("AIRAMP_JOB", name)
            .env("XDG_RUNTIME_DIR", runtime)
            .time_limit(2 * PATIENCE);
        let running = Some(std::thread::spawn(move || job.in_mode("on")));
        Self { folder, running }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the latest results are of that kind.
    fn wait_for(&self, kind: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(self.file("progress")).unwrap_or_default();
            if text.lines().last().is_some_and(|line| line.ends_with(kind)) {
                return;
            }
            let running = self.running.as_ref().is_some_and(|running| !running.is_finished());
            assert!(running && Instant::now() < until, "results never became {kind}: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn order(&self, arguments: &[&str]) -> Outcome {
        order(self.folder.path(), arguments)
    }

    /// Until so many processes have answered at once: one that has not within two seconds is left out.
    fn order_all(&self, processes: usize, arguments: &[&str]) -> Outcome {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.order(arguments);
            if told.stdout_text().lines().count() == processes {
                return told;
            }
            assert!(Instant::now() < until, "{processes} processes never answered: {told}");
        }
    }

    fn stop(mut self) -> Vec<Outcome> {
        fs::write(self.file("stop"), "").expect("a file in a temporary folder");
        self.running.take().expect("it is stopped once").join().expect("the job's thread")
    }
}

impl Drop for Job {
    /// A test that failed leaves no job behind.
    fn drop(&mut self) {
        let _ = fs::write(self.file("stop"), "");
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}

fn order(runtime: &Path, arguments: &[&str]) -> Outcome {
    Run::new(airamp()).args(arguments).env("XDG_RUNTIME_DIR", runtime).run()
}

#[test]
fn disable_switches_all_ranks_off_at_one_call_and_enable_on_again() {
    for ranks in [2, 3] {
        let job = Job::start(ranks, "orders");
        job.wait_for(" c");
        let told = job.order_all(ranks as usize, &["disable", "--job", "orders"]);
        assert!(told.assert_success().stdout_text().contains("job orders"), "{told}");
        job.wait_for(" e");
        // Without its name, every job of this user that has no runtime folder would be told as well.
        job.order_all(ranks as usize, &["enable", "--job", "orders"]).assert_success();
        job.wait_for(" c");
        let reports = assert_alike(&job.stop());
        assert!(reports[0].outcomes.ends_with('c'), "{reports:?}");
    }
}

#[test]
fn a_job_that_has_no_runtime_folder_hears_an_operator_who_has_one() {
    let name = format!("no-runtime-folder-{}", std::process::id());
    let job = Job::start_without_a_runtime_folder(2, &name);
    job.wait_for(" c");
    job.order_all(2, &["disable", "--job", &name]).assert_success();
    job.wait_for(" e");
    assert_alike(&job.stop());
}

#[test]
fn an_order_to_another_job_is_not_heard() {
    let job = Job::start(2, "this");
    job.wait_for(" c");
    let told = job.order(&["disable", "--job", "another"]);
    assert_eq!(told.end, End::Code(1), "{told}");
    let reports = assert_alike(&job.stop());
    assert!(reports[0].outcomes.ends_with('c'), "{reports:?}");
}

#[test]
fn a_job_that_is_started_with_airamp_disable_takes_part_in_nothing() {
    let job = Scenario::new("tuned-loop", 2).args(&["--steps", "20", "--tensors", "float32:65536"]);
    let reports = assert_exact(&job.env("AIRAMP_DISABLE", "1").in_mode("on"));
    assert!(reports.iter().all(|report| !report.agreed && report.trials == 0), "{reports:?}");
}
