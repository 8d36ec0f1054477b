//! The processes that are recorded, by their telemetry files: finds them, reads them again and again, and makes a trace
//! of each in the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use airamp_telemetry::{Found, Liveness, Reader, folders};
use airamp_trace::Trace;

use super::calls::Calls;

/// New processes are looked for so often; whoever ends before is found by what it left.
const SEARCH_EVERY: Duration = Duration::from_millis(50);
const MOST_PROCESSES: usize = 4096;

pub(super) enum Whose {
    /// All that are there.
    Everybody,
    Pids(Vec<u32>),
    Job(String),
}

pub(super) struct Ranks {
    bases: Vec<PathBuf>,
    whose: Whose,
    /// By folder and name; none: not one of those that are watched.
    files: BTreeMap<(PathBuf, String), Option<Rank>>,
    searched: Option<Instant>,
    /// Calls from before we came are not recorded.
    from_now_on: bool,
}

struct Rank {
    reader: Reader,
    calls: Calls,
    is_over: bool,
}

impl Ranks {
    /// All processes that keep their telemetry in that folder, from their first call.
    pub(super) fn below(base: PathBuf) -> Self {
        let (whose, files) = (Whose::Everybody, BTreeMap::new());
        Self { bases: vec![base], whose, files, searched: None, from_now_on: false }
    }

    /// Processes that run already.
    pub(super) fn running(bases: Vec<PathBuf>, whose: Whose) -> Self {
        let bases = match bases.is_empty() {
            true => airamp_settings::load().settings.telemetry_dir.into_iter().collect(),
            false => bases,
        };
        Self { bases, whose, files: BTreeMap::new(), searched: None, from_now_on: true }
    }

    /// Reads what is new; false when there is nobody left to watch.
    pub(super) fn look(&mut self) -> bool {
        if self.searched.is_none_or(|searched| searched.elapsed() >= SEARCH_EVERY) {
            self.search();
        }
        let mut is_any_left = false;
        for rank in self.files.values_mut().flatten().filter(|rank| !rank.is_over) {
            // Asked first: what is read after a process's end is its last word.
            rank.is_over = rank.reader.liveness() == Liveness::Gone;
            rank.calls.read(&rank.reader, rank.is_over);
            is_any_left |= !rank.is_over;
        }
        is_any_left
    }

    pub(super) fn whose(&self) -> &Whose {
        &self.whose
    }

    pub(super) fn watched(&self) -> usize {
        self.files.values().flatten().filter(|rank| !rank.is_over).count()
    }

    /// The files to be written, by name. Times count from the first call of all of them.
    pub(super) fn traces(mut self, note: Option<&str>) -> Vec<(String, Trace)> {
        self.search();
        for rank in self.files.values_mut().flatten() {
            rank.calls.read(&rank.reader, true);
        }
        let mut all: Vec<Calls> = self.files.into_values().flatten().map(|rank| rank.calls).collect();
        all.retain(|calls| calls.first_ns().is_some());
        let first_ns = all.iter().filter_map(Calls::first_ns).min().unwrap_or(0);
        let ranks: Vec<i32> = all.iter().map(Calls::rank).collect();
        let is_alone = |rank: i32| rank >= 0 && ranks.iter().filter(|other| **other == rank).count() == 1;
        let named = all.into_iter().map(|calls| {
            let name = match (calls.rank(), calls.pid()) {
                (rank, _) if is_alone(rank) => format!("rank-{rank}.jsonl"),
                (rank, pid) if rank >= 0 => format!("rank-{rank}-pid-{pid}.jsonl"),
                (_, pid) => format!("pid-{pid}.jsonl"),
            };
            (name, calls.trace(first_ns, note))
        });
        named.collect()
    }

    fn search(&mut self) {
        self.searched = Some(Instant::now());
        let found: Vec<Found> = match self.bases.is_empty() {
            true => folders(None),
            false => self.bases.iter().flat_map(|base| folders(Some(base))).collect(),
        };
        for folder in &found {
            for name in folder.files() {
                let key = (folder.path().to_owned(), name);
                if self.files.len() < MOST_PROCESSES && !self.files.contains_key(&key) {
                    let rank = self.rank(folder, &key.1);
                    self.files.insert(key, rank);
                }
            }
        }
    }

    fn rank(&self, folder: &Found, name: &str) -> Option<Rank> {
        let reader = Reader::open(folder, name).ok()?;
        let snapshot = reader.snapshot().ok()?;
        let is_watched = match &self.whose {
            Whose::Everybody => true,
            Whose::Pids(pids) => pids.contains(&snapshot.pid),
            Whose::Job(job) => snapshot.identity.job == *job,
        };
        let is_alive = || reader.liveness() == Liveness::Alive;
        if !is_watched || self.from_now_on && !is_alive() {
            return None;
        }
        let from = if self.from_now_on { snapshot.calls_written } else { 0 };
        Some(Rank { reader, calls: Calls::new(&snapshot, from), is_over: false })
    }
}
