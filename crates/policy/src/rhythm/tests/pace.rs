//! Steps that become slower or faster.

use super::jobs::{ALL_REDUCE, MS};
use super::*;

/// 60 steps of 100 ms, then 60 of another length; communication as measured in each part.
fn changes(length_ms: u64, communication: Option<(u64, u64)>) -> Vec<Change> {
    let (mut job, mut changes) = (Job::new(0.05, 4), Vec::new());
    let mut rhythm = Box::new(Rhythm::new());
    for step in 0..120 {
        let (pause, measured) = if step < 60 {
            (100, communication.map(|both| both.0))
        } else {
            (length_ms, communication.map(|both| both.1))
        };
        job.beats.clear();
        for call in 0..20 {
            job.wait(pause * MS / 20);
            job.call(ALL_REDUCE, 1_000_000 + call);
        }
        changes.extend(job.beats.iter().filter_map(|beat| rhythm.hear(*beat).change));
        measured.into_iter().for_each(|ms| rhythm.communicated(ms * MS));
    }
    changes
}

#[test]
fn a_job_that_stays_as_it_is_does_not_change() {
    assert_eq!(changes(100, None), []);
}

#[test]
fn a_slower_step_is_told_with_the_step_at_which_it_began() {
    let [change] = changes(130, None)[..] else { panic!("{:?}", changes(130, None)) };
    // The first two steps pass before the lock.
    assert!((56..=59).contains(&change.began_at_step), "{change:?}");
    assert!((95 * MS..105 * MS).contains(&change.before_ns), "{change:?}");
    assert!((122 * MS..138 * MS).contains(&change.after_ns), "{change:?}");
    assert_eq!(change.grew, Grew::Unknown);
}

#[test]
fn a_faster_step_is_told_too() {
    let [change] = changes(80, None)[..] else { panic!("{:?}", changes(80, None)) };
    assert!(change.after_ns < change.before_ns, "{change:?}");
}

#[test]
fn what_grew_is_told_where_communication_was_measured() {
    for (before, after, grew) in
        [(40, 69, Grew::Communication), (40, 41, Grew::Compute), (40, 55, Grew::Both)]
    {
        let told = changes(130, Some((before, after)));
        assert_eq!(told.iter().map(|change| change.grew).collect::<Vec<_>>(), [grew], "{told:?}");
    }
}

#[test]
fn one_slow_step_is_no_change() {
    let mut job = Job::new(0.05, 4);
    for step in 0..200 {
        job.ddp_step(24);
        if step % 20 == 0 {
            job.wait(40 * MS);
        }
    }
    assert_eq!(play(&job).changes, []);
}
