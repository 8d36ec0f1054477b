//! Whether the process that wrote a file still runs. A process number alone says nothing: it is given to others again,
//! and in another container it means another process.

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::header::Owner;
use crate::standing::Standing;

/// In another pid namespace, where the lock was never seen held, a process counts as alive for so long after its last
/// sign.
const QUIET_NS: u64 = 3_600_000_000_000;
/// A lock that was held and is free for so long, without a sign since, is of a dead process. A process that lives on
/// after it closed all its descriptors, and the lock with them, has that long to give a sign.
const FREE_NS: u64 = 500_000_000;

/// What earlier looks at a file's lock have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lock {
    #[default]
    NeverHeld,
    Held,
    /// It was held: since when it is not, and how far the process was then.
    Free {
        since_ns: u64,
        done: Done,
    },
    /// Its process did something since: it lives, and its lock tells nothing any more.
    GivenUp,
}

/// Counters and moments that change with what a process does; equal ones mean that it did nothing.
pub(crate) type Done = [u64; 3];

/// A process's file at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sign {
    pub(crate) now_ns: u64,
    /// For how long it has not done anything.
    pub(crate) quiet_ns: u64,
    /// `None`: cannot be read.
    pub(crate) done: Option<Done>,
}

impl Lock {
    fn at_next_look(self, is_held: bool, sign: &Sign) -> Self {
        match self {
            _ if is_held => Self::Held,
            Self::Held => Self::Free { since_ns: sign.now_ns, done: sign.done.unwrap_or_default() },
            Self::Free { done, .. } if sign.done.is_some_and(|now| now != done) => Self::GivenUp,
            other => other,
        }
    }

    fn is_of_the_dead(self, now_ns: u64) -> bool {
        matches!(self, Self::Free { since_ns, .. } if now_ns.saturating_sub(since_ns) >= FREE_NS)
    }
}

pub(crate) fn this_process() -> Owner {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    Owner {
        pid,
        uid: rustix::process::geteuid().as_raw(),
        namespace: namespace(),
        started: Standing::of_this_process().map_or(0, |standing| standing.started),
        boot: boot().unwrap_or_default(),
    }
}

/// `file` is the telemetry file, and `lock` what is known of its lock, from look to look. `sign` is asked after the lock:
/// what is done after that is done by a process without one.
pub(crate) fn is_alive(
    owner: &Owner,
    file: BorrowedFd<'_>,
    lock: &Cell<Lock>,
    sign: impl FnOnce() -> Sign,
) -> bool {
    is_alive_by(Standing::of, owner, file, lock, sign)
}

fn is_alive_by(
    standing_of: impl Fn(u32) -> Option<Standing>,
    owner: &Owner,
    file: BorrowedFd<'_>,
    lock: &Cell<Lock>,
    sign: impl FnOnce() -> Sign,
) -> bool {
    if !is_of_this_boot(owner) {
        return false;
    }
    if is_here(owner) && owner.started != 0 {
        // A dead process holds no lock. One that lives may not be to be looked at (hidepid, no descriptor left), may show
        // another start (it is shown by the reader's own time namespace), and may be a zombie whose other threads run.
        let is_seen = |found: Standing| found.started == owner.started && !found.is_dead();
        return standing_of(owner.pid).is_some_and(is_seen) || is_locked(file);
    }
    let is_held = is_locked(file);
    let sign = sign();
    lock.set(lock.get().at_next_look(is_held, &sign));
    is_held || sign.quiet_ns < QUIET_NS && !lock.get().is_of_the_dead(sign.now_ns)
}

/// Whether the owner's number means the same process here.
pub(crate) fn is_here(owner: &Owner) -> bool {
    owner.namespace != 0 && owner.namespace == namespace()
}

/// False: the machine was started anew since, and its clock with it. True where one of both does not know.
pub(crate) fn is_of_this_boot(owner: &Owner) -> bool {
    owner.boot == [0; 16] || boot().is_none_or(|boot| owner.boot == boot)
}

fn namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |found| found.st_ino)
}

fn boot() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Whether another process holds the record lock that a writer takes.
fn is_locked(file: BorrowedFd<'_>) -> bool {
    let mut lock = whole_file();
    // SAFETY: the descriptor is open, and `lock` is a valid `flock` that the kernel fills.
    let answered = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } == 0;
    answered && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// Held until the descriptor is closed or the process ends, however it ends. A forked child does not hold it.
pub(crate) fn lock(file: BorrowedFd<'_>) -> bool {
    let lock = whole_file();
    // SAFETY: the descriptor is open, and `lock` is a valid `flock` that the kernel only reads.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) == 0 }
}

fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn is_quiet_and_alive(owner: &Owner, file: BorrowedFd<'_>, quiet_ns: u64) -> bool {
        is_alive(owner, file, &Cell::default(), || Sign { quiet_ns, ..Sign::default() })
    }

    #[test]
    fn a_number_given_to_another_process_is_not_taken_for_the_first_one() {
        let file = tempfile::tempfile().unwrap();
        let this = this_process();
        assert!(this.started != 0 && this.namespace != 0 && this.boot != [0; 16]);
        assert!(is_quiet_and_alive(&this, file.as_fd(), HOUR_NS));
        assert!(!is_quiet_and_alive(&Owner { started: this.started + 1, ..this }, file.as_fd(), 0));
        assert!(!is_quiet_and_alive(&Owner { boot: [1; 16], ..this }, file.as_fd(), 0));
        let of_unknown_boot = Owner { boot: [0; 16], ..this };
        assert!(is_quiet_and_alive(&of_unknown_boot, file.as_fd(), 0));
    }

    #[test]
    fn in_another_namespace_a_lock_or_a_sign_within_the_hour_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = Owner { namespace: 1, ..this_process() };
        assert!(is_quiet_and_alive(&owner, file.as_fd(), HOUR_NS - 1));
        assert!(!is_quiet_and_alive(&owner, file.as_fd(), HOUR_NS));
        let mut holder = Holder::start(file.path());
        assert!(is_quiet_and_alive(&owner, file.as_fd(), HOUR_NS));
        holder.kill();
        assert!(!is_quiet_and_alive(&owner, file.as_fd(), HOUR_NS));
    }

    #[test]
    fn in_another_namespace_a_lock_that_was_held_and_is_free_is_of_a_dead_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = Owner { namespace: 1, ..this_process() };
        let lock = Cell::default();
        let is_alive = |now_ns, done| {
            is_alive(&owner, file.as_fd(), &lock, || Sign { now_ns, quiet_ns: 0, done: Some([done; 3]) })
        };
        let mut holder = Holder::start(file.path());
        assert!(is_alive(1, 1));
        holder.kill();
        assert!(is_alive(2, 2), "it may have closed its descriptors");
        assert!(is_alive(1 + FREE_NS, 2));
        assert!(!is_alive(2 + FREE_NS, 2));
    }

    #[test]
    fn in_another_namespace_a_process_that_goes_on_without_its_lock_lives() {
        let sign = |now_ns, done| Sign { now_ns, quiet_ns: 0, done };
        let held = Lock::NeverHeld.at_next_look(true, &sign(1, Some([1; 3])));
        let free = held.at_next_look(false, &sign(2, Some([1; 3])));
        assert_eq!(free, Lock::Free { since_ns: 2, done: [1; 3] });
        let unreadable = free.at_next_look(false, &sign(3, None));
        assert_eq!(unreadable, free, "what cannot be read is no sign");
        let went_on = free.at_next_look(false, &sign(3, Some([1, 2, 1])));
        assert!(!went_on.at_next_look(false, &sign(4, Some([1, 2, 1]))).is_of_the_dead(u64::MAX));
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_lives_while_its_lock_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = this_process();
        let is_alive = || is_alive_by(|_| None, &owner, file.as_fd(), &Cell::default(), Sign::default);
        let mut holder = Holder::start(file.path());
        assert!(is_alive());
        holder.kill();
        assert!(!is_alive(), "a dead process holds no lock");
    }

    #[test]
    fn a_process_that_seems_to_have_started_at_another_time_or_to_be_dead_lives_while_its_lock_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = this_process();
        let seen = Standing::of_this_process().unwrap();
        let elsewhere = Standing { started: seen.started + 10_000_000, ..seen };
        let zombie = Standing { state: 'Z', ..seen };
        let is_alive =
            |seen| is_alive_by(|_| Some(seen), &owner, file.as_fd(), &Cell::default(), Sign::default);
        let mut holder = Holder::start(file.path());
        assert!(is_alive(elsewhere) && is_alive(zombie));
        holder.kill();
        assert!(!is_alive(elsewhere) && !is_alive(zombie));
        assert!(is_alive(seen), "one that closed all its descriptors holds no lock");
    }

    /// Another process that holds the lock: this test again, as a child.
    struct Holder(std::process::Child);

    const LOCK_THIS: &str = "AIRAMP_TELEMETRY_TEST_LOCKS";

    impl Holder {
        fn start(path: &std::path::Path) -> Self {
            use std::io::Read;
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "liveness::tests::a_child_that_locks", "--nocapture"])
                .env(LOCK_THIS, path)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut output = child.stdout.take().unwrap();
            let mut said = Vec::new();
            while !said.ends_with(b"locked") {
                let mut byte = [0];
                output.read_exact(&mut byte).unwrap();
                said.push(byte[0]);
            }
            Self(child)
        }

        fn kill(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_child_that_locks() {
        let Some(path) = std::env::var_os(LOCK_THIS) else { return };
        let file = std::fs::File::options().write(true).open(path).unwrap();
        assert!(lock(file.as_fd()));
        print!("locked");
        std::io::Write::flush(&mut std::io::stdout()).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
}
