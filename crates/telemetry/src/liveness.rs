//! Whether the process that wrote a file still runs. A process number alone says nothing: it is given to others again,
//! and in another container it means another process.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::header::Owner;
use crate::standing::Standing;

/// In another pid namespace, where no lock is held, a process counts as alive for so long after its last sign.
const QUIET_NS: u64 = 3_600_000_000_000;

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

/// `file` is the telemetry file, `quiet_ns` for how long its process has not done anything.
pub(crate) fn is_alive(owner: &Owner, file: BorrowedFd<'_>, quiet_ns: u64) -> bool {
    if !is_of_this_boot(owner) {
        return false;
    }
    if is_here(owner) && owner.started != 0 {
        let found = Standing::of(owner.pid);
        return found.is_some_and(|found| found.started == owner.started && !found.is_dead());
    }
    is_locked(file) || quiet_ns < QUIET_NS
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

    #[test]
    fn a_number_given_to_another_process_is_not_taken_for_the_first_one() {
        let file = tempfile::tempfile().unwrap();
        let this = this_process();
        assert!(this.started != 0 && this.namespace != 0 && this.boot != [0; 16]);
        assert!(is_alive(&this, file.as_fd(), HOUR_NS));
        assert!(!is_alive(&Owner { started: this.started + 1, ..this }, file.as_fd(), 0));
        assert!(!is_alive(&Owner { boot: [1; 16], ..this }, file.as_fd(), 0));
        assert!(is_alive(&Owner { boot: [0; 16], ..this }, file.as_fd(), 0), "its boot is not known");
    }

    #[test]
    fn in_another_namespace_a_lock_or_a_sign_within_the_hour_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = Owner { namespace: 1, ..this_process() };
        assert!(is_alive(&owner, file.as_fd(), HOUR_NS - 1));
        assert!(!is_alive(&owner, file.as_fd(), HOUR_NS));
        let mut holder = Holder::start(file.path());
        assert!(is_alive(&owner, file.as_fd(), HOUR_NS));
        holder.0.kill().unwrap();
        holder.0.wait().unwrap();
        assert!(!is_alive(&owner, file.as_fd(), HOUR_NS));
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
