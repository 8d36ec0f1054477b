//! Makes a failing job smaller while it still fails: fewer faults, steps, calls, repetitions, ranks. What fails by
//! chance is tried twice before a smaller job counts as fine.

use std::time::{Duration, Instant};

use super::fault::Fault;
use super::job::{Job, Kin, Step};

/// The smallest job found within the time for which `fails` holds.
pub fn shrink(job: &Job, limit: Duration, fails: &dyn Fn(&Job) -> bool) -> Job {
    let (began, mut smallest) = (Instant::now(), job.clone());
    loop {
        let next = smaller(&smallest).into_iter().find(|candidate| {
            began.elapsed() < limit && (fails(candidate) || began.elapsed() < limit && fails(candidate))
        });
        match next {
            Some(next) => smallest = next,
            None => return smallest,
        }
    }
}

/// Jobs with one thing less, those that take the most away first.
fn smaller(job: &Job) -> Vec<Job> {
    let mut all = Vec::new();
    for place in 0..job.faults.len() {
        let mut less = job.clone();
        less.faults.remove(place);
        all.extend((!less.faults.is_empty()).then_some(less));
    }
    let least = job.faults.iter().filter_map(Fault::rank).max().map_or(2, |rank| (rank + 1).max(2));
    all.extend((least..job.ranks).map(|ranks| Job { ranks, ..job.clone() }));
    all.extend((0..job.steps.len()).filter_map(|place| without_step(job, place)));
    all.extend(without_last_communicator(job));
    for place in 0..job.steps.len() {
        all.extend(with_less_in(job, place));
    }
    all
}

/// Faults that are due before a step stay where they are, or move to the one behind it.
fn without_step(job: &Job, place: usize) -> Option<Job> {
    if matches!(job.steps[place], Step::Make(_) | Step::End(_)) {
        return None;
    }
    let mut less = job.clone();
    less.steps.remove(place);
    for fault in &mut less.faults {
        if let Fault::Die { before_step, .. }
        | Fault::CutAll { before_step, .. }
        | Fault::CutOne { before_step, .. }
        | Fault::Pause { before_step, .. } = fault
            && *before_step > place
        {
            *before_step -= 1;
        }
    }
    Some(less)
}

/// Where nobody uses it any more.
fn without_last_communicator(job: &Job) -> Option<Job> {
    let last = job.communicators.len() - 1;
    let is_parent = job.communicators.iter().any(|kin| matches!(kin, Kin::Split { of, .. } if *of == last));
    let uses = |step: &Step| match step {
        Step::Calls { calls, .. } => calls.iter().any(|call| call.comm == last),
        Step::Messages { comm, .. } => *comm == last,
        _ => false,
    };
    if last == 0 || is_parent || job.steps.iter().any(uses) {
        return None;
    }
    let mut less = job.clone();
    less.communicators.pop();
    let about_it = |step: &Step| matches!(step, Step::Make(place) | Step::End(place) if *place == last);
    while let Some(place) = less.steps.iter().position(about_it) {
        let mut shorter = less.clone();
        shorter.steps[place] = Step::Forks(0);
        less = without_step(&shorter, place)?;
    }
    Some(less)
}

fn with_less_in(job: &Job, place: usize) -> Vec<Job> {
    let Step::Calls { calls, times, skew_us, .. } = &job.steps[place] else { return Vec::new() };
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Step)| {
        let mut less = job.clone();
        change(&mut less.steps[place]);
        all.push(less);
    };
    if *times > 1 {
        let half = times / 2;
        with(&|step| {
            if let Step::Calls { times, .. } = step {
                *times = half;
            }
        });
    }
    if *skew_us > 0 {
        with(&|step| {
            if let Step::Calls { skew_us, .. } = step {
                *skew_us = 0;
            }
        });
    }
    for number in 0..if calls.len() > 1 { calls.len() } else { 0 } {
        with(&|step| {
            if let Step::Calls { calls, .. } = step {
                calls.remove(number);
            }
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::planner::plan;
    use super::*;

    #[test]
    fn what_fails_by_one_fault_shrinks_to_that_fault() {
        let job = (0..).map(plan).find(|job| job.faults.len() == 3 && job.steps.len() > 5).unwrap();
        let wanted = job.faults[1].clone();
        let small = shrink(&job, Duration::from_secs(60), &|job| job.faults.contains(&wanted));
        assert_eq!(small.faults, [wanted]);
        let works =
            small.steps.iter().filter(|step| matches!(step, Step::Calls { .. } | Step::Messages { .. }));
        assert_eq!((works.count(), small.communicators.len()), (0, 1));
    }
}
