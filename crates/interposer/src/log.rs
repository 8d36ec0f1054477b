//! One line per event, to stderr or to a file, written by one system call, or lost where it would have to wait.
//!
//! Formats on the stack: no allocation, no lock, and `errno` is left as it was.
//! Before the settings are read only warnings and errors pass.

use crate::errno;
use std::ffi::{CString, c_int};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

const LINE_BYTES: usize = 1024;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);
static RANK: AtomicI32 = AtomicI32::new(-1);
static SINK: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);
/// Device and inode of the log file, to tell whether the application has since
/// closed our descriptor and put something of its own in its place.
static SINK_DEVICE: AtomicU64 = AtomicU64::new(0);
static SINK_INODE: AtomicU64 = AtomicU64::new(0);

#[inline]
pub(crate) fn is_on(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

pub(crate) fn error(message: fmt::Arguments<'_>) {
    line(Level::Error, message);
}

pub(crate) fn warn(message: fmt::Arguments<'_>) {
    line(Level::Warn, message);
}

pub(crate) fn info(message: fmt::Arguments<'_>) {
    line(Level::Info, message);
}

pub(crate) fn debug(message: fmt::Arguments<'_>) {
    line(Level::Debug, message);
}

pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

pub(crate) fn set_rank(rank: i32) {
    RANK.store(rank, Ordering::Relaxed);
}

/// Sends further lines to the end of that file.
pub(crate) fn open_file(path: &str) -> Result<(), std::io::Error> {
    let name = CString::new(path).map_err(std::io::Error::other)?;
    let flags =
        libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: `name` is NUL-terminated.
    let opened = unsafe { libc::open(name.as_ptr(), flags, 0o600) };
    if opened < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // A program that closed its standard streams must not find our file in their place.
    // SAFETY: both calls act on the descriptor that was just opened.
    let descriptor = unsafe {
        let moved = libc::fcntl(opened, libc::F_DUPFD_CLOEXEC, 3);
        libc::close(opened);
        moved
    };
    let Some((device, inode)) = identity(descriptor) else {
        return Err(std::io::Error::last_os_error());
    };
    SINK_DEVICE.store(device, Ordering::Relaxed);
    SINK_INODE.store(inode, Ordering::Relaxed);
    SINK.store(descriptor, Ordering::Relaxed);
    Ok(())
}

fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    // SAFETY: stat is plain data for which zeroes are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fstat writes `status` only, and answers an error for a bad descriptor.
    let known = unsafe { libc::fstat(descriptor, &mut status) } == 0;
    known.then_some((status.st_dev, status.st_ino))
}

fn sink() -> c_int {
    let sink = SINK.load(Ordering::Relaxed);
    let expected = (SINK_DEVICE.load(Ordering::Relaxed), SINK_INODE.load(Ordering::Relaxed));
    let still_ours = sink == libc::STDERR_FILENO || identity(sink) == Some(expected);
    if still_ours { sink } else { libc::STDERR_FILENO }
}

fn line(level: Level, message: fmt::Arguments<'_>) {
    if !is_on(level) {
        return;
    }
    let _errno = errno::keep();
    let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
    let name = ["error", "warn", "info", "debug"][level as usize];
    let _ = match RANK.load(Ordering::Relaxed) {
        rank @ 0.. => write!(line, "airamp {name} pid={} rank={rank}: {message}", std::process::id()),
        _ => write!(line, "airamp {name} pid={} rank=-: {message}", std::process::id()),
    };
    write(sink(), line.finish());
}

/// Whether a line can be written now, or will be in a moment: a pipe that is full, because nobody empties it,
/// would hold the program up. Behind a line that was lost nobody waits until there is room again.
fn has_room(sink: c_int) -> bool {
    const PATIENCE_MS: c_int = 20;
    static WAS_FULL: AtomicBool = AtomicBool::new(false);
    let patience = if WAS_FULL.load(Ordering::Relaxed) { 0 } else { PATIENCE_MS };
    let mut asked = libc::pollfd { fd: sink, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll reads and writes the one entry that it is given.
    let has_room = unsafe { libc::poll(&mut asked, 1, patience) } > 0;
    WAS_FULL.store(!has_room, Ordering::Relaxed);
    has_room
}

/// Writes without raising SIGPIPE in a program whose stderr nobody reads any more. A line that
/// cannot be written is lost, as it must be.
fn write(sink: c_int, bytes: &[u8]) {
    if !has_room(sink) {
        return;
    }
    // SAFETY: signal sets are plain data that sigemptyset fills; each call reads or writes the
    // sets it is given, and acts on this thread alone.
    unsafe {
        let [mut pipe, mut before, mut pending]: [libc::sigset_t; 3] = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        let written = libc::write(sink, bytes.as_ptr().cast(), bytes.len());
        if written < 0 && errno::get() == libc::EPIPE && !was_pending {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// A line under construction; what does not fit is cut, and a line break inside becomes a space.
struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Line {
    fn finish(&mut self) -> &[u8] {
        self.bytes[self.used] = b'\n';
        &self.bytes[..=self.used]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - 1 - self.used;
        let taken = &text.as_bytes()[..text.len().min(room)];
        for (to, from) in self.bytes[self.used..].iter_mut().zip(taken) {
            *to = if *from == b'\n' { b' ' } else { *from };
        }
        self.used += taken.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_however_long_the_message() {
        let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
        write!(line, "two\nlines {}", "x".repeat(5000)).unwrap();
        let bytes = line.finish();
        assert_eq!(bytes.len(), LINE_BYTES);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(bytes.starts_with(b"two lines xxx"));
    }
}
