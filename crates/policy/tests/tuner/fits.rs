//! Variants that are tried only for calls that they fit.

use crate::bench::{Bench, COUNT, FAST, SLOW, Said, config};
use airamp_policy::explain::Decision;
use airamp_policy::{Entry, ReportKind, TunerConfig};

const FITS: ReportKind = ReportKind::Fits { variant: 2, calls: 24, largest: COUNT };

fn fitted() -> TunerConfig {
    TunerConfig { variants: 1, fitted: 2, ..config() }
}

#[test]
fn a_variant_that_nobody_says_fits_is_never_tried() {
    let mut bench = Bench::trying(fitted());
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
    assert!(!bench.agree());
}

#[test]
fn one_that_fits_is_tried_once_the_class_is_settled_and_chosen_if_it_is_quicker() {
    let mut bench = Bench::compressing(fitted());
    bench.report(0, FITS);
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Trial { variant: 2, .. }), "{:?}", bench.entry());
    bench.expect_record(Decision::Trial, "24 in a step of up to 1048576 elements");
    bench.round(|_, _| Said { ours_us: 80.0, ..FAST });
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 2 });
}

#[test]
fn one_that_fits_and_is_slower_changes_nothing() {
    let mut bench = Bench::compressing(fitted());
    bench.report(0, FITS);
    assert!(bench.agree());
    bench.round(|_, _| Said { ours_us: 150.0, ..FAST });
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
    bench.report(0, FITS);
    assert!(!bench.agree(), "it was tried");
}

#[test]
fn one_that_is_named_while_others_are_tried_comes_after_them() {
    let mut bench = Bench::trying(TunerConfig { variants: 2, ..fitted() });
    bench.report(0, ReportKind::Fits { variant: 3, calls: 1, largest: COUNT });
    for variant in [1, 3] {
        bench.round(|_, _| FAST);
        assert!(bench.agree());
        assert!(matches!(bench.entry(), Entry::Trial { variant: tried, .. } if tried == variant));
    }
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Compressed { .. }));
}

#[test]
fn only_rank_0_is_heard_since_ranks_may_know_different_steps() {
    let mut bench = Bench::compressing(fitted());
    bench.report(1, FITS);
    bench.report(2, ReportKind::Fits { variant: 1, calls: 2, largest: COUNT });
    assert!(!bench.agree());
}

#[test]
fn what_makes_no_sense_is_left_out() {
    let mut bench = Bench::compressing(fitted());
    for (variant, largest) in [(0, COUNT), (3, COUNT), (255, COUNT), (2, 1), (2, u64::MAX)] {
        bench.report(0, ReportKind::Fits { variant, calls: u32::MAX, largest });
        assert!(!bench.agree(), "{variant} {largest}");
    }
}

#[test]
fn a_rank_that_learns_another_step_all_the_time_is_not_heard_for_ever() {
    let mut bench = Bench::compressing(fitted());
    let mut trials = 0;
    for turn in 0..20 {
        bench.report(0, ReportKind::Fits { variant: 1 + turn % 2, calls: 2, largest: COUNT });
        if bench.agree() {
            trials += 1;
            bench.round(|_, _| Said { ours_us: 150.0, ..FAST });
            assert!(bench.agree());
        }
    }
    assert_eq!(trials, 3);
}

#[test]
fn a_class_that_did_not_pay_may_pay_in_the_variant_that_fits() {
    let mut bench = Bench::trying(fitted());
    bench.round(|_, _| SLOW);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
    bench.report(0, FITS);
    assert!(bench.agree());
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 2 });
}

#[test]
fn a_class_that_a_graph_holds_is_left_as_it_is() {
    let mut bench = Bench::compressing(fitted());
    bench.report(0, ReportKind::Captured { compressed: true });
    bench.report(0, FITS);
    assert!(!bench.agree());
}
