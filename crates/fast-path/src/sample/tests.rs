//! Samples of calls of many lengths, and deviations of a few elements.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn runs_lie_in_the_call_apart_from_each_other_and_in_places_of_their_own(count in prop_oneof![0..20_000_usize, any::<usize>()]) {
        let (mut next, mut next_place) = (0, 0);
        for run in runs(count) {
            prop_assert!(run.elements > 0 && run.start >= next && run.place >= next_place);
            (next, next_place) = (run.start + run.elements, run.place + run.elements);
            prop_assert!(run.place % (WORD / 2) == 0);
        }
        prop_assert!(next <= count && next_place * 4 <= SAMPLE_BYTES);
        let sampled: usize = runs(count).map(|run| run.elements).sum();
        prop_assert_eq!(sampled, count.min(RUNS * RUN));
    }

    #[test]
    fn parts_of_a_run_are_the_run(count in 1..1_000_000_usize, length in 1..5000_usize) {
        for run in runs(count) {
            let cuts = (0..count).step_by(length);
            let parts: Vec<Run> = cuts.filter_map(|start| run.within(start, length)).collect();
            let (mut start, mut place) = (run.start, run.place);
            for part in parts {
                prop_assert_eq!((part.start, part.place), (start, place));
                (start, place) = (start + part.elements, place + part.elements);
            }
            prop_assert_eq!(start, run.start + run.elements);
        }
    }
}

#[test]
fn a_short_call_is_its_own_sample() {
    assert_eq!(runs(0).count(), 0);
    assert_eq!(runs(3).collect::<Vec<_>>(), [Run { start: 0, elements: 3, place: 0 }]);
    assert!(runs(8192).all(|run| run.start == run.place && run.elements == RUN));
}

fn words(values: &[f32]) -> impl Fn(usize) -> u64 {
    let at = |index: usize| u64::from(values.get(index).copied().unwrap_or(f32::NAN).to_bits());
    move |offset| at(offset / 4) | at(offset / 4 + 1) << 32
}

fn deviation(ours: &[f32], exact: &[f32]) -> Deviation {
    Deviation::of(Element::F32, exact.len(), words(ours), words(exact))
}

#[test]
fn what_lies_behind_the_last_element_does_not_count() {
    let found = deviation(&[1.0, 2.0, 5.0], &[1.0, 4.0, 4.0]);
    assert_eq!(found, Deviation { squared_error: 5.0, signal: 33.0 });
}

#[test]
fn an_exact_result_that_is_not_finite_does_not_count_but_one_of_ours_is_infinitely_wrong() {
    let found = deviation(&[f32::INFINITY, f32::NAN, 1.0], &[f32::INFINITY, f32::NAN, 1.0]);
    assert_eq!(found, Deviation { squared_error: 0.0, signal: 1.0 });
    assert_eq!(deviation(&[f32::NAN, 2.0], &[1.0, 2.0]).squared_error, f64::INFINITY);
}

#[test]
fn every_type_is_read_as_it_lies_in_memory() {
    let halves = [0x3c00_u64, 0xc000, 0x0001, 0x7bff];
    let word = halves.iter().rev().fold(0, |word, half| word << 16 | half);
    let smallest = 2.0_f64.powi(-24);
    assert_eq!(values(Element::F16, word).collect::<Vec<_>>(), [1.0, -2.0, smallest, 65504.0]);
    assert_eq!(values(Element::Bf16, 0x3f80_c000).take(2).collect::<Vec<_>>(), [-2.0, 1.0]);
    assert_eq!(values(Element::F32, 0x3f80_0000_c000_0000).collect::<Vec<_>>(), [-2.0, 1.0]);
}
