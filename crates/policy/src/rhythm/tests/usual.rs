//! Calls that are as expected take a shorter way, which must make no difference.

use super::jobs::{ALL_REDUCE, Job, MS};
use super::*;

#[test]
fn a_call_on_the_short_way_leaves_what_it_would_have_left_on_the_long_one() {
    let mut job = Job::new(0.1, 7);
    job.ddp(24, 40);
    job.call(ALL_REDUCE, 77);
    job.ddp(24, 3);
    job.wait(900 * MS);
    job.ddp(24, 40);
    let (mut long, mut short) = (Box::<Rhythm>::default(), Box::<Rhythm>::default());
    let mut usual = 0;
    for beat in &job.beats {
        let heard = long.hear(*beat);
        if short.hear_usual(beat) {
            usual += 1;
            assert_eq!(heard, Heard::default());
        } else {
            assert_eq!(short.hear(*beat), heard);
        }
        assert_eq!((short.state(), short.step(), short.next()), (long.state(), long.step(), long.next()));
        assert_eq!((short.confidence(), short.period_ns()), (long.confidence(), long.period_ns()));
    }
    assert!(usual > job.beats.len() / 4, "{usual} of {}", job.beats.len());
}

#[test]
fn what_comes_out_of_order_is_not_usual() {
    let mut job = Job::new(0.0, 7);
    job.ddp(24, 60);
    let mut rhythm = play(&job).rhythm;
    let next = rhythm.next().expect("it is locked");
    let early = Beat { kind: next.kind, datatype: next.datatype, bytes: next.bytes, at_ns: 0 };
    assert!(!rhythm.hear_usual(&early));
}
