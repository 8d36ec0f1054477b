//! The decisions of a job's communicators: the newest as they were told, and for each class what holds now.
//! Every rank tells them; they are kept once. Bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
        match &record.class {
            Some(name) => self.settle(name, &record),
            None => self.settle_all(&record),
        }
        if self.records.iter().any(|known| is_same(known, &record)) {
            return;
        }
        if self.records.len() == RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// What is about these communicators, which is no longer this job's.
    pub(crate) fn split_off(&mut self, communicators: &BTreeSet<String>) -> Self {
        let records = std::mem::take(&mut self.records).into_iter();
        let (theirs, own) = records.partition(|record| communicators.contains(&record.communicator));
        self.records = own;
        let classes = std::mem::take(&mut self.classes).into_iter();
        let (their_classes, own) = classes.partition(|((name, ..), _)| communicators.contains(name));
        self.classes = own;
        Self { records: theirs, classes: their_classes, told: self.told }
    }

    /// What was another job's until now. Of a class that both have the newer holds.
    pub(crate) fn join(&mut self, theirs: Self) {
        self.told = self.told.max(theirs.told);
        for (key, held) in theirs.classes {
            let known = self.classes.get(&key);
            if known.is_none_or(|known| known.class.index < held.class.index) {
                self.classes.insert(key, held);
            }
        }
        self.records.extend(theirs.records);
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        self.records.drain(..self.records.len().saturating_sub(RECORDS));
        let too_many = self.classes.len().saturating_sub(CLASSES);
        let mut oldest: Vec<(u64, Key)> =
            self.classes.iter().map(|(key, held)| (held.told, key.clone())).collect();
        oldest.sort_unstable();
        for (_, key) in oldest.into_iter().take(too_many) {
            self.classes.remove(&key);
        }
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
        if known.is_some_and(|known| is_older(record, known)) {
            return;
        }
        let class = class(name, record, known);
        self.classes.insert(key, Held { class, told: self.told });
        if self.classes.len() > CLASSES {
            let oldest = self.classes.iter().min_by_key(|(_, held)| held.told).map(|(key, _)| key.clone());
            oldest.map(|key| self.classes.remove(&key));
        }
    }

    /// An operator's order, an error or distrust leaves everything to the vendor. Classes that go on after it are told
    /// one by one; of what shadow mode measured nothing is told again, and it was never more than what would be.
    fn settle_all(&mut self, record: &Record) {
        if record.decision != Decision::Vendor {
            return;
        }
        let classes = self.classes.values_mut().map(|held| &mut held.class);
        for class in classes.filter(|class| class.communicator == record.communicator) {
            if !is_older(record, class) && !is_shadow(class) {
                class.decision = word(record.decision).into();
                class.reason.clone_from(&record.reason);
                class.index = record.index.or(class.index);
            }
        }
    }
}

/// What this record does not repeat is that of the last one.
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
        index: record.index.or(known.and_then(|known| known.index)),
    }
}

/// What holds from no call on is told at once, and is the newest.
fn is_older(record: &Record, known: &Class) -> bool {
    record.index.is_some_and(|index| known.index.is_some_and(|known| known > index))
}

fn is_shadow(class: &Class) -> bool {
    [Decision::Would, Decision::WouldNot].map(word).contains(&class.decision.as_ref())
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
mod tests;
