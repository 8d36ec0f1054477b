//! The file of the tuning cache (`AIRAMP_TUNING_CACHE`). It is replaced as a whole, so that nobody reads
//! half of it; what cannot be read or written is said once, and the job goes on without.

use crate::lifecycle::warn_once;
use airamp_policy::cache::{Cache, LONGEST_TEXT, Tuning};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// All tunings in the file; none if there is no file, or it is no cache.
pub(super) fn read(path: &Path) -> Cache {
    let cache = text_of(path).map_err(|error| error.to_string()).and_then(|text| match text {
        None => Ok(Cache::default()),
        Some(text) => Cache::parse(&text).map_err(|error| error.to_string()),
    });
    cache.unwrap_or_else(|reason| {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, &format!("the tuning cache {} is ignored: {reason}", path.display()));
        Cache::default()
    })
}

/// Puts the tuning into the file, unless the same decisions are there already: the ranks of a host share
/// the file, and one of them has the numbers too.
pub(super) fn keep(path: &Path, tuning: Tuning) {
    let mut cache = read(path);
    let has_numbers = |tuning: &Tuning| tuning.classes().iter().any(|class| class.figure.is_some());
    let known = cache.get(tuning.key());
    if known
        .is_some_and(|known| known.hash() == tuning.hash() && (has_numbers(known) || !has_numbers(&tuning)))
    {
        return;
    }
    cache.insert(tuning);
    if let Err(error) = replace(path, &cache.to_text()) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, &format!("the tuning cache {} is not kept: {error}", path.display()));
    }
}

/// `None`: there is no such file. What is no plain file is not waited for.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    let Some(path) = file_at(path)? else {
        return Ok(None);
    };
    let mut text = String::new();
    // One byte more than can be, which the parser refuses.
    File::open(path)?.take(LONGEST_TEXT as u64 + 1).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Where the file really is; `None` if there is none yet. A device or a folder is an error.
fn file_at(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(facts) if !facts.is_file() => Err(io::Error::other("it is no file")),
        Ok(_) => fs::canonicalize(path).map(Some),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = file_at(path)?.unwrap_or_else(|| path.to_owned());
    let draft = draft_of(&path)?;
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Beside the file, and this process's alone.
fn draft_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    Ok(path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::{Class, Element, Entry, PLAN_BYTES};

    fn tuning(key: u64) -> Tuning {
        let mut plan = [0; PLAN_BYTES];
        plan[Class::of(Element::F16, 1 << 22).place()] = Entry::Compressed { variant: 0 }.byte();
        Tuning::of_plan(key, &plan).expect("a tuning")
    }

    #[test]
    fn tunings_of_several_communicators_share_a_file_and_leave_no_other_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuning.toml");
        keep(&path, tuning(1));
        keep(&path, tuning(2));
        assert_eq!(read(&path).hashes().map(|(key, _)| key).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_cache_is_ignored_and_then_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuning.toml");
        for text in ["", "half a fi", &"x".repeat(LONGEST_TEXT + 9), "version = 99\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path).hashes().count(), 0, "{text:.20}");
            keep(&path, tuning(1));
            assert_eq!(read(&path).hashes().count(), 1, "{text:.20}");
        }
    }

    #[test]
    fn a_link_to_the_file_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("tuning.toml"), folder.path().join("link"));
        keep(&path, tuning(1));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        keep(&link, tuning(2));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path).hashes().count(), 2);
    }

    #[test]
    fn what_is_no_file_is_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(read(&path).hashes().count(), 0);
        keep(&path, tuning(1));
        assert!(!fs::metadata(&path).unwrap().is_file());
        keep(&folder.path().join("there/is/no/such.toml"), tuning(1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
