//! Clients that are slow, many, loud or wrong: whatever they do, the next scrape is answered and memory stays
//! bounded. All on loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use airamp_tests::daemon::Daemon;
use airamp_tests::http::{self, Answer};
use airamp_tests::skip;

const MIB: u64 = 1 << 20;

/// What the daemon may hold at most while it is treated badly: 256 connections with their buffers, answers that
/// nobody takes, and itself.
const MOST_UNDER_ATTACK: u64 = 120 * MIB;

#[test]
fn ten_thousand_connections_leave_it_answering() {
    const MANY: u64 = 10_000;
    if !may_open(MANY + 200) {
        return skip("this process may not open ten thousand connections");
    }
    let daemon = Daemon::start();
    let mut connections: Vec<TcpStream> = Vec::new();
    for number in 0..MANY {
        let mut stream = http::connect(daemon.address).expect("it accepts");
        // Some are silent, some begin a question that they never finish.
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: local");
        }
        connections.push(stream);
        if number % 1000 == 999 {
            assert_eq!(daemon.get("/metrics").status, 200, "after {number} connections");
        }
    }
    daemon.until("it holds no more than its seats", |daemon| open_sockets(daemon.pid()) <= 256 + 8);
    let (now, most) = (daemon.memory("VmRSS") / MIB, daemon.memory("VmHWM") / MIB);
    println!("ten thousand connections: {now} MiB resident, {most} MiB at most");
    assert!(daemon.memory("VmHWM") < MOST_UNDER_ATTACK);
    drop(connections);
    assert_eq!(daemon.get("/metrics").status, 200);
    assert!(daemon.get("/metrics").text().contains("airampd_"));
}

#[test]
fn a_scraper_that_keeps_its_connection_keeps_it_while_others_flood() {
    let daemon = Daemon::start();
    let mut scraper = http::connect(daemon.address).expect("it accepts");
    assert_eq!(ask_on(&mut scraper, "/healthz").map(|answer| answer.status), Some(200));
    let flood: Vec<_> = (0..400).map(|_| http::connect(daemon.address).expect("it accepts")).collect();
    daemon.until("all have been seen", |daemon| closed_for_room(daemon) >= 140);
    assert_eq!(ask_on(&mut scraper, "/healthz").map(|answer| answer.status), Some(200));
    drop(flood);
}

#[test]
fn who_asks_for_much_and_reads_nothing_costs_little() {
    let daemon = Daemon::start();
    let question = "GET /api/v1/node HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let deaf: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = http::connect(daemon.address).expect("it accepts");
            stream.set_nonblocking(true).expect("it is a socket");
            let _ = stream.write(question.as_bytes());
            stream
        })
        .collect();
    assert_eq!(daemon.get("/metrics").status, 200);
    println!("three hundred deaf clients: {} MiB at most", daemon.memory("VmHWM") / MIB);
    assert!(daemon.memory("VmHWM") < MOST_UNDER_ATTACK);
    drop(deaf);
}

#[test]
fn oversized_questions_are_refused_with_the_reason() {
    let daemon = Daemon::start();
    let asked = |text: &str| http::ask(daemon.address, text.as_bytes()).map(|answer| answer.status);
    let long_path = format!("/{}", "a".repeat(8000));
    assert_eq!(asked(&http::question("GET", &long_path, "localhost", &[])), Some(414));
    let long_header = "a".repeat(64 * 1024);
    assert_eq!(asked(&http::question("GET", "/", "localhost", &[("X-Long", &long_header)])), Some(431));
    let many: Vec<_> = (0..100).map(|number| (format!("X-{number}"), "1")).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(asked(&http::question("GET", "/", "localhost", &many)), Some(431));
    let with_body = http::question("GET", "/", "localhost", &[("Content-Length", "10")]) + "0123456789";
    assert_eq!(asked(&with_body), Some(413));
    let posted = http::question("POST", "/metrics", "localhost", &[("Content-Length", "300000")])
        + &"x".repeat(300_000);
    assert_eq!(asked(&posted), Some(405));
    let endless =
        http::question("POST", "/", "localhost", &[("Transfer-Encoding", "chunked")]) + "ffffffff\r\n";
    assert_eq!(asked(&endless), Some(405));
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn a_client_who_is_still_speaking_is_not_cut_off_by_its_refusal() {
    let daemon = Daemon::start();
    let mut stream = http::connect(daemon.address).expect("it accepts");
    let head = http::question("POST", "/", "localhost", &[("Content-Length", "400000")]);
    stream.write_all(head.as_bytes()).expect("it reads");
    let refusal = http::read_to_end(&mut stream);
    assert_eq!(Answer::parsed(&refusal).map(|answer| answer.status), Some(405));
    // A connection that was closed at once would be reset by the first of these, and the next would fail.
    for piece in 0..10 {
        stream.write_all(&[b'x'; 1000]).unwrap_or_else(|error| panic!("cut off at piece {piece}: {error}"));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_no_question_ends_its_own_connection_and_nothing_else() {
    let daemon = Daemon::start();
    let mut noise = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..4096 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.push((state >> 33) as u8);
    }
    let hello_of_tls = [0x16, 3, 1, 0, 200, 1, 0, 0, 196];
    let wrong: [&[u8]; 10] = [
        b"",
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET \0 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &hello_of_tls,
        &noise,
    ];
    for bytes in wrong {
        let mut stream = http::connect(daemon.address).expect("it accepts");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = Answer::parsed(&http::read_to_end(&mut stream));
        let status = answer.map_or(400, |answer| answer.status);
        assert!((400..=505).contains(&status), "{status} for {bytes:?}");
    }
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn a_question_that_comes_byte_by_byte_is_answered_and_one_that_never_ends_is_closed() {
    let daemon = Daemon::start();
    let mut patient = http::connect(daemon.address).expect("it accepts");
    patient.set_nodelay(true).expect("it is a socket");
    for byte in http::question("GET", "/healthz", "localhost", &[]).bytes() {
        patient.write_all(&[byte]).expect("it still reads");
    }
    let answer = Answer::parsed(&http::read_to_end(&mut patient)).expect("an answer");
    assert_eq!(answer.status, 200);
    let mut endless = http::connect(daemon.address).expect("it accepts");
    let began = Instant::now();
    endless.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
    endless.set_read_timeout(Some(Duration::from_millis(200))).expect("it is a socket");
    // One header line now and then, as a client that wants to hold its place would send it.
    loop {
        assert!(began.elapsed() < Duration::from_secs(120), "it is never closed");
        let sent = endless.write_all(b"X: y\r\n");
        match endless.read(&mut [0; 64]) {
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            _ => break,
        }
        if sent.is_err() {
            break;
        }
    }
    assert_eq!(daemon.get("/healthz").status, 200);
}

/// On a connection that stays open.
fn ask_on(stream: &mut TcpStream, path: &str) -> Option<Answer> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let answer = Answer::parsed(&bytes)?;
        if answer.body.len() >= answer.header("content-length").parse().unwrap_or(0) {
            return Some(answer);
        }
    }
}

fn closed_for_room(daemon: &Daemon) -> u64 {
    let text = daemon.get("/metrics").text();
    let line =
        text.lines().find(|line| line.starts_with("airampd_connections_refused_total ")).unwrap_or_default();
    line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).map_or(0, |number| number as u64)
}

fn open_sockets(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let is_socket = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    entries.flatten().filter(|entry| is_socket(entry.path())).count()
}

fn may_open(descriptors: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit during both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(descriptors.max(limit.rlim_cur));
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= descriptors
    }
}
