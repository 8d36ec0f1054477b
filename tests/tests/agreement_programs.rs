//! Programs that bare NCCL runs and that a library which waits for its peers would hang, under tuning.

use std::time::Duration;

use airamp_tests::scenario::Scenario;
use airamp_tests::tuned::{Tuned, assert_alike, assert_exact};

/// Slow enough that compression pays for the larger tensors.
const SLOW_LINK: (&str, &str) = ("AIRAMP_EMU_LINK_GBPS", "1");
const LARGE: [&str; 2] = ["--tensors", "float32:1048576,float16:524288,bfloat16:1048576"];

fn program(name: &'static str, ranks: u32, steps: &'static str) -> Scenario {
    Scenario::new(name, ranks).args(&["--steps", steps]).time_limit(Duration::from_secs(240))
}

#[track_caller]
fn assert_agreed(reports: &[Tuned]) {
    for report in reports {
        assert!(report.agreed && report.trials > 0, "{report:?}");
    }
}

#[test]
fn communicators_that_depend_on_each_other_crosswise_run_under_tuning() {
    for ranks in [2, 3] {
        let job = program("tuned-crossing", ranks, "3000").args(&["--after-decided", "16"]).args(&LARGE);
        let reports = assert_alike(&job.env(SLOW_LINK.0, SLOW_LINK.1).in_mode("on"));
        assert_agreed(&reports);
        assert!(reports[0].count('c') > 0, "nothing was compressed: {:?}", reports[0]);
    }
}

#[test]
fn they_run_with_everything_compressed_too() {
    let outcomes = program("tuned-crossing", 3, "40").compressed();
    assert_eq!(assert_alike(&outcomes)[0].count('e'), 0);
}

/// Ranks of one process make several calls in one group, which cannot be timed one by one.
#[test]
fn a_thread_that_drives_two_gpus_on_some_ranks_only_runs_under_tuning() {
    for (layout, processes) in [("2,1", 2), ("1,2,1", 3)] {
        let job = program("tuned-devices", processes, "80").args(&["--layout", layout]);
        let reports = assert_alike(&job.in_mode("on"));
        assert!(reports.iter().all(|report| report.agreed), "{reports:?}");
    }
}

#[test]
fn a_pipeline_with_orders_of_its_own_on_every_rank_runs_a_thousand_steps() {
    let job = program("tuned-pipeline", 4, "1000");
    assert_exact(&job.bare());
    let reports = assert_alike(&job.in_mode("on"));
    assert_agreed(&reports);
    assert_eq!(reports[0].steps, 1000);
}

#[test]
fn a_pipeline_with_everything_compressed_runs_a_thousand_steps() {
    let outcomes = program("tuned-pipeline", 4, "1000").compressed();
    let report = &assert_alike(&outcomes)[0];
    assert_eq!((report.steps, report.count('e')), (1000, 0), "{report:?}");
}

#[test]
fn children_of_a_split_are_tuned_for_themselves() {
    let job = program("tuned-children", 4, "80").args(&LARGE).env(SLOW_LINK.0, SLOW_LINK.1);
    let reports = assert_alike(&job.in_mode("on"));
    assert_agreed(&reports);
    assert!(reports.iter().all(|report| report.trials_apart > 0), "{reports:?}");
}

#[test]
fn graphs_captured_before_during_and_after_tuning_replay_what_they_hold() {
    for ranks in [2, 3] {
        // The last is the one that must have been compressed, on a busy machine too.
        let tensors = ["--tensors", "bfloat16:524288,float16:524288,float32:4194304"];
        let job = program("tuned-graphs", ranks, "1200").args(&tensors).env(SLOW_LINK.0, SLOW_LINK.1);
        for report in assert_alike(&job.in_mode("on")) {
            assert_eq!(report.graphs.len(), 3, "{report:?}");
            for graph in &report.graphs {
                let (exact, compressed) = (graph.count('e'), graph.count('c'));
                assert!(exact + compressed > 0, "{} was never replayed: {report:?}", graph.captured);
                assert!(exact == 0 || compressed == 0, "{} changed: {report:?}", graph.captured);
            }
            let captured =
                |when: &str| report.graphs.iter().find(|graph| graph.captured == when).expect("a graph");
            assert!(captured("before").count('c') == 0, "{report:?}");
            assert!(captured("after").count('c') > 0, "{report:?}");
        }
    }
}
