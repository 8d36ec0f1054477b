//! What `airampd` answers, where it listens, and what it says when it cannot.

use std::fs::OpenOptions;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use airamp_tests::daemon::{self, Daemon};
use airamp_tests::http::{self, Answer};
use airamp_tests::process::free_port;
use airamp_tests::{End, Outcome, airampd, skip, skip_outside_ci};

#[test]
fn every_address_answers_with_its_own_type_and_says_nothing_to_other_sites() {
    let daemon = Daemon::start();
    for (path, status, content_type) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", 200, "text/plain; charset=utf-8"),
        ("/readyz", 200, "text/plain; charset=utf-8"),
        ("/api/v1/node", 200, "application/json"),
        ("/api/v1/events?since=0", 200, "application/json"),
        ("/api/v1/evidence", 200, "application/json"),
        ("/api/v1/events?since=abc", 400, "application/json"),
        ("/api/v1/events?since=-1", 400, "application/json"),
        ("/api/v1/events?since=18446744073709551616", 400, "application/json"),
        ("/api/v1/timeline", 400, "application/json"),
        ("/api/v1/timeline?job=nobody&since=abc", 400, "application/json"),
        ("/api/v1/timeline?job=nobody", 404, "application/json"),
        ("/api/v1/evidence/evidence-1-x.jsonl", 404, "application/json"),
        ("/api/v1/evidence/..%2f..%2fetc%2fpasswd", 404, "application/json"),
        ("/api/v1/evidence/../../../etc/passwd", 404, "application/json"),
        ("/api/v2", 404, "application/json"),
        ("/nothing", 404, "text/plain; charset=utf-8"),
    ] {
        let answer = daemon.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (status, content_type), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        let length: usize = answer.header("content-length").parse().expect("a length");
        assert_eq!(length, answer.body.len(), "{path}");
    }
    let node = daemon.get("/api/v1/node").json();
    assert_eq!((&node["schema"], &node["processes"]), (&1.into(), &0.into()));
}

#[test]
fn a_scrape_gets_the_format_that_it_accepts() {
    let daemon = Daemon::start();
    let open =
        http::get(daemon.address, "/metrics", &[("Accept", "application/openmetrics-text; version=1.0.0")]);
    assert!(open.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.text().ends_with("# EOF\n") && open.text().contains("airamp_status"), "{}", open.text());
    let text = daemon.get("/metrics");
    assert!(!text.text().contains("# EOF") && text.text().contains("airamp_info{"), "{}", text.text());
    assert_eq!(text.header("vary"), "Accept");
}

#[test]
fn a_head_is_answered_without_a_body_and_other_methods_are_not() {
    let daemon = Daemon::start();
    let ask = |method: &str| ask_for(&daemon, method, "/metrics");
    let head = ask("HEAD");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_ne!(head.header("content-length"), "0");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let answer = ask(method);
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"), "{method}");
    }
}

#[test]
fn a_site_that_resolves_to_loopback_reads_nothing() {
    let daemon = Daemon::start();
    let as_host = |host: &str| {
        http::ask(daemon.address, http::question("GET", "/api/v1/node", host, &[]).as_bytes())
            .expect("an answer")
            .status
    };
    assert_eq!(as_host("attacker.example"), 421);
    assert_eq!(as_host("attacker.example:9090"), 421);
    assert_eq!(as_host("localhost:9090"), 200);
    assert_eq!(as_host("[::1]:9090"), 200);
}

#[test]
fn it_serves_on_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skip("this machine has no IPv6 loopback");
    }
    let daemon = Daemon::listening("[::1]:0", |_, run| run);
    assert!(daemon.address.is_ipv6());
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn by_default_nothing_listens_beyond_loopback() {
    let port = free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let run = daemon::run(folder.path()).env("AIRAMP_METRICS_PORT", port.to_string());
    let live = airamp_tests::live::Live::start(&run);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = std::time::Instant::now() + http::LIMIT;
    while http::connect(address).is_err() {
        assert!(std::time::Instant::now() < deadline, "it does not listen: {}", live.complaints());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let Ok(listing) = Command::new("ss").args(["-Htlnup"]).output() else {
        return skip_outside_ci("there is no ss");
    };
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let ours: Vec<&str> =
        text.lines().filter(|line| line.contains(&format!("pid={},", live.pid()))).collect();
    assert_eq!(ours.len(), 1, "{text}");
    assert!(ours[0].contains(&format!(" 127.0.0.1:{port} ")), "{}", ours[0]);
}

#[test]
fn a_network_address_is_served_with_a_warning() {
    let daemon = Daemon::listening("0.0.0.0:0", |_, run| run);
    let here = SocketAddr::from(([127, 0, 0, 1], daemon.address.port()));
    assert_eq!(http::get(here, "/metrics", &[]).status, 200);
    let named = http::question("GET", "/metrics", "node-17.cluster", &[]);
    assert_eq!(http::ask(here, named.as_bytes()).expect("an answer").status, 200);
    assert_eq!(
        daemon.complaints().matches("AIRAMP_METRICS_TOKEN_FILE").count(),
        1,
        "{}",
        daemon.complaints()
    );
}

#[test]
fn a_start_that_fails_says_what_to_do_and_has_its_own_exit_code() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let missing = "/nonexistent/file.pem";
    for (code, arguments, variables, advice) in [
        (2, vec!["--listen", "nowhere"], vec![], "--listen"),
        (2, vec!["--wrong"], vec![], "--wrong"),
        (3, vec![], vec![("AIRAMP_METRICS_TOKEN_FILE", missing)], "openssl rand"),
        (3, vec![], vec![("AIRAMP_METRICS_TLS_CERT", missing)], "AIRAMP_METRICS_TLS_KEY"),
        (3, vec![], vec![("AIRAMP_METRICS_ADDR", "localhost")], "IPv4 or IPv6 address"),
        (4, vec!["--listen", &address], vec![], "AIRAMP_METRICS_PORT"),
        (5, vec!["--listen", "192.0.2.1:0"], vec![], "ip address"),
        (7, vec![], vec![("AIRAMP_METRICS_TLS_CERT", missing), ("AIRAMP_METRICS_TLS_KEY", missing)], "PEM"),
    ] {
        let outcome = ended(&arguments, &variables);
        assert_eq!(outcome.end, End::Code(code), "{arguments:?} {variables:?}: {outcome}");
        assert!(outcome.stderr_text().contains(advice), "{arguments:?} {variables:?}: {outcome}");
        assert_eq!(outcome.stdout_text(), "", "{arguments:?} {variables:?}");
    }
}

#[test]
fn once_prints_the_metrics_and_ends() {
    let outcome = ended(&["--once"], &[]);
    outcome.assert_success();
    assert!(outcome.stdout_text().contains("airamp_status{process=\"airampd\""), "{outcome}");
}

#[test]
fn output_that_cannot_be_written_is_no_success_and_a_reader_that_has_gone_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("airamp.conf");
    std::fs::write(&settings, "").expect("a settings file");
    let ended = |option: &str, to: Stdio| {
        let mut command = Command::new(airampd());
        command.arg(option).env("AIRAMP_CONFIG", &settings).env("AIRAMP_TELEMETRY_DIR", folder.path());
        let output = command.stdout(to).stderr(Stdio::piped()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for option in ["--once", "--check-config"] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let (code, said) = ended(option, full.into());
        assert_eq!(code, Some(1), "{option}: {said}");
        assert!(said.contains("No space left on device"), "{option}: {said}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, said) = ended(option, writer.into());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{option}");
    }
}

#[test]
fn check_config_says_what_holds_and_fails_for_what_is_wrong() {
    let right =
        ended(&["--check-config"], &[("AIRAMP_METRICS_PORT", "9191"), ("AIRAMP_HANG_AFTER_MS", "2500")]);
    right.assert_success();
    assert!(
        right.stdout_text().contains("127.0.0.1:9191") && right.stdout_text().contains("2.5s"),
        "{right}"
    );
    let wrong = ended(&["--check-config"], &[("AIRAMP_METRICS_PORT", "http")]);
    assert_eq!(wrong.end, End::Code(3), "{wrong}");
    assert!(wrong.stderr_text().contains("AIRAMP_METRICS_PORT"), "{wrong}");
    let relative = ended(&["--check-config"], &[("AIRAMP_TELEMETRY_DIR", "telemetry")]);
    assert_eq!(relative.end, End::Code(3), "{relative}");
    assert!(relative.stderr_text().contains("an absolute path"), "{relative}");
}

#[test]
fn the_manual_names_every_option_and_every_exit_code() {
    let manual = include_str!("../../docs/airampd.md");
    let help = Command::new(airampd()).arg("--help").output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let options = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    for option in options.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())) {
        assert!(manual.contains(&format!("--{option}")), "--{option} is not in docs/airampd.md");
    }
    for code in 0..=7 {
        assert!(manual.contains(&format!("| {code} |")), "exit code {code} is not in docs/airampd.md");
    }
}

fn ask_for(daemon: &Daemon, method: &str, path: &str) -> Answer {
    let question = http::question(method, path, "localhost", &[]);
    http::ask(daemon.address, question.as_bytes()).unwrap_or_else(|| panic!("{method} {path} has no answer"))
}

fn ended(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let run = daemon::run(folder.path()).args(arguments);
    variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run()
}
