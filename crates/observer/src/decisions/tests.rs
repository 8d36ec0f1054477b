//! Claims about decisions: those of a tuner, and made-up ones.

use airamp_policy::{Class as Place, Element, Mode, Order, Report, ReportKind, Tuner, TunerConfig};

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

    fn order(&mut self, order: Order) {
        self.tuner.order(order);
        self.agree(0);
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

/// A decision about all classes.
fn all(index: u64, decision: &str) -> String {
    let one = json(0, index, 0, decision, None);
    let class = one.find(r#""class""#).expect("it names a class")..one.find(r#""decision""#).expect("one");
    [&one[..class.start], &one[class.end..]].concat()
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
fn an_order_holds_for_all_classes_of_its_communicator_until_it_is_taken_back() {
    let mut leader = Leader::compressing(Mode::On);
    let other = json(0, 5, 4096, "compressed", None).replace("aa\"", "bb\"");
    leader.decisions.take(&other);
    let shown = |leader: &Leader| -> Vec<(String, String, Option<f64>)> {
        let classes = leader.decisions.classes().into_iter();
        classes.map(|one| (one.decision.into(), one.reason, one.speedup)).collect()
    };
    let before = shown(&leader);
    leader.order(Order::Off);
    let off = ("vendor".to_owned(), "an operator's order".to_owned(), Some(2.0));
    assert_eq!(shown(&leader), [off, before[1].clone()]);
    leader.order(Order::On);
    let on = ("compressed".to_owned(), "an operator's order: as it was before".to_owned(), Some(2.0));
    assert_eq!(shown(&leader), [on, before[1].clone()]);
}

#[test]
fn a_communicator_whose_ranks_do_not_believe_each_other_shows_no_class_as_compressed() {
    let mut leader = Leader::compressing(Mode::On);
    leader.tuner.distrust("they lie");
    leader.agree(0);
    let class = leader.class();
    assert_eq!((class.decision.as_ref(), class.reason.as_str()), ("vendor", "they lie"));
}

#[test]
fn what_shadow_mode_measured_is_shown_beside_an_order() {
    let mut leader = Leader::compressing(Mode::Shadow);
    leader.agree(0);
    let trial = json(0, leader.index, 0, "trial", None);
    leader.decisions.take(&trial);
    leader.decisions.take(&all(leader.index + 10, "vendor"));
    let decisions: Vec<_> = leader.decisions.classes().into_iter().map(|one| one.decision).collect();
    assert_eq!(decisions, ["vendor", "would"]);
}

#[test]
fn an_old_order_and_one_that_says_nothing_of_classes_change_none() {
    let mut decisions = Decisions::default();
    decisions.take(&json(0, 64, 4096, "compressed", None));
    for other in [all(63, "vendor"), all(70, "frozen"), all(70, "withdrawn"), all(70, "resumed")] {
        decisions.take(&other);
        assert_eq!(decisions.classes()[0].decision, "compressed", "{other}");
    }
    decisions.take(&all(64, "vendor"));
    assert_eq!(decisions.classes()[0].decision, "vendor");
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
fn what_goes_to_another_job_leaves_the_first_and_of_two_the_newer_holds() {
    let (mut first, mut other) = (Decisions::default(), Decisions::default());
    let of_b = |index, decision| json(0, index, 4096, decision, None).replace("aa\"", "bb\"");
    first.take(&json(0, 64, 4096, "compressed", None));
    first.take(&of_b(80, "vendor"));
    other.take(&of_b(70, "compressed"));
    let theirs = first.split_off(&BTreeSet::from(["00000000000000bb".to_owned()]));
    assert_eq!((first.records().len(), first.classes().len()), (1, 1));
    other.join(theirs);
    let [class] = &other.classes()[..] else { panic!("{:?}", other.classes()) };
    assert_eq!((class.decision.as_ref(), class.index), ("vendor", Some(80)));
    assert_eq!(other.records().iter().map(|record| record.index).collect::<Vec<_>>(), [Some(70), Some(80)]);
    other.join(first);
    assert_eq!((other.records().len(), other.classes().len()), (3, 2));
}

#[test]
fn what_comes_from_other_jobs_stays_bounded() {
    let mut decisions = Decisions::default();
    for job in 0..4 {
        let mut other = Decisions::default();
        let theirs = (0..400).map(|from| json(0, from, 10_000 * job + from, "vendor", None));
        theirs.for_each(|one| other.take(&one));
        decisions.join(other);
    }
    assert_eq!((decisions.records().len(), decisions.classes().len()), (RECORDS, CLASSES));
    assert!(decisions.classes().iter().any(|class| class.from_bytes == 30_399), "the newest are kept");
}

#[test]
fn words_are_those_of_the_records() {
    for decision in [Decision::Vendor, Decision::WouldNot, Decision::Withdrawn, Decision::Resumed] {
        assert_eq!(serde_json::to_value(decision).expect("a word"), word(decision));
    }
}
