//! Whether airampd answers where the settings say that it listens. One short request, bounded in time.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use airamp_settings::Settings;

use super::report::Check;

const NAME: &str = "airampd";
const LIMIT: Duration = Duration::from_secs(2);
const LONGEST_ANSWER: usize = 4 << 10;
const RESTART: &str = "restart it (`systemctl restart airampd`)";
const ANOTHER_PORT: &str = "give airampd a port of its own with AIRAMP_METRICS_PORT, for it and here";

/// What airampd says when its looks are stuck; a test of the daemon's keeps it to that.
const STUCK: &str = "no look was over in the last ";

/// What is found at the address.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nobody,
    Daemon,
    /// Our daemon, whose looks are stuck, with what it says.
    Stuck(String),
    /// Something that takes a connection and says nothing.
    Silent,
    /// Something that answers otherwise, with its first line.
    Other(String),
}

pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let address = SocketAddr::new(settings.metrics_addr, settings.metrics_port);
    let is_encrypted = settings.metrics_tls_cert.is_some();
    let found = ask(reachable(address), is_encrypted);
    vec![port(address, &found), daemon(address, &found, is_encrypted)]
}

fn port(address: SocketAddr, found: &Found) -> Check {
    const PORT: &str = "metrics port";
    if matches!(found, Found::Daemon | Found::Stuck(_)) {
        return Check::ok(PORT, format!("{address} is airampd's"));
    }
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(PORT, format!("{address} is free")),
        Err(error) => {
            let advice = match found {
                Found::Silent => "see what is said of airampd",
                _ => {
                    "set AIRAMP_METRICS_PORT to a free port of this machine (Prometheus and Cockpit like to be at 9090)"
                }
            };
            Check::warning(PORT, format!("{address} cannot be used: {error}"), advice)
        }
    }
}

fn daemon(address: SocketAddr, found: &Found, is_encrypted: bool) -> Check {
    match found {
        Found::Daemon if is_encrypted => {
            Check::ok(NAME, format!("something listens at {address} (TLS, not looked into)"))
        }
        Found::Daemon => Check::ok(NAME, format!("answers at http://{address}/")),
        Found::Nobody => {
            let advice = "start it (`systemctl start airampd`, or `airampd`) if metrics, the page and evidence are wanted; \
                          `airamp status` works without it";
            Check::warning(NAME, format!("nothing answers at {address}"), advice)
        }
        Found::Stuck(said) => Check::warning(NAME, format!("airampd at {address} is stuck: {said}"), RESTART),
        Found::Silent => {
            let found =
                format!("something listens at {address} and does not answer within {} s", LIMIT.as_secs());
            let advice =
                format!("if it is airampd, it is stuck: {RESTART}; if another program: {ANOTHER_PORT}");
            Check::warning(NAME, found, advice)
        }
        Found::Other(line) => {
            Check::warning(NAME, format!("{address} is somebody else's ({line})"), ANOTHER_PORT)
        }
    }
}

/// A daemon that listens everywhere is reached on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ask(address: SocketAddr, is_encrypted: bool) -> Found {
    let Ok(stream) = TcpStream::connect_timeout(&address, LIMIT) else { return Found::Nobody };
    if is_encrypted {
        return Found::Daemon;
    }
    health(&stream, address).map_or(Found::Silent, |answer| understood(&answer))
}

fn understood(answer: &str) -> Found {
    let first = answer.lines().next().unwrap_or_default();
    let stuck = answer.lines().find(|line| line.starts_with(STUCK));
    match (first.split_whitespace().nth(1), stuck) {
        (Some("200"), _) => Found::Daemon,
        (Some("503"), Some(said)) => Found::Stuck(said.chars().take(60).collect()),
        _ if first.is_empty() => Found::Other("it ends the connection without an answer".to_owned()),
        _ => Found::Other(first.chars().take(60).collect()),
    }
}

/// What came in time of an answer, of which the first lines are enough; `None`: silence.
fn health(mut stream: &TcpStream, address: SocketAddr) -> Option<String> {
    let until = Instant::now() + LIMIT;
    let question = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    // Who takes no question may have said something all the same.
    let _ = stream.set_write_timeout(Some(LIMIT)).and_then(|()| stream.write_all(question.as_bytes()));
    let mut answer = Vec::new();
    let is_over = read(stream, until, &mut answer);
    (is_over || !answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
}

/// Whether that is all that there is, or all that is wanted.
fn read(mut stream: &TcpStream, until: Instant, answer: &mut Vec<u8>) -> bool {
    let mut part = [0; 512];
    while answer.len() < LONGEST_ANSWER {
        // A limit of zero would be none.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match stream.read(&mut part).map_err(|error| error.kind()) {
            Ok(0) => return true,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => return false,
            Err(ErrorKind::Interrupted) => {}
            Err(_) => return true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::report::{Status, as_lines};
    use super::*;

    fn said(found: &Found) -> String {
        as_lines(&[daemon(([127, 0, 0, 1], 9).into(), found, false)])
    }

    /// Answers one request with this.
    fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 512];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        });
        address
    }

    #[test]
    fn what_answers_as_the_daemon_does_is_the_daemon_and_others_are_not() {
        assert_eq!(ask(server("HTTP/1.1 200 OK\r\n\r\nok\n"), false), Found::Daemon);
        let other = ask(server("HTTP/1.1 404 Not Found\r\n\r\n"), false);
        assert_eq!(other, Found::Other("HTTP/1.1 404 Not Found".to_owned()));
        assert_eq!(daemon(([127, 0, 0, 1], 9).into(), &other, false).status, Status::Warning);
    }

    #[test]
    fn a_daemon_that_is_stuck_is_no_strangers_program() {
        let body = "HTTP/1.1 503 Service Unavailable\r\n\r\nno look was over in the last 75 s\n";
        let stuck = ask(server(body), false);
        assert_eq!(stuck, Found::Stuck("no look was over in the last 75 s".to_owned()));
        let line = said(&stuck);
        assert!(line.contains("is stuck: no look was over") && line.contains("restart it"), "{line}");
        let elses = ask(server("HTTP/1.1 503 Service Unavailable\r\n\r\nno backend\n"), false);
        assert_eq!(elses, Found::Other("HTTP/1.1 503 Service Unavailable".to_owned()));
    }

    #[test]
    fn who_takes_a_connection_and_says_nothing_may_be_a_daemon_that_is_stopped() {
        // The kernel takes the connection for it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        assert_eq!(ask(address, false), Found::Silent);
        let line = said(&Found::Silent);
        for part in ["does not answer within 2 s", "restart it", "AIRAMP_METRICS_PORT"] {
            assert!(line.contains(part), "{line}");
        }
        assert_eq!(
            ask(server(""), false),
            Found::Other("it ends the connection without an answer".to_owned())
        );
    }

    #[test]
    fn where_nobody_listens_there_is_advice() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        assert_eq!(ask(address, false), Found::Nobody);
        let check = daemon(address, &Found::Nobody, false);
        assert_eq!(check.status, Status::Warning);
        assert!(check.advice.is_some_and(|advice| advice.contains("airamp status")));
    }

    #[test]
    fn a_port_in_use_is_a_warning_unless_the_daemon_has_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        assert_eq!(port(address, &Found::Other(String::new())).status, Status::Warning);
        assert_eq!(port(address, &Found::Daemon).status, Status::Ok);
    }
}
