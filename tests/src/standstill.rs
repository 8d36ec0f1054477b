//! A machine that stands still (others' work at real-time priority, a suspended virtual machine) ends waits and makes ranks
//! late by itself. A claim about time that fails while it did says nothing, and is tried again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ATTEMPTS: usize = 4;
const POLL: Duration = Duration::from_millis(20);

/// Tries the claim until it holds, or fails without a standstill of so long, four times at most.
pub fn unless_for(limit: Duration, claim: impl Fn()) {
    for _ in 1..ATTEMPTS {
        let (end, longest) = watched(|| catch_unwind(AssertUnwindSafe(&claim)));
        match end {
            Ok(()) => return,
            Err(panic) if longest < limit => resume_unwind(panic),
            Err(_) => println!("the machine stood still for {longest:.1?}; once more"),
        }
    }
    claim();
}

/// What the work comes to, and the longest that a thread beside it was kept from running.
fn watched<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut looked, mut longest) = (Instant::now(), Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                thread::sleep(POLL);
                longest = longest.max(looked.elapsed());
                looked = Instant::now();
            }
            longest
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        (result, watch.join().expect("it only sleeps"))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_claim_that_fails_on_a_machine_that_runs_is_tried_once() {
        let tries = Cell::new(0);
        let claim = || {
            tries.set(tries.get() + 1);
            panic!("as it should");
        };
        let ended = catch_unwind(AssertUnwindSafe(|| unless_for(Duration::from_secs(600), claim)));
        assert!(ended.is_err());
        assert_eq!(tries.get(), 1);
    }

    #[test]
    fn one_that_fails_while_it_stands_still_is_tried_again_and_four_times_at_most() {
        for holds_at in [3, 5] {
            let tries = Cell::new(0);
            let claim = || {
                tries.set(tries.get() + 1);
                assert_eq!(tries.get(), holds_at);
            };
            // Every look is that late.
            let ended = catch_unwind(AssertUnwindSafe(|| unless_for(Duration::ZERO, claim)));
            assert_eq!((ended.is_ok(), tries.get()), (holds_at == 3, holds_at.min(4)));
        }
    }
}
