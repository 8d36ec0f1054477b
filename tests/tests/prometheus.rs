//! What Prometheus makes of airampd: both forms of the metrics are taken without a complaint, the rules fire when a
//! fault is planted in a real job and go quiet after it, and every query of the dashboard has an answer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use airamp_observer::view::Node;
use airamp_tests::live::{Live, LiveJob};
use airamp_tests::prometheus::{Prometheus, get, installed, promtool, serve};
use airamp_tests::{Run, airampd, package_dir};
use airampd::metrics::{Daemon, Format, Kind, TABLE, render};
use serde_json::Value;

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0";
const TEXT: &str = "text/plain;version=0.0.4";

/// What no job on a machine without GPU and RDMA has numbers of: the hardware, and what helps it. The example of a node answers for it.
const NOT_HERE: [&str; 3] = ["airamp_device_", "airamp_rdma_", "airamp_ghost_first_kernel_"];

/// Steps that take longer on the host than on the wire: where a rank is stopped, it is mostly on its way.
const STEPS: [&str; 4] = ["--compute-ms", "150", "--bytes", "65536"];

fn deploy(path: &str) -> PathBuf {
    package_dir().join("../deploy").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).expect("a file of deploy/")
}

/// A daemon for the telemetry below a folder, with less patience than it has by default. Killed when dropped.
struct Watching {
    address: SocketAddr,
    _process: Live,
}

impl Watching {
    #[track_caller]
    fn start(base: &Path) -> Self {
        let run = Run::new(airampd()).args(["--listen", "127.0.0.1:0", "--telemetry-dir"]).arg(base);
        let run = run.env("AIRAMP_HANG_AFTER_MS", "2000").env("AIRAMP_LATE_AFTER_MS", "1000");
        let mut process = Live::start(&run);
        let line = process.first_line();
        let address = line.parse().unwrap_or_else(|_| panic!("{line} is no address"));
        Self { address, _process: process }
    }
}

#[track_caller]
fn page(address: SocketAddr, accept: &str) -> (String, String) {
    let answer = get(address, "/metrics", accept).expect("airampd answers");
    assert_eq!(answer.status, 200, "{}", answer.body);
    (answer.content_type, answer.body)
}

/// The example of a node, as hardware shows it that this machine does not have.
fn example(format: Format) -> SocketAddr {
    let page = render(&Node::example(), &Daemon::default(), format);
    assert!(page.len() > 10_000, "the example is empty");
    serve(move || Some((format.content_type().to_owned(), page.clone())))
}

/// Scrapes each of these lists under its name, every second, and evaluates the rules as often.
fn configuration(scraped: &[(&str, &[SocketAddr])]) -> String {
    let mut text =
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n"
            .to_owned();
    for (name, addresses) in scraped {
        let targets: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        let targets = targets.join(", ");
        text.push_str(&format!("  - {{job_name: {name}, static_configs: [{{targets: [{targets}]}}]}}\n"));
    }
    text
}

/// The rules, with waits of a second where they have minutes.
fn hasty_rules() -> String {
    let rules = read("prometheus/airamp.rules.yml");
    let line = |line: &str| match line.trim_start().starts_with("for: ") {
        true => format!("{}for: 1s\n", &line[..line.len() - line.trim_start().len()]),
        false => format!("{}\n", line.replace("offset 1m", "offset 5s")),
    };
    rules.lines().map(line).collect()
}

/// Whether one that fires has these labels.
fn fires(alerts: &[Value], labels: &[(&str, &str)]) -> bool {
    alerts.iter().any(|alert| labels.iter().all(|(name, value)| alert[name] == **value))
}

#[test]
fn the_rules_and_their_tests_and_the_example_of_a_configuration_are_right() {
    if !installed() {
        return;
    }
    let folder = deploy("prometheus");
    promtool(&["check", "rules", "airamp.rules.yml"], &folder, "");
    promtool(&["check", "config", "prometheus.yml"], &folder, "");
    promtool(&["test", "rules", "airamp.rules.test.yml"], &folder, "");
}

/// The scrape job for Kubernetes that stands in comments, asking these targets with this token: Debian's Prometheus knows no
/// Kubernetes, whose answer is each target's port name and phase here.
fn example_for_kubernetes(pods: &[(&str, &str)], address: SocketAddr, token: &Path) -> String {
    let example = read("prometheus/prometheus.yml");
    let (_, commented) = example.split_once("  # - job_name").expect("a job in comments");
    let job = format!("  # - job_name{commented}").replace("  # ", "  ");
    let mut targets = "static_configs:\n".to_owned();
    for (port, phase) in pods {
        targets.push_str(&format!(
            "      - targets: ['{address}']\n        labels: {{pod: {phase}, __meta_kubernetes_pod_phase: {phase}, \
             __meta_kubernetes_pod_container_port_name: {port}}}\n"
        ));
    }
    let discovery = "kubernetes_sd_configs:\n      - role: pod\n";
    assert!(job.contains(discovery), "{job}");
    let job = job.replace(discovery, &targets);
    let head = "global: {scrape_interval: 5s}\nscrape_configs:\n";
    format!("{head}{}", job.replace("/etc/prometheus/airamp.token", &token.to_string_lossy()))
}

#[test]
fn of_pods_those_that_run_are_asked_with_the_token_and_none_that_has_ended_is_missed() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let token = base.path().join("token");
    std::fs::write(&token, "a-token-of-the-test-0123456789").expect("a file");
    let run = Run::new(airampd()).args(["--listen", "127.0.0.1:0", "--telemetry-dir"]).arg(base.path());
    let mut daemon = Live::start(&run.env("AIRAMP_METRICS_TOKEN_FILE", &token));
    let address = daemon.first_line().parse().expect("an address");
    let pods = ["Running", "Pending", "Succeeded", "Failed"].map(|phase| ("airampd", phase));
    let pods = [&pods[..], &[("http", "Running")]].concat();
    let prometheus = Prometheus::start(&example_for_kubernetes(&pods, address, &token), &[]);
    let targets = prometheus.wait("a daemon has answered", |prometheus| {
        Some(prometheus.targets()).filter(|targets| targets.iter().any(|one| one["health"] == "up"))
    });
    let seen: Vec<_> = targets.iter().map(|one| (&one["labels"]["pod"], &one["health"])).collect();
    assert_eq!(seen, [(&Value::from("Running"), &Value::from("up"))], "{targets:#?}");
    assert_eq!(targets[0]["labels"]["job"], "airampd", "by which the alerts know the daemons");
}

/// A query for a metric that does not exist is an empty panel and no error.
#[test]
fn rules_and_dashboard_use_only_metrics_that_exist() {
    let mut known: Vec<String> = vec!["up".to_owned()];
    for family in TABLE.iter().flat_map(|section| section.families) {
        let endings: &[&str] = match family.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            kind => &[kind.ending()],
        };
        known.extend(endings.iter().map(|ending| format!("{}{ending}", family.name)));
    }
    for path in ["prometheus/airamp.rules.yml", "prometheus/airamp.rules.test.yml", "grafana/airamp.json"] {
        let text = read(path);
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let metrics = words.filter(|word| word.starts_with("airamp_") || word.starts_with("airampd_"));
        for metric in metrics {
            assert!(known.iter().any(|name| name == metric), "{path}: there is no {metric}");
        }
    }
}

#[test]
fn prometheus_takes_both_forms_of_a_real_jobs_metrics_without_a_complaint() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let mut job = LiveJob::start(base.path(), "both", 2, &STEPS);
    job.await_first_step();
    let daemon = Watching::start(base.path());
    let (kind, text) = page(daemon.address, "");
    assert_eq!(kind, Format::Text.content_type());
    let said = promtool(&["check", "metrics"], base.path(), &text);
    assert_eq!(said, "", "promtool has a remark");

    // Prometheus of this version always asks for OpenMetrics first: for the other form somebody asks in its place.
    let address = daemon.address;
    let as_text =
        serve(move || get(address, "/metrics", TEXT).ok().map(|answer| (answer.content_type, answer.body)));
    let examples = [example(Format::OpenMetrics), example(Format::Text)];
    let scraped: [(&str, &[SocketAddr]); 3] =
        [("airampd", &[address]), ("as_text", &[as_text]), ("examples", &examples)];
    let prometheus = Prometheus::start(&configuration(&scraped), &[("rules.yml", "groups: []")]);
    // One look may take longer than Prometheus waits, on a busy machine; what it cannot read stays down.
    let mut complaints = Vec::new();
    prometheus.wait("all targets are up", |prometheus| {
        let targets = prometheus.targets();
        let is_up = |target: &Value| target["health"] == "up" && target["lastError"] == "";
        let down: Vec<_> = targets.iter().filter(|target| !is_up(target)).cloned().collect();
        if down != complaints {
            println!("{down:#?}");
            complaints = down;
        }
        (targets.len() == 4 && complaints.is_empty()).then_some(())
    });
    let (kind, open) = page(address, OPEN_METRICS);
    assert_eq!(kind, Format::OpenMetrics.content_type());
    assert!(open.ends_with("# EOF\n"));
    for form in ["airampd", "as_text"] {
        let calls = format!(
            "airamp_collective_calls_total{{job=\"{form}\",workload=\"both\",kind=\"all_reduce\"}} > 0"
        );
        prometheus.wait("both ranks' calls are there", |prometheus| {
            (prometheus.query(&calls).len() == 2).then_some(())
        });
        let kinds = prometheus.ask("/api/v1/metadata?metric=airamp_collective_wire_bytes_total");
        let older = &kinds["data"]["airamp_collective_wire_bytes_total"][0]["type"];
        assert_eq!(older, "counter", "{kinds}");
    }
    let unit = prometheus.ask("/api/v1/metadata?metric=airamp_collective_wire_bytes");
    assert_eq!(unit["data"]["airamp_collective_wire_bytes"][0]["unit"], "bytes", "{unit}");
}

#[test]
fn a_stopped_rank_fires_the_alerts_on_its_node_and_across_nodes_and_they_go_quiet_when_it_goes_on() {
    if !installed() {
        return;
    }
    // Two nodes: each daemon sees the ranks that write below its own folder.
    let nodes = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let folder = |rank: u32| nodes[usize::from(rank > 1)].path();
    let mut job = LiveJob::start_with(nodes[0].path(), "stopped", 4, &STEPS, |rank, run| {
        run.env("AIRAMP_TELEMETRY_DIR", folder(rank))
    });
    job.await_first_step();
    let [first, second] = nodes.each_ref().map(|node| Watching::start(node.path()));
    let addresses = [first.address, second.address];
    let rules = hasty_rules();
    let prometheus = Prometheus::start(&configuration(&[("airampd", &addresses)]), &[("rules.yml", &rules)]);
    prometheus.wait("all ranks are seen to move", |prometheus| {
        let moving = "changes(airamp_communicator_sequence_issued{workload=\"stopped\"}[5s]) > 2";
        (prometheus.query(moving).len() == 4).then_some(())
    });
    let critical = |alerts: &[Value]| fires(alerts, &[("severity", "critical")]);
    assert!(!critical(&prometheus.firing()), "too early: {:?}", prometheus.firing());

    stop_on_its_way(&job, &prometheus, 3);
    let second_node = addresses[1].to_string();
    let expected: [&[(&str, &str)]; 5] = [
        &[("alertname", "AirampCommunicatorHung"), ("workload", "stopped")],
        &[("alertname", "AirampRankMissing"), ("rank", "3"), ("instance", &second_node)],
        &[("alertname", "AirampRankBehindOnAnotherNode"), ("rank", "3"), ("instance", &second_node)],
        &[("alertname", "AirampProcessStopped"), ("rank", "3"), ("state", "stopped")],
        &[("alertname", "AirampRankLate"), ("rank", "3")],
    ];
    for labels in expected {
        prometheus.wait(&format!("{labels:?} fires"), |prometheus| {
            fires(&prometheus.firing(), labels).then_some(())
        });
    }
    let firing = prometheus.firing();
    for rank in ["0", "1", "2"] {
        assert!(
            !fires(&firing, &[("severity", "critical"), ("rank", rank)]),
            "rank {rank} is blamed: {firing:?}"
        );
    }

    job.signal(3, libc::SIGCONT);
    prometheus.wait("nothing critical fires", |prometheus| (!critical(&prometheus.firing())).then_some(()));

    drop(second);
    let down: [(&str, &str); 2] = [("alertname", "AirampDaemonDown"), ("instance", &second_node)];
    prometheus.wait("the daemon that is gone is reported", |prometheus| {
        fires(&prometheus.firing(), &down).then_some(())
    });
}

/// Stops the rank where it has not come to a collective that the others wait in. One that is stopped inside has
/// issued as much as they have: then it goes on for a while and is stopped again.
fn stop_on_its_way(job: &LiveJob, prometheus: &Prometheus, rank: usize) {
    let behind = format!(
        "max(airamp_communicator_sequence_issued) > max(airamp_communicator_sequence_issued{{rank=\"{rank}\"}})"
    );
    let still = format!("changes(airamp_communicator_sequence_issued{{rank!=\"{rank}\"}}[4s]) == 0");
    for _ in 0..20 {
        job.signal(rank, libc::SIGSTOP);
        prometheus.wait("the others wait", |prometheus| (prometheus.query(&still).len() == 3).then_some(()));
        if !prometheus.query(&behind).is_empty() {
            return;
        }
        job.signal(rank, libc::SIGCONT);
        prometheus.wait("all go on", |prometheus| prometheus.query(&still).is_empty().then_some(()));
    }
    panic!("it was never stopped between two collectives");
}

#[test]
fn every_query_of_the_dashboard_has_an_answer() {
    if !installed() {
        return;
    }
    let base = tempfile::tempdir().expect("a temporary folder");
    let tuned = ["--bytes", "4194304", "--compute-ms", "5"];
    let mut job = LiveJob::start_with(base.path(), "shown", 2, &tuned, |_, run| {
        run.env("AIRAMP_MODE", "on").env("AIRAMP_EMU_LINK_GBPS", "1").env("AIRAMP_MIN_BYTES", "4096")
    });
    job.await_first_step();
    let daemon = Watching::start(base.path());
    let example = example(Format::OpenMetrics);
    let scraped = [daemon.address, example];
    let rules = read("prometheus/airamp.rules.yml");
    let prometheus = Prometheus::start(&configuration(&[("airampd", &scraped)]), &[("rules.yml", &rules)]);
    let dashboard: Value = serde_json::from_str(&read("grafana/airamp.json")).expect("JSON");
    let queries = queries(&dashboard);
    assert!(queries.len() > 50, "{} queries", queries.len());
    for (title, query) in queries {
        let not_here = NOT_HERE.iter().any(|name| query.contains(name));
        let target = if not_here { example } else { daemon.address };
        let query = query
            .replace("$__rate_interval", "10s")
            .replace("$workload", ".*")
            .replace("$instance", &target.to_string().replace('.', "\\\\."));
        prometheus.wait(&format!("{title} has data: {query}"), |prometheus| {
            (!prometheus.query(&query).is_empty()).then_some(())
        });
    }
}

/// Titles and expressions of all panels and of the variables.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            queries.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
        let definition = text(&variable["definition"]);
        if let Some((metric, label)) =
            definition.strip_prefix("label_values(").and_then(|rest| rest.split_once(", "))
        {
            queries.push((text(&variable["name"]), format!("count by ({label} ({metric})")));
        }
    }
    queries
}
