//! Which descriptors are ours. A forked child closes them, and nothing of ours is read, written or closed after the
//! application has closed it and perhaps got its number for something else. The last quarter of what a process may have
//! is left to the application.

use std::fs::File;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Higher descriptors are not used: the table is static, so that a signal handler could walk it.
const MOST: usize = 1 << 16;

/// By descriptor: the inode of what we opened; 0: not ours.
static INODES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// One more than the highest descriptor that was ever ours.
static END: AtomicUsize = AtomicUsize::new(0);

/// A socket of ours. It closes what it opened, and nothing else.
#[derive(Debug)]
pub(crate) struct Ours<S: AsRawFd> {
    socket: ManuallyDrop<S>,
    fd: RawFd,
    inode: u64,
}

impl<S: AsRawFd> Ours<S> {
    pub(crate) fn new(socket: S) -> io::Result<Self> {
        let ours = Self::unlisted(socket)?;
        let (fd, inode) = (ours.fd, ours.inode);
        let place = usize::try_from(fd).ok().and_then(|fd| INODES.get(fd));
        let place = place.ok_or_else(|| io::Error::other("too many descriptors are open"))?;
        place.store(inode, Ordering::Relaxed);
        END.fetch_max(fd as usize + 1, Ordering::Release);
        Ok(ours)
    }

    /// One that a forked child leaves alone: it cannot be told from another of its kind, which may be the
    /// application's.
    pub(crate) fn unlisted(socket: S) -> io::Result<Self> {
        let fd = socket.as_raw_fd();
        let inode = inode(fd).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { socket: ManuallyDrop::new(socket), fd, inode })
    }

    /// Whether the number still stands for what we opened.
    pub(crate) fn is_there(&self) -> bool {
        inode(self.fd) == Some(self.inode)
    }

    /// Whether the application has enough left beside it. A socket gets the lowest number that is free, so that its number
    /// says how many are taken. An error says what to do.
    pub(crate) fn leaves_enough(&self) -> Result<(), String> {
        match most_descriptors() {
            Some(most) if self.fd as u64 >= most - most / 4 => Err(format!(
                "the process that it called may have {most} file descriptors, the last quarter of which is the application's (raise ulimit -n)"
            )),
            _ => Ok(()),
        }
    }
}

fn most_descriptors() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is what the call fills.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0).then_some(limit.rlim_cur)
}

impl<S: AsRawFd> Deref for Ours<S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsRawFd> DerefMut for Ours<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.socket
    }
}

impl<S: AsRawFd> Drop for Ours<S> {
    fn drop(&mut self) {
        if let Some(place) = INODES.get(self.fd as usize) {
            // Another socket of ours may have got the number meanwhile.
            let _ = place.compare_exchange(self.inode, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        if self.is_there() {
            // SAFETY: `socket` is dropped here and nowhere else; it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.socket) };
        }
    }
}

/// In a forked child, where other threads may have held any lock: closes all that is still ours.
pub(crate) fn close_in_child() {
    for (fd, place) in INODES[..END.load(Ordering::Acquire)].iter().enumerate() {
        let expected = place.swap(0, Ordering::Relaxed);
        if expected != 0 && inode(fd as RawFd) == Some(expected) {
            // SAFETY: the child's copy of a descriptor that this crate opened; nothing in the child uses it, since
            // `abandon_in_child` forgets the hub.
            drop(unsafe { File::from_raw_fd(fd as RawFd) });
        }
    }
}

fn inode(fd: RawFd) -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` has room for one `stat`, which fstat fills when it returns 0.
    (unsafe { libc::fstat(fd, status.as_mut_ptr()) } == 0)
        // SAFETY: filled, as fstat returned 0.
        .then(|| unsafe { status.assume_init() })
        // A file of the application's may have a socket's number, on another device.
        .map(|status| status.st_ino ^ status.st_dev.rotate_left(40))
}
