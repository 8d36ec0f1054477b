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
    use airamp_policy::{Class as Place, Element, Mode, Report, ReportKind, Tuner, TunerConfig};

    use super::*;

    const COUNT: u64 = 1 << 20;

    /// A tuner whose ranks agree on whatever it proposes, and what it has told.
    struct Leader {
        tuner: Tuner,
        index: u64,
        decisions: Decisions,
    }

    impl Leader {
        /// Of one class, whose trials said that compression takes half of the time.
        fn compressing(mode: Mode) -> Self {
            let (communicator, rank, ranks, variants, fitted) = (0xaa, 0, 1, 1, 0);
            let (min_speedup, max_vnmse, trial_budget_us) = (1.05, 2e-3, 1e7);
            let config = TunerConfig {
                communicator,
                rank,
                ranks,
                variants,
                fitted,
                mode,
                min_speedup,
                max_vnmse,
                trial_budget_us,
            };
            let (mut tuner, decisions) = (Tuner::new(config), Decisions::default());
            tuner.first(None);
            let mut leader = Self { tuner, index: 0, decisions };
            leader.report(ReportKind::Seen);
            leader.agree(0);
            (0..2).for_each(|iteration| leader.tried(iteration));
            leader.agree(0);
            leader
        }

        fn tried(&mut self, iteration: u8) {
            let (ours_us, vendor_us, squared_error, signal) = (100.0, 200.0, 1e-3, 10.0);
            self.report(ReportKind::Trial {
                index: self.index + u64::from(iteration),
                iteration,
                variant: 0,
                count: COUNT,
                ours_us,
                vendor_us,
                squared_error,
                signal,
                measured: true,
            });
        }

        fn report(&mut self, kind: ReportKind) {
            let place = Place::of(Element::F32, COUNT).place() as u8;
            self.tuner.report(0, &Report { place, kind });
            self.tell();
        }

        fn agree(&mut self, now_us: u64) {
            if let Some(plan) = self.tuner.next(now_us) {
                self.index += 10;
                self.tuner.decided(self.index, &plan, true);
            }
            self.tell();
        }

        fn tell(&mut self) {
            for record in self.tuner.drain_records() {
                self.decisions.take(&serde_json::to_string(&record).expect("a record is JSON"));
            }
        }

        fn class(&self) -> Class {
            let [class] = &self.decisions.classes()[..] else { panic!("{:?}", self.decisions.classes()) };
            class.clone()
        }
    }

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
    fn a_frozen_class_keeps_the_numbers_of_its_trial_and_the_call_from_which_on_it_held() {
        let mut leader = Leader::compressing(Mode::On);
        let at = leader.class().index;
        leader.report(ReportKind::Captured { compressed: true });
        let class = leader.class();
        assert_eq!((class.decision.as_ref(), class.speedup), ("frozen", Some(2.0)));
        assert!(class.index.is_some() && class.index == at, "{class:?}");
    }

    #[test]
    fn what_shadow_mode_measured_is_shown_until_it_measures_again() {
        let mut leader = Leader::compressing(Mode::Shadow);
        let class = leader.class();
        assert_eq!((class.decision.as_ref(), class.speedup), ("would", Some(2.0)));
        leader.agree(0);
        leader.agree(3_600_000_000);
        leader.agree(7_200_000_000);
        let class = leader.class();
        assert_eq!((class.decision.as_ref(), class.speedup), ("trial", Some(2.0)));
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
