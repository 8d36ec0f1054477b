//! Switches at an index, while application threads make calls.

mod support;

use airamp_agreement::{Order, Settled};
use std::sync::Arc;
use support::*;

#[test]
fn every_rank_switches_at_the_same_index_while_calls_are_made() {
    let hubs = hubs(3);
    let invitation = hubs[0].introduce(LOCAL).unwrap().into();
    let players: Vec<_> = (0..3)
        .map(|rank| {
            let brain = if rank == 0 {
                Thinker::with_plans(&[plan(1), plan(2), plan(3)])
            } else {
                Thinker::default()
            };
            let hello = airamp_agreement::Hello { rank, ranks: 3, terms: Vec::new() };
            sit_with(&hubs[rank as usize], invitation, hello, brain)
        })
        .collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    let seen = calls_of_all(&players, 3);
    let shortest = seen.iter().map(Vec::len).min().unwrap();
    assert_eq!(seen[0][..shortest], seen[1][..shortest]);
    assert_eq!(seen[0][..shortest], seen[2][..shortest]);
    let bytes: Vec<u8> = seen[0].iter().map(|(_, byte)| *byte).collect();
    assert!(bytes.is_sorted_by(|a, b| *a == 7 || a <= b), "first, then each plan in turn");
    for player in &players {
        eventually("the last plan", || player.brain.has_heard("committed 3 at"));
    }
    assert!(players[0].brain.has_heard("decided 3 true"));
}

#[test]
fn a_report_reaches_the_leaders_brain_and_its_next_plan_comes_back() {
    let hubs = hubs(3);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    eventually("the start", || players[0].brain.has_heard("started"));
    players[0].brain.0.lock().unwrap().plans.push(plan(9));
    players[2].seat.report(b"hi");
    eventually("the report", || players[0].brain.has_heard("report 2 [104, 105]"));
    for player in &players {
        eventually("the plan", || player.brain.has_heard("committed 9 at"));
        assert_eq!(player.gate.newest().1, plan(9));
    }
}

#[test]
fn a_brain_that_waits_is_asked_again_when_time_has_passed() {
    let hubs = hubs(2);
    let players = table(&hubs);
    players[0].brain.0.lock().unwrap().waits = true;
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    eventually("the start", || players[0].brain.has_heard("started"));
    players[0].brain.0.lock().unwrap().plans.push(plan(4));
    eventually("the plan", || players[1].brain.has_heard("committed 4 at"));
}

#[test]
fn an_order_reaches_the_leaders_brain_from_any_rank() {
    let hubs = hubs(3);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    players[2].seat.order(Order::Off);
    eventually("the order", || players[0].brain.has_heard("order Off"));
    players[0].seat.order(Order::On);
    eventually("the order", || players[0].brain.has_heard("order On"));
}

#[test]
fn a_rank_that_leaves_ends_all_changes_and_the_rest_goes_on() {
    let hubs = hubs(3);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    players[1].seat.end();
    eventually("the end of changes", || players[0].brain.has_heard("closed rank 1"));
    assert_eq!(players[2].call(), Ok((0, 7)));
}

#[test]
fn a_leader_that_ends_leaves_the_others_as_they_are() {
    let hubs = hubs(3);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    players[0].seat.end();
    for player in &players[1..] {
        assert_eq!(player.call(), Ok((0, 7)));
    }
}

#[test]
fn a_brain_with_a_defect_costs_its_plans_and_nothing_else() {
    for panics_at in ["first", "started", "report", "committed", "closed"] {
        let hubs = hubs(2);
        let players = table(&hubs);
        players[0].brain.0.lock().unwrap().panics_at = Some(panics_at);
        for settled in create_all(&players) {
            assert_eq!(settled, Settled::On, "{panics_at}");
        }
        players[1].seat.report(b"x");
        let expected = if panics_at == "first" { 0 } else { 7 };
        assert_eq!(players[1].call(), Ok((0, expected)), "{panics_at}");
    }
}

#[test]
fn a_defect_in_the_thread_ends_every_wait_and_not_the_process() {
    let hubs = hubs(2);
    let on = table(&hubs);
    assert!(create_all(&on).iter().all(|settled| *settled == Settled::On));
    let waiting = table(&hubs);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| waiting[0].create());
        eventually("the Hello", || waiting[0].seat.wait_until_hello_is_sent(std::time::Instant::now()));
        hubs[0].panic_for_tests();
        let settled = thread.join().unwrap();
        assert!(is_off(&settled), "{settled:?}");
    });
    // Nobody had pledged: the communicator goes on as it is.
    assert_eq!(on[0].call(), Ok((0, 7)));
    assert_eq!(on[1].call(), Ok((0, 7)));
    assert!(hubs[0].introduce(LOCAL).is_err());
    let late = sit(&hubs[0], waiting_invitation(), 0, 2);
    assert!(is_off(&late.seat.wait()));
}

#[test]
fn a_defect_in_the_thread_after_a_pledge_loses_what_was_pledged() {
    let hubs = hubs(2);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    players[1].gate.try_pledge(5, || 0).unwrap();
    hubs[1].panic_for_tests();
    assert_eq!(players[1].gate.entry(4, 0), Ok(7));
    let gate = Arc::clone(&players[1].gate);
    let call = std::thread::spawn(move || gate.entry(5, 0));
    eventually("the end of the wait", || call.is_finished());
    assert!(call.join().unwrap().is_err());
}

fn waiting_invitation() -> airamp_control::Invitation {
    airamp_control::Invitation { address: "127.0.0.1:1".parse().unwrap(), token: [0; 16], clique: 0 }
}
