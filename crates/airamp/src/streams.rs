//! Airamp's own standard output and error. A stream that is full for a while is waited for, because whoever
//! started us may have made it non-blocking. What cannot be printed is an error; a complaint that cannot be
//! written is dropped, since there is nobody left to tell.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};

/// Standard output without Rust's buffer, which forgets what it had when a write fails half-way.
pub(crate) fn stdout() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

pub(crate) fn stderr() -> io::Result<File> {
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

/// A command's result.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write_all(&stdout()?, text.as_bytes())
}

/// A line for the user beside the result. Unlike `eprintln!` it cannot panic.
pub(crate) fn complain(line: &str) {
    let _ = stderr().and_then(|stderr| write_all(&stderr, format!("{line}\n").as_bytes()));
}

pub(crate) fn write_all(mut to: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_room(to)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns too when the reader has gone, so that the next write says so.
fn wait_for_room(to: &File) -> io::Result<()> {
    let mut polled = libc::pollfd { fd: to.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is that of one pollfd, and the count says so; poll writes only into it.
    if unsafe { libc::poll(&raw mut polled, 1, -1) } >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}
