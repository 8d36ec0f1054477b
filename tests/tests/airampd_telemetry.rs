//! What `airampd` makes of telemetry, up to the file of evidence; and what a scrape of a large node takes. The
//! telemetry is written here, by the library's own writer: no job is needed.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use airamp_telemetry::EventKind;
use airamp_tests::daemon::Daemon;
use airamp_tests::made_up_rank::MadeUpRank;

#[test]
fn an_anomaly_leaves_one_file_with_the_calls_before_and_after_it() {
    let daemon = Daemon::start_with(|folder, run| run.arg("--evidence-dir").arg(folder.join("evidence")));
    let process = MadeUpRank::new(daemon.folder(), "spiky", 0, 1);
    spike(&daemon, &process);
    daemon.until("there is evidence", |daemon| !files(daemon).is_empty());
    let name = files(&daemon).remove(0);
    let answer = daemon.get(&format!("/api/v1/evidence/{name}"));
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/jsonl"));
    let lines: Vec<serde_json::Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    assert_eq!((&lines[0]["record"], &lines[0]["kind"]), (&"finding".into(), &"latency_spike".into()));
    assert_eq!((&lines[0]["job"], &lines[1]["rank"]), (&"spiky".into(), &0.into()));
    let calls = |when: &str| lines.iter().filter(|line| line["when"] == when).count();
    assert!(
        calls("before") >= 40 && calls("after") > 0,
        "{} before, {} after",
        calls("before"),
        calls("after")
    );
    let slow = |line: &serde_json::Value| line["device_us"].as_f64().is_some_and(|us| us > 800_000.0);
    assert!(lines.iter().any(slow), "the slow call itself is there");
    let mode = std::fs::metadata(daemon.folder().join("evidence").join(&name))
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(sample(&daemon, "airampd_evidence_written_total"), 1.0);
    assert!(daemon.complaints().contains(&name), "{}", daemon.complaints());
}

#[test]
fn a_disk_that_is_gone_costs_a_line_and_a_count_and_nothing_else() {
    let daemon = Daemon::start_with(|folder, run| run.arg("--evidence-dir").arg(folder.join("evidence")));
    std::fs::remove_dir_all(daemon.folder().join("evidence")).expect("it is there");
    let process = MadeUpRank::new(daemon.folder(), "spiky", 0, 1);
    spike(&daemon, &process);
    daemon.until("the loss is counted", |daemon| sample(daemon, "airampd_evidence_dropped_total") >= 1.0);
    // It counts before it speaks.
    let told = |daemon: &Daemon| daemon.complaints().matches("evidence cannot be written").count();
    daemon.until("the line is written", |daemon| told(daemon) >= 1);
    assert_eq!(told(&daemon), 1, "{}", daemon.complaints());
    assert_eq!(daemon.get("/readyz").status, 200);
    assert_eq!(daemon.get("/api/v1/evidence").status, 503);
}

#[test]
fn a_job_has_a_timeline_that_grows_and_can_be_asked_for_from_a_time_on() {
    let daemon = Daemon::start();
    let process = MadeUpRank::new(daemon.folder(), "a job/with+odd name", 3, 1);
    let timeline =
        |since: u64| daemon.get(&format!("/api/v1/timeline?job=a%20job%2Fwith%2Bodd+name&since={since}"));
    let length = |since| timeline(since).json()["times_unix_ms"].as_array().map_or(0, Vec::len);
    daemon.until("there are three looks", |_| {
        process.work(10);
        length(0) >= 3
    });
    let answer = timeline(0).json();
    for series in
        ["logical_bytes_per_s", "wire_bytes_per_s", "saved_bytes_per_s", "mean_latency_s", "calls_per_s"]
    {
        assert_eq!(
            answer[series].as_array().map(Vec::len),
            answer["times_unix_ms"].as_array().map(Vec::len),
            "{series}"
        );
    }
    let rates: Vec<f64> = serde_json::from_value(answer["calls_per_s"].clone()).expect("numbers");
    assert!(rates.iter().any(|rate| *rate > 0.0), "{rates:?}");
    let second = answer["times_unix_ms"][1].as_u64().expect("a time");
    assert!(length(second) < length(0) && length(u64::MAX) == 0);
}

#[test]
fn who_follows_the_events_misses_none_after_a_reload_with_another_threshold() {
    let daemon = Daemon::start();
    let since = |last: &serde_json::Value| daemon.get(&format!("/api/v1/events?since={last}")).json();
    let tells = |answer: &serde_json::Value, text: &str| answer.to_string().matches(text).count();
    let first = MadeUpRank::new(daemon.folder(), "first", 0, 1);
    (0..9).for_each(|_| first.writer.event(EventKind::Warning, None, 0, 0, "heard before"));
    daemon.until("they are told", |_| tells(&since(&0.into()), "heard before") == 9);
    let last = since(&0.into())["last"].clone();
    // What is gone is not there to be told, and numbered, again.
    for folder in std::fs::read_dir(daemon.folder()).expect("the folder").flatten() {
        if folder.path().is_dir() {
            std::fs::remove_dir_all(folder.path()).expect("it is ours");
        }
    }
    std::fs::write(daemon.folder().join("airamp.conf"), "late_after_ms = 1234\n").expect("the settings");
    daemon.reload();
    let second = MadeUpRank::new(daemon.folder(), "second", 0, 1);
    second.writer.event(EventKind::Warning, None, 0, 0, "heard after");
    daemon
        .until("it is told in the node", |daemon| daemon.get("/api/v1/node").text().contains("heard after"));
    let news = since(&last);
    assert_eq!((tells(&news, "heard before"), tells(&news, "heard after")), (0, 1), "{news}");
}

#[test]
fn a_node_of_64_ranks_with_32_communicators_is_scraped_whole() {
    let daemon = Daemon::start();
    let node: Vec<MadeUpRank> =
        (0..64).map(|rank| MadeUpRank::new(daemon.folder(), "large", rank, 32)).collect();
    let processes = |daemon: &Daemon| daemon.get("/api/v1/node").json()["processes"].as_u64();
    daemon.until("all are seen", |daemon| processes(daemon) == Some(64));
    let mut times = Vec::new();
    for _ in 0..10 {
        node.iter().for_each(|process| process.work(100));
        // Not by the metrics: they would be made then, and the scrape below would find them ready.
        let last = last_look(&daemon);
        daemon.until("it has looked again", |daemon| last_look(daemon) > last);
        let began = Instant::now();
        let answer = daemon.get("/metrics");
        times.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(answer.text().matches("airamp_communicator_sequence_issued{").count() >= 64 * 32);
    }
    times.sort_unstable_by(f64::total_cmp);
    let look = sample(&daemon, "airampd_look_seconds_total") / sample(&daemon, "airampd_looks_total") * 1e3;
    let (kib, page) = (daemon.memory("VmRSS") / 1024, daemon.get("/metrics").body.len() / 1024);
    println!(
        "64 ranks, 32 communicators: {page} KiB scraped in {:.1} ms, at most {:.1} ms",
        times[5], times[9]
    );
    println!("a look takes {look:.1} ms on average; {kib} KiB resident");
}

/// Forty calls of a millisecond, one of nearly a second, and more after it until the window is complete.
fn spike(daemon: &Daemon, process: &MadeUpRank) {
    (0..40).for_each(|_| process.call(0, 1_000_000));
    daemon.until("the job is seen", |daemon| daemon.get("/api/v1/node").json()["processes"] == 1);
    let looks = sample(daemon, "airampd_looks_total");
    daemon.until("it has looked again", |daemon| ready_after(daemon, looks));
    process.call(0, 900_000_000);
    daemon.until("the spike is found", |daemon| {
        daemon.get("/api/v1/events").text().contains("latency_spike")
            || daemon.get("/api/v1/node").text().contains("latency_spike")
    });
    (0..300).for_each(|_| process.call(0, 1_000_000));
}

fn last_look(daemon: &Daemon) -> u64 {
    let timeline = daemon.get("/api/v1/timeline?job=large").json();
    timeline["times_unix_ms"].as_array().and_then(|times| times.last()?.as_u64()).unwrap_or(0)
}

fn ready_after(daemon: &Daemon, looks: f64) -> bool {
    sample(daemon, "airampd_looks_total") > looks
}

fn files(daemon: &Daemon) -> Vec<String> {
    let listing = daemon.get("/api/v1/evidence").json();
    let files = listing["files"].as_array().cloned().unwrap_or_default();
    files.iter().filter_map(|file| file["name"].as_str().map(str::to_owned)).collect()
}

fn sample(daemon: &Daemon, name: &str) -> f64 {
    let text = daemon.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}
