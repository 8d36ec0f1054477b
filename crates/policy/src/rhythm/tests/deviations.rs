//! Calls that do not come as forecast.

use super::jobs::{ALL_GATHER, ALL_REDUCE, MS};
use super::*;

const BUCKETS: u64 = 24;

/// 40 steps, one in which something happens, and 20 more.
fn with_one_step(odd: impl Fn(&mut Job)) -> Told {
    let mut job = Job::new(0.05, 9);
    job.ddp(BUCKETS, 40);
    odd(&mut job);
    job.ddp(BUCKETS, 20);
    play(&job)
}

fn bytes_of(bucket: u64) -> u64 {
    25_000_000 + 4096 * bucket
}

#[test]
fn a_late_call_is_told_once_with_how_late_it_is() {
    let told = with_one_step(|job| job.wait(20 * MS));
    let [(960, Deviation::Late { by_ns })] = told.deviations[..] else { panic!("{told:?}") };
    assert!((17 * MS..23 * MS).contains(&by_ns), "{told:?}");
    assert_eq!(told.locks().len(), 1, "{told:?}");
}

#[test]
fn a_call_that_is_left_out_is_missing() {
    let told = with_one_step(|job| {
        job.wait(30 * MS);
        for bucket in (0..BUCKETS).filter(|bucket| *bucket != 7) {
            job.wait(2 * MS);
            job.call(ALL_REDUCE, bytes_of(bucket));
        }
    });
    let missing = Deviation::Missing { kind: ALL_REDUCE, bytes: bytes_of(7) };
    assert_eq!(told.deviations, [(967, missing)], "{told:?}");
    assert_eq!(told.locks().len(), 1, "{told:?}");
}

#[test]
fn the_rest_of_a_step_that_is_left_out_is_missing_at_the_next_one() {
    let told = with_one_step(|job| job.ddp_step(5));
    assert_eq!(
        told.deviations,
        [(965, Deviation::Missing { kind: ALL_REDUCE, bytes: bytes_of(5) })],
        "{told:?}"
    );
}

#[test]
fn a_call_that_has_no_place_is_extra() {
    for (kind, bytes) in [(ALL_GATHER, 25_000_000), (ALL_REDUCE, 4)] {
        let told = with_one_step(|job| job.call(kind, bytes));
        assert_eq!(told.deviations, [(960, Deviation::Extra)], "{told:?}");
        assert_eq!(told.locks().len(), 1, "{told:?}");
    }
}

#[test]
fn a_call_of_other_bytes_is_resized() {
    let told = with_one_step(|job| {
        job.wait(30 * MS);
        for bucket in 0..BUCKETS {
            job.wait(2 * MS);
            job.call(ALL_REDUCE, if bucket == 3 { 20_000_000 } else { bytes_of(bucket) });
        }
    });
    assert_eq!(told.deviations, [(963, Deviation::Resized { expected_bytes: bytes_of(3) })], "{told:?}");
}

#[test]
fn a_call_is_overdue_after_its_latest_time_and_never_while_nothing_is_known() {
    let mut job = Job::new(0.05, 9);
    job.ddp(BUCKETS, 1);
    assert_eq!(play(&job).rhythm.overdue(u64::MAX), None);
    job.ddp(BUCKETS, 40);
    let rhythm = play(&job).rhythm;
    let next = rhythm.next().expect("a forecast");
    assert!(next.earliest_ns < next.at_ns && next.at_ns < next.latest_ns, "{next:?}");
    assert_eq!(rhythm.overdue(next.latest_ns), None);
    assert_eq!(rhythm.overdue(next.latest_ns + 5), Some(5));
}

#[test]
fn calls_of_an_honest_job_are_hardly_ever_late() {
    let mut job = Job::new(0.2, 5);
    job.ddp(BUCKETS, 1000);
    let told = play(&job);
    assert!(told.late() * 1000 < job.beats.len(), "{}", told.late());
}

#[test]
fn after_calls_that_were_late_in_a_row_a_late_one_is_seen_soon_again() {
    let mut job = Job::new(0.0, 9);
    job.ddp(BUCKETS, 40);
    for _ in 0..4 {
        job.wait(25 * MS);
        job.ddp_step(BUCKETS);
    }
    job.ddp(BUCKETS, 1);
    let planted = job.beats.len();
    job.wait(24 * MS);
    job.ddp(BUCKETS, 20);
    let told = play(&job);
    let late = |(call, deviation): &(usize, Deviation)| {
        *call == planted && matches!(deviation, Deviation::Late { .. })
    };
    assert!(told.deviations.iter().any(late), "{told:?}");
}
