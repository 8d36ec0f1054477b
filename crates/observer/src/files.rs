//! The telemetry files of the node: finds them, keeps them open, reads what is new. Bounded in open files, per user
//! and in all, and in the time of a look; what a look did not come to is first in the next. A file that was removed
//! is read on while its process lives and there is room for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use airamp_telemetry::snapshot::{Call, Since};
use airamp_telemetry::{Found, Listing, Liveness, Reader, Unreadable, folders};

use crate::open_file::Open;
use crate::proc;
use crate::reading::Reading;
use crate::view;

const MOST_OPEN: Most = Most { in_all: 4096, per_user: 1024 };
/// Files of a folder that are remembered as read, though a listing that was cut short does not name them: twice what
/// a listing names.
const MOST_DONE: usize = 8192;
/// Of a process that is gone, the calls that are kept for evidence.
const LAST_CALLS: u64 = 256;
const MOST_UNREADABLE_SHOWN: usize = 64;
const LONGEST_LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Files {
    bases: Vec<PathBuf>,
    most: Most,
    longest: Duration,
    open: BTreeMap<Key, Open>,
    /// Read for the last time, and perhaps still there: names by folder.
    done: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Of processes that are gone, by id.
    last_calls: BTreeMap<u64, Since<Call>>,
    users: proc::Users,
    made: u64,
    /// Where the next look begins.
    next: Option<Key>,
}

/// How many files are held open.
#[derive(Clone, Copy)]
struct Most {
    in_all: usize,
    per_user: usize,
}

/// Folder and name.
type Key = (PathBuf, String);

#[derive(Default)]
pub(crate) struct Look {
    pub(crate) readings: Vec<Reading>,
    /// Processes of which no reading will come any more, not even a last one.
    pub(crate) lost: Vec<u64>,
    pub(crate) unreadable: Vec<view::Unreadable>,
    pub(crate) unreadable_count: u64,
}

impl Files {
    pub(crate) fn new(bases: Vec<PathBuf>) -> Self {
        Self {
            bases,
            most: MOST_OPEN,
            longest: LONGEST_LOOK,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            last_calls: BTreeMap::new(),
            users: proc::Users::default(),
            made: 0,
            next: None,
        }
    }

    pub(crate) fn look(&mut self) -> Look {
        let mut found = Look::default();
        let began = Instant::now();
        self.discover(&mut found);
        let mut order: Vec<Key> = self.open.keys().cloned().collect();
        let first = self.next.take().and_then(|next| order.binary_search(&next).ok()).unwrap_or(0);
        order.rotate_left(first);
        for key in order {
            if began.elapsed() > self.longest {
                self.next = Some(key);
                break;
            }
            self.read(key, &mut found);
        }
        found
    }

    /// Calls of a file from a number on.
    pub(crate) fn calls_since(&self, id: u64, cursor: u64) -> Option<Since<Call>> {
        if let Some(last) = self.last_calls.get(&id) {
            let items: Vec<Call> = last.items.iter().filter(|call| call.number >= cursor).copied().collect();
            let lost = if cursor < last.next { last.lost } else { 0 };
            return Some(Since { items, next: last.next.max(cursor), lost });
        }
        let open = self.open.values().find(|open| open.id == id)?;
        open.reader.calls_since(cursor).ok()
    }

    /// Forgets the last calls of processes that nobody asks about any more.
    pub(crate) fn keep_last_calls(&mut self, is_asked_about: impl Fn(u64) -> bool) {
        self.last_calls.retain(|id, _| is_asked_about(*id));
    }

    fn discover(&mut self, found: &mut Look) {
        for folder in self.folders() {
            let listing = folder.list();
            self.forget_done(&folder, &listing);
            self.open_new(&folder, &listing, found);
        }
    }

    /// A file that is there and forgotten would be counted again. So a folder that is away, or was not listed to its
    /// end, leaves everything as it is; but nobody can make us remember without bounds.
    fn forget_done(&mut self, folder: &Found, listing: &Listing) {
        let Some(done) = self.done.get_mut(folder.path()) else { return };
        if listing.is_whole || done.len() > MOST_DONE {
            done.retain(|name| is_named(listing, name));
        }
    }

    fn open_new(&mut self, folder: &Found, listing: &Listing, found: &mut Look) {
        let done = self.done.get(folder.path());
        let is_done = |name: &String| done.is_some_and(|done| done.contains(name));
        let keys = listing.names.iter().filter(|name| !is_done(name));
        let keys = keys.map(|name| (folder.path().to_path_buf(), name.clone()));
        let new: Vec<Key> = keys.filter(|key| !self.open.contains_key(key)).collect();
        if new.is_empty() {
            return;
        }
        let wanted = self.open_of(folder.uid()) + new.len();
        if listing.is_whole {
            self.close_removed(folder, listing, wanted.saturating_sub(self.most.per_user), found);
        }
        let of_user = self.most.per_user.saturating_sub(self.open_of(folder.uid()));
        let room = of_user.min(self.most.in_all.saturating_sub(self.open.len()));
        for key in new.into_iter().take(room) {
            self.open_one(folder, key, found);
        }
    }

    /// Closes files that have no name any more, the oldest first: else a user could have us hold open any number.
    fn close_removed(&mut self, folder: &Found, listing: &Listing, too_many: usize, found: &mut Look) {
        let removed =
            self.open.iter().filter(|((path, name), _)| path == folder.path() && !is_named(listing, name));
        let mut removed: Vec<(u64, Key)> = removed.map(|(key, open)| (open.id, key.clone())).collect();
        removed.sort_unstable();
        for (id, key) in removed.into_iter().take(too_many) {
            self.open.remove(&key);
            found.lost.push(id);
        }
    }

    fn open_of(&self, uid: u32) -> usize {
        self.open.values().filter(|open| open.uid == uid).count()
    }

    fn folders(&self) -> Vec<Found> {
        if self.bases.is_empty() {
            return folders(None);
        }
        self.bases.iter().flat_map(|base| folders(Some(base))).collect()
    }

    fn open_one(&mut self, folder: &Found, key: Key, found: &mut Look) {
        match Reader::open(folder, &key.1) {
            Ok(reader) => {
                self.made += 1;
                self.open.insert(key, Open::new(self.made, folder.uid(), reader));
            }
            Err(why) => refuse(found, &key, &why),
        }
    }

    fn read(&mut self, key: Key, found: &mut Look) {
        let Some(open) = self.open.get_mut(&key) else { return };
        // Asked before the file is read: what it says after its process's end is its last word.
        let gone = open.reader.liveness() == Liveness::Gone;
        match open.read(gone) {
            Ok(mut reading) => {
                reading.user = self.users.name(reading.snapshot.uid);
                found.readings.push(reading);
            }
            Err(why) => {
                refuse(found, &key, &why);
                found.lost.extend(gone.then_some(open.id));
            }
        }
        if gone {
            self.close(key);
        }
    }

    fn close(&mut self, key: Key) {
        let Some(open) = self.open.remove(&key) else { return };
        self.last_calls.extend(open.last_calls(LAST_CALLS).map(|last| (open.id, last)));
        let (folder, name) = key;
        self.done.entry(folder).or_default().insert(name);
    }
}

fn is_named(listing: &Listing, name: &String) -> bool {
    listing.names.binary_search(name).is_ok()
}

fn refuse(found: &mut Look, (folder, name): &Key, why: &Unreadable) {
    found.unreadable_count += 1;
    if found.unreadable.len() < MOST_UNREADABLE_SHOWN {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        found.unreadable.push(view::Unreadable { file: format!("{folder}/{name}"), why: why.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use airamp_telemetry::{Identity, create};

    use super::*;

    /// A folder in which files come and go whose process, this one, lives.
    struct Place {
        base: tempfile::TempDir,
        template: Vec<u8>,
        made: u64,
    }

    impl Place {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            create(Some(base.path()), &Identity::of_this_process("0", 0)).unwrap();
            let folder = folders(Some(base.path())).pop().unwrap();
            let file = folder.path().join(&folder.files()[0]);
            let template = std::fs::read(&file).unwrap();
            std::fs::remove_file(file).unwrap();
            Self { base, template, made: 0 }
        }

        fn folder(&self) -> PathBuf {
            folders(Some(self.base.path())).pop().unwrap().path().to_path_buf()
        }

        fn add(&mut self, files: usize) -> Vec<PathBuf> {
            let folder = self.folder();
            let names =
                (self.made..).take(files).map(|number| folder.join(format!("1-{number:016x}.airamp")));
            let names: Vec<PathBuf> = names.collect();
            self.made += files as u64;
            names.iter().for_each(|name| std::fs::write(name, &self.template).unwrap());
            names
        }
    }

    fn files(base: &Path, most: Most) -> Files {
        Files { most, longest: Duration::MAX, ..Files::new(vec![base.to_path_buf()]) }
    }

    #[test]
    fn files_that_were_removed_are_read_on_until_their_user_has_too_many_open() {
        let mut place = Place::new();
        let mut files = files(place.base.path(), Most { in_all: 100, per_user: 5 });
        let mut seen = BTreeSet::new();
        for round in 0..4 {
            let added = place.add(3);
            let look = files.look();
            assert!(files.open.len() <= 5, "{} in round {round}", files.open.len());
            seen.extend(look.readings.iter().map(|reading| reading.id));
            look.lost
                .iter()
                .for_each(|id| assert!(seen.remove(id), "the others hear of everyone who was closed"));
            let open: BTreeSet<u64> = files.open.values().map(|open| open.id).collect();
            assert_eq!((open.len(), &open), (if round == 0 { 3 } else { 5 }, &seen));
            let is_open = |name: &PathBuf| files.open.keys().any(|(folder, own)| folder.join(own) == *name);
            assert!(added.iter().all(is_open), "those with a name come first");
            added.iter().for_each(|name| std::fs::remove_file(name).unwrap());
            assert_eq!(files.look().readings.len(), files.open.len(), "they are read on");
        }
    }

    #[test]
    fn no_more_files_are_open_than_may_be_in_all() {
        let mut place = Place::new();
        let mut files = files(place.base.path(), Most { in_all: 4, per_user: 5 });
        place.add(6);
        for _ in 0..2 {
            assert_eq!((files.look().readings.len(), files.open.len()), (4, 4));
        }
    }

    #[test]
    fn what_was_read_for_the_last_time_is_forgotten_when_it_is_known_not_to_be_there() {
        let place = Place::new();
        let folder = folders(Some(place.base.path())).pop().unwrap();
        let mut files = Files::new(Vec::new());
        let mut left = |done: &[&str], is_whole| {
            files.done.insert(place.folder(), done.iter().map(|name| (*name).to_owned()).collect());
            files.forget_done(&folder, &Listing { names: vec!["b".to_owned()], is_whole });
            files.done[&place.folder()].len()
        };
        assert_eq!((left(&["a", "b"], false), left(&["a", "b"], true)), (2, 1));
        let many: Vec<String> = (0..=MOST_DONE).map(|number| format!("b{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!((left(&many[1..], false), left(&many, false)), (MOST_DONE, 0));
    }
}
