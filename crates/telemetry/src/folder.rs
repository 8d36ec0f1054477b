//! The folders `airamp-<uid>`: made for this user, found for readers. A folder counts only if it is no link, belongs to
//! the user it is named after, and nobody else can write into it; all further steps go through its descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};

use crate::stale;

const BASES: [&str; 2] = ["/dev/shm", "/tmp"];
const MOST_FOLDERS: usize = 1024;
const MOST_FILES: usize = 4096;
/// Entries looked at before a folder is taken for hostile.
const MOST_ENTRIES: usize = 1 << 16;
const SUFFIX: &str = ".airamp";

/// A folder that belongs to the user it is named after, held open.
#[derive(Debug)]
pub struct Found {
    path: PathBuf,
    uid: u32,
    folder: OwnedFd,
}

/// The telemetry files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// At most 4,096, sorted.
    pub names: Vec<String>,
    /// False: a file that is not named may be there all the same.
    pub is_whole: bool,
}

impl Found {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The names of telemetry files in it, at most 4,096, sorted.
    pub fn files(&self) -> Vec<String> {
        self.list().names
    }

    pub fn list(&self) -> Listing {
        let mut listing = entries(self.folder.as_fd(), |name| pid_in(name).is_some());
        listing.is_whole &= listing.names.len() <= MOST_FILES;
        listing.names.truncate(MOST_FILES);
        listing.names.sort_unstable();
        listing
    }

    /// Removes files whose process is gone for longer than `KEPT_AFTER_DEATH`; how many.
    pub fn remove_stale(&self) -> usize {
        stale::remove(self)
    }

    /// Opens a plain file of the folder's owner that has no second name. Never waits: a pipe or a leased file is not
    /// one of ours.
    pub(crate) fn open(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::empty())?;
        let status = rustix::fs::fstat(&file)?;
        Ok((is_plain(&status) && status.st_uid == self.uid && status.st_nlink <= 1).then(|| file.into()))
    }

    pub(crate) fn names_where(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        entries(self.folder.as_fd(), wanted).names
    }
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// The folders below `base` (else below /dev/shm and /tmp) that may be read, at most 1,024.
pub fn folders(base: Option<&Path>) -> Vec<Found> {
    let found = bases(base).into_iter().flat_map(|base| {
        let opened = rustix::fs::open(&base, FOLDER & !OFlags::NOFOLLOW, Mode::empty()).ok();
        let names =
            opened.iter().flat_map(|opened| entries(opened.as_fd(), |name| uid_in(name).is_some()).names);
        let found: Vec<Found> = names.filter_map(|name| open_folder(&base, &name).ok()).collect();
        found
    });
    found.take(MOST_FOLDERS).collect()
}

/// This user's folder below `base`, made if it is not there. A base that nobody has given must lie in memory.
pub(crate) fn own(base: &Path, is_given: bool) -> io::Result<Found> {
    if !base.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
    }
    let uid = rustix::process::geteuid().as_raw();
    let name = format!("airamp-{uid}");
    match rustix::fs::mkdir(base.join(&name), Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let found = open_folder(base, &name)?;
    refuse_slow(found.as_fd(), is_given)?;
    // A umask takes bits away, and somebody may have added some.
    rustix::fs::fchmod(&found.folder, Mode::RWXU)?;
    Ok(found)
}

pub(crate) fn bases(base: Option<&Path>) -> Vec<PathBuf> {
    base.map_or_else(|| BASES.iter().map(PathBuf::from).collect(), |base| vec![base.to_owned()])
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_folder(base: &Path, name: &str) -> io::Result<Found> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, format!("{name}: {why}"));
    let uid = uid_in(name).ok_or_else(|| refused("not a folder of ours"))?;
    let path = base.join(name);
    let folder = rustix::fs::open(&path, FOLDER, Mode::empty())?;
    let status = rustix::fs::fstat(&folder)?;
    if status.st_uid != uid {
        return Err(refused("belongs to another user"));
    }
    if status.st_mode & 0o022 != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(refused("others can write into it"));
    }
    Ok(Found { path, uid, folder })
}

fn uid_in(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("airamp-")?;
    let uid = digits.parse().ok()?;
    // One name for each user, or a reader would see the same folder twice.
    (format!("{uid}") == digits).then_some(uid)
}

/// The process in a telemetry file's name: `<pid>-<16 hexadecimal digits>.airamp`.
pub(crate) fn pid_in(name: &str) -> Option<u32> {
    let (pid, random) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    pid.parse().ok().filter(|_| is_random)
}

pub(crate) fn file_name(pid: u32, random: u64) -> String {
    format!("{pid}-{random:016x}{SUFFIX}")
}

fn entries(folder: BorrowedFd<'_>, wanted: impl Fn(&str) -> bool) -> Listing {
    entries_of(folder, MOST_ENTRIES, wanted)
}

/// Among the first `most` entries.
fn entries_of(folder: BorrowedFd<'_>, most: usize, wanted: impl Fn(&str) -> bool) -> Listing {
    let Ok(listing) = rustix::fs::Dir::read_from(folder) else { return Listing::default() };
    let (mut names, mut seen) = (Vec::new(), 0);
    for entry in listing.take(most) {
        let Ok(entry) = entry else { return Listing { names, is_whole: false } };
        seen += 1;
        names.extend(entry.file_name().to_str().ok().filter(|name| wanted(name)).map(str::to_owned));
    }
    Listing { names, is_whole: seen < most }
}

fn is_plain(status: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(status.st_mode).is_file()
}

/// A store into a mapped file of a network may wait for the network, or end the process when the server is gone; one on
/// a disk may wait for the disk, which is for the operator to accept.
fn refuse_slow(folder: BorrowedFd<'_>, is_given: bool) -> io::Result<()> {
    let kind = rustix::fs::fstatfs(folder)?.f_type as u32;
    let refused = |why| Err(io::Error::new(io::ErrorKind::Unsupported, why));
    if REMOTE.contains(&kind) {
        return refused("a network's file system, or one in user space");
    }
    if !is_given && !IN_MEMORY.contains(&kind) {
        return refused("a disk; AIRAMP_TELEMETRY_DIR may name a folder there, better one in memory");
    }
    Ok(())
}

/// tmpfs, ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
/// NFS, SMB (three of them), AFS, Ceph, Lustre, GPFS, 9P, FUSE, BeeGFS.
const REMOTE: [u32; 11] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x0102_1997,
    0x6573_5546,
    0x1983_0326,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_taken_only_where_somebody_has_named_it() {
        let on_disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder beside the source");
        let kind = rustix::fs::statfs(on_disk.path()).expect("its file system").f_type as u32;
        if IN_MEMORY.contains(&kind) || REMOTE.contains(&kind) {
            return;
        }
        assert!(own(on_disk.path(), true).is_ok());
        let refused = own(on_disk.path(), false).expect_err("a disk that nobody has named");
        assert!(refused.to_string().contains("AIRAMP_TELEMETRY_DIR"), "{refused}");
    }

    #[test]
    fn a_folder_that_is_not_read_to_its_end_is_not_whole() {
        let base = tempfile::tempdir().expect("a folder");
        (0..4).for_each(|number| std::fs::write(base.path().join(number.to_string()), "").expect("a file"));
        let folder = std::fs::File::open(base.path()).expect("the folder");
        let listed = |most| {
            let listing = entries_of(folder.as_fd(), most, |_| true);
            (listing.names.len(), listing.is_whole)
        };
        // The folder itself and the one above it are entries too.
        assert_eq!((listed(7), listed(6), listed(3)), ((6, true), (6, false), (3, false)));
    }

    #[test]
    fn what_cannot_be_listed_is_not_taken_for_an_empty_folder() {
        let no_folder = tempfile::tempfile().expect("a file");
        assert_eq!(entries(no_folder.as_fd(), |_| true), Listing { names: Vec::new(), is_whole: false });
    }

    #[test]
    fn only_names_of_our_form_are_taken_for_ours() {
        assert_eq!(pid_in(&file_name(77, 0xab)), Some(77));
        for name in
            ["77-00.airamp", "77-00000000000000ab", "x-00000000000000ab.airamp", "77-00000000000000zz.airamp"]
        {
            assert_eq!(pid_in(name), None, "{name}");
        }
        assert_eq!((uid_in("airamp-0"), uid_in("airamp-1000")), (Some(0), Some(1000)));
        for name in ["airamp-", "airamp-01", "airamp-+1", "airamp--1", "airamp-99999999999", "xairamp-1"] {
            assert_eq!(uid_in(name), None, "{name}");
        }
    }
}
