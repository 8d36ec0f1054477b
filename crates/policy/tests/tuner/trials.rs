//! Trials: what they decide, and what they must never decide.

use airamp_policy::explain::Decision;
use airamp_policy::{Class, Element, Entry, Order, PLACES, Report, ReportKind, TunerConfig};

use crate::bench::{Bench, COUNT, FAST, SECOND, SLOW, Said, config};

#[test]
fn a_class_that_pays_on_all_ranks_is_compressed_with_its_numbers() {
    let mut bench = Bench::trying(config());
    bench.expect_record(Decision::Trial, "first call was seen");
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
    let record = bench.expect_record(Decision::Compressed, "variant 0");
    assert_eq!((record.index, record.communicator.as_str()), (Some(bench.index), "000000000000abcd"));
    assert_eq!((record.speedup, record.ours_us, record.vendor_us), (Some(2.0), Some(100.0), Some(200.0)));
    let name = record.class.expect("a class");
    assert_eq!(
        (name.datatype.as_str(), name.from_bytes, name.below_bytes),
        ("float32", 4 << 20, Some(16 << 20))
    );
    assert!(!bench.agree(), "decided once");
}

#[test]
fn a_class_that_does_not_pay_goes_to_the_vendor() {
    let mut bench = Bench::trying(config());
    bench.round(|_, _| SLOW);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
    let record = bench.expect_record(Decision::Vendor, "less than 1.05 times as fast (AIRAMP_MIN_SPEEDUP)");
    assert_eq!(record.speedup, Some(0.5));
}

#[test]
fn the_threshold_itself_is_enough() {
    for (vendor_us, entry) in
        [(105.0, Entry::Compressed { variant: 0 }), (104.9, Entry::Vendor { settled: true })]
    {
        let mut bench = Bench::trying(config());
        bench.round(|_, _| Said { vendor_us, ..FAST });
        bench.agree();
        assert_eq!(bench.entry(), entry, "{vendor_us}");
    }
}

#[test]
fn an_error_above_the_bound_keeps_a_class_exact() {
    for (squared_error, entry) in
        [(2e-2, Entry::Compressed { variant: 0 }), (2.1e-2, Entry::Vendor { settled: true })]
    {
        let mut bench = Bench::trying(config());
        bench.round(|_, _| Said { squared_error, ..FAST });
        bench.agree();
        assert_eq!(bench.entry(), entry, "{squared_error}");
    }
}

#[test]
fn one_iteration_with_too_large_an_error_is_enough_to_refuse() {
    let mut bench = Bench::trying(config());
    bench.round(|_, iteration| Said { squared_error: if iteration == 0 { 5.0 } else { 0.0 }, ..FAST });
    bench.agree();
    bench.expect_record(Decision::Vendor, "AIRAMP_MAX_VNMSE");
}

#[test]
fn silence_that_stays_silent_is_exact_and_noise_out_of_silence_is_not() {
    for (squared_error, entry) in
        [(0.0, Entry::Compressed { variant: 0 }), (1.0, Entry::Vendor { settled: true })]
    {
        let mut bench = Bench::trying(config());
        bench.round(|_, _| Said { squared_error, signal: 0.0, ..FAST });
        bench.agree();
        assert_eq!(bench.entry(), entry);
    }
}

#[test]
fn the_rank_that_waited_least_tells_the_true_cost() {
    // Rank 0 waits for the others in both paths; only rank 2 sees what they take.
    let mut bench = Bench::trying(config());
    bench.round(|rank, _| match rank {
        2 => SLOW,
        _ => Said { ours_us: 10_000.0, vendor_us: 90_000.0, ..FAST },
    });
    bench.agree();
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
    assert_eq!(bench.last_record().speedup, Some(0.5));
}

#[test]
fn the_better_of_two_iterations_counts_for_each_path() {
    let mut bench = Bench::trying(config());
    bench.round(|_, iteration| match iteration {
        0 => Said { ours_us: 5_000.0, vendor_us: 300.0, ..FAST },
        _ => Said { ours_us: 100.0, vendor_us: 4_000.0, ..FAST },
    });
    bench.agree();
    assert_eq!(bench.last_record().speedup, Some(3.0));
}

#[test]
fn of_two_sizes_only_the_second_counts() {
    let mut bench = Bench::trying(config());
    bench.round(|_, iteration| match iteration {
        0 => Said { count: 2 * COUNT, ours_us: 1.0, ..FAST },
        _ => SLOW,
    });
    bench.agree();
    assert_eq!(bench.last_record().speedup, Some(0.5));
}

#[test]
fn nothing_is_decided_before_every_rank_has_reported_every_trial() {
    let mut bench = Bench::trying(config());
    for (rank, iteration) in [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (2, 1), (2, 0)] {
        bench.trial(rank, iteration, FAST);
        assert!(!bench.agree(), "after rank {rank}, iteration {iteration}");
    }
    bench.trial(1, 1, FAST);
    assert!(bench.agree());
}

#[test]
fn a_rank_that_never_reports_leaves_the_class_to_the_vendor_and_is_named() {
    let mut bench = Bench::trying(config());
    for attempt in 0..3 {
        for iteration in 0..2 {
            bench.trial(0, iteration, FAST);
            bench.trial(2, iteration, FAST);
        }
        assert!(!bench.agree());
        bench.now_us += 59 * SECOND;
        assert!(!bench.agree(), "patience, attempt {attempt}");
        bench.now_us += SECOND;
        assert!(bench.agree(), "attempt {attempt}");
    }
    assert_eq!(bench.entry(), Entry::Vendor { settled: false });
    let record = bench.expect_record(Decision::Vendor, "did not report its trials, in 3 attempts");
    assert_eq!(record.who, [1]);
}

#[test]
fn a_class_whose_calls_do_not_come_is_waited_for() {
    let mut bench = Bench::trying(config());
    bench.now_us += 3600 * SECOND;
    assert!(!bench.agree());
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn numbers_that_are_none_count_as_not_measured() {
    let nonsense = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-9, 1e18];
    let wrong: Vec<Said> = nonsense
        .into_iter()
        .flat_map(|number| [Said { ours_us: number, ..FAST }, Said { vendor_us: number, ..FAST }])
        .chain([f64::NAN, f64::INFINITY, -1.0].map(|squared_error| Said { squared_error, ..FAST }))
        .chain([Said { measured: false, ..FAST }])
        .collect();
    for said in wrong {
        let mut bench = Bench::trying(config());
        for attempt in 0..3 {
            bench.round(|rank, iteration| if (rank, iteration) == (1, 1) { said } else { FAST });
            assert!(bench.agree(), "{said:?}, attempt {attempt}");
        }
        assert_eq!(bench.entry(), Entry::Vendor { settled: false }, "{said:?}");
        let record = bench.expect_record(Decision::Vendor, "could not be measured, in 3 attempts");
        assert_eq!(record.who, [1], "{said:?}");
        assert!(!bench.agree());
    }
}

#[test]
fn a_trial_that_was_not_measured_is_repeated() {
    let mut bench = Bench::trying(config());
    let first = bench.entry();
    bench.round(|_, _| Said { measured: false, ..FAST });
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Trial { variant: 0, .. }));
    assert_ne!(bench.entry(), first, "another round, so that the ranks try anew");
    bench.round(|_, _| FAST);
    bench.agree();
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn the_quickest_variant_that_pays_is_chosen() {
    let mut bench = Bench::trying(TunerConfig { variants: 3, ..config() });
    for (ours_us, vendor_us) in [(100.0, 300.0), (80.0, 160.0), (90.0, 900.0)] {
        bench.round(|_, _| Said { ours_us, vendor_us, ..FAST });
        assert!(bench.agree());
    }
    assert_eq!(bench.entry(), Entry::Compressed { variant: 1 });
    assert_eq!(bench.last_record().speedup, Some(2.0));
}

#[test]
fn a_quick_variant_with_too_large_an_error_is_passed_over() {
    let mut bench = Bench::trying(TunerConfig { variants: 2, ..config() });
    bench.round(|_, _| FAST);
    bench.agree();
    bench.round(|_, _| Said { ours_us: 1.0, squared_error: 1.0, ..FAST });
    bench.agree();
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
}

#[test]
fn a_hopeless_first_variant_ends_the_search() {
    let mut bench = Bench::trying(TunerConfig { variants: 3, ..config() });
    bench.round(|_, _| SLOW);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
}

#[test]
fn a_variant_that_does_not_suit_is_skipped() {
    let mut bench = Bench::trying(TunerConfig { variants: 2, ..config() });
    bench.report(1, ReportKind::Unsuitable { variant: 1 });
    assert!(!bench.agree(), "not the one that is tried");
    bench.report(1, ReportKind::Unsuitable { variant: 0 });
    assert!(bench.agree());
    assert!(matches!(bench.entry(), Entry::Trial { variant: 1, .. }));
    bench.report(2, ReportKind::Unsuitable { variant: 1 });
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Vendor { settled: false });
    bench.expect_record(Decision::Vendor, "more steps than one call may have");
}

#[test]
fn no_trial_begins_when_the_time_for_trials_is_spent() {
    let mut bench = Bench::trying(TunerConfig { variants: 3, trial_budget_us: 150.0, ..config() });
    bench.round(|_, _| FAST);
    assert!(bench.agree());
    assert_eq!(bench.entry(), Entry::Compressed { variant: 0 }, "decided by what was measured");
    bench.seen_another();
    assert!(!bench.agree());
    let mut none = Bench::new(TunerConfig { trial_budget_us: f64::NAN, ..config() });
    none.report(0, ReportKind::Seen);
    assert!(!none.agree());
}

#[test]
fn several_classes_go_into_one_plan() {
    let mut bench = Bench::new(config());
    for element in [Element::F16, Element::Bf16, Element::F32] {
        bench
            .tuner
            .report(0, &Report { place: Class::of(element, COUNT).place() as u8, kind: ReportKind::Seen });
    }
    assert!(bench.agree());
    assert_eq!(
        bench.plan.iter().filter(|byte| matches!(Entry::from_byte(**byte), Entry::Trial { .. })).count(),
        3
    );
    assert!(!bench.agree());
}

#[test]
fn only_one_proposal_is_open() {
    let mut bench = Bench::new(config());
    bench.report(0, ReportKind::Seen);
    let plan = bench.tuner.next(0).expect("a plan");
    assert_eq!(bench.tuner.next(0), None);
    bench.tuner.decided(5, &plan, false);
    assert_eq!(bench.tuner.next(0), Some(plan), "again after it failed");
}

#[test]
fn proposals_that_fail_again_and_again_come_less_and_less_often() {
    let mut bench = Bench::new(config());
    bench.report(0, ReportKind::Seen);
    let mut proposals = 0;
    for second in 0..3600 {
        for _ in 0..10 {
            let Some(plan) = bench.tuner.next(second * SECOND) else { break };
            proposals += 1;
            bench.tuner.decided(1, &plan, false);
        }
    }
    assert!((100..200).contains(&proposals), "{proposals}");
    assert!(bench.tuner.waits_for_time());
    assert!(bench.records().iter().all(|record| record.decision == Decision::Withdrawn));
}

#[test]
fn reports_from_before_the_round_do_not_count() {
    let mut bench = Bench::trying(config());
    bench.index -= 5;
    bench.round(|_, _| FAST);
    bench.index += 5;
    assert!(!bench.agree());
    bench.round(|_, _| SLOW);
    bench.agree();
    assert_eq!(bench.entry(), Entry::Vendor { settled: true });
}

#[test]
fn ranks_that_disagree_end_everything_and_are_named() {
    let changes: [fn(&mut ReportKind); 3] = [
        |kind| {
            if let ReportKind::Trial { index, .. } = kind {
                *index += 1
            }
        },
        |kind| {
            if let ReportKind::Trial { count, .. } = kind {
                *count += 1
            }
        },
        |kind| {
            if let ReportKind::Trial { variant, .. } = kind {
                *variant += 1
            }
        },
    ];
    for change in changes {
        let mut bench = Bench::compressing(config());
        let place = bench.seen_another();
        assert!(bench.agree());
        let honest = trial(bench.index);
        let mut wrong = honest;
        change(&mut wrong);
        bench.tuner.report(0, &Report { place, kind: honest });
        bench.tuner.report(2, &Report { place, kind: wrong });
        assert!(bench.agree());
        assert_eq!(bench.plan, [0; 64]);
        let record = bench.expect_record(Decision::Vendor, "ranks 0 and 2 disagree");
        assert_eq!(record.who, [0, 2]);
        bench.order(Order::Off);
        bench.order(Order::On);
        bench.report(0, ReportKind::Seen);
        assert!(!bench.agree(), "for good");
        assert_eq!(bench.tuner.tuning(1), None, "nothing of it is kept");
    }
}

#[test]
fn one_call_of_two_classes_is_a_disagreement() {
    let mut bench = Bench::trying(config());
    bench.trial(0, 0, FAST);
    let other = Class::of(Element::F16, COUNT);
    let kind = bench.trial_of(0, FAST);
    bench.tuner.report(1, &Report { place: other.place() as u8, kind });
    bench.agree();
    assert_eq!(bench.plan, [0; 64]);
    bench.expect_record(Decision::Vendor, "of one class on one, and of another");
}

#[test]
fn strangers_and_places_that_do_not_exist_change_nothing() {
    let mut bench = Bench::new(config());
    bench.tuner.report(3, &Report { place: 0, kind: ReportKind::Seen });
    bench.tuner.report(0, &Report { place: PLACES as u8, kind: ReportKind::Seen });
    bench.tuner.report(1, &Report { place: 0, kind: ReportKind::Seen });
    assert!(!bench.agree());
    let mut bench = Bench::trying(config());
    for iteration in 0..2 {
        bench.trial(0, iteration, FAST);
        bench.trial(1, iteration, FAST);
        bench.trial(3, iteration, FAST);
        bench.trial(2, iteration + 2, FAST);
    }
    assert!(!bench.agree());
}

fn trial(index: u64) -> ReportKind {
    ReportKind::Trial {
        index,
        iteration: 0,
        variant: 0,
        count: COUNT,
        ours_us: 1.0,
        vendor_us: 2.0,
        squared_error: 0.0,
        signal: 1.0,
        measured: true,
    }
}
