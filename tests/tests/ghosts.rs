//! Ghost kernels in a program with bursts of calls and gaps between them, on emulated devices of which some fall
//! asleep: they run in the gaps, where they help and nowhere else, and the program ends as without them.

use std::path::Path;
use std::time::{Duration, Instant};

use airamp_telemetry::{EventKind, Reader, Snapshot};
use airamp_tests::account::files;
use airamp_tests::artifacts::emulator_dir;
use airamp_tests::comparison::Presence;
use airamp_tests::live::Live;
use airamp_tests::package_dir;
use airamp_tests::{CProgram, End, Outcome, Run};
use tempfile::TempDir;

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(90);
const GAP_MS: &str = "40";
const ASKED_FOR: (&str, &str) = ("AIRAMP_ENABLE_GHOST_KERNELS", "1");
/// A device that is slow to wake after 15 ms without a kernel, by far more than a busy machine adds.
const SLEEPY: (&str, &str) = ("AIRAMP_EMU_WAKE", "15:600");
const WAKING_NS: u64 = 600_000;
const ATTEMPTS: usize = 3;
/// One that is as slow at every kernel: what a busy machine adds is a small part of it.
const ALWAYS_SLOW: (&str, &str) = ("AIRAMP_EMU_WAKE", "0:300");

/// The program, and what its telemetry says while it runs.
struct Job {
    live: Live,
    folder: TempDir,
}

/// The same program for HIP and RCCL.
fn for_hip() -> CProgram {
    let include = package_dir().join("include/hip_names.h");
    let flags = [
        "-include".into(),
        include.display().to_string(),
        "-Wl,--no-as-needed".into(),
        format!("-L{}", emulator_dir().display()),
        "-l:librccl.so.1".into(),
        "-l:libamdhip64.so".into(),
    ];
    flags.into_iter().fold(CProgram::unlinked("gaps.c"), CProgram::flag)
}

impl Job {
    fn start(scenario: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_program(CProgram::linked("gaps.c"), scenario, settings, None)
    }

    fn start_program(
        program: CProgram,
        scenario: &str,
        settings: &[(&str, &str)],
        libraries: Option<&Path>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = Run::new(program.build()).arg(scenario).arg(GAP_MS);
        let run = libraries.into_iter().fold(run, Run::library_dir);
        let run = Presence::Preloaded.applied_to(run).env("AIRAMP_TELEMETRY_DIR", folder.path());
        let run = run.env("AIRAMP_LOG", "info").env("AIRAMP_GHOST_INTERVAL_US", "5000");
        // A busy machine makes the emulated kernel slow, and with the usual share the interval longer than a gap.
        let run = run.env("AIRAMP_GHOST_DUTY_PERCENT", "5");
        let run = settings.iter().fold(run, |run, (name, value)| run.env(name, value));
        Self { live: Live::start(&run), folder }
    }

    fn with_ghosts(scenario: &str, settings: &[(&str, &str)]) -> Self {
        Self::start(scenario, &[&[ASKED_FOR], settings].concat())
    }

    fn on_hip(scenario: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_program(for_hip(), scenario, &[&[ASKED_FOR], settings].concat(), None)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        files(self.folder.path()).first()?.snapshot().ok()
    }

    fn ghosts(&self) -> u64 {
        self.snapshot().map_or(0, |snapshot| snapshot.sums.ghosts)
    }

    fn why_off(&self) -> Option<String> {
        why_off(self.folder.path())
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !holds(self) {
            let over = self.live.is_over() || Instant::now() > deadline;
            // It may have come, and the program ended, since it was looked for.
            let missed = over && !holds(self);
            assert!(!missed, "{what} never came: {} ghosts\n{}", self.ghosts(), self.live.complaints());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn go_on(&self) {
        self.live.signal(libc::SIGUSR1);
    }

    /// Lets the program go on to its end, which is as without the library.
    #[track_caller]
    fn finish(self) -> Outcome {
        self.go_on();
        let outcome = self.live.finish();
        assert_eq!(outcome.end, End::Code(0), "{outcome}");
        outcome
    }
}

fn why_off(base: &Path) -> Option<String> {
    let reader: Reader = files(base).into_iter().next()?;
    let events = reader.events_since(0).ok()?;
    events.items.into_iter().find(|event| event.kind == EventKind::GhostsOff).map(|event| event.text)
}

#[test]
fn on_a_device_that_falls_asleep_they_run_and_are_measured_to_help() {
    assert_they_help(|| Job::with_ghosts("plain", &[SLEEPY]));
}

#[test]
fn on_hip_they_help_as_well() {
    assert_they_help(|| Job::on_hip("plain", &[SLEEPY]));
}

/// Two medians of a dozen gaps each: on a busy machine they can mislead, so that another job is asked. What they have to save
/// is half of what waking costs, which no chance gives to ghosts that save nothing.
#[track_caller]
fn assert_they_help(start: impl Fn() -> Job) {
    let mut told = String::new();
    for _ in 0..ATTEMPTS {
        let mut job = start();
        job.wait_until("a measurement", |job| {
            job.snapshot().is_some_and(|seen| seen.ghosts_measured.is_some())
        });
        let (without, with) = job.snapshot().and_then(|seen| seen.ghosts_measured).expect("measured");
        if with + WAKING_NS / 2 > without {
            told += &format!("{with} ns with, {without} ns without\n");
            job.finish();
            continue;
        }
        let before = job.ghosts();
        job.wait_until("more of them", |job| job.ghosts() > before + 20);
        assert_eq!(job.why_off(), None);
        job.finish();
        return;
    }
    panic!("{ATTEMPTS} jobs found that they bring less than {} ns:\n{told}", WAKING_NS / 2);
}

#[test]
fn on_a_device_that_never_sleeps_they_switch_themselves_off_and_say_so() {
    assert_they_end_where_they_bring_nothing(Job::with_ghosts("plain", &[ALWAYS_SLOW]));
}

#[test]
fn on_hip_they_end_too_where_they_bring_nothing() {
    assert_they_end_where_they_bring_nothing(Job::on_hip("plain", &[ALWAYS_SLOW]));
}

#[track_caller]
fn assert_they_end_where_they_bring_nothing(mut job: Job) {
    job.wait_until("the end of ghosts", |job| job.why_off().is_some());
    let reason = job.why_off().expect("a reason");
    assert!(reason.contains("off in gaps of 32 to 128 ms") && reason.contains("without"), "{reason}");
    let before = job.ghosts();
    assert!(before > 0, "they were tried");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(job.ghosts(), before);
    job.finish();
}

#[test]
fn nothing_is_launched_unless_somebody_asks_for_it() {
    let mut job = Job::start("plain", &[SLEEPY]);
    let locked = |job: &Job| {
        let files = files(job.folder.path());
        let events = files.first().and_then(|reader| reader.events_since(0).ok());
        events.is_some_and(|events| events.items.iter().any(|one| one.kind == EventKind::PatternLocked))
    };
    job.wait_until("a rhythm", locked);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(job.ghosts(), 0);
    job.finish();
}

#[test]
fn a_device_that_still_works_on_the_last_calls_is_left_alone() {
    for mut job in [Job::with_ghosts("busy", &[SLEEPY]), Job::on_hip("busy", &[SLEEPY])] {
        job.wait_until("the end of ghosts", |job| job.why_off().is_some());
        assert!(job.why_off().is_some_and(|reason| reason.contains("at work")), "{:?}", job.why_off());
        job.finish();
    }
}

/// What NVML may say, and what is said of it.
const HINDRANCES: [(&str, &str); 3] =
    [("work", "at work nearly all the time"), ("heat", "throttled"), ("shared", "other processes")];

#[test]
fn a_device_that_nvml_calls_busy_hot_or_shared_is_left_alone() {
    let nvml = CProgram::unlinked("nvml.c").shared_library().build();
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(nvml, folder.path().join("libnvidia-ml.so.1")).expect("a link");
    for (said, told) in HINDRANCES {
        let settings = [ASKED_FOR, SLEEPY, ("AIRAMP_TEST_NVML", said)];
        let mut job = Job::start_program(CProgram::linked("gaps.c"), "plain", &settings, Some(folder.path()));
        job.wait_until(told, |job| job.live.complaints().contains(told));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(job.ghosts(), 0, "{said}");
        job.finish();
    }
    let settings = [ASKED_FOR, SLEEPY, ("AIRAMP_TEST_NVML", "nothing")];
    let mut job = Job::start_program(CProgram::linked("gaps.c"), "plain", &settings, Some(folder.path()));
    job.wait_until("ghosts", |job| job.ghosts() > 20);
    job.finish();
}

/// But for the first milliseconds, since a kernel may be under way when that begins.
#[track_caller]
fn assert_none_during(mut job: Job, begins: &str) {
    job.wait_until("ghosts", |job| job.ghosts() > 20);
    job.go_on();
    job.wait_until(begins, |job| job.live.has_said(begins));
    std::thread::sleep(Duration::from_millis(5));
    let before = job.ghosts();
    job.wait_until("its end", |job| job.live.has_said("over"));
    let after = job.ghosts();
    job.finish_told();
    assert_eq!(after, before);
}

impl Job {
    #[track_caller]
    fn finish_told(self) {
        let outcome = self.live.finish();
        assert_eq!(outcome.end, End::Code(0), "{outcome}");
        assert!(outcome.stdout_text().contains("result "), "{outcome}");
    }
}

#[test]
fn while_calls_follow_each_other_there_are_none() {
    assert_none_during(Job::with_ghosts("dense", &[SLEEPY]), "dense");
}

#[test]
fn during_a_capture_there_are_none_and_it_is_not_spoilt() {
    assert_none_during(Job::with_ghosts("capture", &[SLEEPY]), "capturing");
}

#[test]
fn during_a_capture_on_hip_there_are_none_either() {
    assert_none_during(Job::on_hip("capture", &[SLEEPY]), "capturing");
}

#[test]
fn a_forked_child_has_none_and_its_parent_goes_on() {
    let mut job = Job::with_ghosts("fork", &[SLEEPY]);
    job.wait_until("ghosts", |job| job.ghosts() > 20);
    let outcome = job.finish();
    assert!(outcome.stdout_text().contains("child ended with 1\n"), "{outcome}");
}

#[test]
fn a_process_that_ends_among_them_ends_as_it_wants() {
    let mut job = Job::with_ghosts("exit", &[SLEEPY]);
    job.wait_until("ghosts", |job| job.ghosts() > 20);
    job.finish();
}

#[test]
fn a_folder_of_kernels_without_that_one_only_means_that_there_are_none() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    let folder = empty.path().display().to_string();
    let mut job = Job::with_ghosts("plain", &[SLEEPY, ("AIRAMP_KERNEL_DIR", &folder)]);
    job.wait_until("the reason", |job| job.why_off().is_some());
    assert!(
        job.why_off().is_some_and(|reason| reason.contains("missing kernel blob")),
        "{:?}",
        job.why_off()
    );
    job.finish();
}

#[test]
fn a_launch_that_fails_ends_them_for_good_and_the_program_goes_on() {
    let mut job = Job::with_ghosts("plain", &[SLEEPY, ("AIRAMP_EMU_REFUSE_LAUNCH", "12")]);
    job.wait_until("the reason", |job| job.why_off().is_some());
    assert!(job.why_off().is_some_and(|reason| reason.contains("any more")), "{:?}", job.why_off());
    job.finish();
}
