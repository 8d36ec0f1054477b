//! Steps of one call or two, which are followed after five of them, until it shows that they are no step.

use super::jobs::{ALL_GATHER, ALL_REDUCE, BROADCAST, MS};
use super::*;

/// What does not fit.
type Odd = fn(&mut Job);

fn slow_steps(job: &mut Job, calls: u64, steps: u64) {
    for _ in 0..steps {
        for call in 0..calls {
            job.wait(32 * MS);
            job.call(ALL_REDUCE, 4096 + call);
        }
    }
}

#[test]
fn a_slow_step_of_one_call_or_two_is_followed_once_it_has_come_five_times() {
    for calls in [1, 2] {
        for seed in 1..=8 {
            let mut job = Job::new(0.1, seed);
            slow_steps(&mut job, calls, 5);
            let told = play(&job);
            assert_eq!(told.for_now, [(calls as usize * 5 - 1, calls as u32)], "seed {seed}: {told:?}");
            assert!(told.rhythm.is_provisional() && told.rhythm.next().is_some(), "{told:?}");
            assert!(told.rhythm.confidence() <= 0.5, "{}", told.rhythm.confidence());
            slow_steps(&mut job, calls, 20);
            let told = play(&job);
            assert_eq!(told.locks(), [calls as u32], "seed {seed}: {told:?}");
            assert!(!told.rhythm.is_provisional() && told.rhythm.confidence() > 0.9, "{told:?}");
            assert_eq!((told.right, told.deviations.len()), (told.forecast, 0), "seed {seed}: {told:?}");
        }
    }
}

#[test]
fn what_is_proposed_to_other_ranks_is_not_made_of_a_provisional_step() {
    let mut job = Job::new(0.1, 3);
    slow_steps(&mut job, 1, 5);
    assert_eq!(play(&job).rhythm.calls_of_step().count(), 0);
    slow_steps(&mut job, 1, 15);
    assert_eq!(play(&job).rhythm.calls_of_step().count(), 1);
}

#[test]
fn what_turns_out_to_be_no_step_is_given_up_at_once_and_without_a_word() {
    let odd: [(&str, Odd); 4] = [
        ("another call", |job| job.call(ALL_GATHER, 64)),
        ("other bytes", |job| job.call(ALL_REDUCE, 8192)),
        ("a pause", |job| job.wait(100 * MS)),
        ("a break", |job| job.wait(5000 * MS)),
    ];
    for (name, odd) in odd {
        let mut job = Job::new(0.05, 3);
        slow_steps(&mut job, 1, 7);
        odd(&mut job);
        job.wait(32 * MS);
        job.call(ALL_REDUCE, 4096);
        let told = play(&job);
        assert_eq!(told.rhythm.state(), State::Learning, "{name}: {told:?}");
        assert_eq!(
            (told.for_now.len(), told.states.len(), told.deviations.len()),
            (2, 0, 0),
            "{name}: {told:?}"
        );
    }
}

#[test]
fn a_step_that_a_pause_interrupts_while_it_is_provisional_is_found_again_soon() {
    for calls in [1, 2] {
        for seed in 1..=8 {
            for pause in [80 * MS, 100 * MS] {
                let mut job = Job::new(0.05, seed);
                slow_steps(&mut job, calls, 7);
                job.wait(pause);
                slow_steps(&mut job, calls, 20);
                let told = play(&job);
                assert_eq!(told.locks(), [calls as u32], "{calls} calls, {pause} ns, seed {seed}: {told:?}");
                assert_eq!((told.rhythm.state(), told.deviations.len()), (State::Locked, 0), "{told:?}");
            }
        }
    }
}

#[test]
fn bursts_of_slow_calls_of_which_each_looks_like_a_step_are_given_up_once_and_found_as_soon() {
    for calls in [6, 10] {
        for seed in 1..=8 {
            let mut job = Job::new(0.05, seed);
            for _ in 0..20 {
                job.wait(110 * MS);
                slow_steps(&mut job, 1, calls);
            }
            let told = play(&job);
            assert_eq!(told.locks(), [calls as u32], "{calls} calls, seed {seed}: {told:?}");
            assert!(told.states[0].0 as u64 <= calls * 4, "{calls} calls, seed {seed}: {told:?}");
            assert!(told.for_now.len() <= 2, "{calls} calls, seed {seed}: {told:?}");
        }
    }
}

#[test]
fn slow_layers_are_given_up_without_a_word_and_the_step_is_found_as_soon() {
    let mut job = Job::new(0.1, 3);
    for _ in 0..20 {
        for _ in 0..9 {
            job.wait(20 * MS);
            job.call(ALL_GATHER, 4 << 20);
        }
        job.wait(20 * MS);
        job.call(BROADCAST, 4);
    }
    let told = play(&job);
    assert_eq!(told.locks(), [10], "{told:?}");
    assert!(told.for_now.len() <= 2, "followed once and given up: {told:?}");
    assert!(told.states[0].0 <= 30, "{told:?}");
    assert_eq!(told.deviations, [], "{told:?}");
}

#[test]
fn layers_that_seemed_sure_are_given_up_without_a_word_too() {
    let mut job = Job::new(0.1, 3);
    for _ in 0..12 {
        slow_steps(&mut job, 1, 24);
        (0..24).for_each(|_| {
            job.wait(20 * MS);
            job.call(ALL_GATHER, 4 << 20);
            job.call(BROADCAST, 4);
        });
    }
    let told = play(&job);
    assert_eq!(told.locks().last(), Some(&72), "{told:?}");
    assert_eq!(told.deviations, [], "{told:?}");
}

#[test]
fn a_known_step_is_not_forgotten_for_a_provisional_one() {
    let mut job = Job::new(0.1, 3);
    job.ddp(24, 50);
    for round in 0..3 {
        job.call(BROADCAST, round);
        slow_steps(&mut job, 1, 7);
        job.ddp(24, 20);
    }
    let told = play(&job);
    assert!(told.locks().iter().all(|calls| *calls == 24), "{told:?}");
    assert_eq!((told.rhythm.state(), told.rhythm.period_calls()), (State::Locked, 24), "{told:?}");
    assert_eq!(told.late(), 0, "{told:?}");
}

#[test]
fn a_delay_is_seen_once_the_step_is_sure() {
    let mut job = Job::new(0.02, 3);
    slow_steps(&mut job, 1, 16);
    job.wait(7 * MS);
    slow_steps(&mut job, 1, 10);
    let told = play(&job);
    let [(16, Deviation::Late { by_ns })] = told.deviations[..] else { panic!("{told:?}") };
    assert!((5 * MS..9 * MS).contains(&by_ns), "{told:?}");
}
