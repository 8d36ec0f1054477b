//! A connection is cut after each frame in turn, over creation and one switch: the ranks end alike or in an
//! error, and nobody waits for ever.

mod support;

use airamp_agreement::{GateError, Hello, Settled};
use airamp_control::{Cut, Invitation, Options, Timeouts};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use support::*;

/// Cuts are counted by the log line that tells of them, so that the tests take turns.
static CUTS: AtomicUsize = AtomicUsize::new(0);
static TURN: Mutex<()> = Mutex::new(());

/// After a cut for good every wait has ended by then.
const QUIET: Duration = Duration::from_millis(2500);

fn counting(cut: Option<Cut>) -> Options {
    let timeouts = Timeouts { consensus: Duration::from_secs(2), doubt: Duration::from_secs(2) };
    let mut options = Options { cut, timeouts, ..options() };
    options.log.info = |line| {
        if line.contains("injected cut") {
            CUTS.fetch_add(1, Ordering::SeqCst);
        }
    };
    options
}

/// What a rank went through: creation's end, and the calls up to the end of the run.
type Run = (Settled, Vec<(u64, Result<u8, GateError>)>);

/// Creation and, where it comes to it, one switch, with `ranks` processes; the id is made by `maker`.
fn run(ranks: u32, maker: usize, odd: u32, after: u64, forever: bool) -> Vec<Run> {
    let hubs: Vec<_> = (0..ranks)
        .map(|rank| {
            let cut = if rank == odd { cut(odd, after, forever) } else { None };
            hub(counting(cut))
        })
        .collect();
    let invitation = Invitation::from(hubs[maker].introduce(LOCAL).unwrap());
    let players: Vec<_> = (0..ranks)
        .map(|rank| {
            let brain = if rank == 0 { Thinker::with_plans(&[plan(1)]) } else { Thinker::default() };
            sit_with(&hubs[rank as usize], invitation, Hello { rank, ranks, terms: Vec::new() }, brain)
        })
        .collect();
    let (hellos, stop) = (Barrier::new(players.len()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let live = |player| live(player, &hellos, &stop);
        let threads: Vec<_> = players.iter().map(|player| scope.spawn(move || live(player))).collect();
        let (begun, before) = (Instant::now(), CUTS.load(Ordering::SeqCst));
        let mut cut_at = None;
        let has_ended = |cut_at: &mut Option<Instant>| {
            if CUTS.load(Ordering::SeqCst) > before {
                cut_at.get_or_insert_with(Instant::now);
            }
            let switched = players.iter().all(|player| player.gate.newest().1 == plan(1));
            // A rank that is cut off for good keeps the others where they are.
            let stays = forever && cut_at.is_some_and(|cut_at| cut_at.elapsed() > QUIET);
            switched || stays || threads.iter().all(|thread| thread.is_finished())
        };
        while !has_ended(&mut cut_at) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(30));
        stop.store(true, Ordering::SeqCst);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn live(player: &Player, hellos: &Barrier, stop: &AtomicBool) -> Run {
    player.seat.wait_until_hello_is_sent(Instant::now() + Duration::from_secs(2));
    hellos.wait();
    player.prepare();
    let settled = player.finish_creation();
    let mut calls = Vec::new();
    while settled == Settled::On && !stop.load(Ordering::SeqCst) {
        let index = player.reserved.fetch_add(1, Ordering::SeqCst);
        let entry = player.gate.entry(index, 0);
        calls.push((index, entry));
        if entry.is_err() {
            break;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    (settled, calls)
}

/// The one invariant: at no index do two ranks do different things, and creation ends alike or in an error.
fn check(runs: &[Run], what: &str) {
    let on = runs.iter().any(|(settled, _)| *settled == Settled::On);
    let off = runs.iter().any(|(settled, _)| is_off(settled));
    assert!(!(on && off), "{what}: {runs:?}");
    for (_, calls) in runs {
        for (_, others) in runs {
            for (one, other) in calls.iter().zip(others) {
                assert_eq!(one.0, other.0);
                if let (Ok(one), Ok(two)) = (one.1, other.1) {
                    assert_eq!(one, two, "{what}: at {}", other.0);
                }
            }
        }
    }
}

fn cut_everywhere(ranks: u32, maker: usize, odd: u32, forever: bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tries = 0;
    let mut after = 0;
    while after < 40 {
        let before = CUTS.load(Ordering::SeqCst);
        let what =
            format!("{ranks} ranks, id of {maker}, rank {odd} cut after {after} frames, for ever: {forever}");
        let runs = run(ranks, maker, odd, after, forever);
        check(&runs, &what);
        if CUTS.load(Ordering::SeqCst) > before {
            after += 1;
        } else if runs.iter().all(|(_, calls)| calls.iter().any(|(_, entry)| *entry == Ok(1))) {
            // Past the last frame of the run: every step has been cut.
            assert!(after > 8, "{what}: there are more frames than that");
            return;
        } else {
            // On a machine that stands still for as long as they wait.
            tries += 1;
            assert!(tries < 4, "{what}: an uncut run switches, not {runs:?}");
        }
    }
    panic!("the run never ends uncut");
}

#[test]
fn a_member_cut_at_any_frame_that_comes_back() {
    cut_everywhere(2, 0, 1, false);
}

#[test]
fn a_member_cut_at_any_frame_for_good() {
    cut_everywhere(2, 0, 1, true);
}

#[test]
fn a_member_cut_at_any_frame_where_the_leader_did_not_make_the_id() {
    cut_everywhere(3, 1, 2, false);
}

#[test]
fn a_leader_cut_from_its_introducer_at_any_frame() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for forever in [false, true] {
        // Its opening, that it was taken, and each of the others.
        for after in 0..5 {
            let runs = run(3, 1, 0, after, forever);
            check(&runs, &format!("rank 0 cut after {after}, for ever: {forever}"));
        }
    }
    assert!(CUTS.load(Ordering::SeqCst) >= 6, "the cuts came");
}

#[test]
fn a_rank_that_loses_its_leader_before_it_has_pledged_does_not_wait_for_the_time_out() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let hubs = [hub(options()), hub(Options { cut: cut(1, 3, true), ..options() })];
    // Its opening, that it was taken, and that its leader is there.
    let players = table(&hubs);
    for (settled, side) in create_all(&players).iter().zip(["rank 1", "rank 0"]) {
        let expected = format!("the connection to {side} was lost");
        assert!(is_off(settled) && reason(settled).contains(&expected), "{settled:?}");
    }
}
