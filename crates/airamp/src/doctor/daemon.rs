//! Whether airampd answers where the settings say that it listens. One short request, bounded in time.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use airamp_settings::Settings;

use super::report::Check;

const NAME: &str = "airampd";
const LIMIT: Duration = Duration::from_secs(2);
const LONGEST_ANSWER: u64 = 4 << 10;

/// What is found at the address.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nobody,
    Daemon,
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
    if *found == Found::Daemon {
        return Check::ok(PORT, format!("{address} is airampd's"));
    }
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(PORT, format!("{address} is free")),
        Err(error) => {
            let advice = "set AIRAMP_METRICS_PORT to a free port of this machine (Prometheus itself likes to be at 9090)";
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
        Found::Other(line) => {
            let advice = "give airampd a port of its own with AIRAMP_METRICS_PORT, for it and here";
            Check::warning(NAME, format!("{address} is somebody else's ({line})"), advice)
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
    let answer = health(&stream, address).unwrap_or_default();
    let first = answer.lines().next().unwrap_or_default().to_owned();
    let is_well = first.split_whitespace().nth(1) == Some("200");
    if is_well { Found::Daemon } else { Found::Other(first.chars().take(60).collect()) }
}

fn health(mut stream: &TcpStream, address: SocketAddr) -> std::io::Result<String> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(
        format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    // The first line is enough; one that never ends the connection has said it by then.
    let _ = stream.take(LONGEST_ANSWER).read_to_end(&mut answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

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
