//! Debian's Prometheus as a test needs it: a process with a configuration and storage of its own on a free loopback
//! port, asked over its HTTP interface. Also promtool, and the smallest HTTP client and server that do for scraping.
//! Where the programs are not installed, `installed` says so and the test skips.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::Live;
use crate::process::{Run, free_port};
use crate::skip_outside_ci;

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Whether both programs are there; says so where they are not.
pub fn installed() -> bool {
    let there = ["prometheus", "promtool"].into_iter().all(|program| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    });
    if !there {
        skip_outside_ci("prometheus and promtool are not installed");
    }
    there
}

/// `promtool` with these arguments and this input; what it printed, if it found nothing wrong.
#[track_caller]
pub fn promtool(arguments: &[&str], folder: &Path, input: &str) -> String {
    let mut tool = Command::new("promtool");
    tool.args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("promtool starts");
    let mut pipe = tool.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    let writer = thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = tool.wait_with_output().expect("promtool ends");
    let _ = writer.join();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {}: {said}", arguments.join(" "));
    said
}

/// A running Prometheus. It is killed when it is dropped.
pub struct Prometheus {
    address: SocketAddr,
    _process: Live,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// With this configuration, next to which these files lie.
    #[track_caller]
    pub fn start(configuration: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files.iter().chain(&[("prometheus.yml", configuration)]) {
            std::fs::write(folder.path().join(name), text).expect("a file in a temporary folder");
        }
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let run = Run::new("prometheus")
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage")
            .arg("--log.level=warn");
        let started = Self { address, _process: Live::start(&run), _folder: folder };
        started.wait("it is ready", |_| {
            get(address, "/-/ready", "*/*").ok().filter(|answer| answer.status == 200).map(drop)
        });
        started
    }

    /// The series of an instant query.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(expression)));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// Names and labels of the alerts that fire.
    pub fn firing(&self) -> Vec<Value> {
        let alerts = self.ask("/api/v1/alerts")["data"]["alerts"].as_array().cloned().unwrap_or_default();
        alerts
            .into_iter()
            .filter(|alert| alert["state"] == "firing")
            .map(|alert| alert["labels"].clone())
            .collect()
    }

    pub fn targets(&self) -> Vec<Value> {
        self.ask("/api/v1/targets?state=active")["data"]["activeTargets"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    #[track_caller]
    pub fn ask(&self, path: &str) -> Value {
        let answer = get(self.address, path, "application/json").expect("Prometheus answers");
        serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {}", answer.body))
    }

    /// Waits until `found` finds something.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            thread::sleep(POLL);
        }
    }
}

pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub body: String,
}

/// One request, one answer, and the connection ends.
pub fn get(address: SocketAddr, path: &str, accept: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    };
    let content_type = head.lines().find_map(header).unwrap_or_default();
    Ok(Answer { status, content_type, body: body.to_owned() })
}

/// A server on a free loopback port that answers every request with what `page` makes: its content type and text.
/// It lives until the test's process ends.
pub fn serve(page: impl Fn() -> Option<(String, String)> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let (status, (kind, text)) = match page() {
                Some(answer) => ("200 OK", answer),
                None => ("503 Service Unavailable", Default::default()),
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
    address
}

fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}
