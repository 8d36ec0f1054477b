//! The telemetry files of the node: finds them, keeps them open, reads what is new. Bounded in files, per user
//! and in all, and in the time of a look; what a look did not come to is first in the next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use airamp_telemetry::snapshot::{Call, Since};
use airamp_telemetry::{Found, Liveness, Reader, Unreadable, folders};

use crate::proc;
use crate::reading::Reading;
use crate::view;
use crate::view::ProcessState;

const MOST_FILES: usize = 4096;
const MOST_PER_USER: usize = 1024;
const MOST_UNREADABLE_SHOWN: usize = 64;
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// A call's device time becomes known after the call: so many calls are looked at again.
const LOOKED_AT_AGAIN: u64 = 256;
/// Looks without a new call after which no late device time is waited for any more.
const LATE_TIMES_LOOKS: u32 = 5;
/// Calls read in one look; of more, the newest.
const MOST_CALLS: u64 = 1024;

pub(crate) struct Files {
    bases: Vec<PathBuf>,
    open: BTreeMap<Key, Open>,
    /// Read for the last time, and still there.
    done: BTreeSet<Key>,
    users: proc::Users,
    made: u64,
    /// Where the next look begins.
    next: Option<Key>,
}

/// Folder and name.
type Key = (PathBuf, String);

struct Open {
    id: u64,
    reader: Reader,
    events: u64,
    events_lost: u64,
    decisions: u64,
    calls: u64,
    /// Sampled calls among those looked at again that were handed on.
    told: BTreeSet<u64>,
    /// Looks since the last new call.
    quiet: u32,
    blocked_before: bool,
}

#[derive(Default)]
pub(crate) struct Look {
    pub(crate) readings: Vec<Reading>,
    pub(crate) unreadable: Vec<view::Unreadable>,
    pub(crate) unreadable_count: u64,
}

impl Files {
    pub(crate) fn new(bases: Vec<PathBuf>) -> Self {
        let (open, done) = (BTreeMap::new(), BTreeSet::new());
        Self { bases, open, done, users: proc::Users::default(), made: 0, next: None }
    }

    pub(crate) fn look(&mut self) -> Look {
        let mut found = Look::default();
        let began = Instant::now();
        self.discover(&mut found);
        let mut order: Vec<Key> = self.open.keys().cloned().collect();
        let first = self.next.take().and_then(|next| order.binary_search(&next).ok()).unwrap_or(0);
        order.rotate_left(first);
        for key in order {
            if began.elapsed() > LONGEST_LOOK {
                self.next = Some(key);
                break;
            }
            self.read(key, &mut found);
        }
        found
    }

    /// Calls of a file from a number on.
    pub(crate) fn calls_since(&self, id: u64, cursor: u64) -> Option<Since<Call>> {
        let open = self.open.values().find(|open| open.id == id)?;
        open.reader.calls_since(cursor).ok()
    }

    fn discover(&mut self, found: &mut Look) {
        let mut listed = BTreeSet::new();
        for folder in self.folders() {
            let names = folder.files();
            let room = MOST_PER_USER.min(MOST_FILES.saturating_sub(listed.len()));
            for name in names.into_iter().take(room) {
                let key = (folder.path().to_path_buf(), name);
                self.open_one(&folder, &key, found);
                listed.insert(key);
            }
        }
        self.done.retain(|key| listed.contains(key));
    }

    fn folders(&self) -> Vec<Found> {
        if self.bases.is_empty() {
            return folders(None);
        }
        self.bases.iter().flat_map(|base| folders(Some(base))).collect()
    }

    fn open_one(&mut self, folder: &Found, key: &Key, found: &mut Look) {
        if self.open.contains_key(key) || self.done.contains(key) {
            return;
        }
        match Reader::open(folder, &key.1) {
            Ok(reader) => {
                self.made += 1;
                self.open.insert(key.clone(), Open::new(self.made, reader));
            }
            Err(why) => refuse(found, key, &why),
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
            Err(why) => refuse(found, &key, &why),
        }
        if gone {
            self.open.remove(&key);
            self.done.insert(key);
        }
    }
}

impl Open {
    fn new(id: u64, reader: Reader) -> Self {
        let told = BTreeSet::new();
        Self {
            id,
            reader,
            events: 0,
            events_lost: 0,
            decisions: 0,
            calls: 0,
            told,
            quiet: 0,
            blocked_before: false,
        }
    }

    fn read(&mut self, gone: bool) -> Result<Reading, Unreadable> {
        let snapshot = self.reader.snapshot()?;
        let mut events = Vec::new();
        if snapshot.events_written > self.events {
            let since = self.reader.events_since(self.events)?;
            self.events = since.next;
            self.events_lost = self.events_lost.saturating_add(since.lost);
            events = since.items;
        }
        let mut decisions = Vec::new();
        if snapshot.decisions_written > self.decisions {
            let since = self.reader.decisions_since(self.decisions)?;
            self.decisions = since.next;
            decisions = since.items;
        }
        let sampled = self.sampled(snapshot.calls_written)?;
        let process = if gone {
            ProcessState::Gone
        } else if snapshot.pid_is_ours {
            self.running(snapshot.pid)
        } else {
            ProcessState::Foreign
        };
        let (id, user, events_lost) = (self.id, String::new(), self.events_lost);
        Ok(Reading { id, user, snapshot, process, sampled, events, events_lost, decisions })
    }

    fn sampled(&mut self, written: u64) -> Result<Vec<Call>, Unreadable> {
        self.quiet = if written == self.calls { self.quiet.saturating_add(1) } else { 0 };
        if self.quiet > LATE_TIMES_LOOKS {
            return Ok(Vec::new());
        }
        let oldest = written.saturating_sub(MOST_CALLS);
        let from = self.calls.saturating_sub(LOOKED_AT_AGAIN).max(oldest);
        let since = self.reader.calls_since(from)?;
        self.calls = since.next;
        let new = |call: &Call| call.device_ns > 0 && !self.told.contains(&call.number);
        let sampled: Vec<Call> = since.items.into_iter().filter(new).collect();
        self.told.extend(sampled.iter().map(|call| call.number));
        self.told = self.told.split_off(&self.calls.saturating_sub(LOOKED_AT_AGAIN));
        Ok(sampled)
    }

    /// A process is blocked if it is at two looks: everyone who reads a disk is for a moment.
    fn running(&mut self, pid: u32) -> ProcessState {
        let state = proc::state(pid);
        let blocked = state == Some('D');
        let before = std::mem::replace(&mut self.blocked_before, blocked);
        match state {
            Some('T' | 't') => ProcessState::Stopped,
            Some('D') if before => ProcessState::Blocked,
            _ => ProcessState::Running,
        }
    }
}

fn refuse(found: &mut Look, (folder, name): &Key, why: &Unreadable) {
    found.unreadable_count += 1;
    if found.unreadable.len() < MOST_UNREADABLE_SHOWN {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        found.unreadable.push(view::Unreadable { file: format!("{folder}/{name}"), why: why.to_string() });
    }
}
