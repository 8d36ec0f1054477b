//! Classes, the bytes of a plan, the ledger of trials, and reports on the wire.

use std::collections::BTreeSet;

use airamp_policy::{
    Class, Element, Entry, LONGEST_REPORT, PLACES, PLAN_BYTES, Report, ReportKind, TRIALS, TrialLedger,
};
use proptest::prelude::*;

const ELEMENTS: [Element; 3] = [Element::F16, Element::Bf16, Element::F32];

#[test]
fn every_class_has_a_byte_of_its_own() {
    let places: BTreeSet<usize> = (0..PLACES).filter_map(Class::from_place).map(Class::place).collect();
    assert_eq!(places.len(), PLACES);
    assert!(places.iter().all(|place| *place < PLAN_BYTES));
    assert_eq!(Class::from_place(PLACES), None);
    assert_eq!(Class::from_place(usize::MAX), None);
}

#[test]
fn classes_are_powers_of_four() {
    for (bytes, size) in
        [(0, 0), (1 << 10, 0), (4095, 0), (4096, 1), (1 << 20, 5), ((4 << 20) - 2, 5), (4 << 20, 6)]
    {
        assert_eq!(Class::of(Element::F16, bytes / 2).size(), size, "{bytes} bytes");
    }
    assert_eq!(Class::of(Element::F32, u64::MAX).size(), 15);
    assert_eq!(Class::of(Element::F32, 1 << 20).bytes(), (4 << 20, Some(16 << 20)));
    assert_eq!(Class::of(Element::F32, 1).bytes(), (0, Some(4096)));
    assert_eq!(Class::of(Element::F32, u64::MAX).bytes(), (1 << 40, None));
}

#[test]
fn every_byte_is_an_entry_and_every_entry_comes_back() {
    let mut entries = vec![Entry::Vendor { settled: false }, Entry::Vendor { settled: true }];
    for variant in 0..16 {
        entries.push(Entry::Compressed { variant });
        entries.extend((0..8).map(|round| Entry::Trial { variant, round }));
    }
    let bytes: BTreeSet<u8> = entries.iter().map(|entry| entry.byte()).collect();
    assert_eq!(bytes.len(), entries.len(), "no two share a byte");
    for entry in &entries {
        assert_eq!(Entry::from_byte(entry.byte()), *entry);
    }
    for byte in (0..=u8::MAX).filter(|byte| !bytes.contains(byte)) {
        assert_eq!(Entry::from_byte(byte), Entry::Vendor { settled: false }, "{byte:#x}");
    }
    assert_eq!(Entry::from_byte(0), Entry::Vendor { settled: false });
}

#[test]
fn the_first_calls_of_a_round_are_tried_and_no_more() {
    let class = Class::of(Element::F32, 1 << 20);
    let mut ledger = TrialLedger::new();
    assert_eq!([3, 5, 6, 9].map(|index| ledger.take(class, 1, index)), [Some(0), Some(1), None, None]);
    let other = Class::of(Element::F16, 1 << 20);
    assert_eq!(ledger.take(other, 1, 10), Some(0), "another class for itself");
    assert_eq!(
        [11, 12, 13].map(|index| ledger.take(class, 2, index)),
        [Some(0), Some(1), None],
        "a new round"
    );
}

#[test]
fn a_trial_that_was_rolled_back_has_not_been() {
    let class = Class::of(Element::F32, 1 << 20);
    let mut ledger = TrialLedger::new();
    assert_eq!(ledger.take(class, 0, 4), Some(0));
    assert_eq!(ledger.take(class, 0, 4), Some(0), "the same index again");
    assert_eq!(ledger.take(class, 0, 5), Some(1));
    // Indices 4 and 5 are rolled back, and another class has 4 now.
    ledger.forget_from(4);
    assert_eq!(ledger.take(class, 0, 5), Some(0));
    assert_eq!(ledger.take(class, 0, 6), Some(1));
    assert_eq!(ledger.take(class, 0, 7), None);
}

#[test]
fn a_roll_back_into_the_round_before_finds_it_as_it_was() {
    let class = Class::of(Element::F32, 1 << 20);
    let mut ledger = TrialLedger::new();
    assert_eq!([4, 7].map(|index| ledger.take(class, 0, index)), [Some(0), Some(1)]);
    assert_eq!([9, 10].map(|index| ledger.take(class, 1, index)), [Some(0), Some(1)]);
    assert_eq!(ledger.take(class, 0, 8), None, "the earlier round has had its trials");
    assert_eq!(ledger.take(class, 1, 9), Some(0));
}

#[test]
fn the_largest_index_is_an_index() {
    let class = Class::of(Element::F32, 1 << 20);
    let mut ledger = TrialLedger::new();
    assert_eq!(ledger.take(class, 0, u64::MAX - 1), Some(0));
    ledger.forget_from(0);
    assert_eq!(ledger.take(class, u8::MAX, u64::MAX), Some(0));
}

fn a_kind() -> impl Strategy<Value = ReportKind> {
    prop_oneof![
        Just(ReportKind::Seen),
        any::<u8>().prop_map(|variant| ReportKind::Unsuitable { variant }),
        any::<bool>().prop_map(|compressed| ReportKind::Captured { compressed }),
        any::<(u8, u32, u64)>().prop_map(|(variant, calls, largest)| ReportKind::Fits {
            variant,
            calls,
            largest
        }),
        (any::<u64>(), any::<bool>(), any::<u64>(), any::<f64>())
            .prop_map(|(index, compressed, count, us)| ReportKind::Watch { index, compressed, count, us }),
        (any::<[f64; 2]>(), any::<[u64; 4]>()).prop_map(
            |([squared_error, signal], [saturated, non_finite_blocks, foreign, dry_runs])| {
                ReportKind::Counters {
                    squared_error,
                    signal,
                    saturated,
                    non_finite_blocks,
                    foreign,
                    dry_runs,
                }
            }
        ),
        (any::<[u64; 2]>(), any::<[u8; 2]>(), any::<[f64; 4]>(), any::<bool>()).prop_map(
            |(
                [index, count],
                [iteration, variant],
                [ours_us, vendor_us, squared_error, signal],
                measured,
            )| {
                ReportKind::Trial {
                    index,
                    iteration,
                    variant,
                    count,
                    ours_us,
                    vendor_us,
                    squared_error,
                    signal,
                    measured,
                }
            }
        ),
    ]
}

proptest! {
    #[test]
    fn the_class_of_a_call_holds_its_bytes(element in 0..3_usize, count in any::<u64>(), shift in 0..64) {
        let (element, count) = (ELEMENTS[element], count >> shift);
        let class = Class::of(element, count);
        let bytes = count.saturating_mul(element.bytes());
        let (least, next) = class.bytes();
        prop_assert!(least <= bytes && next.is_none_or(|next| bytes < next), "{bytes} in {class:?}");
        prop_assert_eq!(Class::from_place(class.place()), Some(class));
    }

    #[test]
    fn a_report_comes_back_as_it_was_sent(place in any::<u8>(), kind in a_kind()) {
        let bytes = Report { place, kind }.encode();
        prop_assert!(bytes.len() <= LONGEST_REPORT);
        let back = Report::decode(&bytes).expect("a report");
        prop_assert_eq!(back.encode(), bytes);
    }

    #[test]
    fn a_report_with_a_byte_more_or_less_is_none(place in any::<u8>(), kind in a_kind(), more in any::<u8>()) {
        let mut bytes = Report { place, kind }.encode();
        bytes.push(more);
        prop_assert_eq!(Report::decode(&bytes), None);
        bytes.truncate(bytes.len() - 2);
        prop_assert_eq!(Report::decode(&bytes), None);
    }

    /// Two ranks see the same calls; one of them also begins some that it rolls back. Rounds come and go, also without
    /// a trial.
    #[test]
    fn ranks_choose_the_same_trials_whatever_was_rolled_back(
        calls in proptest::collection::vec((0..4_usize, 0..3_u8, any::<bool>(), 0..4_usize), 1..200),
    ) {
        let (mut plain, mut other) = (TrialLedger::new(), TrialLedger::new());
        let mut round = [0_u8; 4];
        for (index, (class, advance, rolled_back, idle)) in calls.iter().enumerate() {
            let index = index as u64;
            round[*class] = (round[*class] + u8::from(*advance == 2)) % 8;
            round[*idle] = (round[*idle] + u8::from(*advance == 1)) % 8;
            if *rolled_back {
                for (ahead, (class, ..)) in calls.iter().enumerate().skip(index as usize).take(3) {
                    other.forget_from(ahead as u64);
                    other.take(Class::from_place(3 - class).expect("a class"), round[3 - class], ahead as u64);
                }
            }
            plain.forget_from(index);
            other.forget_from(index);
            let class_of = Class::from_place(*class).expect("a class");
            let taken = plain.take(class_of, round[*class], index);
            prop_assert_eq!(other.take(class_of, round[*class], index), taken);
            prop_assert!(taken.is_none_or(|iteration| usize::from(iteration) < TRIALS));
        }
    }
}
