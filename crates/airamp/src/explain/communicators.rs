//! The decisions of a log, sorted by communicator. Ranks tell the same story from several sides: the
//! measured numbers are the leader's, and a refusal is also that of the rank that refused.

use airamp_policy::explain::{ClassName, Record};
use serde::Serialize;

pub(super) struct Communicator {
    pub(super) name: String,
    pub(super) ranks: u32,
    /// In the order of the log.
    pub(super) records: Vec<Record>,
}

/// A decision about all calls of a communicator, and the ranks that logged it in these words.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct Said<'a> {
    pub(super) decision: airamp_policy::explain::Decision,
    pub(super) reason: &'a str,
    pub(super) index: Option<u64>,
    /// Whose doing it was, if the log knows.
    pub(super) who: &'a [u32],
    pub(super) logged_by: Vec<u32>,
}

/// In the order in which they come first.
pub(super) fn gathered(records: Vec<Record>) -> Vec<Communicator> {
    let mut communicators: Vec<Communicator> = Vec::new();
    for record in records {
        let same =
            |known: &&mut Communicator| known.name == record.communicator && known.ranks == record.ranks;
        match communicators.iter_mut().find(same) {
            Some(known) => known.records.push(record),
            None => communicators.push(Communicator {
                name: record.communicator.clone(),
                ranks: record.ranks,
                records: vec![record],
            }),
        }
    }
    communicators
}

impl Communicator {
    /// The last record of each class, of the lowest rank that has any, smallest sizes first.
    pub(super) fn latest(&self) -> Vec<&Record> {
        let mut classes: Vec<&ClassName> = Vec::new();
        for class in self.records.iter().filter_map(|record| record.class.as_ref()) {
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        classes.sort_by_key(|class| (&class.collective, &class.datatype, class.from_bytes));
        classes.into_iter().filter_map(|class| self.latest_of(class)).collect()
    }

    fn latest_of(&self, class: &ClassName) -> Option<&Record> {
        let of_class = || self.records.iter().filter(|record| record.class.as_ref() == Some(class));
        let teller = of_class().map(|record| record.rank).min()?;
        of_class().rfind(|record| record.rank == teller)
    }

    /// What was said about all calls at once.
    pub(super) fn said(&self) -> Vec<Said<'_>> {
        let mut all: Vec<Said<'_>> = Vec::new();
        for record in self.records.iter().filter(|record| record.class.is_none()) {
            let same = |said: &&mut Said<'_>| {
                (said.reason, said.decision, said.index) == (&record.reason, record.decision, record.index)
            };
            match all.iter_mut().find(same) {
                Some(said) if said.logged_by.contains(&record.rank) => {}
                Some(said) => said.logged_by.push(record.rank),
                None => all.push(Said {
                    decision: record.decision,
                    reason: &record.reason,
                    index: record.index,
                    who: &record.who,
                    logged_by: vec![record.rank],
                }),
            }
        }
        all
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use airamp_policy::explain::Decision;

    pub(in crate::explain) fn record(rank: u32, from_bytes: u64, decision: Decision, reason: &str) -> Record {
        let class = ClassName {
            collective: "AllReduce".into(),
            datatype: "float32".into(),
            from_bytes,
            below_bytes: Some(4 * from_bytes),
        };
        Record {
            communicator: "00000000000000ab".into(),
            rank,
            ranks: 4,
            index: Some(12),
            class: Some(class),
            decision,
            reason: reason.into(),
            speedup: None,
            ours_us: None,
            vendor_us: None,
            vnmse: None,
            who: Vec::new(),
        }
    }

    #[test]
    fn the_last_decision_of_a_class_counts_and_the_lowest_rank_tells_it() {
        let records = vec![
            record(1, 4096, Decision::Compressed, "seen from rank 1"),
            record(0, 4096, Decision::Trial, "first"),
            record(0, 4096, Decision::Compressed, "then"),
            record(1, 4096, Decision::Vendor, "a rank that logs later"),
            record(0, 1024, Decision::Vendor, "small"),
        ];
        let communicators = gathered(records);
        assert_eq!(communicators.len(), 1);
        let reasons: Vec<&str> =
            communicators[0].latest().iter().map(|record| record.reason.as_str()).collect();
        assert_eq!(reasons, ["small", "then"]);
    }

    #[test]
    fn a_refusal_is_told_once_with_all_who_logged_it() {
        let refusal = |rank, reason: &str| Record {
            class: None,
            index: None,
            who: vec![2],
            ..record(rank, 0, Decision::Vendor, reason)
        };
        let communicators = gathered(vec![
            refusal(0, "rank 2: no memory"),
            refusal(1, "rank 2: no memory"),
            refusal(2, "no memory"),
        ]);
        let said = communicators[0].said();
        let told: Vec<(&str, &[u32])> =
            said.iter().map(|said| (said.reason, said.logged_by.as_slice())).collect();
        assert_eq!(told, [("rank 2: no memory", &[0, 1][..]), ("no memory", &[2][..])]);
        assert!(said.iter().all(|said| said.who == [2]));
    }
}
