//! What a rank of a planned job does to itself: it dies, cuts its connections, sleeps, or makes children. Everything at
//! a place that the plan names, so that the same harm comes at the same place with and without the library.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::plan::What;
use crate::error::RankError;
use crate::world::World;

/// Far longer than a child takes that only ends.
const CHILD_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn suffer(what: What, world: &World) {
    match what {
        What::Die => {
            // SAFETY: a signal to ourselves has no effect on memory that outlives it.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        What::CutAll => connections(world).into_iter().for_each(cut),
        What::CutOne(which) => {
            let all = connections(world);
            if let Some(one) = all.get(which % all.len().max(1)) {
                cut(*one);
            }
        }
        What::Pause { ms } => std::thread::sleep(Duration::from_millis(ms)),
    }
}

/// The process's TCP connections, in the order of their numbers, without those of the star.
fn connections(world: &World) -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let kept = world.descriptors();
    let mut all: Vec<RawFd> = numbers.filter(|fd| !kept.contains(fd) && is_connection(*fd)).collect();
    all.sort_unstable();
    all
}

fn is_connection(fd: RawFd) -> bool {
    // SAFETY: all zeros is a valid address of no family.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: writes at most `length` bytes into the address; any number is an answer.
    let known = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &raw mut length) };
    let family = libc::c_int::from(address.ss_family);
    known == 0 && (family == libc::AF_INET || family == libc::AF_INET6)
}

fn cut(fd: RawFd) {
    // SAFETY: ends a connection of this process and leaves its number to its owner, who sees it closed.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Makes children that end at once: by `_exit`, by `exit` with its handlers, by another program.
pub(super) fn make_children(count: usize) -> Result<(), RankError> {
    (0..count).try_for_each(make_child)
}

fn make_child(number: usize) -> Result<(), RankError> {
    // SAFETY: the child calls nothing but what is written below; `exit` is what a careless program does there.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(failed("fork", &std::io::Error::last_os_error())),
        0 => end_as_child(number),
        child => await_child(child),
    }
}

fn end_as_child(number: usize) -> ! {
    let (program, none) = (c"/bin/true".as_ptr(), std::ptr::null());
    // SAFETY: the arguments of exec are a program and a null; the others end the process.
    unsafe {
        match number % 3 {
            0 => libc::_exit(0),
            1 => libc::exit(0),
            _ => {
                libc::execv(program, [program, none].as_ptr());
                libc::_exit(127)
            }
        }
    }
}

fn await_child(child: libc::pid_t) -> Result<(), RankError> {
    let deadline = Instant::now() + CHILD_LIMIT;
    loop {
        let mut status = 0;
        // SAFETY: asks about a child of ours that nobody else waits for.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
            0 => {
                // SAFETY: the child is ours and was not waited for, so that its number is its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return Err(RankError::Arguments("a forked child hangs".into()));
            }
            _ if status == 0 => return Ok(()),
            _ => return Err(RankError::Arguments(format!("a forked child ended with {status:#x}"))),
        }
    }
}

fn failed(what: &str, error: &std::io::Error) -> RankError {
    RankError::Arguments(format!("{what}: {error}"))
}
