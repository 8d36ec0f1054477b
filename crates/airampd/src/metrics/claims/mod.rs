//! What holds for every page of metrics.

mod grammar;
mod largest;
mod rows;

use airamp_observer::view::{Exemplar, Job, Node, ProcessState, Rank};

use super::{Daemon, Format, markdown, render};
use grammar::Page;

fn daemon() -> Daemon {
    Daemon {
        started_unix_ms: 1_789_030_800_250,
        looks: 3600,
        look_s: 7.5,
        requests: vec![(200, 720), (404, 1)],
        connections_open: 2,
        connections_refused: 1,
        evidence_written: 3,
        evidence_dropped: 1,
        reloads: 1,
        cpu_s: Some(1.25),
        resident_bytes: Some(9 << 20),
    }
}

#[track_caller]
fn pages(node: &Node) -> (Page, Page) {
    let page = |format| Page::checked(&render(node, &daemon(), format), format);
    (page(Format::OpenMetrics), page(Format::Text))
}

#[test]
fn both_forms_are_well_formed_and_hold_the_same_samples() {
    let (open, text) = pages(&Node::example());
    let without_created: Vec<_> =
        open.samples.iter().filter(|sample| !sample.name.ends_with("_created")).collect();
    let text: Vec<_> = text.samples.iter().collect();
    assert!(text.len() > 300, "{} samples", text.len());
    for (open, text) in without_created.iter().zip(&text) {
        assert_eq!((&open.name, &open.labels, &open.value), (&text.name, &text.labels, &text.value));
    }
    assert_eq!(without_created.len(), text.len());
}

#[test]
fn an_empty_node_shows_the_daemon_and_the_version() {
    let (open, text) = pages(&Node { version: "0.1.0".to_owned(), ..Node::default() });
    for page in [open, text] {
        assert_eq!(page.value("airamp_status", &[("process", "airampd")]), Some(1.0));
        assert_eq!(page.value("airamp_info", &[("version", "0.1.0")]), Some(1.0));
        assert_eq!(page.value("airampd_looks_total", &[]), Some(3600.0));
    }
}

#[test]
fn numbers_are_those_of_the_look() {
    let node = Node::example();
    let (open, _) = pages(&node);
    let job = &node.jobs[0];
    for rank in &job.ranks {
        let label = rank.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let of = [("workload", job.label.as_str()), ("rank", label.as_str())];
        for row in &rank.totals.calls {
            let labels =
                [of[0], of[1], ("kind", &*row.kind), ("path", &*row.path), ("datatype", &*row.datatype)];
            let named = |name: &str| open.value(name, &labels);
            assert_eq!(named("airamp_collective_calls_total"), Some(row.calls as f64));
            assert_eq!(named("airamp_collective_logical_bytes_total"), Some(row.logical_bytes as f64));
            assert_eq!(named("airamp_collective_wire_bytes_total"), Some(row.wire_bytes as f64));
        }
        let saved: u64 = rank.totals.calls.iter().map(|row| row.saved_bytes).sum();
        assert_eq!(open.value("airamp_saved_bytes_total", &of), Some(saved as f64));
        assert_eq!(open.value("airamp_rank_lag_seconds", &of), rank.lag_s);
        assert_eq!(open.value("airamp_rank_late", &of), Some(f64::from(u8::from(rank.late))));
    }
    let latency = &job.latency[0];
    let of = [("workload", job.label.as_str()), ("kind", &*latency.kind), ("path", &*latency.path)];
    let count: u64 = latency.counts.iter().sum();
    assert_eq!(open.value("airamp_collective_duration_seconds_count", &of), Some(count as f64));
    assert_eq!(open.value("airamp_collective_duration_seconds_sum", &of), Some(latency.sum_s));
}

#[test]
fn a_rank_that_nobody_misses_has_counters_and_no_process() {
    let mut node = Node::example();
    let job = &mut node.jobs[0];
    let (label, number) = (job.label.clone(), job.ranks[0].rank.expect("a number").to_string());
    let states = |node: &Node| {
        let (page, _) = pages(node);
        let of = [("workload", label.as_str()), ("rank", number.as_str())];
        let process = |state| page.value("airamp_rank_process", &[of[0], of[1], ("state", state)]);
        assert!(page.value("airamp_hook_calls_total", &of).is_some());
        let status = page.value("airamp_status", &[("process", "rank"), of[0], of[1]]);
        (process("gone"), process("left"), status)
    };
    node.jobs[0].ranks[0].process_state = ProcessState::Left;
    assert_eq!(states(&node), (None, None, None));
    node.jobs[0].ranks[0].process_state = ProcessState::Gone;
    assert_eq!(states(&node), (Some(1.0), None, Some(0.0)));
}

#[test]
fn a_slow_call_is_named_by_the_exemplar_of_its_bucket() {
    let mut node = Node::example();
    let latency = &mut node.jobs[0].latency[0];
    let bucket = latency.bounds_s.len() - 1;
    latency.counts[bucket] += 1;
    latency.exemplars = vec![Exemplar {
        bucket: bucket as u32,
        rank: Some(3),
        communicator: "00c0ffee00c0ffee".to_owned(),
        sequence: 41,
        seconds: latency.bounds_s[bucket] * 0.9,
        unix_ms: 1_789_034_399_125,
    }];
    let open = render(&node, &daemon(), Format::OpenMetrics);
    let expected = "# {rank=\"3\",communicator=\"00c0ffee00c0ffee\",sequence=\"41\"} ";
    let line = open.lines().find(|line| line.contains(expected)).expect("an exemplar");
    assert!(
        line.starts_with("airamp_collective_duration_seconds_bucket{") && line.ends_with(" 1789034399.125"),
        "{line}"
    );
    assert!(!render(&node, &daemon(), Format::Text).contains(" # {"));
    pages(&node);
}

#[test]
fn what_carries_the_same_labels_is_added_up_and_never_stands_there_twice() {
    let mut node = Node::example();
    let job = &mut node.jobs[0];
    let again = job.ranks[0].clone();
    let (calls, lag) = (again.totals.hook_calls, again.lag_s);
    job.ranks.push(Rank { lag_s: Some(999.0), ..again });
    let label = job.label.clone();
    let communicators = job.communicators.clone();
    job.communicators.extend(communicators);
    let (open, _) = pages(&node);
    let of = [("workload", label.as_str()), ("rank", "0")];
    assert_eq!(open.value("airamp_hook_calls_total", &of), Some(2.0 * calls as f64));
    assert_eq!(open.value("airamp_rank_lag_seconds", &of), lag);
}

#[test]
fn names_from_outside_cannot_break_the_page() {
    let evil = "a\"} 1\n# EOF\n\\\"{x=\"\u{0}\r\t\u{1f980}".to_owned();
    let mut node = Node::example();
    node.node = evil.clone();
    let job = &mut node.jobs[0];
    (job.label, job.pod, job.user, job.vendor) =
        (evil.clone(), evil.clone(), "x".repeat(100_000), evil.clone());
    job.ranks[0].command = evil.clone();
    job.communicators[0].name = evil.clone();
    job.latency[0].kind = evil.clone().into();
    let (open, text) = pages(&node);
    assert!(open.labels_of("airamp_job_info", "workload").contains(&evil));
    assert!(text.labels_of("airamp_job_info", "user").contains(&"x".repeat(128)));
}

#[test]
fn numbers_that_are_none_are_left_out() {
    let mut node = Node::example();
    let job: &mut Job = &mut node.jobs[0];
    job.communication_share = Some(f64::NAN);
    job.ranks[0].totals.hook_s = -1.0;
    job.ranks[1].totals.hook_s = f64::INFINITY;
    job.latency[0].counts.pop();
    let label = job.label.clone();
    let (open, _) = pages(&node);
    assert_eq!(open.value("airamp_job_communication_ratio", &[("workload", &label)]), None);
    for rank in ["0", "1"] {
        assert_eq!(open.value("airamp_hook_seconds_total", &[("workload", &label), ("rank", rank)]), None);
    }
}

#[test]
fn what_nobody_has_measured_has_no_sample() {
    let mut node = Node::example();
    let job: &mut Job = &mut node.jobs[0];
    let label = job.label.clone();
    (job.ranks[0].totals.codec_s, job.ranks[0].totals.codec_bytes) = (0.0, 0);
    for member in &mut job.communicators[0].ranks {
        member.pattern.state = if member.rank == Some(0) { "off".into() } else { "learning".into() };
    }
    let slot = job.communicators[0].slot.to_string();
    let (open, _) = pages(&node);
    let of = |rank| [("workload", label.as_str()), ("rank", rank)];
    for name in ["airamp_codec_seconds_total", "airamp_codec_bytes_total"] {
        assert_eq!(open.value(name, &of("0")), None, "{name}");
        assert!(open.value(name, &of("1")).is_some(), "{name}");
    }
    let confidence = |rank| {
        let [workload, rank] = of(rank);
        open.value("airamp_pattern_confidence_ratio", &[workload, rank, ("slot", &slot)])
    };
    assert_eq!((confidence("0"), confidence("1")), (None, Some(0.97)));
}

#[test]
fn a_rank_with_a_rhythm_has_every_kind_of_deviation_and_one_without_has_none() {
    let mut node = Node::example();
    let job: &mut Job = &mut node.jobs[0];
    let label = job.label.clone();
    (job.ranks[1].rhythm, job.ranks[1].totals.pace_changes) = (Default::default(), 0);
    job.ranks[1].rhythm.state = "off".into();
    let (open, _) = pages(&node);
    let of = |rank, kind| {
        let labels = [("workload", label.as_str()), ("rank", rank), ("kind", kind)];
        open.value("airamp_pattern_deviations_total", &labels)
    };
    assert_eq!((of("3", "late"), of("3", "extra"), of("0", "missing")), (Some(14.0), Some(0.0), Some(1.0)));
    assert_eq!((of("1", "late"), of("2", "resized")), (None, Some(0.0)));
    let rank = |name, rank| open.value(name, &[("workload", label.as_str()), ("rank", rank)]);
    assert_eq!((rank("airamp_step_seconds", "0"), rank("airamp_step_seconds", "1")), (Some(0.512), None));
    assert_eq!((rank("airamp_step", "3"), rank("airamp_pace_changes_total", "1")), (Some(1169.0), None));
    let ghosts = |ghosts| {
        let labels = [("workload", label.as_str()), ("rank", "0"), ("ghosts", ghosts)];
        open.value("airamp_ghost_first_kernel_seconds", &labels)
    };
    assert_eq!((ghosts("without"), ghosts("with")), (Some(0.000158), Some(0.000049)));
}

#[test]
fn the_page_about_metrics_is_the_rendered_table() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let rendered = markdown();
    if std::env::var_os("AIRAMP_BLESS").is_some() {
        std::fs::write(&page, &rendered).expect("the page can be written");
    }
    let held = std::fs::read_to_string(&page).expect("the page can be read");
    assert!(held == rendered, "docs/metrics.md is out of date: AIRAMP_BLESS=1 cargo test -p airampd");
}
