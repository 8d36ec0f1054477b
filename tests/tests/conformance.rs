//! Conformance on the emulated cluster: every case of `airamp-rank conformance` has its
//! exact result, and with the library preloaded every rank prints the same digests,
//! return codes, version and error strings. `tests/gpu/run` does the same on real NCCL.

use std::collections::BTreeSet;
use std::time::Duration;

use airamp_tests::comparison::Presence;
use airamp_tests::{Outcome, Run, rank_program, scenario};
use serde::Deserialize;

/// Bounds a hang; a run takes a fraction of it.
const TIME_LIMIT: Duration = Duration::from_secs(180);

#[derive(Deserialize)]
struct Line {
    case: String,
    rank: u32,
    expected: String,
    detail: Option<String>,
}

/// Which cases a job runs, and how many there must be: a shrunken list is no success.
#[derive(Clone, Copy)]
struct Extent {
    arguments: &'static [&'static str],
    at_least: usize,
    /// The release that the emulated NCCL says it is, by its version code.
    nccl: &'static str,
}

const FULL: Extent = Extent { arguments: &[], at_least: 680, nccl: "22809" };
const QUICK: Extent = Extent { arguments: &["--quick"], at_least: 250, nccl: "22809" };
const QUICK_HIP: Extent = Extent { arguments: &["--quick", "--hip"], at_least: 250, nccl: "22809" };
/// With the `*Config` functions, revoke and grow.
const QUICK_NEWEST: Extent = Extent { nccl: "23203", ..QUICK };
/// Before 8-bit floats, InitRankScalable, AlltoAll and simulated groups.
const QUICK_OLD: Extent = Extent { at_least: 180, nccl: "21800", ..QUICK };

fn run(presence: Presence, ranks: u32, extent: Extent) -> Vec<Outcome> {
    let program = Run::new(rank_program()).arg("conformance").args(extent.arguments);
    let program = program.env("AIRAMP_EMU_NCCL_VERSION", extent.nccl).time_limit(TIME_LIMIT);
    presence.applied_to(program).run_ranks(ranks)
}

#[track_caller]
fn assert_conforms(outcomes: &[Outcome], at_least: usize) {
    for (rank, outcome) in outcomes.iter().enumerate() {
        let lines = lines_of(outcome);
        for line in &lines {
            assert_eq!(line.expected, "ok", "{} on rank {}: {:?}", line.case, line.rank, line.detail);
            assert_eq!(line.rank as usize, rank);
        }
        outcome.assert_success();
        assert!(lines.len() >= at_least, "rank {rank} ran {} cases, not {at_least}", lines.len());
    }
}

fn lines_of(outcome: &Outcome) -> Vec<Line> {
    let text = outcome.stdout_text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect()
}

/// The whole claim: right without the library, and the same bits with it.
#[track_caller]
fn assert_right_and_unchanged(ranks: u32, extent: Extent) {
    let without = run(Presence::Absent, ranks, extent);
    assert_conforms(&without, extent.at_least);
    let with = run(Presence::Preloaded, ranks, extent);
    for (without, with) in without.iter().zip(&with) {
        for (before, after) in without.stdout_text().lines().zip(with.stdout_text().lines()) {
            assert_eq!(before, after, "without the library (left) and with it (right)");
        }
        assert_eq!(without.stdout.len(), with.stdout.len(), "{with}");
        assert_eq!(without.end, with.end, "{with}");
    }
}

/// With compression on, what is not compressed is as it was: here nothing is large enough. A wrong call in a group is left
/// out: the group's end refuses it then, and not the call.
#[test]
fn compression_that_is_on_changes_nothing_else() {
    let arguments = &["--quick", "--except", "group/a_failing_call_fails_the_group"];
    let extent = Extent { arguments, at_least: 249, ..QUICK };
    let without = run(Presence::Absent, 3, extent);
    assert_conforms(&without, extent.at_least);
    let program = Run::new(rank_program()).arg("conformance").args(extent.arguments);
    let on = scenario::planned(Presence::Preloaded.applied_to(program)).env("AIRAMP_LOG", "info");
    let with = on.time_limit(TIME_LIMIT).run_ranks(3);
    for (without, with) in without.iter().zip(&with) {
        assert!(with.stderr_text().contains("compression on"), "{with}");
        assert_eq!(without.stdout_text(), with.stdout_text());
        assert_eq!(without.end, with.end, "{with}");
    }
}

#[test]
fn two_ranks_conform_and_the_library_changes_nothing() {
    assert_right_and_unchanged(2, FULL);
}

#[test]
fn three_ranks_conform_and_the_library_changes_nothing() {
    assert_right_and_unchanged(3, QUICK);
}

#[test]
fn four_ranks_conform_and_the_library_changes_nothing() {
    assert_right_and_unchanged(4, FULL);
}

#[test]
fn eight_ranks_conform_and_the_library_changes_nothing() {
    assert_right_and_unchanged(8, QUICK);
}

#[test]
fn hip_and_rccl_conform_and_the_library_changes_nothing() {
    assert_right_and_unchanged(2, QUICK_HIP);
}

#[test]
fn the_newest_nccl_conforms_and_the_library_changes_nothing() {
    assert_right_and_unchanged(2, QUICK_NEWEST);
}

#[test]
fn an_old_nccl_conforms_and_the_library_changes_nothing() {
    assert_right_and_unchanged(2, QUICK_OLD);
}

#[test]
fn the_cases_cover_every_collective_and_datatype() {
    let program = Run::new(rank_program()).args(["conformance", "--list"]);
    let outcome = Presence::Absent.applied_to(program).run();
    outcome.assert_success();
    let text = outcome.stdout_text();
    let cases: BTreeSet<&str> = text.lines().collect();
    let datatypes = [
        "int8",
        "uint8",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "float8e4m3",
        "float8e5m2",
    ];
    let operators = ["sum", "prod", "max", "min", "avg", "premulsum_host", "premulsum_device"];
    for datatype in datatypes {
        for collective in ["all_reduce", "reduce", "reduce_scatter"] {
            for operator in operators {
                assert_listed(&cases, &format!("{collective}/{datatype}/{operator}/in_place"));
                assert_listed(&cases, &format!("{collective}/{datatype}/{operator}/out_of_place"));
            }
        }
        for collective in ["all_gather", "broadcast", "gather", "scatter"] {
            assert_listed(&cases, &format!("{collective}/{datatype}/in_place"));
            assert_listed(&cases, &format!("{collective}/{datatype}/out_of_place"));
        }
        assert_listed(&cases, &format!("all_to_all/{datatype}/out_of_place"));
        assert_listed(&cases, &format!("bcast/{datatype}/in_place"));
        assert_listed(&cases, &format!("send_recv/ring/{datatype}"));
    }
}

#[track_caller]
fn assert_listed(cases: &BTreeSet<&str>, name: &str) {
    assert!(cases.contains(name), "no case {name}");
}
