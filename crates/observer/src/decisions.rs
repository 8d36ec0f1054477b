//! The decisions of a job's communicators: the newest as they were told, and for each class what holds now.
//! Every rank tells them; they are kept once. Bounded.

use std::collections::{BTreeMap, VecDeque};

use airamp_policy::explain::{ClassName, Decision, Record};

use crate::view::Class;

const RECORDS: usize = 128;
const CLASSES: usize = 512;

#[derive(Default)]
pub(crate) struct Decisions {
    records: VecDeque<Record>,
    classes: BTreeMap<Key, Held>,
    told: u64,
}

/// Communicator, collective, datatype, least bytes.
type Key = (String, String, String, u64);

struct Held {
    class: Class,
    told: u64,
}

impl Decisions {
    /// A line of a telemetry file; what is no record is left out.
    pub(crate) fn take(&mut self, json: &str) {
        let Ok(record) = serde_json::from_str::<Record>(json) else { return };
        self.told += 1;
        if let Some(name) = &record.class {
            self.settle(name, &record);
        }
        if self.records.iter().any(|known| is_same(known, &record)) {
            return;
        }
        if self.records.len() == RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.iter().cloned().collect()
    }

    pub(crate) fn classes(&self) -> Vec<Class> {
        self.classes.values().map(|held| held.class.clone()).collect()
    }

    fn settle(&mut self, name: &ClassName, record: &Record) {
        if record.decision == Decision::Withdrawn {
            return;
        }
        let key =
            (record.communicator.clone(), name.collective.clone(), name.datatype.clone(), name.from_bytes);
        let known = self.classes.get(&key).map(|held| &held.class);
        if known.is_some_and(|known| known.index > record.index) {
            return;
        }
        let class = class(name, record, known);
        self.classes.insert(key, Held { class, told: self.told });
        if self.classes.len() > CLASSES {
            let oldest = self.classes.iter().min_by_key(|(_, held)| held.told).map(|(key, _)| key.clone());
            oldest.map(|key| self.classes.remove(&key));
        }
    }
}

/// Numbers that this record does not repeat are those of the last one.
fn class(name: &ClassName, record: &Record, known: Option<&Class>) -> Class {
    Class {
        communicator: record.communicator.clone(),
        collective: name.collective.clone(),
        datatype: name.datatype.clone(),
        from_bytes: name.from_bytes,
        below_bytes: name.below_bytes,
        decision: word(record.decision).into(),
        reason: record.reason.clone(),
        speedup: record.speedup.or(known.and_then(|known| known.speedup)),
        vnmse: record.vnmse.or(known.and_then(|known| known.vnmse)),
        ours_us: record.ours_us.or(known.and_then(|known| known.ours_us)),
        vendor_us: record.vendor_us.or(known.and_then(|known| known.vendor_us)),
        index: record.index,
    }
}

fn is_same(known: &Record, record: &Record) -> bool {
    known.communicator == record.communicator
        && known.index == record.index
        && known.class == record.class
        && known.decision == record.decision
        && known.reason == record.reason
}

/// As in the record's JSON.
fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Vendor => "vendor",
        Decision::Compressed => "compressed",
        Decision::Trial => "trial",
        Decision::Would => "would",
        Decision::WouldNot => "would-not",
        Decision::Frozen => "frozen",
        Decision::Resumed => "resumed",
        Decision::Withdrawn => "withdrawn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(rank: u32, index: u64, from_bytes: u64, decision: &str, speedup: Option<f64>) -> String {
        let speedup = speedup.map_or(String::new(), |speedup| format!(r#","speedup":{speedup}"#));
        format!(
            r#"{{"communicator":"00000000000000aa","rank":{rank},"ranks":4,"index":{index},"class":{{"collective":"AllReduce","datatype":"bfloat16","from_bytes":{from_bytes}}},"decision":"{decision}","reason":"because"{speedup}}}"#
        )
    }

    #[test]
    fn what_every_rank_tells_is_kept_once_and_the_newest_holds() {
        let mut decisions = Decisions::default();
        for rank in 0..4 {
            decisions.take(&json(rank, 8, 4096, "trial", None));
            decisions.take(&json(rank, 64, 4096, "compressed", Some(1.7)));
        }
        assert_eq!(decisions.records().len(), 2);
        let classes = decisions.classes();
        assert_eq!((classes.len(), classes[0].decision.as_ref()), (1, "compressed"));
        assert_eq!((classes[0].speedup, classes[0].index), (Some(1.7), Some(64)));
    }

    #[test]
    fn a_frozen_class_keeps_the_numbers_of_its_trial() {
        let mut decisions = Decisions::default();
        decisions.take(&json(0, 64, 4096, "compressed", Some(1.7)));
        decisions.take(&json(0, 90, 4096, "frozen", None));
        let class = &decisions.classes()[0];
        assert_eq!((class.decision.as_ref(), class.speedup), ("frozen", Some(1.7)));
    }

    #[test]
    fn a_withdrawn_proposal_changes_no_class() {
        let mut decisions = Decisions::default();
        decisions.take(&json(0, 64, 4096, "vendor", Some(0.9)));
        decisions.take(&json(0, 90, 4096, "withdrawn", None));
        assert_eq!(decisions.classes()[0].decision, "vendor");
    }

    #[test]
    fn what_is_no_record_is_left_out_and_thousands_stay_bounded() {
        let mut decisions = Decisions::default();
        for hostile in ["", "{}", "null", r#"{"communicator":1}"#, &json(0, 1, 2, "nonsense", None)] {
            decisions.take(hostile);
        }
        assert!(decisions.records().is_empty());
        (0..5000).for_each(|from| decisions.take(&json(0, from, from, "vendor", Some(1e308))));
        assert_eq!((decisions.records().len(), decisions.classes().len()), (RECORDS, CLASSES));
    }

    #[test]
    fn words_are_those_of_the_records() {
        for decision in [Decision::Vendor, Decision::WouldNot, Decision::Withdrawn, Decision::Resumed] {
            assert_eq!(serde_json::to_value(decision).expect("a word"), word(decision));
        }
    }
}
