//! `airampd` as a service: it starts, reloads and ends as systemd and containers expect, and costs next to
//! nothing while nobody asks.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use airamp_tests::daemon::Daemon;
use airamp_tests::http;
use airamp_tests::live::Live;
use airamp_tests::process::free_port;
use airamp_tests::{End, Run, airampd, skip_outside_ci};

const MIB: u64 = 1 << 20;

#[test]
fn it_ends_with_zero_when_asked_to_and_says_nothing() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let daemon = Daemon::start();
        // Somebody is connected and silent; that must not hold it up.
        let mut idle = http::connect(daemon.address).expect("it accepts");
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").expect("it reads");
        assert_eq!(daemon.get("/healthz").status, 200);
        daemon.signal(signal);
        let outcome = daemon.finish();
        assert_eq!((outcome.end, outcome.stderr_text()), (End::Code(0), String::new()), "signal {signal}");
    }
}

#[test]
fn it_listens_again_at_once_where_it_has_just_ended() {
    let address = format!("127.0.0.1:{}", free_port());
    let first = Daemon::listening(&address, |_, run| run);
    assert_eq!(first.get("/metrics").status, 200);
    first.signal(libc::SIGTERM);
    first.finish().assert_success();
    let second = Daemon::listening(&address, |_, run| run);
    assert_eq!(second.get("/metrics").status, 200);
}

#[test]
fn a_reload_in_the_middle_of_scrapes_loses_none() {
    let daemon = Daemon::start();
    std::thread::scope(|scope| {
        let scrapes = scope.spawn(|| (0..200).filter(|_| daemon.get("/metrics").status == 200).count());
        for _ in 0..10 {
            daemon.reload();
        }
        assert_eq!(scrapes.join().expect("the scrapes end"), 200);
    });
    let text = daemon.get("/metrics").text();
    assert!(text.contains("airampd_reloads_total 1"), "{text}");
}

#[test]
fn systemd_is_told_of_start_reload_life_and_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a socket");
    let run = |_: &Path, run: Run| run.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let daemon = Daemon::listening("127.0.0.1:0", run);
    let next = |word: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut buffer = [0; 1024];
            let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {word}: {error}"));
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.lines().any(|line| line == word) {
                return message;
            }
            assert!(Instant::now() < deadline, "no {word}");
        }
    };
    next("READY=1");
    next("WATCHDOG=1");
    daemon.signal(libc::SIGHUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    daemon.signal(libc::SIGTERM);
    next("STOPPING=1");
    daemon.finish().assert_success();
}

#[test]
fn as_the_first_process_of_a_container_it_ends_when_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip_outside_ci("a pid namespace cannot be made here: that needs root");
    }
    let run = Run::new("unshare").args(["--pid", "--fork", "--kill-child"]).arg(airampd());
    let run = run.args(["--listen", "127.0.0.1:0", "--telemetry-dir"]).arg(folder.path());
    let mut live = Live::start(&run);
    let address = live.first_line().parse().expect("an address");
    assert_eq!(http::get(address, "/readyz", &[]).status, 200);
    let children = format!("/proc/{0}/task/{0}/children", live.pid());
    let child: i32 = std::fs::read_to_string(&children).expect("it runs").trim().parse().expect("one child");
    // SAFETY: kill has no memory effects; the child is the daemon, whose parent is ours.
    assert_eq!(unsafe { libc::kill(child, libc::SIGTERM) }, 0);
    assert_eq!(live.finish().end, End::Code(0));
}

#[test]
fn an_idle_daemon_takes_less_than_twenty_megabytes() {
    let daemon = Daemon::start();
    assert_eq!(daemon.get("/metrics").status, 200);
    assert_eq!(daemon.get("/api/v1/node").status, 200);
    let (began, cpu) = (Instant::now(), daemon.cpu());
    let looks = |daemon: &Daemon| sample(daemon, "airampd_looks_total");
    let first = looks(&daemon);
    daemon.until("it has looked ten times more", |daemon| {
        std::thread::sleep(Duration::from_secs(1));
        looks(daemon) >= first + 10.0
    });
    let share = (daemon.cpu() - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("idle: {} KiB resident, {:.4}% of a processor", daemon.memory("VmRSS") / 1024, share * 100.0);
    assert!(daemon.memory("VmRSS") < 20 * MIB);
}

#[test]
fn the_unit_file_is_one_that_systemd_takes() {
    let unit = airamp_tests::package_dir().join("../deploy/systemd/airampd.service");
    let text = std::fs::read_to_string(&unit).expect("the unit file");
    for line in ["Type=notify", "ExecReload=", "CapabilityBoundingSet=CAP_DAC_READ_SEARCH", "WatchdogSec="] {
        assert!(text.contains(line), "{line} is missing");
    }
    let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output()
    else {
        return skip_outside_ci("there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    let about_us: Vec<&str> =
        said.lines().filter(|line| line.contains("airampd") && !line.contains("is not executable")).collect();
    assert!(about_us.is_empty(), "{said}");
}

fn sample(daemon: &Daemon, name: &str) -> f64 {
    let text = daemon.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}
