//! Steps that are found, left and found again.

use super::jobs::{ALL_REDUCE, BROADCAST, MS};
use super::*;

#[test]
fn it_takes_less_than_64_kib() {
    assert!(size_of::<Rhythm>() < 64 * 1024, "{}", size_of::<Rhythm>());
}

#[test]
fn buckets_are_a_step_after_three_of_them_however_uneven_their_times_are() {
    for jitter in [0.0, 0.05, 0.1, 0.15] {
        for buckets in [3, 6, 24, 200] {
            let mut job = Job::new(jitter, buckets);
            job.ddp(buckets, 40);
            let told = play(&job);
            assert_eq!(told.locks(), [buckets as u32], "jitter {jitter}: {told:?}");
            assert!(told.states[0].0 as u64 <= (buckets * 3).max(16), "jitter {jitter}: {told:?}");
            assert_eq!((told.right, told.deviations.len()), (told.forecast, 0), "jitter {jitter}: {told:?}");
        }
    }
}

fn calls_alike(pause_ns: u64, count: u64) -> Job {
    let mut job = Job::new(0.1, 3);
    for _ in 0..count {
        job.wait(pause_ns);
        job.call(ALL_REDUCE, 4096);
    }
    job
}

#[test]
fn a_step_of_one_call_is_believed_later_where_layers_look_like_it() {
    assert_eq!(play(&calls_alike(4 * MS, 63)).rhythm.state(), State::Learning);
    assert_eq!(play(&calls_alike(4 * MS, 103)).locks(), [1]);
}

#[test]
fn a_step_of_one_call_with_much_time_between_is_sure_after_a_dozen() {
    assert_eq!(play(&calls_alike(32 * MS, 9)).locks().len(), 0);
    let told = play(&calls_alike(32 * MS, 100));
    assert_eq!(told.locks(), [1], "{told:?}");
    assert!(told.states[0].0 <= 12, "{told:?}");
    assert_eq!(told.deviations, [], "{told:?}");
}

#[test]
fn slow_calls_whose_pauses_differ_are_not_believed_sooner() {
    let mut job = Job::new(0.1, 3);
    for call in 0..60 {
        job.wait(if call % 3 == 0 { 20 * MS } else { 40 * MS });
        job.call(ALL_REDUCE, 4096);
    }
    assert!(!play(&job).locks().contains(&1), "{:?}", play(&job));
}

#[test]
fn bursts_of_few_equal_calls_are_steps_however_uneven_their_times_are() {
    for jitter in [0.0, 0.1, 0.15] {
        for calls in 2..=7_u64 {
            for seed in 1..=8 {
                let mut job = Job::new(jitter, seed);
                for _ in 0..40 {
                    job.wait(40 * MS);
                    for _ in 0..calls {
                        job.wait(MS / 10);
                        job.call(ALL_REDUCE, 4096);
                    }
                }
                let told = play(&job);
                assert_eq!(
                    told.locks(),
                    [calls as u32],
                    "{calls} calls, jitter {jitter}, seed {seed}: {told:?}"
                );
                assert!(told.states[0].0 as u64 <= calls * 6, "{calls} calls, seed {seed}: {told:?}");
            }
        }
    }
}

#[test]
fn bursts_of_equal_calls_are_steps_within_five_also_where_the_first_are_slower() {
    for seed in 1..=8 {
        let mut job = Job::new(0.03, seed);
        for step in 0..40 {
            let slower = if step < 2 { 4 } else { 1 };
            job.wait(10 * MS * slower);
            for call in 0..24 {
                job.wait((if call % 6 == 5 { 5 * MS } else { 5 * MS / 2 }) * slower);
                job.call(ALL_REDUCE, 4096);
            }
        }
        let told = play(&job);
        assert_eq!(told.locks(), [24], "seed {seed}: {told:?}");
        assert!(told.states[0].0 < 24 * 5, "seed {seed}: {told:?}");
    }
}

#[test]
fn pairs_of_calls_are_no_bursts_because_other_calls_before_them_were_closer() {
    let mut job = Job::new(0.06, 3);
    for _ in 0..20 {
        for _ in 0..7 {
            job.wait(56 * MS);
            job.call(ALL_REDUCE, 8);
            job.wait(24 * MS);
            job.call(ALL_REDUCE, 4);
        }
        for _ in 0..10 {
            job.wait(7 * MS);
            job.call(ALL_REDUCE, 1 << 25);
        }
    }
    let told = play(&job);
    assert_eq!(told.locks().last(), Some(&24), "{told:?}");
    assert!(told.states.last().is_some_and(|(call, _)| *call <= 24 * 3), "{told:?}");
    assert_eq!(told.deviations, [], "{told:?}");
}

#[test]
fn layers_of_a_model_are_not_taken_for_its_step() {
    let mut job = Job::new(0.1, 3);
    (0..50).for_each(|_| job.fsdp_step(32));
    let told = play(&job);
    assert_eq!(told.locks(), [98], "{told:?}");
    assert!(told.states[0].0 < 98 * 4, "{told:?}");
    assert_eq!(told.right, told.forecast, "{told:?}");
}

#[test]
fn many_layers_that_were_taken_for_a_step_are_not_a_second_time() {
    let mut job = Job::new(0.1, 3);
    (0..50).for_each(|_| job.fsdp_step(80));
    let told = play(&job);
    let locks = told.locks();
    assert_eq!(locks.last(), Some(&242), "{told:?}");
    assert!(locks.len() <= 3, "{told:?}");
    assert!(told.states.last().is_some_and(|(call, _)| *call < 242 * 4), "{told:?}");
}

#[test]
fn what_comes_in_every_fourth_step_becomes_part_of_the_step() {
    let mut job = Job::new(0.1, 3);
    for step in 0..80 {
        job.ddp_step(24);
        if step % 4 == 3 {
            job.call(ALL_REDUCE, 4);
        }
    }
    let told = play(&job);
    assert_eq!(told.locks(), [24, 97], "{told:?}");
    assert_eq!(told.deviations.len(), 3, "only until the longer step was found: {told:?}");
}

#[test]
fn bytes_that_vary_with_the_batch_are_foretold_from_the_first_call_of_the_step() {
    let mut job = Job::new(0.1, 3);
    for _ in 0..200 {
        let batch = 8 + job.random() % 9;
        job.decode_step(32, batch, true);
    }
    let told = play(&job);
    assert_eq!(told.locks(), [65], "{told:?}");
    assert!(told.states[0].0 < 65 * 5, "{told:?}");
    assert!(told.forecast - told.right <= 200, "one call of a step, at most: {told:?}");
    assert_eq!(told.deviations, [], "{told:?}");
}

#[test]
fn calls_that_are_all_alike_are_told_apart_by_their_pauses() {
    for (layers, batches) in [(32, 9), (32, 1), (80, 1)] {
        let mut job = Job::new(0.1, 3);
        for _ in 0..60 {
            let batch = 8 + job.random() % batches;
            job.decode_step(layers, batch, false);
        }
        let told = play(&job);
        assert_eq!(told.locks(), [2 * layers as u32], "{told:?}");
        assert_eq!(told.deviations, [], "{told:?}");
    }
}

#[test]
fn a_pause_that_alone_tells_steps_apart_and_becomes_a_fraction_of_itself_is_learnt_anew() {
    for (calls, seed) in [(64, 3), (64, 4), (16, 3), (4, 3)] {
        let mut job = Job::new(0.1, seed);
        let steps = |job: &mut Job, pause_ns: u64, count: u64| {
            for _ in 0..count {
                job.wait(pause_ns);
                for _ in 0..calls {
                    job.wait(MS / 10);
                    job.call(ALL_REDUCE, 4096);
                }
            }
        };
        steps(&mut job, 90 * MS, 60);
        steps(&mut job, 15 * MS, 200);
        let told = play(&job);
        let (state, period_ns) = (told.rhythm.state(), told.rhythm.period_ns());
        assert_eq!(state, State::Locked, "{calls} calls: {told:?}");
        let now_ns = 15 * MS + calls * MS / 10;
        assert!(
            (now_ns * 3 / 4..now_ns * 5 / 4).contains(&period_ns),
            "{calls} calls, {period_ns} ns: {told:?}"
        );
        assert_eq!(told.locks(), [calls as u32; 2], "{told:?}");
        assert!(told.deviations.len() <= 2, "{told:?}");
    }
}

#[test]
fn a_step_that_once_goes_on_for_another_without_a_pause_is_left_for_no_other() {
    let mut job = Job::new(0.1, 3);
    for step in 0..60 {
        job.decode_step(32, 8, false);
        if step == 40 {
            (0..80).for_each(|_| {
                job.wait(MS / 10);
                job.call(ALL_REDUCE, 8 * 8192);
            });
        }
    }
    let told = play(&job);
    assert_eq!((told.locks(), told.deviations.len()), (vec![64], 1), "{told:?}");
}

#[test]
fn a_batch_that_begins_to_vary_is_told_twice_at_most() {
    let mut job = Job::new(0.1, 3);
    for step in 0..100 {
        job.decode_step(32, if step < 40 { 16 } else { 16 - step % 4 }, true);
    }
    let told = play(&job);
    assert_eq!(told.locks(), [65], "{told:?}");
    assert!(told.deviations.len() <= 2, "{told:?}");
}

#[test]
fn a_warm_up_of_other_calls_delays_it_by_the_warm_up_alone() {
    let mut job = Job::new(0.1, 3);
    for bytes in 0..30 {
        job.wait(3 * MS);
        job.call(BROADCAST, 1000 + bytes);
    }
    job.ddp(24, 40);
    let told = play(&job);
    assert_eq!(told.locks(), [24], "{told:?}");
    assert!(told.states[0].0 <= 30 + 24 * 3, "{told:?}");
}

#[test]
fn after_an_evaluation_the_same_step_holds_again_within_two() {
    let mut job = Job::new(0.1, 3);
    job.ddp(24, 50);
    for _ in 0..20 {
        job.wait(5 * MS);
        let bytes = job.random() % 1000;
        job.call(BROADCAST, bytes);
    }
    let resumed = job.beats.len();
    job.ddp(24, 50);
    let told = play(&job);
    let states: Vec<u32> = told.states.iter().map(|(_, calls)| *calls).collect();
    assert_eq!(states, [24, 0, 24], "{told:?}");
    assert!(told.states[2].0 < resumed + 2 * 24, "{told:?}");
}

#[test]
fn after_an_evaluation_with_a_rhythm_of_its_own_the_old_step_is_not_learnt_anew() {
    let mut job = Job::new(0.1, 3);
    job.ddp(24, 50);
    let evaluation = |job: &mut Job| {
        for _ in 0..100 {
            job.wait(5 * MS);
            (0..6).for_each(|bytes| job.call(BROADCAST, 4096 + bytes));
        }
        job.beats.len()
    };
    evaluation(&mut job);
    job.ddp(24, 50);
    let resumed = evaluation(&mut job);
    job.ddp(24, 10);
    let told = play(&job);
    assert_eq!(told.locks(), [24, 6, 24, 6, 24], "{told:?}");
    assert!(told.states.last().is_some_and(|(call, _)| *call < resumed + 2 * 24), "{told:?}");
}

#[test]
fn a_long_pause_is_a_break_and_no_late_call() {
    let mut job = Job::new(0.1, 3);
    job.ddp(24, 50);
    job.wait(2000 * MS);
    job.ddp(24, 50);
    let told = play(&job);
    assert_eq!(told.states[1..], [(50 * 24, 0), (50 * 24 + 3, 24)], "{told:?}");
    assert_eq!((told.late(), told.changes.len()), (0, 0), "{told:?}");
}

#[test]
fn a_pause_that_becomes_many_times_as_long_and_stays_so_is_known_in_the_third_step() {
    for jitter in [0.0, 0.1] {
        let mut job = Job::new(jitter, 3);
        let steps = |job: &mut Job, pause_ns: u64, count: u64| {
            for _ in 0..count {
                job.wait(pause_ns);
                for call in 0..16 {
                    job.wait(MS / 20);
                    job.call(ALL_REDUCE, if call == 0 { 2048 } else { 4096 });
                }
            }
            job.beats.len()
        };
        steps(&mut job, 10 * MS, 40);
        let known = steps(&mut job, 100 * MS, 3);
        let told = play(&job);
        let forecast = told.rhythm.next().expect("it is locked");
        let after = forecast.at_ns - job.beats[known - 1].at_ns;
        assert!((70 * MS..130 * MS).contains(&after), "{after}");
        steps(&mut job, 100 * MS, 20);
        let told = play(&job);
        assert!(told.states.iter().all(|(call, _)| *call < known), "it holds: {told:?}");
        assert!((80 * MS..130 * MS).contains(&told.rhythm.period_ns()), "{told:?}");
    }
}

#[test]
fn another_number_of_buckets_is_learnt_as_another_step() {
    let mut job = Job::new(0.1, 3);
    for buckets in [20, 24, 28, 8] {
        job.ddp(buckets, 50);
    }
    let told = play(&job);
    assert_eq!(told.locks(), [20, 24, 28, 8], "{told:?}");
    assert!(told.deviations.len() < 40, "{told:?}");
}

#[test]
fn two_steps_are_not_one_because_a_pause_is_hardly_one() {
    for seed in 1..=20 {
        let mut job = Job::new(0.1, seed);
        for _ in 0..100 {
            // About three times what is usual: it is a pause in some steps and in others not.
            job.wait(30 * MS);
            for call in 0..12 {
                job.wait(10 * MS);
                job.call(ALL_REDUCE, if call < 6 { 4096 } else { 8192 });
            }
        }
        assert_eq!(play(&job).locks(), [12], "seed {seed}");
    }
}

#[test]
fn bursts_are_the_calls_between_pauses() {
    let mut job = Job::new(0.0, 3);
    for _ in 0..20 {
        job.wait(30 * MS);
        job.call(ALL_REDUCE, 1000);
        job.wait(MS);
        job.call(ALL_REDUCE, 3000);
        job.wait(20 * MS);
        (0..6).for_each(|bytes| job.call(BROADCAST, bytes));
    }
    let bursts: Vec<Burst> = play(&job).rhythm.bursts().collect();
    let first = Burst { calls: 2, bytes: 4000, largest: 3000, idle_before_ns: 30 * MS };
    let second = Burst { calls: 6, bytes: 15, largest: 5, idle_before_ns: 20 * MS };
    assert_eq!(bursts, [first, second]);
}

#[test]
fn steps_and_bursts_begin_and_end_where_the_pauses_are() {
    let mut job = Job::new(0.1, 3);
    job.ddp(24, 50);
    let mut rhythm = Box::new(Rhythm::new());
    for (number, beat) in job.beats.iter().enumerate() {
        let expected = rhythm.next();
        let heard = rhythm.hear(*beat);
        let Some(expected) = expected else { continue };
        assert_eq!((heard.step_began, heard.burst_began), (number % 24 == 0, number % 24 == 0), "{number}");
        assert_eq!((heard.step_ends, heard.burst_ends), (number % 24 == 23, number % 24 == 23), "{number}");
        assert_eq!((expected.first_of_step, expected.first_of_burst), (heard.step_began, heard.burst_began));
    }
    assert_eq!(rhythm.step(), 47);
}
