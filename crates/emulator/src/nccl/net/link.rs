//! One direction of data between two ranks: a TCP connection that never blocks.
//!
//! A closed connection is an error here; why it closed is the control ring's to say.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::shaping::{Bucket, Grant};

pub(crate) struct Link {
    stream: TcpStream,
    /// Messages so far; both ends count alike.
    messages: AtomicU64,
}

/// How far an attempt came.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    Bytes(usize),
    /// The socket is full or empty.
    Blocked,
    /// The device's rate is used up for so long.
    Shaped(std::time::Duration),
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, messages: AtomicU64::new(0) })
    }

    /// The number of the next message.
    pub(crate) fn number(&self) -> u64 {
        self.messages.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn write(&self, bytes: &[u8], bucket: &Bucket) -> Result<Progress> {
        let granted = match bucket.take(bytes.len()) {
            Grant::Bytes(granted) => granted,
            Grant::Wait(pause) => return Ok(Progress::Shaped(pause)),
        };
        let written = attempt(|| (&self.stream).write(&bytes[..granted]))?;
        bucket.give_back(granted - written.unwrap_or(0));
        Ok(written.map_or(Progress::Blocked, Progress::Bytes))
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<Progress> {
        match attempt(|| (&self.stream).read(bytes))? {
            Some(0) if !bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            Some(count) => Ok(Progress::Bytes(count)),
            None => Ok(Progress::Blocked),
        }
    }

    /// Ends both directions; whoever waits on the link wakes up.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

fn attempt(mut io: impl FnMut() -> Result<usize>) -> Result<Option<usize>> {
    loop {
        match io() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Sleeps until a link is ready for what is asked of it, or the pause is over, which is `false`.
pub(crate) fn wait(wanted: &mut [libc::pollfd], pause: Option<std::time::Duration>) -> Result<bool> {
    let timeout = pause.map(|pause| libc::timespec {
        tv_sec: pause.as_secs() as libc::time_t,
        tv_nsec: pause.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the entries and the timeout outlive the call, and no signal mask is given.
    let ready =
        unsafe { libc::ppoll(wanted.as_mut_ptr(), wanted.len() as libc::nfds_t, timeout, std::ptr::null()) };
    match ready {
        -1 => match Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(true),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}
