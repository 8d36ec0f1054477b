//! Calls without a step, and any calls at all.

use super::jobs::{ALL_REDUCE, MS};
use super::*;
use proptest::prelude::*;

/// The share of a job's calls in which a step was believed.
fn believed(told: &Told, job: &Job) -> f64 {
    told.forecast as f64 / job.beats.len() as f64
}

#[test]
fn calls_that_do_not_repeat_end_in_learning() {
    for seed in 0..10 {
        let mut job = Job::new(0.3, seed);
        for _ in 0..8000 {
            job.wait(MS);
            let bytes = 8 + job.random() % 3;
            job.call(ALL_REDUCE, bytes);
        }
        let told = play(&job);
        assert_eq!(told.rhythm.state(), State::Learning, "seed {seed}: {told:?}");
        assert!(believed(&told, &job) < 0.02, "seed {seed}: {told:?}");
    }
}

#[test]
fn a_coin_that_falls_on_one_side_nine_times_in_ten_is_no_step() {
    for seed in 0..10 {
        let mut job = Job::new(0.1, seed);
        for _ in 0..8000 {
            job.wait(MS);
            let bytes = if job.random().is_multiple_of(10) { 16 } else { 8 };
            job.call(ALL_REDUCE, bytes);
        }
        let told = play(&job);
        assert!(believed(&told, &job) < 0.1, "seed {seed}: {told:?}");
    }
}

#[test]
fn steps_that_are_each_longer_than_the_last_end_in_learning() {
    let mut job = Job::new(0.1, 3);
    (1..150).for_each(|buckets| job.ddp_step(buckets));
    assert_eq!(play(&job).rhythm.state(), State::Learning);
}

/// A few sorts of calls at a few distances, as they come; repeated, so that steps are found and broken.
fn any_calls() -> impl Strategy<Value = Vec<(u8, u8, u64, u64)>> {
    let bytes = prop_oneof![Just(0_u64), Just(4), 1_u64..5000, Just(u64::MAX)];
    let pause = prop_oneof![Just(0_u64), 1_u64..100_000, Just(2 * MS), Just(70 * MS), Just(u64::MAX / 64)];
    let word = prop::collection::vec((0_u8..3, 0_u8..2, bytes, pause), 1..12);
    let repeated = (word, 1_usize..60).prop_map(|(word, times)| word.repeat(times));
    prop::collection::vec(repeated, 1..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_calls_are_borne_and_what_is_told_holds_together(calls in any_calls(), backwards in any::<bool>()) {
        let mut rhythm = Box::new(Rhythm::new());
        let mut at_ns = 0_u64;
        for (number, (kind, datatype, bytes, pause)) in calls.into_iter().enumerate() {
            at_ns = if backwards && number % 7 == 3 { at_ns.saturating_sub(pause) } else { at_ns.saturating_add(pause) };
            let before = (rhythm.state(), rhythm.step());
            let heard = rhythm.hear(Beat { kind, datatype, bytes, at_ns });
            if before.0 != rhythm.state() {
                prop_assert!(heard.state_changed);
            }
            prop_assert!(before.0 == State::Locked || heard.deviation.is_none());
            prop_assert_eq!(rhythm.step() - before.1, u64::from(heard.step_began));
            prop_assert!((0.0..=1.0).contains(&rhythm.confidence()));
            prop_assert_eq!(rhythm.next().is_some(), rhythm.state() == State::Locked);
            prop_assert_eq!(rhythm.period_calls() == 0, rhythm.state() == State::Learning);
            let in_bursts: u32 = rhythm.bursts().map(|burst| burst.calls).sum();
            prop_assert_eq!(in_bursts, rhythm.period_calls());
            if let Some(next) = rhythm.next() {
                prop_assert!(next.earliest_ns <= next.at_ns && next.at_ns <= next.latest_ns);
            }
        }
    }

    #[test]
    fn a_word_that_is_repeated_is_found(word in prop::collection::vec(0_u64..6, 3..60), seed in any::<u64>()) {
        let mut job = Job::new(0.1, seed);
        let steps = 60 + 300 / word.len();
        for _ in 0..steps {
            job.wait(50 * MS);
            for bytes in &word {
                job.wait(MS);
                job.call(ALL_REDUCE, 1000 + bytes);
            }
        }
        let told = play(&job);
        prop_assert_eq!(told.rhythm.state(), State::Locked);
        let calls = told.rhythm.period_calls() as usize;
        prop_assert!(calls > 0 && word.len().is_multiple_of(calls) || calls.is_multiple_of(word.len()), "{:?}", told);
    }
}
