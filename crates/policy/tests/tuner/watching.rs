//! After the decision: watching, trying again, captures and the bound on the error.

use airamp_policy::explain::Decision;
use airamp_policy::{Entry, Order, ReportKind};

use crate::bench::{Bench, COUNT, FAST, SLOW, Said, config};

#[test]
fn a_class_that_no_longer_pays_is_tried_again_and_exact_meanwhile() {
    let mut bench = Bench::compressing(config());
    assert!(!bench.watch(100, 100.0), "as promised");
    assert!(!bench.watch(7, 500.0), "seven samples are too few");
    assert!(bench.watch(1, 500.0));
    assert!(matches!(bench.entry(), Entry::Trial { .. }));
    bench.expect_record(Decision::Trial, "no longer pay: the vendor's took 200 us");
    bench.round(|_, _| SLOW);
    bench.agree();
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
}

#[test]
fn one_quick_call_in_eight_is_enough_to_go_on() {
    let mut bench = Bench::compressing(config());
    for _ in 0..20 {
        assert!(!bench.watch(7, 500.0));
        assert!(!bench.watch(1, 150.0));
    }
}

#[test]
fn compressed_calls_that_became_much_faster_are_a_reason_to_try_again() {
    let mut bench = Bench::compressing(config());
    assert!(!bench.watch(20, 70.0));
    assert!(bench.watch(8, 60.0));
    bench.expect_record(Decision::Trial, "conditions changed");
}

#[test]
fn a_class_that_is_off_is_tried_again_when_the_vendors_time_changed() {
    for (us, again) in [(140.0, false), (160.0, true), (70.0, false), (60.0, true)] {
        let mut bench = Bench::trying(config());
        bench.round(|_, _| SLOW);
        bench.agree();
        assert_eq!(bench.watch(8, us), again, "{us}");
    }
}

#[test]
fn a_call_of_another_size_has_the_benefit_of_the_doubt() {
    // Tried with three times as many elements: fewer may take longer for each.
    let mut bench = Bench::trying(config());
    bench.round(|_, _| Said { count: 3 * COUNT, ..FAST });
    bench.agree();
    assert!(!bench.watch_of(COUNT, 190.0), "no slower than the vendor with more");
    assert!(bench.watch_of(COUNT, 200.0));
    // Tried with a third: more may take less for each.
    let mut bench = Bench::compressing(config());
    assert!(!bench.watch_of(3 * COUNT, 150.0), "no quicker than a third of it");
    assert!(!bench.watch_of(3 * COUNT, 290.0));
    assert!(bench.watch_of(3 * COUNT, 600.0));
}

#[test]
fn a_class_that_could_not_be_measured_gets_another_chance() {
    let mut bench = Bench::trying(config());
    for _ in 0..3 {
        bench.round(|_, _| Said { measured: false, ..FAST });
        bench.agree();
    }
    assert_eq!(bench.entry(), Entry::Vendor { settled: false });
    assert!(bench.watch(8, 200.0));
    bench.round(|_, _| FAST);
    bench.agree();
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn retries_back_off_and_end_with_the_vendor() {
    let mut bench = Bench::compressing(config());
    for retry in 0..5 {
        let samples = 8 << retry;
        assert!(!bench.watch(samples - 1, 500.0), "retry {retry}");
        assert!(bench.watch(1, 500.0), "retry {retry}");
        bench.round(|_, _| FAST);
        bench.agree();
        assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
    }
    assert!(bench.watch(8 << 5, 500.0));
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
    bench.expect_record(Decision::Vendor, "not tried again");
    assert!(!bench.watch(10_000, 5_000.0), "for good");
}

#[test]
fn a_live_call_that_always_differs_from_its_dry_run_is_tried_again_only_once() {
    let mut bench = Bench::compressing(config());
    assert!(bench.watch(8, 50.0));
    bench.round(|_, _| FAST);
    bench.agree();
    assert!(!bench.watch(10_000, 50.0), "the second measurement confirmed the first");
    assert!(bench.watch(16, 20.0), "and this is a change");
}

#[test]
fn an_incomplete_sample_says_nothing() {
    let mut bench = Bench::compressing(config());
    for sample in 0..100 {
        for rank in 0..2 {
            let kind =
                ReportKind::Watch { index: bench.index + sample, compressed: true, count: COUNT, us: 9e3 };
            bench.report(rank, kind);
        }
    }
    assert!(!bench.agree());
}

#[test]
fn a_captured_class_stays_as_it_is() {
    let mut bench = Bench::compressing(config());
    bench.report(1, ReportKind::Captured { compressed: true });
    bench.expect_record(Decision::Frozen, "a graph holds calls of this class");
    assert!(!bench.watch(1000, 9_000.0));
    let mut bench = Bench::trying(config());
    bench.round(|_, _| SLOW);
    bench.agree();
    bench.report(0, ReportKind::Captured { compressed: false });
    assert!(!bench.watch(1000, 9_000.0));
}

#[test]
fn a_capture_while_a_class_is_tried_again_brings_back_what_the_graph_holds() {
    let mut bench = Bench::compressing(config());
    assert!(bench.watch(8, 500.0));
    bench.report(0, ReportKind::Captured { compressed: true });
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn a_graph_captured_before_anything_is_decided_does_not_stop_the_tuning() {
    let mut bench = Bench::trying(config());
    bench.report(0, ReportKind::Captured { compressed: false });
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

fn counters(dry_runs: u64, squared_error: f64, signal: f64) -> ReportKind {
    ReportKind::Counters { squared_error, signal, saturated: 0, non_finite_blocks: 0, foreign: 0, dry_runs }
}

#[test]
fn errors_of_dry_runs_are_not_those_of_compressed_calls() {
    let mut bench = Bench::trying(config());
    bench.report(1, counters(1, 1.0, 100.0));
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    // Of the last dry run, told late; then of compressed calls.
    bench.report(1, counters(2, 5.0, 300.0));
    bench.report(1, counters(2, 5.1, 400.0));
    assert!(!bench.agree(), "the compressed calls are within the bound");
    bench.report(1, counters(2, 6.0, 500.0));
    assert!(bench.agree());
    bench.expect_record(Decision::Vendor, "9.00e-3, above 0.002");
}

#[test]
fn an_error_above_the_bound_in_live_calls_switches_everything_off() {
    let mut bench = Bench::compressing(config());
    bench.report(1, counters(2, 0.1, 100.0));
    for nonsense in [f64::NAN, f64::INFINITY, -1.0] {
        bench.report(1, counters(2, nonsense, 200.0));
        bench.report(1, counters(2, 0.2, nonsense));
    }
    bench.report(1, counters(2, 0.1, 100.0));
    assert!(!bench.agree());
    bench.report(1, counters(2, 0.4, 200.0));
    assert!(bench.agree(), "0.3 of the last 100, though the total is within the bound");
    assert_eq!(bench.plan, [0; 64]);
    let record = bench.expect_record(Decision::Vendor, "3.00e-3, above 0.002");
    assert_eq!(record.who, [1]);
}

#[test]
fn a_class_whose_trials_never_come_keeps_the_bound_of_the_others() {
    let mut bench = Bench::compressing(config());
    bench.report(1, counters(2, 0.1, 100.0));
    // As a call that the first step makes and no other one does.
    bench.seen_another();
    assert!(bench.agree());
    bench.report(1, counters(2, 0.2, 200.0));
    assert!(!bench.agree());
    bench.report(1, counters(2, 9.9, 300.0));
    assert!(bench.agree());
    bench.expect_record(Decision::Vendor, "above 0.002");
}

#[test]
fn an_order_to_switch_off_tells_that_graphs_must_be_captured_again() {
    let mut bench = Bench::compressing(config());
    bench.report(0, ReportKind::Captured { compressed: true });
    bench.order(Order::Off);
    assert!(bench.agree());
    bench.expect_record(Decision::Vendor, "must be captured again");
}

impl Bench {
    /// A full window of compressed calls of this size.
    fn watch_of(&mut self, count: u64, us: f64) -> bool {
        for _ in 0..8 {
            self.index += 64;
            for rank in 0..self.config.ranks {
                let index = self.index;
                self.report(rank, ReportKind::Watch { index, compressed: true, count, us });
            }
        }
        self.agree()
    }
}
