//! What passing a call through costs: instructions by callgrind, and nothing that can block.
//! Nanoseconds are printed for people (`--nocapture`), never asserted.

use airamp_tests::scenario::planned;
use airamp_tests::{CProgram, Run, emulator_dir, interposer, skip_outside_ci};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MOST_INSTRUCTIONS: u64 = 400;
/// Of these, what telemetry may take.
const MOST_OF_TELEMETRY: u64 = 150;
/// What the rhythm of a communicator that is locked may take on top, with what feeds it. Its own part has a limit of 100:
/// `crates/policy/tests/rhythm_cost.rs`.
const MOST_OF_PATTERN: u64 = 130;
/// As passthrough_calls.c has them.
const CALLS_OF_STEP: u64 = 24;
const KINDS: [&str; 3] = ["all_reduce", "send", "group"];
/// Calls in one round of each kind: a group is three.
const CALLS_PER_ROUND: [u64; 3] = [1, 1, 3];

fn program() -> PathBuf {
    CProgram::linked_with_nccl_alone("passthrough_calls.c").flag("-O2").build()
}

/// A folder with a vendor whose calls do nothing.
fn null_vendor() -> tempfile::TempDir {
    let library = CProgram::unlinked("null_nccl.c").flag("-O2").shared_library().build();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["libnccl.so.2", "libcuda.so.1"] {
        symlink(&library, dir.path().join(name)).expect("a link to the null vendor");
    }
    dir
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The run with telemetry in a folder of its own, or without it; and without the rhythm, whose costs are counted apart.
fn told(run: Run, folder: &Path, telemetry: bool) -> Run {
    let run = run.env("AIRAMP_TELEMETRY_DIR", folder).env("AIRAMP_PATTERN", "0");
    run.env("AIRAMP_TELEMETRY", if telemetry { "1" } else { "0" })
}

/// Instructions inside `measured` on the calling thread, by callgrind.
fn instructions(kind: &str, rounds: u64, prepare: impl Fn(Run) -> Run) -> u64 {
    let run = Run::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=measured")
        .arg(program())
        .args([kind, &rounds.to_string()])
        .time_limit(Duration::from_secs(120));
    let outcome = prepare(run).run();
    outcome.assert_success();
    let text = outcome.stderr_text();
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in: {text}"))
}

/// Extra instructions per call with the interposer, from two lengths of the loop, so that what
/// happens once cancels out.
fn extra_per_call(kind: &str, calls_per_round: u64, prepare: impl Fn(Run) -> Run) -> u64 {
    let bare = per_round(kind, &prepare);
    let with = per_round(kind, |run| prepare(run).preload(interposer()));
    ((with - bare) / calls_per_round as f64).round().max(0.0) as u64
}

fn per_round(kind: &str, prepare: impl Fn(Run) -> Run) -> f64 {
    per_round_of(kind, (200, 1200), prepare)
}

/// From two lengths of the loop.
fn per_round_of(kind: &str, (short, long): (u64, u64), prepare: impl Fn(Run) -> Run) -> f64 {
    (instructions(kind, long, &prepare) - instructions(kind, short, &prepare)) as f64 / (long - short) as f64
}

#[test]
fn a_call_costs_at_most_400_instructions_over_a_vendor_that_does_nothing() {
    if !has_valgrind() {
        return skip_outside_ci("valgrind is not installed");
    }
    let vendor = null_vendor();
    for (kind, calls) in KINDS.into_iter().zip(CALLS_PER_ROUND) {
        let prepare = |run: Run| told(run.library_dir(vendor.path()), vendor.path(), true);
        let extra = extra_per_call(kind, calls, prepare);
        println!("{kind}: {extra} instructions per call over a vendor that does nothing");
        assert!((1..=MOST_INSTRUCTIONS).contains(&extra), "{kind}: {extra}");
    }
}

#[test]
fn telemetry_takes_at_most_150_instructions_of_a_call() {
    if !has_valgrind() {
        return skip_outside_ci("valgrind is not installed");
    }
    let vendor = null_vendor();
    for (kind, calls) in KINDS.into_iter().zip(CALLS_PER_ROUND) {
        let with = |telemetry: bool| {
            per_round(kind, |run| {
                told(run.library_dir(vendor.path()), vendor.path(), telemetry).preload(interposer())
            })
        };
        let extra = (with(true) - with(false)) / calls as f64;
        println!("{kind}: telemetry takes {extra:.0} instructions per call");
        assert!(extra >= 1.0 && extra.round() as u64 <= MOST_OF_TELEMETRY, "{kind}: {extra}");
    }
}

#[test]
fn the_rhythm_takes_at_most_130_instructions_of_a_call_once_its_step_is_known() {
    if !has_valgrind() {
        return skip_outside_ci("valgrind is not installed");
    }
    let vendor = null_vendor();
    let with = |pattern: &str| {
        per_round_of("steps", (10, 110), |run| {
            let run = told(run.library_dir(vendor.path()), vendor.path(), true);
            run.env("AIRAMP_PATTERN", pattern).preload(interposer())
        })
    };
    let extra = (with("1") - with("0")) / CALLS_OF_STEP as f64;
    println!("the rhythm takes {extra:.1} instructions per call");
    assert!(extra >= 1.0 && extra.round() as u64 <= MOST_OF_PATTERN, "{extra}");
}

#[test]
fn a_call_costs_at_most_400_instructions_over_the_bare_emulator_call() {
    if !has_valgrind() {
        return skip_outside_ci("valgrind is not installed");
    }
    let extra = || {
        extra_per_call("all_reduce", 1, |run| {
            run.library_dir(emulator_dir())
                .env("AIRAMP_EMU_RACECHECK", "0")
                .env("AIRAMP_EMU_MEMORY_BYTES", "67108864")
                // Under callgrind 10 ms pass within a few calls, and what the emulator's events do would be counted.
                .env("AIRAMP_DEVICE_TIMINGS", "0")
                .env("AIRAMP_PATTERN", "0")
        })
    };
    // How often the emulator's threads wait for each other is in both counts, and on a loaded machine in one of them
    // more than in the other: the least of five says what a call costs.
    let extras: Vec<u64> = (0..5).map(|_| extra()).collect();
    println!("all_reduce: {extras:?} instructions per call over the emulator");
    assert!(extras.iter().any(|extra| *extra <= MOST_INSTRUCTIONS), "{extras:?}");
}

#[test]
fn threads_that_call_at_once_make_no_system_call_and_so_wait_for_no_lock() {
    let vendor = null_vendor();
    for kind in KINDS {
        let run = Run::new(program()).args([kind, "200000", "seccomp"]).library_dir(vendor.path());
        run.preload(interposer()).run().assert_success();
    }
}

#[test]
fn a_call_allocates_nothing_and_takes_no_mutex_of_the_c_library() {
    let vendor = null_vendor();
    for kind in KINDS {
        let run = Run::new(program()).args([kind, "1000", "count"]).library_dir(vendor.path());
        let outcome = run.preload(interposer()).run();
        outcome.assert_success();
        let text = outcome.stdout_text();
        assert!(text.contains("allocations=0 locks=0"), "{text}");
    }
}

#[test]
fn a_compressed_call_allocates_nothing_and_takes_no_mutex_of_the_c_library() {
    let program = CProgram::linked("compressed_calls.c").build();
    for kind in ["group", "threads"] {
        // Enough that some are timed, too.
        let run = Run::new(&program).args([kind, "300"]).library_dir(emulator_dir()).preload(interposer());
        let run = planned(run).env("AIRAMP_MIN_BYTES", "4096");
        let outcome = run.run();
        outcome.assert_success();
        let text = outcome.stdout_text();
        assert!(text.contains("found=1 compressed=303 allocations=0 locks=0"), "{text}");
    }
}

#[test]
fn a_call_that_the_plan_leaves_to_the_vendor_or_tries_allocates_nothing_either() {
    let program = CProgram::linked("compressed_calls.c").build();
    for kind in ["group", "threads"] {
        let run = Run::new(&program).args([kind, "2000"]).library_dir(emulator_dir()).preload(interposer());
        let outcome = run.env("AIRAMP_MODE", "shadow").env("AIRAMP_MIN_BYTES", "4096").run();
        outcome.assert_success();
        let text = outcome.stdout_text();
        assert!(text.contains("found=1 compressed=0 allocations=0 locks=0"), "{text}");
    }
}

/// 16 KiB AllReduces between two ranks; telemetry on and off in turn, so that a busy machine is busy for both.
#[test]
fn what_telemetry_adds_to_the_time_of_small_all_reduces_is_shown() {
    let program = CProgram::linked("small_calls.c").flag("-O2").build();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nanoseconds = |telemetry: bool| {
        let run = Run::new(&program).arg("3000").library_dir(emulator_dir()).preload(interposer());
        let outcome = told(run, folder.path(), telemetry).env("AIRAMP_EMU_RACECHECK", "0").run();
        let text = outcome.assert_success().stdout_text();
        text.trim().parse::<f64>().unwrap_or_else(|_| panic!("{text}"))
    };
    let mut ratios: Vec<f64> = (0..9).map(|_| nanoseconds(true) / nanoseconds(false)).collect();
    ratios.sort_by(f64::total_cmp);
    println!("telemetry on over off, nine pairs: median {:.4}, all {ratios:.4?}", ratios[4]);
}

#[test]
fn the_nanoseconds_of_a_call_are_shown() {
    let vendor = null_vendor();
    for kind in KINDS {
        let run = || Run::new(program()).args([kind, "5000000"]).library_dir(vendor.path());
        let bare = run().run();
        let with = run().preload(interposer()).run();
        print!("bare: {}with: {}", bare.assert_success().stdout_text(), with.assert_success().stdout_text());
    }
}
