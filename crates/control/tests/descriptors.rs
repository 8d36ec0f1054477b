//! Many ranks: a leader leaves its application some of the process's file descriptors, and a thousand ranks agree. The
//! limit is the process's, so that the two have a program of their own and take turns.

mod support;

use airamp_agreement::Settled;
use std::fs::File;
use std::sync::Mutex;
use support::*;

static TURN: Mutex<()> = Mutex::new(());

fn limits() -> libc::rlimit {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is what the call fills.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits) }, 0);
    limits
}

/// Sets how many descriptors there may be; what was before.
fn limit(most: u64) -> u64 {
    let before = limits();
    let limits = libc::rlimit { rlim_cur: most.min(before.rlim_max), ..before };
    // SAFETY: the limit is read, and nothing else.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) }, 0);
    before.rlim_cur
}

fn taken() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

#[test]
fn a_leader_that_is_short_of_descriptors_leaves_the_last_quarter_to_the_application() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let hubs: Vec<_> = (0..40).map(|_| hub(options())).collect();
    // Each of the 39 connections takes two here, and there is room for about 20.
    let room = taken() + 40;
    let before = limit(room * 4 / 3);
    let players = table(&hubs);
    let settled = create_all(&players);
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let left = files.len() as u64;
    drop(files);
    limit(before);
    assert!(settled.iter().all(is_off), "{settled:?}");
    assert!(settled.iter().any(|one| reason(one).contains("ulimit -n")), "{settled:?}");
    assert!(reason(&settled[0]).contains("ulimit -n"), "{}", reason(&settled[0]));
    assert!(left >= room / 3 - 3, "{left} of {} were left", room * 4 / 3);

    drop(players);
    let again = table(&hubs);
    assert!(create_all(&again).iter().all(|settled| *settled == Settled::On), "with enough of them");
}

#[test]
fn a_thousand_ranks_agree_and_switch() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Two ends of a connection and four of its own for each rank.
    let most = limits().rlim_max;
    let ranks = (most.saturating_sub(200) / 8).min(1024) as usize;
    let before = limit(most);
    let hubs = hubs(ranks);
    let players = table(&hubs);
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    eventually("the start", || players[0].brain.has_heard("started"));
    players[0].brain.0.lock().unwrap().plans.push(plan(9));
    players[ranks - 1].seat.report(b"hi");
    for player in &players {
        eventually("the plan", || player.brain.has_heard("committed 9 at"));
    }
    let at = |player: &Player| player.gate.newest();
    assert!(players.iter().all(|player| at(player) == at(&players[0]) && at(player).1 == plan(9)));
    println!("{ranks} ranks");
    drop(players);
    drop(hubs);
    limit(before);
}
