//! Modes, orders, and what an earlier job left.

use airamp_policy::cache::Tuning;
use airamp_policy::explain::Decision;
use airamp_policy::{Entry, Mode, Order, PLACES, ReportKind, Tuner, TunerConfig};

use crate::bench::{Bench, COUNT, FAST, SECOND, SLOW, class, compressed_places, config};

#[test]
fn an_order_switches_off_and_on_again() {
    let mut bench = Bench::compressing(config());
    let compressing = bench.plan;
    bench.order(Order::Off);
    bench.order(Order::Off);
    assert!(bench.agree());
    assert_eq!(bench.plan, [0; 64]);
    let record = bench.expect_record(Decision::Vendor, "an operator's order");
    assert!(!record.reason.contains("graphs"));
    assert!(!bench.watch(1000, 9_000.0), "off is off");
    bench.order(Order::On);
    assert!(bench.agree());
    assert_eq!(bench.plan, compressing);
    let decisions: Vec<Decision> = bench.records().iter().map(|record| record.decision).collect();
    assert_eq!(decisions, [Decision::Resumed, Decision::Compressed]);
}

#[test]
fn a_class_that_is_first_seen_while_off_is_tried_when_on_again() {
    let mut bench = Bench::new(config());
    bench.order(Order::Off);
    bench.report(0, ReportKind::Seen);
    assert!(!bench.agree(), "the plan is empty already");
    bench.order(Order::On);
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Trial { .. }));
}

#[test]
fn an_order_in_the_middle_of_a_round_begins_it_anew() {
    let mut bench = Bench::trying(config());
    let before = bench.entry();
    bench.trial(0, 0, FAST);
    bench.order(Order::Off);
    bench.agree();
    bench.order(Order::On);
    bench.agree();
    assert!(matches!(bench.entry(), Entry::Trial { variant: 0, .. }));
    assert_ne!(bench.entry(), before);
}

/// The ranks hear of the round all the same, and each tries it up to twice.
#[test]
fn an_order_while_a_round_is_being_agreed_on_begins_it_anew() {
    let mut bench = Bench::new(config());
    bench.report(0, ReportKind::Seen);
    let trial = bench.tuner.next(bench.now_us).expect("a trial");
    bench.order(Order::Off);
    bench.tuner.decided(10, &trial, true);
    bench.plan = trial;
    let heard_of = bench.entry();
    assert!(bench.agree() && bench.plan == [0; 64]);
    bench.order(Order::On);
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Trial { variant: 0, .. }));
    assert_ne!(bench.entry(), heard_of, "nobody would try it again");
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn shadow_mode_only_tries_and_tells_what_would_be() {
    let mut bench = Bench::trying(TunerConfig { mode: Mode::Shadow, ..config() });
    bench.round(|_, _| FAST);
    let record = bench.expect_record(Decision::Would, "variant 0");
    assert_eq!((record.speedup, record.vnmse), (Some(2.0), Some(1e-4)));
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: false });
    let mut rounds = 0;
    for _ in 0..24 * 3600 {
        bench.now_us += SECOND;
        if bench.agree() && matches!(bench.entry(), Entry::Trial { .. }) {
            rounds += 1;
            bench.round(|_, _| SLOW);
            bench.expect_record(Decision::WouldNot, "AIRAMP_MIN_SPEEDUP");
        }
        assert!(compressed_places(&bench.plan).is_empty());
    }
    assert!((20..40).contains(&rounds), "{rounds} in a day");
    assert_eq!(bench.tuner.tuning(1), None);
}

#[test]
fn shadow_mode_ends_with_the_time_for_trials() {
    let mut bench = Bench::trying(TunerConfig { mode: Mode::Shadow, trial_budget_us: 450.0, ..config() });
    let mut rounds = 0;
    for _ in 0..100_000 {
        if matches!(bench.entry(), Entry::Trial { .. }) {
            rounds += 1;
            bench.round(|_, _| FAST);
        }
        bench.now_us += SECOND;
        bench.agree();
    }
    assert_eq!(rounds, 3, "200 us each");
}

#[test]
fn forced_mode_compresses_everything_without_trials() {
    let mut bench = Bench::new(TunerConfig { mode: Mode::Forced, ..config() });
    assert_eq!(compressed_places(&bench.plan).len(), PLACES);
    bench.expect_record(Decision::Compressed, "AIRAMP_TEST_PLAN");
    bench.report(0, ReportKind::Seen);
    bench.round_of_noise();
    assert!(!bench.agree());
    bench.order(Order::Off);
    assert!(bench.agree());
    assert_eq!(bench.plan, [0; 64]);
}

#[test]
fn a_cached_tuning_is_decided_from_the_first_call_on() {
    let mut bench = Bench::compressing(config());
    bench.seen_another();
    bench.agree();
    let tuning = bench.tuner.tuning(7).expect("a tuning");
    assert_eq!(tuning.classes().len(), 1, "what is still tried is not kept");
    let mut next = Tuner::new(config());
    let plan = next.first(Some(&tuning));
    assert_eq!(compressed_places(&plan), [class().place()]);
    assert_eq!(next.next(0), None);
    let record = next.drain_records().next().expect("a record");
    assert_eq!((record.index, record.speedup), (Some(0), Some(2.0)));
    assert!(record.reason.contains("tuning cache"));
    assert_eq!(next.tuning(7), Some(tuning));
}

#[test]
fn a_cached_class_is_watched_like_any_other() {
    let tuning = Bench::compressing(config()).tuner.tuning(7).expect("a tuning");
    let mut bench = Bench::new(config());
    bench.plan = bench.tuner.first(Some(&tuning));
    assert!(!bench.watch(20, 100.0));
    assert!(bench.watch(8, 500.0));
}

#[test]
fn a_cached_class_without_numbers_is_measured_after_its_first_calls() {
    // A rank that was not the leader of the job before has none, and could not see that the class does not pay here.
    let plain = Tuning::of_plan(7, &Bench::compressing(config()).plan).expect("a tuning");
    let mut bench = Bench::new(config());
    bench.plan = bench.tuner.first(Some(&plain));
    assert!(!bench.watch(7, 200.0));
    assert!(bench.watch(1, 200.0));
    bench.expect_record(Decision::Trial, "numbers");
    bench.round(|_, _| SLOW);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
    // With the numbers it is watched like any other.
    let mut bench = Bench::new(config());
    bench.plan = bench.tuner.first(Some(&plain));
    assert!(bench.watch(8, 100.0));
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert!(!bench.watch(100, 100.0));
    assert!(bench.watch(16, 500.0));
    // What a graph holds stays as it is, and so does what there is no time to try.
    let mut bench = Bench::new(config());
    bench.plan = bench.tuner.first(Some(&plain));
    bench.report(0, ReportKind::Captured { compressed: true });
    assert!(!bench.watch(100, 500.0));
    let mut bench = Bench::new(TunerConfig { trial_budget_us: 0.0, ..config() });
    bench.plan = bench.tuner.first(Some(&plain));
    assert!(!bench.watch(100, 500.0));
}

#[test]
fn a_cached_variant_that_there_is_not_is_tuned_anew() {
    let mut plan = [0; 64];
    plan[class().place()] = Entry::Compressed { variant: 1 }.byte();
    let tuning = Tuning::of_plan(7, &plan).expect("a tuning");
    assert_eq!(Tuner::new(config()).first(Some(&tuning)), [0; 64]);
    assert_eq!(Tuner::new(TunerConfig { variants: 2, ..config() }).first(Some(&tuning)), plan);
    let shadow = TunerConfig { mode: Mode::Shadow, variants: 2, ..config() };
    assert_eq!(Tuner::new(shadow).first(Some(&tuning)), [0; 64], "shadow mode never compresses");
}

#[test]
fn nothing_is_proposed_any_more_when_no_change_can_be_agreed_on() {
    let mut bench = Bench::compressing(config());
    bench.tuner.closed("rank 2 has left");
    bench.order(Order::Off);
    assert!(!bench.agree());
    assert!(!bench.tuner.waits_for_time());
    bench.expect_record(Decision::Frozen, "rank 2 has left");
}

#[test]
fn ranks_that_distrust_each_other_go_to_the_vendor_for_good_and_it_is_told_why() {
    let mut bench = Bench::compressing(config());
    bench.tuner.distrust("rank 1 pledged out of turn");
    assert!(bench.tuner.has_stopped());
    assert!(bench.agree());
    assert_eq!(bench.plan, [0; 64]);
    bench.expect_record(Decision::Vendor, "rank 1 pledged out of turn");
    bench.order(Order::Off);
    bench.order(Order::On);
    assert!(!bench.agree());
    let mut undecided = Tuner::new(config());
    undecided.first(None);
    undecided.distrust("rank 1 pledged out of turn");
    assert_eq!(undecided.next(0), None);
    let told: Vec<_> = undecided.drain_records().map(|record| (record.decision, record.reason)).collect();
    assert_eq!(told, [(Decision::Vendor, "rank 1 pledged out of turn".to_owned())]);
}

impl Bench {
    fn round_of_noise(&mut self) {
        for rank in 0..3 {
            let kind = ReportKind::Counters {
                squared_error: 9.0,
                signal: 1.0,
                saturated: 1,
                non_finite_blocks: 1,
                foreign: 0,
                dry_runs: 0,
            };
            self.report(rank, kind);
            let index = self.index;
            self.report(rank, ReportKind::Watch { index, compressed: true, count: COUNT, us: 1.0 });
        }
    }
}
