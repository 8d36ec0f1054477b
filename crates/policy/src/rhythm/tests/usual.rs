//! Calls that are as expected take a shorter way, which must make no difference.

use super::jobs::{ALL_REDUCE, Job, MS};
use super::*;

/// The long way, on which every call is looked at.
fn hear_with_care(rhythm: &mut Rhythm, beat: &Beat) -> Heard {
    if rhythm.state != State::Locked || rhythm.listening != 0 {
        return rhythm.hear(*beat);
    }
    let gap_ns = rhythm.arrived(beat);
    rhythm.follow_with_care(Key::of(beat), gap_ns)
}

/// Hears each call in both ways, with borders passed on the short one or not; how many calls took it.
fn compare(job: &Job, passes_borders: bool) -> usize {
    let (mut long, mut short) = (Box::<Rhythm>::default(), Box::<Rhythm>::default());
    let (mut usual, mut last_ns) = (0, 0);
    for beat in &job.beats {
        let heard = hear_with_care(&mut long, beat);
        let gap_ns = beat.at_ns.saturating_sub(last_ns) as i64 as f32;
        last_ns = beat.at_ns;
        if short.hear_usual(Key::of(beat), gap_ns, || passes_borders) {
            usual += 1;
            short.last_came_at(beat.at_ns);
            let Heard { step_began, burst_began, step_ends, burst_ends, .. } = heard;
            assert!(passes_borders || !(step_began | burst_began | step_ends | burst_ends));
            assert_eq!(heard, Heard { step_began, burst_began, step_ends, burst_ends, ..Heard::default() });
        } else {
            assert_eq!(short.hear(*beat), heard);
        }
        assert_eq!((short.state(), short.step(), short.next()), (long.state(), long.step(), long.next()));
        assert_eq!((short.confidence(), short.period_ns()), (long.confidence(), long.period_ns()));
    }
    usual
}

#[test]
fn a_call_on_the_short_way_leaves_what_it_would_have_left_on_the_long_one() {
    let mut job = Job::new(0.1, 7);
    job.ddp(24, 40);
    job.call(ALL_REDUCE, 77);
    job.ddp(24, 3);
    job.wait(900 * MS);
    job.ddp(24, 40);
    let (inside, all) = (compare(&job, false), compare(&job, true));
    assert!(inside > job.beats.len() / 4, "{inside} of {}", job.beats.len());
    assert!(all > inside, "{all}, {inside} without borders");
}

#[test]
fn calls_whose_bytes_vary_take_the_short_way_too() {
    let mut job = Job::new(0.1, 7);
    for step in 0..200 {
        let batch = 8 + step / 4 * 7 % 9;
        job.decode_step(32, batch, true);
    }
    let (inside, all) = (compare(&job, false), compare(&job, true));
    assert!(inside * 2 > job.beats.len(), "{inside} of {}", job.beats.len());
    assert!(all > inside, "{all}, {inside} without borders");
}

#[test]
fn a_step_of_one_call_takes_the_short_way_where_nobody_heeds_borders() {
    let mut job = Job::new(0.05, 7);
    for _ in 0..4000 {
        job.wait(MS / 10);
        job.call(ALL_REDUCE, 16_384);
    }
    let all = compare(&job, true);
    assert!(all > 1500, "{all}");
    assert_eq!(compare(&job, false), 0);
}
