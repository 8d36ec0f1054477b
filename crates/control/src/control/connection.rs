//! One connection: bytes in, frames out, and the other way round. What it is for is its role.

use crate::descriptors::Ours;
use crate::wire::{Frame, Frames, WireError};
use airamp_agreement::Rank;
use mio::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};

/// A peer that takes in less than this is cut off: it does not read.
const MOST_WAITING: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Accepted; may be a stranger.
    Unopened,
    /// Accepted; a rank that waits to hear where its leader is.
    Introduced { token: [u8; 16], clique: u64, rank: Rank },
    /// Accepted; a rank's link to the leader who has this seat.
    Member { leader: u64, rank: Rank },
    /// Dialled by this seat.
    ToIntroducer(u64),
    /// Dialled by this seat.
    ToLeader(u64),
    /// Somebody who may give orders.
    Operator,
    /// Nobody's any more; closes when what waits is written.
    Closing,
}

pub(super) enum Stream {
    Tcp(Ours<TcpStream>),
    Unix(Ours<UnixStream>),
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) role: Role,
    /// Dialled, and not yet known to have been answered.
    pub(super) is_ringing: bool,
    pub(super) frames: Frames,
    waiting: Vec<u8>,
    written: usize,
}

impl Connection {
    pub(super) fn new(stream: Stream, role: Role) -> Self {
        let is_ringing = matches!(role, Role::ToIntroducer(_) | Role::ToLeader(_));
        Self { stream, role, is_ringing, frames: Frames::default(), waiting: Vec::new(), written: 0 }
    }

    /// Takes the bytes on; writes what can be written now.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.waiting.len() - self.written + bytes.len() > MOST_WAITING {
            return Err(io::Error::other("it does not read what it is sent"));
        }
        self.waiting.extend_from_slice(bytes);
        if self.is_ringing { Ok(()) } else { self.flush() }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        while self.written < self.waiting.len() {
            let rest = &self.waiting[self.written..];
            let outcome = match &mut self.stream {
                Stream::Tcp(stream) => stream.write(rest),
                Stream::Unix(stream) => stream.write(rest),
            };
            match outcome {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting = Vec::new();
        self.written = 0;
        Ok(())
    }

    pub(super) fn has_written_all(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One read: `None` if there is nothing now, `Some(false)` at the end of the stream.
    pub(super) fn fill(&mut self) -> io::Result<Option<bool>> {
        self.check()?;
        let mut bytes = [0; 16 << 10];
        let outcome = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut bytes),
            Stream::Unix(stream) => stream.read(&mut bytes),
        };
        match outcome {
            Ok(0) => Ok(Some(false)),
            Ok(count) => {
                self.frames.push(bytes.get(..count).unwrap_or_default());
                Ok(Some(true))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(true)),
            Err(error) => Err(error),
        }
    }

    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        self.frames.take()
    }

    /// For a dialled connection that has become writable: whether somebody has answered.
    pub(super) fn is_answered(&mut self) -> io::Result<bool> {
        let Stream::Tcp(stream) = &mut self.stream else { return Ok(true) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_there(),
            Stream::Unix(stream) => stream.is_there(),
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.is_there() { Ok(()) } else { Err(io::Error::other("its descriptor was closed")) }
    }
}
