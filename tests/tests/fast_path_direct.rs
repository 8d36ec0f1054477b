//! The compressed AllReduce on the emulator, called directly: real kernels' code objects, real
//! queues and real messages between processes. The emulator's race check is on, so a missing
//! dependency between streams is an error here.

use airamp_tests::{Run, emulator_dir, rank_program};
use serde::Deserialize;
use std::time::Duration;

/// What `airamp-rank bench` tells of one rank, one tensor and one way of ours.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Line {
    datatype: String,
    contender: String,
    bytes: usize,
    steps: usize,
    added_bytes: usize,
    wire_bytes_per_element: f64,
    vnmse: f64,
    digest: String,
}

/// Every rank's lines of ours.
fn job(ranks: u32, arguments: &[&str]) -> Vec<Vec<Line>> {
    let run = rank("bench").args(["--iterations", "1", "--warmup", "1"]).args(arguments);
    run.run_ranks(ranks).iter().map(|outcome| ours(&outcome.assert_success().stdout_text())).collect()
}

fn ours(text: &str) -> Vec<Line> {
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    let is_ours = |event: &serde_json::Value| event["event"] == "result" && !event["steps"].is_null();
    let lines = events.filter(is_ours).map(|event| serde_json::from_value(event).expect("a measurement"));
    lines.collect()
}

fn rank(command: &str) -> Run {
    let run = Run::new(rank_program()).arg(command).library_dir(emulator_dir());
    run.time_limit(Duration::from_secs(120))
}

/// What a scenario tells of one rank.
#[derive(Clone, Debug, Deserialize)]
struct Report {
    rank: usize,
    one_by_one: String,
    together: String,
    saturated: u64,
    non_finite_blocks: u64,
    squared_error: f64,
    signal: f64,
    foreign: u64,
    group_left_open: bool,
    idle_while_pending: bool,
    numbers: usize,
    idle_with_graphs: bool,
    refused: Option<String>,
    leaked_bytes: usize,
}

fn reports(run: Run, ranks: u32) -> Vec<Report> {
    let report = |text: String| serde_json::from_str(&text).expect("one JSON line");
    run.run_ranks(ranks).iter().map(|outcome| report(outcome.assert_success().stdout_text())).collect()
}

/// With an arena in which the longer calls take several steps.
fn scenario(name: &str) -> Run {
    rank("fast-path").args([name, "--arena-bytes", "300000"])
}

/// CUDA and HIP, the one-shot, the two-shot and the three-shot.
fn everywhere(name: &str) -> impl Iterator<Item = Vec<Report>> {
    let places = [(2, "1", false), (3, "1", false), (4, "2", false), (2, "1", true), (5, "1", true)];
    places.into_iter().map(move |(ranks, per_node, hip)| {
        let run = scenario(name).env("AIRAMP_RANKS_PER_NODE", per_node);
        reports(if hip { run.arg("--hip") } else { run }, ranks)
    })
}

/// All ranks have the same bits, and those of the same calls made one by one.
#[track_caller]
fn assert_same_bits(reports: &[Report]) {
    for report in reports {
        assert_eq!(report.together, report.one_by_one, "{report:?}");
        assert_eq!(report.together, reports[0].together, "{report:?}");
    }
}

#[test]
fn all_ranks_end_with_the_same_bits_close_to_the_sum() {
    for ranks in [2, 3, 4, 5, 8] {
        let types = ["--datatypes", "float16,bfloat16,float32"];
        let results = job(ranks, &[&types[..], &["--sizes", "12,400000,1000004"]].concat());
        assert_eq!(results[0].len(), 9);
        for line in results.iter().flatten() {
            assert!(results[0].contains(line), "{ranks} ranks differ: {line:?}");
            // A handful of elements can be far off its own mean; tensors cannot.
            let most = if line.bytes < 1000 { 1e-2 } else { 1.0e-4 };
            assert!(line.vnmse <= most, "{ranks} ranks: {line:?}");
        }
    }
}

#[test]
fn every_format_keeps_its_error() {
    let bounds = [("e4m3", 1.6e-3), ("e5m2", 6e-3), ("int8", 1.0e-4), ("auto", 1.0e-4)];
    let formats = bounds.map(|(format, _)| format).join(",");
    let results = job(4, &["--sizes", "1000004", "--datatypes", "bfloat16", "--formats", &formats]);
    assert_eq!(results[0].len(), bounds.len());
    for (line, (format, most)) in results[0].iter().zip(bounds) {
        assert_eq!(line.contender, format);
        assert!(line.vnmse > 0.0 && line.vnmse <= most, "{line:?}");
        assert!(line.wire_bytes_per_element < 1.017, "{line:?}");
    }
}

#[test]
fn a_small_arena_means_more_steps_and_still_the_same_bits_everywhere() {
    let large = job(4, &["--sizes", "4000004", "--datatypes", "float16"]);
    let small = job(4, &["--sizes", "4000004", "--datatypes", "float16", "--arena-bytes", "300000"]);
    assert!(small[0][0].steps > 4 && large[0][0].steps == 1, "{small:?} {large:?}");
    assert_eq!(small[1], small[0]);
    assert_eq!(small[0][0].digest, large[0][0].digest);
    for (lines, arena) in [(small, 300_000), (large, 16 << 20)] {
        let added = lines.iter().flatten().map(|line| line.added_bytes);
        assert!(added.clone().all(|bytes| bytes > 0 && bytes <= page(arena)), "{arena}: {lines:?}");
    }
}

/// What the device has to set aside for so many bytes.
fn page(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}

#[test]
fn the_average_is_exact_within_the_format() {
    let results = job(3, &["--sizes", "400000", "--average"]);
    assert!(results.iter().flatten().all(|line| line.vnmse <= 1.0e-4), "{results:?}");
    assert_eq!(results[0], results[2]);
}

#[test]
fn runs_repeat_bit_for_bit() {
    let arguments = ["--sizes", "1000004", "--datatypes", "float32"];
    assert_eq!(job(4, &arguments), job(4, &arguments));
}

#[test]
fn calls_in_one_group_give_the_bits_of_single_calls() {
    everywhere("group").for_each(|reports| assert_same_bits(&reports));
}

#[test]
fn communicators_in_one_group_do_not_disturb_each_other() {
    for reports in everywhere("communicators") {
        assert_same_bits(&reports);
        assert!(reports.iter().all(|report| report.signal > 0.0), "each lane has its own counters");
    }
}

#[test]
fn one_thread_with_two_devices_has_both_in_one_group() {
    for reports in everywhere("devices") {
        assert_same_bits(&reports);
        assert!(reports.iter().all(|report| report.refused.is_none()), "{reports:?}");
    }
}

#[test]
fn a_group_waits_for_all_its_streams_and_they_for_it() {
    everywhere("streams").for_each(|reports| assert_same_bits(&reports));
}

#[test]
fn two_graphs_and_live_calls_share_the_arena_in_turns() {
    for reports in everywhere("graphs") {
        assert_same_bits(&reports);
        assert!(reports.iter().all(|report| !report.idle_with_graphs), "a graph holds the lane: {reports:?}");
        assert!(reports.iter().all(|report| report.signal > 0.0), "replays count too: {reports:?}");
    }
}

#[test]
fn a_driver_without_external_events_refuses_captured_calls_only() {
    let run = scenario("graphs").arg("--hip").env("AIRAMP_EMU_HIDE_SYMBOLS", "hipEventRecordWithFlags");
    for report in reports(run, 2) {
        assert!(report.refused.as_ref().is_some_and(|text| text.contains("captured call")), "{report:?}");
    }
    let live = scenario("group").arg("--hip").env("AIRAMP_EMU_HIDE_SYMBOLS", "hipEventRecordWithFlags");
    assert_same_bits(&reports(live, 2));
}

#[test]
fn a_group_that_is_captured_in_part_is_refused_and_leaves_nothing_behind() {
    for reports in everywhere("mixed-capture") {
        assert_same_bits(&reports);
        assert!(reports.iter().all(|report| report.refused.is_some()), "{reports:?}");
    }
}

#[test]
fn the_counters_of_all_calls_are_read_back() {
    for reports in [2, 3].map(|ranks| reports(scenario("stats"), ranks)) {
        for report in &reports {
            // Each of the two calls writes the planted block; in the two-shot its owner once more.
            let owned = reports.len() > 2 && report.rank == 0;
            assert_eq!(report.non_finite_blocks, if owned { 4 } else { 2 }, "{report:?}");
            assert!(report.saturated > 0, "{report:?}");
            let relative = report.squared_error / report.signal;
            assert!(relative > 1e-5 && relative < 1e-4, "{report:?}");
            assert_eq!((report.foreign, &report.refused), (0, &None));
        }
    }
}

#[test]
fn an_operation_that_the_vendor_refuses_is_an_error_that_leaves_no_group_open_and_no_idle_lane() {
    // Connecting makes five or six AllGathers and one Send for each peer.
    for fault in ["ncclAllGather:12:3", "ncclSend:9:3", "ncclRecv:10:3", "ncclGroupEnd:11:3"] {
        let run = scenario("refused").env("AIRAMP_EMU_FAIL_CALL", fault);
        for report in reports(run, 3) {
            assert!(!report.group_left_open && !report.idle_while_pending, "{fault}: {report:?}");
            let name = fault.split(':').next().unwrap_or_default();
            assert!(report.refused.as_ref().is_some_and(|text| text.contains(name)), "{fault}: {report:?}");
        }
    }
}

#[test]
fn packets_of_another_call_never_look_like_a_result() {
    for reports in everywhere("foreign") {
        assert!(reports.iter().all(|report| report.foreign > 0 && report.numbers == 0), "{reports:?}");
    }
}

#[test]
fn out_of_memory_is_a_refusal_that_gives_everything_back() {
    let refusals = (1..200).map_while(|nth| {
        let run = scenario("acquire").env("AIRAMP_EMU_FAIL_ALLOC", nth.to_string());
        let outcomes = run.run_ranks(2);
        // The session and the loader fail by themselves, before there is anything to acquire.
        let report: Option<Report> = serde_json::from_str(&outcomes[0].stdout_text()).ok();
        report.is_none_or(|report| report.refused.is_some()).then_some((nth, outcomes))
    });
    let reports: Vec<Report> =
        refusals.filter_map(|(_, outcomes)| serde_json::from_str(&outcomes[0].stdout_text()).ok()).collect();
    assert!(!reports.is_empty(), "no allocation of the lane failed");
    for report in reports {
        assert_eq!((report.leaked_bytes, report.together.as_str()), (0, "acquired"), "{report:?}");
    }
}

/// Four operations on three types, and three operations by which the codec is timed.
const LAUNCHES: u64 = 15;

#[test]
fn a_launch_that_fails_before_the_lane_is_there_is_a_refusal() {
    let with_failure = |nth: u64| {
        let run = scenario("acquire").env("AIRAMP_EMU_FAIL_LAUNCH", nth.to_string());
        run.run_ranks(2).swap_remove(0)
    };
    let refused = |nth| {
        let report: Option<Report> = serde_json::from_str(&with_failure(nth).stdout_text()).ok();
        report.and_then(|report| report.refused)
    };
    let succeeds = |nth| with_failure(nth).stdout_text().contains("\"refused\":null");
    // The launches of the loader's own test come first; all behind the lane's succeed.
    let (mut fails, mut works) = (0, 4096);
    while works - fails > 1 {
        let nth = (fails + works) / 2;
        *(if succeeds(nth) { &mut works } else { &mut fails }) = nth;
    }
    for nth in works - LAUNCHES..works {
        assert!(refused(nth).is_some(), "launch {nth} of {works}");
    }
    assert_eq!(refused(works - LAUNCHES - 1), None, "that one is the loader's");
}
