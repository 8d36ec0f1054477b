//! What passing a call through costs: instructions by callgrind, and nothing that can block.
//! Nanoseconds are printed for people (`--nocapture`), never asserted.

use airamp_tests::c_program::vendor_dir;
use airamp_tests::callgrind::{self, Count};
use airamp_tests::scenario::planned;
use airamp_tests::{CProgram, Run, emulator_dir, interposer, skip_outside_ci};
use std::path::{Path, PathBuf};

/// Everything, in the default setting.
const MOST_INSTRUCTIONS: u64 = 400;
/// The same for each of the three calls of a group with one operation.
const MOST_IN_GROUP: u64 = 460;
/// Of these, what telemetry may take.
const MOST_OF_TELEMETRY: u64 = 150;
/// And what the rhythm may take on top, with what feeds it, once its step is known.
const MOST_OF_PATTERN: u64 = 100;
/// Parts of a thousand that telemetry may add to the instructions of a job of small calls.
const MOST_OF_JOB: f64 = 10.0;
const KINDS: [&str; 3] = ["all_reduce", "send", "group"];

/// What passthrough_calls.c makes: its name there, calls in a round (a group is three), and how many rounds.
struct Calls {
    kind: &'static str,
    of_round: u64,
    rounds: u64,
}

const ALL: [Calls; 5] = [
    Calls { kind: "all_reduce", of_round: 1, rounds: 1200 },
    Calls { kind: "send", of_round: 1, rounds: 1200 },
    Calls { kind: "group", of_round: 3, rounds: 400 },
    Calls { kind: "mixed", of_round: 24, rounds: 50 },
    Calls { kind: "steps", of_round: 24, rounds: 50 },
];

fn program() -> PathBuf {
    CProgram::linked_with_nccl_alone("passthrough_calls.c").flag("-O2").build()
}

/// A folder with a vendor whose calls do nothing.
fn null_vendor() -> tempfile::TempDir {
    vendor_dir(&CProgram::unlinked("null_nccl.c").flag("-O2").shared_library().build())
}

/// The library as it is by default, with its telemetry in a folder of its own; or without a part of it.
fn with_library(run: Run, folder: &Path, without: &[&str]) -> Run {
    let run = run.env("AIRAMP_TELEMETRY_DIR", folder).preload(interposer());
    without.iter().fold(run, |run, setting| run.env(setting, "0"))
}

impl Calls {
    /// Instructions inside `measured` for one call; what happens once has happened before it.
    fn instructions(&self, how: &str, prepare: impl Fn(Run) -> Run) -> f64 {
        let program = program();
        let count = Count { program: &program, function: Some("measured"), object: None };
        let all = count.of([self.kind, &self.rounds.to_string(), how], &prepare);
        all as f64 / (self.rounds * self.of_round) as f64
    }
}

#[test]
fn a_call_costs_at_most_400_instructions_of_which_telemetry_has_150_and_the_rhythm_100() {
    if !callgrind::is_there() {
        return skip_outside_ci("valgrind is not installed");
    }
    let vendor = null_vendor();
    let mut beyond = Vec::new();
    for calls in ALL {
        let bare = calls.instructions("learnt", |run| run.library_dir(vendor.path()));
        let without = |parts: &[&str]| {
            let prepare = |run: Run| with_library(run.library_dir(vendor.path()), vendor.path(), parts);
            calls.instructions("learnt", prepare)
        };
        let (all, silent) = (without(&[]), without(&["AIRAMP_TELEMETRY"]));
        let unlearnt = without(&["AIRAMP_PATTERN"]);
        let (call, told, learnt) = (all - bare, unlearnt - silent, all - unlearnt);
        println!(
            "{}: {call:.1} instructions per call over a vendor that does nothing; of them telemetry takes {told:.1}, \
             and the rhythm {learnt:.1} more",
            calls.kind
        );
        let most = if calls.kind == "group" { MOST_IN_GROUP } else { MOST_INSTRUCTIONS };
        for (what, most) in [(call, most), (told, MOST_OF_TELEMETRY), (learnt, MOST_OF_PATTERN)] {
            if what < 1.0 || what.round() as u64 > most {
                beyond.push(format!("{}: {what:.1}, and not at most {most}", calls.kind));
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

#[test]
fn a_call_costs_at_most_400_instructions_over_the_bare_emulator_call() {
    if !callgrind::is_there() {
        return skip_outside_ci("valgrind is not installed");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let emulated = |run: Run| {
        run.library_dir(emulator_dir())
            .env("AIRAMP_EMU_RACECHECK", "0")
            .env("AIRAMP_EMU_MEMORY_BYTES", "67108864")
    };
    // What the emulator's events do would be counted with a call that is timed on the device.
    let without = ["AIRAMP_DEVICE_TIMINGS", "AIRAMP_PATTERN"];
    let with = |run: Run| with_library(emulated(run), folder.path(), &without);
    let [calls, ..] = ALL;
    let extra = || (calls.instructions("", with) - calls.instructions("", emulated)).round().max(0.0) as u64;
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
    for kind in ["group", "captured", "threads"] {
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

/// A job of 16 KiB AllReduces between two ranks on the emulator, each waited for: everything that all threads do, device
/// times among it.
#[test]
fn telemetry_adds_less_than_one_percent_to_the_instructions_of_small_all_reduces() {
    if !callgrind::is_there() {
        return skip_outside_ci("valgrind is not installed");
    }
    let program = CProgram::linked("small_calls.c").flag("-O2").build();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = Count { program: &program, function: None, object: None };
    let of = |calls: u64, without: &[&str]| {
        let prepare = |run: Run| {
            let run = run.library_dir(emulator_dir()).env("AIRAMP_EMU_RACECHECK", "0");
            with_library(run.env("AIRAMP_EMU_MEMORY_BYTES", "67108864"), folder.path(), without)
        };
        count.of([calls.to_string()], prepare) as f64
    };
    let (short, long) = (120, 320);
    let per_call = |without: &[&str]| (of(long, without) - of(short, without)) / (long - short) as f64;
    // How often the emulator's threads wait for each other differs from run to run: one pair of several is enough to
    // show what it takes, and a cost that is there is in all of them.
    let mut shares = Vec::new();
    for _ in 0..5 {
        let (on, off) = (per_call(&[]), per_call(&["AIRAMP_TELEMETRY"]));
        shares.push((on / off - 1.0) * 1000.0);
        println!("a call takes {on:.0} instructions with telemetry and {off:.0} without it");
        if shares.last().is_some_and(|share| *share < MOST_OF_JOB) {
            break;
        }
    }
    assert!(shares.iter().any(|share| *share < MOST_OF_JOB), "in thousandths: {shares:.1?}");
}

/// The same job by the clock and by its processor time; telemetry on and off in turn, so that a busy machine is busy for
/// both. Shown, never asserted. PAIRS: how many.
#[test]
fn what_telemetry_adds_to_the_time_of_small_all_reduces_is_shown() {
    let pairs: u32 = std::env::var("PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(9);
    let program = CProgram::linked("small_calls.c").flag("-O2").build();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nanoseconds = |without: &[&str]| -> [f64; 2] {
        let run = Run::new(&program).arg("3000").library_dir(emulator_dir()).env("AIRAMP_EMU_RACECHECK", "0");
        let outcome = with_library(run, folder.path(), without).run();
        let text = outcome.assert_success().stdout_text();
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten().unwrap_or_else(|| panic!("{text}"));
        [next(), next()]
    };
    let ratios: Vec<[f64; 2]> = (0..pairs)
        .map(|pair| {
            // Who comes first takes turns, too.
            let first = if pair % 2 == 0 { Some(nanoseconds(&["AIRAMP_TELEMETRY"])) } else { None };
            let on = nanoseconds(&[]);
            let off = first.unwrap_or_else(|| nanoseconds(&["AIRAMP_TELEMETRY"]));
            [on[0] / off[0], on[1] / off[1]]
        })
        .collect();
    for (place, what) in ["by the clock", "of processor time"].into_iter().enumerate() {
        let mut sorted: Vec<f64> = ratios.iter().map(|pair| pair[place]).collect();
        sorted.sort_by(f64::total_cmp);
        let part = |of: usize| sorted[(sorted.len() - 1) * of / 4];
        let (low, median, high) = (part(1), part(2), part(3));
        // Of a median, as of a normal distribution.
        let error = 1.25 * (high - low) / 1.35 / f64::from(pairs).sqrt();
        println!(
            "telemetry on over off, {what}, {pairs} pairs: median {median:.4} (known to {error:.4}), quarters {low:.4} to {high:.4}"
        );
    }
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
