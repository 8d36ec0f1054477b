//! What the daemon itself uses and may use; nothing where that is not to be had.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Processor time of all threads so far.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `used` is a valid timespec for the duration of the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    (result == 0).then(|| used.tv_sec as f64 + used.tv_nsec as f64 / 1e9)
}

pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: sysconf has no memory effects.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.checked_mul(u64::try_from(page).ok()?)
}

/// As many as this user may have, up to some thousands; tells how many there are now. Nothing here uses select(),
/// for which the low default exists.
pub(crate) fn descriptors() -> usize {
    const ENOUGH: libc::rlim_t = 65_536;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the duration of both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 1024;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max.min(ENOUGH).max(limit.rlim_cur), ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
            limit = raised;
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}
