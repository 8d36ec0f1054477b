//! Moves the ranks' output line by line, so that lines of different ranks never mix.
//! It reads on the caller's thread and keeps at most one unfinished line per stream in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::streams;

/// A longer line is handed on in pieces.
const LONGEST_LINE: usize = 64 << 10;
const READ_AT_ONCE: usize = 64 << 10;

/// What the ranks left in their pipes is read in at most so many rounds once the job is over, since a stray
/// process that still holds a pipe could write for ever.
const LAST_ROUNDS: usize = 64;

/// Receives each line that a rank writes to standard output: the rank, and the line without its end.
pub(crate) type LineReader = Box<dyn FnMut(u32, &str)>;

/// Where output goes.
pub(crate) enum Output {
    /// To our own stdout and stderr, each line after `[rank] `.
    Prefixed,
    /// Standard output to the caller; standard error to ours, prefixed.
    Lines(LineReader),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stdout,
    Stderr,
}

/// One stream of one rank.
pub(super) struct Pipe {
    rank: u32,
    kind: Kind,
    from: File,
    unfinished: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(rank: u32, kind: Kind, from: OwnedFd) -> Self {
        Self { rank, kind, from: File::from(from), unfinished: Vec::new() }
    }
}

/// Why our output is not written any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    NobodyReads,
    /// The reason was said.
    CannotWrite,
}

/// Reads all pipes until the job is over.
pub(super) struct Pump {
    pipes: Vec<Pipe>,
    output: Output,
    stdout: File,
    stderr: File,
    /// Ends when whoever holds the other side of it, from `ended`, lets go.
    over: Option<UnixStream>,
    /// Once it is set, the ranks' output is still read, so that they do not block while they end.
    closed: Option<Closed>,
}

impl Pump {
    pub(super) fn new(pipes: Vec<Pipe>, output: Output) -> io::Result<Self> {
        let (stdout, stderr) = (streams::stdout()?, streams::stderr()?);
        Ok(Self { pipes, output, stdout, stderr, over: None, closed: None })
    }

    /// To be dropped when all ranks have ended.
    pub(super) fn ended(&mut self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.over = Some(ours);
        Ok(theirs)
    }

    /// Calls `on_closed` when our output is not written any more, and returns why.
    pub(super) fn run(mut self, on_closed: impl Fn()) -> Option<Closed> {
        let mut rounds_left = LAST_ROUNDS;
        while rounds_left > 0 {
            let is_over = self.over.is_none();
            let Ok(ready) = self.poll(is_over) else { break };
            if is_over {
                rounds_left -= 1;
                if !ready.contains(&true) {
                    break;
                }
            }
            self.read_ready(&ready);
            if self.closed.is_some() {
                on_closed();
            }
        }
        let left: Vec<Pipe> = self.pipes.drain(..).collect();
        left.into_iter().for_each(|pipe| self.finish(pipe));
        self.closed
    }

    /// Which pipes have something; notes when the job is over.
    fn poll(&mut self, at_once: bool) -> io::Result<Vec<bool>> {
        let fds = self.pipes.iter().map(|pipe| pipe.from.as_raw_fd());
        let over = self.over.as_ref().map(AsRawFd::as_raw_fd);
        let mut polled: Vec<libc::pollfd> =
            fds.chain(over).map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let timeout = if at_once { 0 } else { -1 };
        loop {
            // SAFETY: the pointer and the length are those of one vector; poll writes only into it.
            let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
            if count >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let mut ready: Vec<bool> = polled.iter().map(|polled| polled.revents != 0).collect();
        if self.over.is_some() && ready.pop() == Some(true) {
            self.over = None;
        }
        Ok(ready)
    }

    fn read_ready(&mut self, ready: &[bool]) {
        let mut buffer = vec![0; READ_AT_ONCE];
        let pipes = std::mem::take(&mut self.pipes);
        for (mut pipe, is_ready) in pipes.into_iter().zip(ready) {
            if !is_ready {
                self.pipes.push(pipe);
                continue;
            }
            match pipe.from.read(&mut buffer) {
                Ok(0) | Err(_) => self.finish(pipe),
                Ok(count) => {
                    self.take(&mut pipe, &buffer[..count]);
                    self.pipes.push(pipe);
                }
            }
        }
    }

    fn take(&mut self, pipe: &mut Pipe, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            pipe.unfinished.extend_from_slice(text);
            if is_whole || pipe.unfinished.len() >= LONGEST_LINE {
                let line = std::mem::take(&mut pipe.unfinished);
                self.emit(pipe.rank, pipe.kind, &line);
            }
        }
    }

    fn finish(&mut self, pipe: Pipe) {
        if !pipe.unfinished.is_empty() {
            self.emit(pipe.rank, pipe.kind, &pipe.unfinished);
        }
    }

    fn emit(&mut self, rank: u32, kind: Kind, line: &[u8]) {
        if let (Output::Lines(read), Kind::Stdout) = (&mut self.output, kind) {
            read(rank, &String::from_utf8_lossy(line));
            return;
        }
        let mut whole = format!("[{rank}] ").into_bytes();
        whole.extend_from_slice(line);
        whole.push(b'\n');
        let to = match kind {
            _ if self.closed.is_some() => return,
            Kind::Stdout => &self.stdout,
            Kind::Stderr => &self.stderr,
        };
        self.closed = streams::write_all(to, &whole).err().map(|error| why_closed(&error));
    }
}

fn why_closed(error: &io::Error) -> Closed {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Closed::NobodyReads;
    }
    streams::complain(&format!("airamp: cannot write the ranks' output: {error}; ending the ranks"));
    Closed::CannotWrite
}
