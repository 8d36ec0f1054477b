//! Files whose process is gone. They stay for a minute, so that their last numbers can be seen, and then go: removed by
//! the next process of the same user.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::AtFlags;

use crate::Reader;
use crate::clock::{monotonic_ns, unix_ns};
use crate::folder::Found;

/// How long a file outlives its process, so that its last numbers can be seen.
pub const KEPT_AFTER_DEATH: Duration = Duration::from_secs(60);
/// Of a job that fails and starts again and again only the newest files are kept for so long.
const MOST_KEPT: usize = 16;
/// A file that never got its name, and files of other versions.
const KEPT_UNFINISHED: Duration = Duration::from_secs(3600);

pub(crate) const UNFINISHED: &str = ".new";

pub(crate) fn remove(folder: &Found) -> usize {
    let mut dead: Vec<(u64, String)> = Vec::new();
    let mut removed = 0;
    for name in folder.files() {
        match Reader::open(folder, &name) {
            Ok(reader) if !reader.is_alive() => dead.push((reader.active_ns(), name)),
            Ok(_) => {}
            Err(_) => removed += usize::from(is_old(folder, &name) && unlink(folder, &name)),
        }
    }
    dead.sort_unstable_by(|one, other| other.cmp(one));
    let now = monotonic_ns();
    let kept_ns = KEPT_AFTER_DEATH.as_nanos() as u64;
    let gone = dead
        .iter()
        .enumerate()
        .filter(|(place, (active_ns, _))| *place >= MOST_KEPT || now.saturating_sub(*active_ns) > kept_ns);
    removed += gone.filter(|(_, (_, name))| unlink(folder, name)).count();
    let unfinished = folder.names_where(|name| name.starts_with('.') && name.ends_with(UNFINISHED));
    removed + unfinished.iter().filter(|name| is_old(folder, name) && unlink(folder, name)).count()
}

fn is_old(folder: &Found, name: &str) -> bool {
    let status = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
    let changed = status.map_or(u64::MAX, |status| u64::try_from(status.st_mtime).unwrap_or(0));
    (unix_ns() / 1_000_000_000).saturating_sub(changed) > KEPT_UNFINISHED.as_secs()
}

/// Removes a name, whatever it stands for, but never a folder.
fn unlink(folder: &Found, name: &str) -> bool {
    rustix::fs::unlinkat(folder.as_fd(), name, AtFlags::empty()).is_ok()
}
