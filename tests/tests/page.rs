//! The live page in a headless Chromium, driven through chromedriver by the Python programs in `tests/page`: on made-up
//! data for every state that it can be in, and on a real airampd that watches a job on the emulator.
//! `AIRAMP_PAGE_PICTURES=folder` keeps screenshots.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use airamp_tests::daemon::Daemon;
use airamp_tests::live::{Live, LiveJob};
use airamp_tests::{Run, package_dir, skip_outside_ci};

/// Generous, for two busy cores: a few minutes are usual.
const LIMIT: Duration = Duration::from_secs(1800);

/// Two browsers at once would only make each other slow.
static ONE_BROWSER: Mutex<()> = Mutex::new(());

#[test]
fn the_page_is_right_readable_and_usable_in_every_state() {
    if lacks_a_browser() {
        return;
    }
    let _alone = ONE_BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    driver("on_a_stand_in.py").time_limit(LIMIT).run().assert_success();
}

#[test]
fn the_page_shows_what_the_daemon_says_about_a_job_and_names_its_stopped_rank() {
    if lacks_a_browser() {
        return;
    }
    let _alone = ONE_BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    let daemon = Daemon::start();
    let address = format!("http://{}", daemon.address);
    let steps = ["--steps", "100000", "--bytes", "1048576", "--compute-ms", "50"];
    let mut job = LiveJob::start(daemon.folder(), "page", 4, &steps);
    job.await_first_step();

    let mut browser = Live::start(&driver("on_a_daemon.py").args([address.as_str(), "page", "2"]));
    await_word(&mut browser, "stop 2");
    job.signal(2, libc::SIGSTOP);
    await_word(&mut browser, "named");
    job.signal(2, libc::SIGCONT);
    browser.finish().assert_success();
}

/// A browser that ends before it says the word has failed; its outcome says why.
fn await_word(browser: &mut Live, word: &str) {
    let deadline = Instant::now() + LIMIT;
    while !browser.has_said(word) && !browser.is_over() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
    }
}

fn driver(program: &str) -> Run {
    let run =
        Run::new("python3").arg(package_dir().join("page").join(program)).env("PYTHONDONTWRITEBYTECODE", "1");
    match std::env::var_os("AIRAMP_PAGE_PICTURES") {
        Some(folder) => run.env("AIRAMP_PAGE_PICTURES", folder),
        None => run,
    }
}

fn lacks_a_browser() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let missing = ["python3", "chromium", "chromedriver"]
        .into_iter()
        .find(|program| !folders.iter().any(|folder| folder.join(program).exists()));
    if let Some(program) = missing {
        skip_outside_ci(&format!("{program} is not installed: the page is not looked at"));
    }
    missing.is_some()
}
