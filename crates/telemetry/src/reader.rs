//! The reader's side: bytes that somebody else writes, copied and checked. Bounded; trusts no length, never panics,
//! never waits. Called by the observer, and by a starting process that looks for files to remove.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use crate::atomic::AtomicU64;
use crate::atomic::Ordering::Relaxed;
use crate::clock::{Line, monotonic_ns};
use crate::folder::Found;
use crate::header::Header;
use crate::layout::{FILE_BYTES, HEADER_BYTES, PROCESS, Process};
use crate::liveness::{Lock, Sign};
use crate::snapshot::{Call, Decision, Event, Since, Snapshot};
use crate::{copy, decode, liveness, rings, time_namespace};

/// Why a file is not read. Its text names no path.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("not a plain file of the folder's owner with one name")]
    NotOurs,
    #[error("not a telemetry file")]
    NotTelemetry,
    #[error("layout version {found}; this program reads version {known}")]
    Version { found: u32, known: u32 },
    #[error("its contents contradict each other")]
    Damaged,
    #[error("shorter than it should be")]
    Truncated,
    #[error("written before the last boot")]
    OlderBoot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Gone,
}

/// An open telemetry file. It stays readable when the file is removed.
#[derive(Debug)]
pub struct Reader {
    file: File,
    header: Header,
    lock: Cell<Lock>,
}

impl Reader {
    /// `name` is one of `Found::files`.
    pub fn open(folder: &Found, name: &str) -> Result<Self, Unreadable> {
        let file = folder.open(name)?.ok_or(Unreadable::NotOurs)?;
        let reader = Self::from_file(file)?;
        // A user's file speaks for that user only.
        if reader.header.owner.uid == folder.uid() { Ok(reader) } else { Err(Unreadable::NotOurs) }
    }

    /// Whatever the file is and wherever it comes from; a test's way in. Its contents are checked all the same.
    pub fn from_file(file: File) -> Result<Self, Unreadable> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|_| Unreadable::NotTelemetry)?;
        let mut header = Header::decode(&bytes)?;
        header.anchor = header.anchor.shifted(time_namespace::ahead_ns());
        if file.metadata()?.len() != FILE_BYTES as u64 {
            return Err(Unreadable::Truncated);
        }
        if !liveness::is_of_this_boot(&header.owner) {
            return Err(Unreadable::OlderBoot);
        }
        Ok(Self { file, header, lock: Cell::default() })
    }

    pub fn snapshot(&self) -> Result<Snapshot, Unreadable> {
        decode::snapshot(&self.file, &self.header)
    }

    /// Remembers what it saw of the writer's lock: asked again and again, it tells sooner that a process of another pid
    /// namespace is gone.
    pub fn liveness(&self) -> Liveness {
        if self.is_alive() { Liveness::Alive } else { Liveness::Gone }
    }

    /// Calls from number `cursor` on, at most as many as the ring holds.
    pub fn calls_since(&self, cursor: u64) -> Result<Since<Call>, Unreadable> {
        rings::calls(&self.file, cursor, || self.line())
    }

    pub fn events_since(&self, cursor: u64) -> Result<Since<Event>, Unreadable> {
        rings::events(&self.file, cursor, || self.line())
    }

    pub fn decisions_since(&self, cursor: u64) -> Result<Since<Decision>, Unreadable> {
        rings::decisions(&self.file, cursor, || self.line())
    }

    pub(crate) fn is_alive(&self) -> bool {
        liveness::is_alive(&self.header.owner, self.file.as_fd(), &self.lock, || self.sign())
    }

    /// When the process last did something; when it started, if that cannot be read.
    pub(crate) fn active_ns(&self) -> u64 {
        self.last_active_ns(self.process().as_ref())
    }

    fn sign(&self) -> Sign {
        let process = self.process();
        let now_ns = monotonic_ns();
        let quiet_ns = now_ns.saturating_sub(self.last_active_ns(process.as_ref()));
        let done = process.map(|process| {
            // Not every call stores its moment, but every call is counted.
            [process.active, process.calls.written, process.events.written].map(AtomicU64::into_inner)
        });
        Sign { now_ns, quiet_ns, done }
    }

    fn last_active_ns(&self, process: Option<&Process>) -> u64 {
        let ticks = process.map_or(0, |process| process.active.load(Relaxed));
        self.line().moment_ns(ticks.max(self.header.anchor.ticks))
    }

    fn process(&self) -> Option<Process> {
        copy::items(&self.file, PROCESS, 0, 1).ok()?.pop()
    }

    fn line(&self) -> Line {
        Line::until_now(self.header.anchor, self.header.clock)
    }
}
