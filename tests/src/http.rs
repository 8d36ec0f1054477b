//! As much of an HTTP client as the tests of a server need: one question on one connection, its bytes as they
//! are. Bounded in time, so that a server that does not answer fails a test instead of holding it up.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Generous, for two busy cores.
pub const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// From all that came over a connection; nothing if that is no answer.
    pub fn parsed(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        };
        Some(Self { status, headers: lines.filter_map(header).collect(), body: bytes[end + 4..].to_vec() })
    }
}

pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// A GET with these headers besides Host and Connection.
#[track_caller]
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let head = question("GET", path, &address.to_string(), headers);
    ask(address, head.as_bytes()).unwrap_or_else(|| panic!("GET {path} of {address} has no answer"))
}

pub fn question(method: &str, path: &str, host: &str, headers: &[(&str, &str)]) -> String {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

/// Sends these bytes and reads to the end. A server may close before it has read all of them.
pub fn ask(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = connect(address).ok()?;
    let _ = stream.write_all(bytes);
    Answer::parsed(&read_to_end(&mut stream))
}

/// What came until the other side closed, reset, or was silent for too long.
pub fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
