//! Shapes, dry runs and measurements of the compressed AllReduce on the emulator, called directly. The
//! emulator's race check is on, so a missing dependency between streams is an error here.

use airamp_tests::{Run, emulator_dir, rank_program};
use serde::Deserialize;
use std::time::Duration;

/// What a scenario tells of one rank.
#[derive(Clone, Debug, Deserialize)]
struct Report {
    one_by_one: String,
    together: String,
    foreign: u64,
    idle_while_pending: bool,
    refused: Option<String>,
    trials: usize,
    wrong: Vec<String>,
    shapes: Vec<String>,
}

/// With an arena in which the longer calls take several steps, unless there is another.
fn scenario(name: &str, arena_bytes: &str) -> Run {
    let run = Run::new(rank_program()).args(["fast-path", name, "--arena-bytes", arena_bytes]);
    run.library_dir(emulator_dir()).time_limit(Duration::from_secs(240))
}

fn reports(run: Run, ranks: u32) -> Vec<Report> {
    let report = |text: String| serde_json::from_str(&text).expect("one JSON line");
    run.run_ranks(ranks).iter().map(|outcome| report(outcome.assert_success().stdout_text())).collect()
}

#[track_caller]
fn assert_all_holds(reports: &[Report], trials: usize) {
    for report in reports {
        assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
        assert_eq!((report.trials, report.foreign), (trials, 0));
    }
}

const TENSORS: usize = 8;

#[test]
fn every_shape_gives_the_bits_of_the_codec() {
    for (ranks, shapes) in [(2, 5), (3, 5), (4, 5), (8, 5)] {
        assert_all_holds(&reports(scenario("shapes", "300000"), ranks), shapes * TENSORS);
    }
}

/// On nodes of so many ranks.
const NODES: [(u32, &str); 4] = [(4, "2"), (6, "3"), (6, "2"), (8, "4")];

#[test]
fn every_shape_of_nodes_with_several_ranks_gives_the_bits_of_the_codec() {
    for (ranks, per_node) in NODES {
        let run = scenario("shapes", "300000").env("AIRAMP_RANKS_PER_NODE", per_node);
        let reports = reports(run, ranks);
        assert_all_holds(&reports, 5 * TENSORS);
        assert!(reports.iter().all(|report| report.shapes[0] == "three-shot"), "{:?}", reports[0].shapes);
    }
    let uneven = scenario("shapes", "300000").env("AIRAMP_RANKS_PER_NODE", "3");
    assert_eq!(reports(uneven, 4)[0].shapes[0], "two-shot");
}

#[test]
fn a_dry_run_on_nodes_with_several_ranks_leaves_memory_alone_and_tells_the_error_of_the_codec() {
    let large = [(4, "2", "16777216")].into_iter();
    for (ranks, per_node, arena) in
        NODES.map(|(ranks, per_node)| (ranks, per_node, "300000")).into_iter().chain(large)
    {
        let run = scenario("trials", arena).env("AIRAMP_RANKS_PER_NODE", per_node);
        assert_all_holds(&reports(run, ranks), 5 * TENSORS);
    }
}

#[test]
fn a_dry_run_leaves_memory_alone_and_tells_the_error_of_the_codec() {
    for (ranks, shapes) in [(2, 5), (3, 5), (4, 5), (8, 5)] {
        assert_all_holds(&reports(scenario("trials", "300000"), ranks), shapes * TENSORS);
    }
}

#[test]
fn dry_runs_are_the_same_on_hip_and_with_an_arena_that_holds_each_call_at_once() {
    for (run, ranks, shapes) in [
        (scenario("trials", "300000").arg("--hip"), 3, 5),
        (scenario("trials", "16777216"), 3, 5),
        (scenario("trials", "16777216"), 7, 5),
        (scenario("shapes", "16777216").arg("--hip"), 4, 5),
    ] {
        assert_all_holds(&reports(run, ranks), shapes * TENSORS);
    }
}

#[test]
fn trials_calls_and_watches_on_two_streams_keep_their_order() {
    for (ranks, hip) in [(2, false), (3, false), (4, true)] {
        let run = scenario("trials-beside", "300000");
        let reports = reports(if hip { run.arg("--hip") } else { run }, ranks);
        assert_all_holds(&reports, 3);
        assert!(reports.iter().all(|report| report.together == report.one_by_one), "{reports:?}");
    }
}

#[test]
fn measurements_run_out_come_back_and_are_never_captured() {
    for reports in [2, 3].map(|ranks| reports(scenario("measurements", "300000"), ranks)) {
        assert_all_holds(&reports, 0);
        for report in reports {
            assert_eq!(report.together, report.one_by_one);
            assert!(report.refused.as_ref().is_some_and(|text| text.contains("dry run")), "{report:?}");
        }
    }
}

#[test]
fn once_connected_no_shape_and_no_dry_run_lets_a_host_wait_for_its_peers() {
    // All these calls together are more than a queue usually holds where each reduces for every node.
    for (ranks, per_node, queue) in [(2, "1", "1024"), (3, "1", "1024"), (5, "1", "1024"), (4, "2", "2048")] {
        let run = scenario("ahead", "300000").env("AIRAMP_RANKS_PER_NODE", per_node);
        assert_all_holds(&reports(run.env("AIRAMP_EMU_LAUNCH_QUEUE", queue), ranks), 0);
    }
}

#[test]
fn a_lane_is_not_idle_while_the_vendors_result_is_still_to_be_sampled() {
    for report in reports(scenario("pending-trial", "300000"), 2) {
        assert!(!report.idle_while_pending && report.wrong.is_empty(), "{report:?}");
    }
}
