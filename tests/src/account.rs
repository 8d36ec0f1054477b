//! What `counted_calls` says that it did, and what its telemetry file says, in the same words.

use std::collections::BTreeMap;
use std::path::Path;

use airamp_telemetry::{Datatype, Kind, Path as Way, Reader, Snapshot, folders};

use crate::Outcome;

/// By kind, path and datatype.
pub type Counts = BTreeMap<(Kind, Way, Datatype), Totals>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    pub logical: u64,
    /// What the vendor would send.
    pub would: u64,
}

/// The program's own account.
#[derive(Debug, Default)]
pub struct Account {
    pub counts: Counts,
    pub errors: BTreeMap<i32, u64>,
    /// Collectives by communicator (0, and 1 that was split from it) and rank.
    pub issued: BTreeMap<(u64, u64), u64>,
    /// Calls that the library tried, likewise.
    pub trials: BTreeMap<(u64, u64), u64>,
}

impl Account {
    #[track_caller]
    pub fn of(outcome: &Outcome) -> Self {
        let mut account = Self::default();
        for line in outcome.assert_success().stdout_text().lines() {
            let mut words = line.split(' ');
            let word = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            match (word, numbers.as_slice()) {
                ("count", [kind, path, datatype, calls, logical, would]) => {
                    let kind = Kind::from_number(*kind).expect("a kind");
                    let path = Way::from_number(*path).expect("a path");
                    let totals = Totals { calls: *calls, logical: *logical, would: *would };
                    account.counts.insert((kind, path, Datatype(*datatype as u8)), totals);
                }
                ("error", [result, calls]) => _ = account.errors.insert(*result as i32, *calls),
                ("issued", [on, rank, calls]) => _ = account.issued.insert((*on, *rank), *calls),
                ("trials", [on, rank, calls]) => _ = account.trials.insert((*on, *rank), *calls),
                _ => panic!("{line}"),
            }
        }
        account
    }
}

/// The files that processes have left under that folder.
pub fn files(base: &Path) -> Vec<Reader> {
    let folders = folders(Some(base)).into_iter().filter(|found| found.path().starts_with(base));
    let opened = folders.flat_map(|found| {
        found.files().into_iter().map(move |name| Reader::open(&found, &name).expect("a telemetry file"))
    });
    opened.collect()
}

/// The counts of a snapshot, without the bytes that went over the wire.
pub fn counts(snapshot: &Snapshot) -> Counts {
    let rows = snapshot.counts.iter().map(|count| {
        let totals =
            Totals { calls: count.calls, logical: count.logical_bytes, would: count.would_wire_bytes };
        ((count.kind, count.path, count.datatype), totals)
    });
    rows.collect()
}
