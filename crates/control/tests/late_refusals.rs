//! The introducer says no when it has nothing to say any more: ranks that have met, and may have pledged, stay as they are.

mod support;

use airamp_agreement::{PROTOCOL, Settled};
use airamp_control::wire::{self, Down, Frames, Opening, Prelude, Purpose};
use airamp_control::{Invitation, Trailer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use support::*;

/// Nobody distrusts anybody, and a change is still agreed on.
fn assert_all_are_still_on(players: &[Player]) {
    players[0].brain.0.lock().unwrap().plans.push(plan(9));
    players[0].seat.report(b"hi");
    for player in players {
        eventually("the plan", || player.brain.has_heard("committed 9 at"));
        assert!(!player.brain.has_heard("distrusted"), "{:?}", player.brain.heard());
    }
}

/// Until the other side closes.
fn ends(mut stream: TcpStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).expect("an end in time") > 0 {}
}

#[test]
fn a_rank_beside_its_introducer_that_has_met_its_leader_elsewhere_takes_no_refusal() {
    let hubs = hubs(2);
    let trailer = hubs[1].introduce(LOCAL).unwrap();
    let invitation = Invitation::from(trailer);
    let players = [sit(&hubs[0], invitation, 0, 2), sit(&hubs[1], invitation, 1, 2)];
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    eventually("the start", || players[0].brain.has_heard("started"));

    // A second call of rank 0's, for which there is no room, or which speaks another version.
    let prelude = Prelude { token: trailer.token, clique: invitation.clique, seat: 5, rank: 0, ranks: 2 };
    let purpose = Purpose::Introduce { terms: Vec::new(), listening: None };
    let mut stream = TcpStream::connect(trailer.address).unwrap();
    let body = (Opening { prelude, purpose }).body().unwrap();
    stream.write_all(&wire::frame(PROTOCOL + 1, &body).unwrap()).unwrap();
    ends(stream);
    assert_all_are_still_on(&players);
}

/// An introducer that this test plays.
struct Introducer(TcpListener);

impl Introducer {
    /// The next rank that calls, and where it listens.
    fn welcome(&self) -> (TcpStream, u32, Option<SocketAddr>) {
        let (mut stream, _) = self.0.accept().unwrap();
        let (mut frames, mut bytes) = (Frames::default(), [0; 4096]);
        let frame = loop {
            let length = stream.read(&mut bytes).unwrap();
            frames.push(&bytes[..length]);
            if let Some(frame) = frames.take().unwrap() {
                break frame;
            }
        };
        let Opening { prelude, purpose: Purpose::Introduce { listening, .. } } =
            Opening::read(&frame.body).unwrap()
        else {
            panic!("a rank asks to be introduced")
        };
        say(&mut stream, &Down::Taken);
        (stream, prelude.rank, listening)
    }
}

fn say(stream: &mut TcpStream, down: &Down) {
    stream.write_all(&wire::frame(PROTOCOL, &wire::encode(down).unwrap()).unwrap()).unwrap();
}

#[test]
fn a_leader_that_has_heard_of_all_takes_no_refusal_from_the_introducer() {
    let introducer = Introducer(TcpListener::bind((LOCAL, 0)).unwrap());
    let address = introducer.0.local_addr().unwrap();
    let invitation = Invitation::from(Trailer { address, token: [7; 16] });
    let hubs = hubs(2);
    let first = sit(&hubs[0], invitation, 0, 2);
    let (mut to_leader, rank, leader) = introducer.welcome();
    assert_eq!(rank, 0);
    let second = sit(&hubs[1], invitation, 1, 2);
    let (mut to_second, _, _) = introducer.welcome();
    say(&mut to_second, &Down::LeaderAt(leader.expect("rank 0 says where it listens")));
    let players = [first, second];
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    eventually("the start", || players[0].brain.has_heard("started"));

    say(&mut to_leader, &Down::Refused { reason: "there is no room".into() });
    ends(to_leader);
    assert_all_are_still_on(&players);
}
