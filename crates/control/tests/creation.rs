//! Creation over loopback: who comes, who does not, and what the ranks make of it.

mod support;

use airamp_agreement::{Hello, Settled};
use airamp_control::{Invitation, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::*;

#[test]
fn two_to_eight_ranks_reach_on_with_the_plan_of_rank_0s_brain() {
    for ranks in [2, 3, 8] {
        let hubs = hubs(ranks);
        let players = table(&hubs);
        for (rank, settled) in create_all(&players).into_iter().enumerate() {
            assert_eq!(settled, Settled::On, "rank {rank} of {ranks}");
        }
        for player in &players {
            assert_eq!(player.call(), Ok((0, 7)));
            eventually("the first plan", || player.brain.has_heard("committed 7 at 0"));
        }
        assert!(players[0].brain.has_heard(&format!("first of {ranks}")));
        assert!(!players[1].brain.has_heard("first"), "only rank 0's brain is asked");
    }
}

#[test]
fn the_leader_need_not_be_where_the_id_was_made() {
    let hubs = hubs(4);
    let invitation = Invitation::from(hubs[3].introduce(LOCAL).unwrap());
    let players: Vec<_> = (0..4).map(|rank| sit(&hubs[rank as usize], invitation, rank, 4)).collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
}

#[test]
fn the_maker_of_the_id_need_not_be_a_rank_and_may_leave() {
    let launcher = hub(options());
    let hubs = hubs(3);
    let invitation = Invitation::from(launcher.introduce(LOCAL).unwrap());
    let players: Vec<_> = (0..3).map(|rank| sit(&hubs[rank as usize], invitation, rank, 3)).collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    drop(launcher);
    players[1].seat.report(b"still here");
    eventually("the report", || players[0].brain.has_heard("report 1"));
}

#[test]
fn ranks_that_come_before_their_leader_wait_for_it() {
    let hubs = hubs(3);
    let invitation = Invitation::from(hubs[1].introduce(LOCAL).unwrap());
    let mut players: Vec<_> = (1..3).map(|rank| sit(&hubs[rank as usize], invitation, rank, 3)).collect();
    for player in &players {
        assert!(player.seat.wait_until_hello_is_sent(Instant::now() + LONG));
    }
    players.push(sit(&hubs[0], invitation, 0, 3));
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
}

#[test]
fn several_ranks_of_one_process_need_no_network() {
    let hub = hub(options());
    let invitation = hub.introduce_within().unwrap();
    let players: Vec<_> = (0..4).map(|rank| sit(&hub, invitation, rank, 4)).collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
}

#[test]
fn ranks_of_one_process_and_of_others_meet_at_one_table() {
    let hubs = hubs(2);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let players: Vec<_> = (0..4).map(|rank| sit(&hubs[rank as usize / 2], invitation, rank, 4)).collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
}

#[test]
fn many_communicators_share_one_connection_point() {
    let hubs = hubs(2);
    for _ in 0..20 {
        let players = table(&hubs);
        assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
        players.iter().for_each(|player| player.seat.end());
    }
}

#[test]
fn a_rank_that_does_not_come_switches_the_others_off_and_is_named() {
    let hubs = hubs(3);
    let mut players = table(&hubs);
    players.remove(1).seat.end();
    // The second never joins a table of its own: it is there without the library.
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let others: Vec<_> = [0, 2].map(|rank| sit(&hubs[rank as usize], invitation, rank, 3)).into();
    for settled in create_all(&others) {
        assert!(is_off(&settled) && reason(&settled).contains("rank 1"), "{settled:?}");
    }
}

#[test]
fn without_rank_0_the_others_are_off_and_know_why() {
    let hubs = hubs(2);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let other = sit(&hubs[1], invitation, 1, 2);
    let settled = other.create();
    assert!(is_off(&settled) && reason(&settled).contains("rank 0 has not come"), "{settled:?}");
}

#[test]
fn another_setting_on_one_rank_is_off_everywhere_and_named() {
    let hubs = hubs(3);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let players: Vec<_> = (0..3)
        .map(|rank| {
            let mode = if rank == 2 { "shadow" } else { "on" };
            let terms = vec![term("mode", mode), term("arena_bytes", "4096")];
            sit_with(&hubs[rank as usize], invitation, Hello { rank, ranks: 3, terms }, Thinker::default())
        })
        .collect();
    for settled in create_all(&players) {
        assert!(is_off(&settled), "{settled:?}");
        for word in ["rank 2", "mode", "shadow"] {
            assert!(reason(&settled).contains(word), "{settled:?}");
        }
    }
}

#[test]
fn a_rank_that_cannot_compress_is_off_everywhere_and_says_why() {
    let hubs = hubs(3);
    let players = table(&hubs);
    let settled = create_all_as(&players, |player| match player.rank {
        2 => player.seat.prepared(Err("no memory for the arena".into())),
        _ => player.prepare(),
    });
    for settled in settled {
        assert!(is_off(&settled) && reason(&settled).contains("no memory for the arena"), "{settled:?}");
    }
}

#[test]
fn peers_that_cannot_be_connected_break_the_communicator_everywhere() {
    let hubs = hubs(2);
    let players = table(&hubs);
    for player in &players {
        assert!(player.seat.wait_until_hello_is_sent(Instant::now() + LONG));
    }
    players.iter().for_each(Player::prepare);
    for player in &players {
        assert!(matches!(player.seat.wait(), Settled::Connect { .. }));
    }
    players[0].seat.connected(Ok(()));
    players[1].seat.connected(Err("the peer hung up".into()));
    for player in &players {
        let settled = player.seat.wait();
        assert!(matches!(settled, Settled::Broken { .. }), "{settled:?}");
        assert!(player.gate.entry(0, 0).is_err());
    }
}

#[test]
fn another_protocol_version_is_off_on_both_sides_and_both_are_named() {
    // Who is the odd one out: a rank, the leader and maker of the id, the leader alone.
    for (odd, maker) in [(1, 0), (0, 0), (0, 1)] {
        let hubs: Vec<_> = (0..3)
            .map(|rank| hub(Options { protocol: if rank == odd { 77 } else { 1 }, ..options() }))
            .collect();
        let invitation = Invitation::from(hubs[maker].introduce(LOCAL).unwrap());
        let players: Vec<_> = (0..3).map(|rank| sit(&hubs[rank as usize], invitation, rank, 3)).collect();
        for (rank, settled) in create_all(&players).into_iter().enumerate() {
            assert!(is_off(&settled), "{odd} {maker}: rank {rank} {settled:?}");
            let reason = reason(&settled);
            let names_both = reason.contains("77") && reason.contains('1');
            assert!(names_both, "{odd} {maker}: rank {rank} {reason}");
        }
    }
}

#[test]
fn two_ranks_of_the_same_number_are_off() {
    static WARNINGS: AtomicUsize = AtomicUsize::new(0);
    for maker in [0, 2] {
        let hubs = hubs_that_warn(3, |_| _ = WARNINGS.fetch_add(1, Ordering::SeqCst));
        let invitation = Invitation::from(hubs[maker].introduce(LOCAL).unwrap());
        let players: Vec<_> =
            [0, 1, 1].iter().zip(&hubs).map(|(rank, hub)| sit(hub, invitation, *rank, 3)).collect();
        for settled in create_all(&players) {
            assert!(is_off(&settled) && reason(&settled).contains("rank 1"), "{settled:?}");
        }
    }
    // The verdict carries the reason, and whoever asked for it logs that once.
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 0);
}

#[test]
fn a_hello_that_lies_about_the_number_of_ranks_is_off() {
    static WARNINGS: AtomicUsize = AtomicUsize::new(0);
    for (lie, rank) in [(4, 1), (2, 1), (3, 9)] {
        let hubs = hubs_that_warn(3, |_| _ = WARNINGS.fetch_add(1, Ordering::SeqCst));
        let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
        let players = [
            sit(&hubs[0], invitation, 0, 3),
            sit(&hubs[1], invitation, rank, lie),
            sit(&hubs[2], invitation, 2, 3),
        ];
        for settled in create_all(&players) {
            assert!(is_off(&settled), "{lie} {rank}: {settled:?}");
        }
    }
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 0);
}

#[test]
fn nobody_at_the_address_means_off_and_the_wait_for_the_hello_keeps_its_deadline() {
    let hub = hub(impatient());
    // An address that is given to nobody, and one that refuses.
    for address in ["192.0.2.1:9", "127.0.0.1:1"] {
        let to = Invitation { address: address.parse().unwrap(), token: [1; 16], clique: 0 };
        let player = sit(&hub, to, 1, 2);
        assert!(!player.seat.wait_until_hello_is_sent(Instant::now() + Duration::from_millis(200)));
        player.prepare();
        let settled = player.seat.wait();
        assert!(is_off(&settled) && reason(&settled).contains(address), "{settled:?}");
    }
}

#[test]
fn an_ended_seat_wakes_who_waits() {
    let hubs = hubs(2);
    let players = table(&hubs);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| players[0].create());
        eventually("the Hello", || players[0].seat.wait_until_hello_is_sent(Instant::now()));
        players[0].seat.end();
        assert!(is_off(&waiting.join().unwrap()));
    });
    players[0].seat.end();
    assert!(is_off(&players[0].seat.wait()));
    // So does a call that waits for a verdict.
    players[1].gate.try_pledge(5, || 0).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| players[1].gate.entry(5, 0));
        players[1].seat.end();
        assert!(call.join().unwrap().is_err());
    });
}

#[test]
fn children_meet_at_their_parents_leader() {
    let hubs = hubs(4);
    // The maker of the id is not the leader, and the child's rank 0 not the parent's.
    let invitation = Invitation::from(hubs[2].introduce(LOCAL).unwrap());
    let parents: Vec<_> = (0..4).map(|rank| sit(&hubs[rank as usize], invitation, rank, 4)).collect();
    assert!(parents.iter().all(|parent| parent.seat.child(5).is_none()), "nobody knows yet who comes");
    assert!(create_all(&parents).iter().all(|settled| *settled == Settled::On));
    let children: Vec<_> = [1, 3, 0]
        .iter()
        .enumerate()
        .map(|(rank, parent)| {
            let invitation = parents[*parent].seat.child(5).expect("an invitation");
            sit(&hubs[*parent], invitation, rank as u32, 3)
        })
        .collect();
    assert!(create_all(&children).iter().all(|settled| *settled == Settled::On));
    // They outlive their parents.
    parents.iter().for_each(|parent| parent.seat.end());
    children[1].seat.report(b"after");
    eventually("the report", || children[0].brain.has_heard("report 1"));
}
