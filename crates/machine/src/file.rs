//! Small files of sysfs and procfs, read up to a bound. What cannot be read, or is not what it should be, is `None`.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The most that is read of one file; `/proc/net/netstat`, the longest of ours, has about 4 KiB.
const LONGEST: u64 = 64 << 10;

pub(crate) fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The first word of the file.
pub(crate) fn word(path: &Path) -> Option<String> {
    text(path)?.split_whitespace().next().map(str::to_owned)
}

pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// Names in a folder, in order, and at most so many.
pub(crate) fn names(folder: &Path, most: usize) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).take(most).collect();
    names.sort_unstable();
    names
}
