//! Tells systemd how the service fares: ready, reloading, ending, alive. Without NOTIFY_SOCKET (a container, a
//! terminal) it does nothing; a message that does not go out changes nothing here.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

pub(crate) struct Notify {
    target: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    pub(crate) fn from_environment() -> Self {
        let target = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| connect(&name));
        Self { target, watchdog: watchdog_interval() }
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=Serving");
    }

    pub(crate) fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// How often `alive` has to be said, if anybody waits for it.
    pub(crate) fn every(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.target.is_some())
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.target {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// A name that begins with `@` is in the abstract namespace.
fn connect(name: &str) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name).ok()?,
        None => SocketAddr::from_pathname(name).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address))
}

/// Half of what systemd grants, and only if it is this process that it means.
fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|us| ours && *us > 0).map(|us| Duration::from_micros(us / 2))
}

fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the duration of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}
