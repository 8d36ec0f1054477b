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
        if listing.is_whole {
            let of_user = (self.open_of(folder.uid()) + new.len()).saturating_sub(self.most.per_user);
            let in_all = (self.open.len() + new.len()).saturating_sub(self.most.in_all);
            self.close_removed(folder, listing, of_user.max(in_all), found);
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
mod tests;
