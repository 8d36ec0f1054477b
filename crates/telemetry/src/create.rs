//! Makes this process's file: under a temporary name, filled, mapped, locked, then named, so that a reader never sees
//! half of it. At start-up only: it allocates and makes system calls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::folder::{self, Found, file_name};
use crate::header::Header;
use crate::layout::{FILE_BYTES, Region};
use crate::liveness;
use crate::stale::UNFINISHED;
use crate::writer::Writer;
use crate::{Identity, State};

/// Makes the file in `base` (else in /dev/shm, else in /tmp where that is in memory, too).
pub fn create(base: Option<&Path>, identity: &Identity) -> io::Result<Writer> {
    if !crate::clock::is_allowed() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this process may not read clocks"));
    }
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    let is_given = base.is_some();
    for base in folder::bases(base) {
        match create_in(&base, is_given, identity) {
            Ok(writer) => return Ok(writer),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn create_in(base: &Path, is_given: bool, identity: &Identity) -> io::Result<Writer> {
    let folder = folder::own(base, is_given)?;
    folder.remove_stale();
    let header = Header::of_this_process(identity);
    let name = file_name(header.owner.pid, random()?);
    let unfinished = format!(".{name}{UNFINISHED}");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        move_up(rustix::fs::openat(folder.as_fd(), unfinished.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
    let made = fill(&file, &header).and_then(|region| {
        rustix::fs::renameat(folder.as_fd(), unfinished.as_str(), folder.as_fd(), name.as_str())?;
        Ok(region)
    });
    let region = made.inspect_err(|_| remove(&folder, &unfinished))?;
    // The descriptor holds the lock until the process ends, and is never used again: its number may become the
    // application's.
    let _ = file.into_raw_fd();
    let writer = Writer::new(region);
    writer.set_vendor(&identity.vendor);
    writer.set_state(State::Observing);
    Ok(writer)
}

fn fill(file: &OwnedFd, header: &Header) -> io::Result<&'static Region> {
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
    allocate(file.as_fd())?;
    let written = rustix::io::pwrite(file, &header.encode(), 0)?;
    if written != header.encode().len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    liveness::lock(file.as_fd());
    map(file.as_fd())
}

/// Every page of the file gets its memory now: a store into a hole would end the process where memory has run out.
fn allocate(file: BorrowedFd<'_>) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < FILE_BYTES as u64) {
        // The kernel would not only refuse, but send a signal that ends the process.
        return Err(io::Error::other("the limit on the size of files is too low"));
    }
    for _ in 0..16 {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, FILE_BYTES as u64) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write_zeros(file),
            other => return Ok(other?),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn write_zeros(file: BorrowedFd<'_>) -> io::Result<()> {
    let zeros = [0; 1 << 12];
    let mut at = 0;
    while at < FILE_BYTES {
        let piece = &zeros[..zeros.len().min(FILE_BYTES - at)];
        at += match rustix::io::pwrite(file, piece, at as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::INTR) => 0,
            other => other?,
        };
    }
    Ok(())
}

fn map(file: BorrowedFd<'_>) -> io::Result<&'static Region> {
    // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is replaced.
    let address = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            FILE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    touch(address);
    // SAFETY: the mapping is as large as a `Region`, aligned to a page, and never removed; a `Region` consists of atomics,
    // for which any bytes are a value and which other processes may read at any time.
    Ok(unsafe { &*address.cast::<Region>() })
}

/// Every page is there now, and no call is the first to write to one. Kernels before 5.14 refuse, and calls do it there.
fn touch(mapping: *mut std::ffi::c_void) {
    // SAFETY: the mapping that was just made, whose bytes stay as they are.
    let _ = unsafe { rustix::mm::madvise(mapping, FILE_BYTES, Advice::LinuxPopulateWrite) };
}

/// Away from the low numbers, which some programs count on. Before the lock is taken: closing any descriptor of a file
/// gives its locks up.
fn move_up(file: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&file, 200).unwrap_or(file)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK)?;
    if got != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(u64::from_ne_bytes(bytes))
}

fn remove(folder: &Found, name: &str) {
    let _ = rustix::fs::unlinkat(folder.as_fd(), name, AtFlags::empty());
}
