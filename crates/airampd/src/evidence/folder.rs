//! The folder of evidence: files appear whole or not at all, readable by their owner only; the oldest leave when
//! there are too many or they take too much. It touches no file whose name is not one of its own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use airamp_observer::anomaly::Window;
use serde::Serialize;

use super::records;
use crate::configuration::Evidence;

const MOST_FILES: usize = 64;
const MOST_BYTES: u64 = 16 << 20;
const MOST_FILE_BYTES: u64 = 2 << 20;

/// A folder full of other things is not listed without end.
const MOST_LISTED: usize = 10_000;

const BEGINS: &str = "evidence-";
const ENDS: &str = ".jsonl";
const UNFINISHED: &str = ".unfinished-evidence-";

pub(crate) struct Folder {
    path: PathBuf,
    numbers: AtomicU64,
}

/// One file, as `/api/v1/evidence` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) time_unix_ms: u64,
}

impl Folder {
    /// Makes the folder where it is missing. The usual one is simply not used if it cannot be had.
    pub(crate) fn open(choice: &Evidence) -> io::Result<Option<Self>> {
        match choice {
            Evidence::In(path) => {
                DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                probe(path)?;
                Ok(Some(Self::at(path)))
            }
            Evidence::Usual(path) => {
                let _ = DirBuilder::new().mode(0o700).create(path);
                Ok(probe(path).is_ok().then(|| Self::at(path)))
            }
        }
    }

    fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), numbers: AtomicU64::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, window: &Window) -> io::Result<String> {
        let name = self.name_of(window);
        let unfinished = self.path.join(format!("{UNFINISHED}{name}"));
        let written =
            self.write_to(window, &unfinished).and_then(|()| fs::rename(&unfinished, self.path.join(&name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.make_room();
        written.map(|()| name)
    }

    fn write_to(&self, window: &Window, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(create_new(path)?);
        records::write(window, MOST_FILE_BYTES, &mut file)?;
        file.flush()?;
        file.get_ref().sync_all()
    }

    /// Sorts by time, says what it is about, and holds nothing that a shell or a path could take amiss.
    fn name_of(&self, window: &Window) -> String {
        let job: String = window
            .finding
            .job
            .chars()
            .take(40)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let number = self.numbers.fetch_add(1, Relaxed);
        format!("{BEGINS}{:013}-{}-{job}-{number}{ENDS}", window.time_unix_ms, window.finding.kind.name())
    }

    /// The newest stay.
    fn make_room(&self) {
        let Ok(mut files) = self.list() else { return };
        files.reverse();
        let mut bytes = 0;
        for (place, file) in files.iter().enumerate() {
            bytes += file.bytes;
            if place >= MOST_FILES || bytes > MOST_BYTES {
                let _ = fs::remove_file(self.path.join(&file.name));
            }
        }
    }

    /// Of a daemon that was killed while it wrote.
    pub(super) fn remove_unfinished(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.take(MOST_LISTED).flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Oldest first.
    pub(crate) fn list(&self) -> io::Result<Vec<Kept>> {
        let mut files: Vec<Kept> =
            fs::read_dir(&self.path)?.take(MOST_LISTED).flatten().filter_map(|entry| kept(&entry)).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        if !is_name(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut bytes = Vec::new();
        // One line more than the limit may be in it.
        file.take(MOST_FILE_BYTES + 1024).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// A name that this module gives: one path component of harmless characters.
fn is_name(name: &str) -> bool {
    name.len() <= 160
        && name.starts_with(BEGINS)
        && name.ends_with(ENDS)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn kept(entry: &fs::DirEntry) -> Option<Kept> {
    let name = entry.file_name().into_string().ok().filter(|name| is_name(name))?;
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let time_unix_ms = name.strip_prefix(BEGINS)?.split('-').next()?.parse().ok()?;
    Some(Kept { name, bytes: metadata.size(), time_unix_ms })
}

/// Whether files can be made there at all.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("{UNFINISHED}probe-{}", std::process::id()));
    create_new(&path)?;
    fs::remove_file(path)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_observer::anomaly::{Call, Process};

    fn window(time_unix_ms: u64, calls: usize) -> Window {
        let process = Process { before: vec![Call::default(); calls], ..Process::default() };
        let mut window = Window { time_unix_ms, processes: vec![process], ..Window::default() };
        window.finding.job = "../../etc/passwd".to_owned();
        window
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let base = tempfile::tempdir().expect("a folder");
        let choice = Evidence::In(base.path().join("new/evidence"));
        let folder = Folder::open(&choice).expect("it can be made").expect("it was asked for");
        (base, folder)
    }

    #[test]
    fn a_file_is_named_by_time_and_readable_by_its_owner_only() {
        let (_base, folder) = folder();
        let name = folder.write(&window(1_700_000_000_123, 1)).expect("written");
        assert!(is_name(&name) && !name.contains('/'), "{name}");
        let mode = fs::metadata(folder.path().join(&name)).expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(fs::metadata(folder.path()).expect("the folder").mode() & 0o7777, 0o700);
        assert_eq!(folder.list().expect("a list")[0].time_unix_ms, 1_700_000_000_123);
        assert!(folder.read(&name).expect("its content").starts_with(b"{\"record\":\"finding\""));
    }

    #[test]
    fn the_oldest_files_go_when_there_are_too_many() {
        let (_base, folder) = folder();
        for time in 0..(MOST_FILES as u64 + 5) {
            folder.write(&window(1_700_000_000_000 + time, 0)).expect("written");
        }
        let files = folder.list().expect("a list");
        assert_eq!(files.len(), MOST_FILES);
        assert_eq!(files[0].time_unix_ms, 1_700_000_000_005);
    }

    #[test]
    fn the_oldest_files_go_when_they_take_too_much_and_no_file_is_too_large() {
        let (_base, folder) = folder();
        for time in 0..12 {
            folder.write(&window(1_700_000_000_000 + time, 20_000)).expect("written");
        }
        let files = folder.list().expect("a list");
        assert!(files.iter().all(|file| file.bytes <= MOST_FILE_BYTES + 1024), "{files:?}");
        assert!(files.iter().map(|file| file.bytes).sum::<u64>() <= MOST_BYTES);
        assert_eq!(files.last().map(|file| file.time_unix_ms), Some(1_700_000_000_011));
        assert!(files.len() < 12);
    }

    #[test]
    fn files_of_others_are_neither_listed_nor_read_nor_removed() {
        let (_base, folder) = folder();
        let other = folder.path().join("evidence-of-somebody");
        fs::write(&other, "x").expect("a file");
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("evidence-0-late_rank-a-0.jsonl"))
            .expect("a link");
        for time in 0..(MOST_FILES as u64 + 5) {
            folder.write(&window(1_700_000_000_000 + time, 0)).expect("written");
        }
        assert!(other.exists());
        assert!(folder.read("evidence-0-late_rank-a-0.jsonl").is_err(), "a link is not followed");
        for name in ["evidence-of-somebody", "../evidence-1-x.jsonl", "evidence-/../../x.jsonl", ""] {
            assert!(folder.read(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_a_killed_daemon_left_unfinished_is_removed() {
        let (_base, folder) = folder();
        let left = folder.path().join(format!("{UNFINISHED}evidence-1.jsonl"));
        fs::write(&left, "half").expect("a file");
        folder.remove_unfinished();
        assert!(!left.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_if_asked_for_and_nothing_otherwise() {
        let path = PathBuf::from("/proc/airamp/evidence");
        assert!(Folder::open(&Evidence::In(path.clone())).is_err());
        assert!(Folder::open(&Evidence::Usual(path)).expect("no error").is_none());
    }
}
