//! Ids whose trailer was damaged on the way, addresses that nobody answers, and strangers at the door: the job runs,
//! exactly or compressed, and nobody waits for long.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use airamp_tests::hosts::DeafHost;
use airamp_tests::scenario::{Scenario, settings};
use airamp_tests::tuned::{Tuned, assert_exact, assert_off, why_off};
use airamp_tests::{Outcome, emulator_dir, interposer, rank_program, skip_outside_ci};

const STEPS: [&str; 4] = ["--steps", "40", "--tensors", "float32:65536,float16:20000"];

fn job(ranks: u32, trailer: &'static str) -> Scenario {
    let job = Scenario::new("tuned-loop", ranks).args(&STEPS).args(&["--trailer", trailer]);
    job.env("AIRAMP_CONSENSUS_TIMEOUT_MS", "3000")
}

/// Every rank says once why it does not compress, and warns of nothing twice.
#[track_caller]
fn assert_off_and_told_once(outcomes: &[Outcome]) {
    assert_off(outcomes);
    for outcome in outcomes {
        let text = outcome.stderr_text();
        let mut warnings: Vec<&str> = text.lines().filter(|line| line.contains(" warn")).collect();
        let all = warnings.len();
        assert_eq!(warnings.iter().filter(|line| line.contains("compression off: ")).count(), 1, "{outcome}");
        warnings.sort_unstable();
        warnings.dedup();
        assert_eq!(warnings.len(), all, "{outcome}");
    }
}

#[test]
fn a_trailer_of_noise_leaves_the_job_exact_and_is_told_once() {
    for ranks in [2, 4] {
        assert_off_and_told_once(&job(ranks, "noise").in_mode("on"));
    }
}

#[test]
fn an_id_without_a_trailer_leaves_the_job_exact() {
    assert_off(&job(3, "removed").in_mode("on"));
}

#[test]
fn a_wrong_token_leaves_the_job_exact_and_is_told_once() {
    for ranks in [2, 4] {
        assert_off_and_told_once(&job(ranks, "token").in_mode("on"));
    }
}

#[test]
fn an_address_at_which_nobody_listens_leaves_the_job_exact() {
    assert_off(&job(2, "address=127.0.0.77").in_mode("on"));
}

/// Creation may be delayed by the time-out once, and nothing after it at all. The bounds leave busy cores most of
/// another time-out; a second wait for it would not fit in.
#[test]
fn packets_that_are_dropped_leave_the_job_exact_and_delay_creation_alone() {
    const TIME_OUT_MS: f64 = 12_000.0;
    const BUSY_CORES_MS: f64 = 11_000.0;
    let Some(host) = DeafHost::new() else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    let trailer = format!("address={}", DeafHost::NOBODY);
    let run = host.inside(&rank_program()).args(["scenario", "tuned-loop"]).args(STEPS);
    let run = settings(run.library_dir(emulator_dir())).time_limit(Duration::from_secs(120));
    let bare = run.clone().run_ranks(3);
    let outcomes = run
        .args(["--trailer", &trailer])
        .preload(interposer())
        .env("AIRAMP_MODE", "on")
        .env("AIRAMP_CONSENSUS_TIMEOUT_MS", TIME_OUT_MS.to_string())
        .run_ranks(3);
    outcomes.iter().for_each(|outcome| drop(why_off(outcome)));
    let (bare, with) = (assert_exact(&bare), assert_exact(&outcomes));
    for (bare, with) in bare.iter().zip(&with) {
        println!(
            "creation {:.0} ms and steps of {:.2} ms without the library, {:.0} ms and {:.2} ms with packets dropped",
            bare.creation_ms, bare.last_steps_ms, with.creation_ms, with.last_steps_ms
        );
        assert!(with.creation_ms < bare.creation_ms + TIME_OUT_MS + BUSY_CORES_MS, "{with:?}");
        assert!(with.first_steps_ms.max(with.last_steps_ms) < bare.last_steps_ms + BUSY_CORES_MS, "{with:?}");
    }
}

/// What a stranger may send: nothing, noise, half a message, and much of it.
fn disturb(address: &str, round: usize) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let noise: Vec<u8> = (0..4096_usize).map(|byte| (byte * 31 + round * 7) as u8).collect();
    let _ = match round % 4 {
        0 => Ok(()),
        1 => stream.write_all(&noise),
        2 => stream.write_all(&[0xff; 7]),
        _ => (0..64).try_for_each(|_| stream.write_all(&noise)),
    };
    // Some stay, silent, until the process ends.
    if round.is_multiple_of(3) {
        std::mem::forget(stream);
    }
}

#[test]
fn strangers_at_the_leaders_door_change_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("address");
    let mut leaked = std::ffi::OsString::from("leaked=");
    leaked.push(&file);
    let job = Scenario::new("tuned-loop", 3).args(&["--steps", "400", "--tensors", "float32:65536"]);
    let job = job.args(&["--trailer"]).arg(leaked);
    let running = std::thread::spawn(move || job.in_mode("on"));
    let address = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some((address, _)) = text.split_once(' ') {
            break address.to_owned();
        }
        assert!(!running.is_finished(), "the job ended: {:?}", running.join());
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut round = 0;
    while !running.is_finished() {
        disturb(&address, round);
        round += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    let outcomes: Vec<Outcome> = running.join().expect("the job's thread");
    assert!(round > 4, "{round}");
    for outcome in &outcomes {
        let report = Tuned::of(outcome.assert_success());
        assert!(report.agreed && report.count('w') == 0 && report.error.is_none(), "{outcome}");
    }
}
