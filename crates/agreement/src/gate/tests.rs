//! The gate's claims: one thread at a time first, then a race of real threads.

use super::{Gate, GateError};
use crate::message::{PLAN_BYTES, Plan, VENDOR_PLAN};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PLAN_A: Plan = [1; PLAN_BYTES];
const PLAN_B: Plan = [2; PLAN_BYTES];
const LONG: Duration = Duration::from_secs(30);

#[test]
fn without_a_start_everything_goes_to_the_vendor() {
    let gate = Gate::new();
    assert_eq!((gate.entry(0, 0), gate.entry(u64::MAX - 1, 63)), (Ok(0), Ok(0)));
    assert_eq!(gate.newest(), (0, VENDOR_PLAN));
}

#[test]
fn a_plan_holds_from_its_index_on() {
    let gate = Gate::new();
    gate.start(PLAN_A);
    gate.try_pledge(10, || 7).unwrap();
    gate.commit(10, PLAN_B);
    assert_eq!((gate.entry(9, 3), gate.entry(10, 3)), (Ok(1), Ok(2)));
    assert_eq!((gate.since(9), gate.since(10), gate.since(11)), (0, 10, 10));
    assert_eq!((gate.newest(), gate.pledged()), ((10, PLAN_B), None));
}

#[test]
fn a_start_that_comes_after_a_change_does_not_undo_it() {
    let gate = Gate::new();
    gate.try_pledge(10, || 0).unwrap();
    gate.commit(10, PLAN_B);
    gate.start(PLAN_A);
    assert_eq!((gate.entry(9, 0), gate.entry(10, 0)), (Ok(0), Ok(2)));
}

#[test]
fn a_place_outside_the_plan_belongs_to_the_vendor() {
    let gate = Gate::new();
    gate.start(PLAN_A);
    assert_eq!(gate.entry(0, PLAN_BYTES), Ok(0));
}

#[test]
fn a_pledge_for_a_reserved_index_is_refused_and_leaves_the_gate_open() {
    let gate = Gate::new();
    assert_eq!(gate.try_pledge(10, || 11), Err(11));
    assert_eq!((gate.pledged(), gate.entry(10, 0)), (None, Ok(0)));
    assert_eq!(gate.try_pledge(10, || 10), Ok(()));
}

#[test]
fn a_second_pledge_is_refused_while_one_is_open() {
    let gate = Gate::new();
    gate.try_pledge(10, || 0).unwrap();
    assert_eq!(gate.try_pledge(20, || 3), Err(3));
    assert_eq!(gate.pledged(), Some(10));
}

#[test]
fn switches_may_lie_ahead_as_long_as_no_plan_that_is_needed_is_lost() {
    let gate = Gate::new();
    for switch in 1..=6 {
        gate.try_pledge(switch * 10, || 3).unwrap();
        gate.commit(switch * 10, [switch as u8; PLAN_BYTES]);
    }
    assert_eq!(gate.try_pledge(55, || 3), Err(3), "a later switch is agreed");
    assert_eq!(gate.try_pledge(70, || 3), Err(3), "call 2 may not have asked yet");
    assert_eq!(gate.try_pledge(70, || 10), Err(10), "nor call 9");
    assert_eq!((gate.entry(9, 0), gate.entry(10, 0), gate.entry(65, 0)), (Ok(0), Ok(1), Ok(6)));
    assert_eq!(gate.try_pledge(70, || 11), Ok(()));
    gate.commit(70, PLAN_A);
    assert_eq!((gate.entry(10, 0), gate.entry(70, 0)), (Ok(1), Ok(PLAN_A[0])));
}

#[test]
fn a_commit_of_what_was_not_pledged_changes_nothing() {
    let gate = Gate::new();
    gate.commit(10, PLAN_A);
    gate.try_pledge(20, || 0).unwrap();
    gate.commit(10, PLAN_A);
    assert_eq!((gate.entry(19, 0), gate.pledged()), (Ok(0), Some(20)));
}

#[test]
fn calls_below_the_pledged_index_never_wait() {
    let gate = Gate::new();
    gate.try_pledge(10, || 0).unwrap();
    assert_eq!(gate.entry(9, 0), Ok(0));
    gate.lose();
    assert_eq!(gate.entry(9, 0), Ok(0));
}

/// A call at index 10 under a pledge for it: it must not return before `verdict`, and then as expected.
fn a_waiting_call_gets(expected: Result<u8, GateError>, verdict: impl FnOnce(&Gate)) {
    let gate = Gate::new();
    gate.try_pledge(10, || 0).unwrap();
    thread::scope(|scope| {
        let (out, result) = mpsc::channel();
        let gate = &gate;
        scope.spawn(move || out.send(gate.entry(10, 0)));
        assert!(result.recv_timeout(Duration::from_millis(20)).is_err(), "passed without a verdict");
        verdict(gate);
        assert_eq!(result.recv_timeout(LONG), Ok(expected));
    });
}

#[test]
fn a_call_at_the_pledged_index_waits_for_the_verdict() {
    a_waiting_call_gets(Ok(1), |gate| gate.commit(10, PLAN_A));
    a_waiting_call_gets(Ok(0), Gate::abort);
    a_waiting_call_gets(Err(GateError::Lost), Gate::lose);
    a_waiting_call_gets(Err(GateError::Ended), Gate::end);
}

#[test]
fn what_is_lost_stays_lost() {
    let gate = Gate::new();
    gate.try_pledge(10, || 0).unwrap();
    gate.lose();
    gate.commit(10, PLAN_A);
    gate.abort();
    gate.end();
    assert_eq!(gate.entry(10, 0), Err(GateError::Lost));
    assert_eq!(gate.try_pledge(20, || 0), Err(0));
}

#[test]
fn without_a_pledge_a_loss_fails_every_call() {
    let gate = Gate::new();
    gate.lose();
    assert_eq!(gate.entry(0, 0), Err(GateError::Lost));
}

#[test]
fn nothing_is_pledged_after_the_end() {
    let gate = Gate::new();
    gate.end();
    assert_eq!(gate.try_pledge(10, || 4), Err(4));
}

#[test]
fn a_call_whose_control_thread_has_died_gives_up_and_cannot_be_overtaken_by_a_verdict() {
    let gate = Gate::with_longest_wait(Duration::from_millis(1));
    gate.try_pledge(10, || 0).unwrap();
    assert_eq!(gate.entry(10, 0), Err(GateError::Lost));
    gate.commit(10, PLAN_A);
    assert_eq!(gate.entry(11, 0), Err(GateError::Lost));
}

#[test]
fn an_index_older_than_the_plans_kept_is_an_error_and_not_a_guess() {
    let gate = Gate::new();
    for switch in 1..=6 {
        gate.try_pledge(switch * 10, || switch * 10).unwrap();
        gate.commit(switch * 10, [switch as u8; PLAN_BYTES]);
    }
    assert_eq!((gate.entry(0, 0), gate.entry(25, 0)), (Ok(0), Ok(2)));
    gate.try_pledge(70, || 70).unwrap();
    gate.commit(70, PLAN_A);
    assert_eq!((gate.entry(0, 0), gate.entry(10, 0)), (Err(GateError::Lost), Ok(1)));
}

/// One thread reserves and asks, as a caller does; the other pledges as close in front of it as it can, and commits
/// plans that are numbered. What each index got must follow from the pledges that were granted.
#[test]
fn no_call_passes_a_granted_pledge_unaware() {
    const SWITCHES: usize = 1_000;
    const MOST_CALLS: usize = 50_000_000;
    let (gate, reserved, done) = (Gate::new(), AtomicU64::new(0), AtomicBool::new(false));
    let (seen, switches) = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(SeqCst) && seen.len() < MOST_CALLS {
                seen.push(gate.entry(reserved.fetch_add(1, SeqCst), 5).unwrap());
                (0..seen.len() % 32).for_each(|_| spin_loop());
            }
            done.store(true, SeqCst);
            seen
        });
        let switches = switch_often(SWITCHES, &gate, &reserved, &done);
        done.store(true, SeqCst);
        (caller.join().unwrap(), switches)
    });
    assert!(switches.len() > SWITCHES / 40, "the race was not run: {} switches", switches.len());
    let mut switches = switches.into_iter().peekable();
    let mut plan = 0;
    for (index, &byte) in seen.iter().enumerate() {
        while let Some((_, next)) = switches.next_if(|&(at, _)| at <= index as u64) {
            plan = next;
        }
        assert_eq!(byte, plan, "index {index}");
    }
}

fn switch_often(often: usize, gate: &Gate, reserved: &AtomicU64, done: &AtomicBool) -> Vec<(u64, u8)> {
    let mut switches = Vec::new();
    for attempt in 0_u64.. {
        if switches.len() == often || done.load(SeqCst) {
            break;
        }
        let at = reserved.load(SeqCst) + attempt % 4;
        if gate.try_pledge(at, || reserved.load(SeqCst)).is_err() {
            continue;
        }
        if attempt % 8 == 7 {
            gate.abort();
        } else {
            let number = (switches.len() + 1) as u8;
            gate.commit(at, [number; PLAN_BYTES]);
            switches.push((at, number));
        }
    }
    switches
}
