//! Strangers at the control port: whatever they do changes nothing, costs little, and is told once.

mod support;

use airamp_agreement::{PROTOCOL, Settled, Term};
use airamp_control::wire::{self, Opening, Prelude, Purpose};
use airamp_control::{Invitation, Options, Trailer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::*;

fn opening(token: [u8; 16]) -> Vec<u8> {
    let prelude = Prelude { token, clique: 0, seat: 1, rank: 1, ranks: 2 };
    let terms = vec![Term { name: "mode".into(), value: "on".into() }];
    Opening { prelude, purpose: Purpose::Introduce { terms, listening: None } }.body().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Nothing comes back, and the other side closes.
fn is_shown_out(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => answer.is_empty(),
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn noise_a_wrong_token_and_an_overlong_frame_are_shown_out_without_an_answer() {
    let hub = hub(options());
    let Trailer { address, token } = hub.introduce(LOCAL).unwrap();
    let mut wrong = token;
    wrong[15] ^= 1;
    let mut overlong = wire::frame(PROTOCOL, &[0; 100]).unwrap();
    overlong[6] = 0xff;
    let mut malformed = opening(token);
    malformed.push(0);
    for (what, bytes) in [
        ("noise", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("zeros", vec![0; 100_000]),
        ("a wrong token", wire::frame(PROTOCOL, &opening(wrong)).unwrap()),
        ("a wrong token in another version", wire::frame(9, &opening(wrong)).unwrap()),
        ("an overlong frame", overlong),
        ("an empty frame", wire::frame(PROTOCOL, &[]).unwrap()),
        ("something left over", wire::frame(PROTOCOL, &malformed).unwrap()),
    ] {
        let mut stream = connect(address);
        let _ = stream.write_all(&bytes);
        assert!(is_shown_out(stream), "{what}");
    }
}

#[test]
fn who_says_nothing_or_half_a_message_is_shown_out_in_time() {
    let hub = hub(options());
    let Trailer { address, token } = hub.introduce(LOCAL).unwrap();
    let silent = connect(address);
    let mut half = connect(address);
    let bytes = wire::frame(PROTOCOL, &opening(token)).unwrap();
    half.write_all(&bytes[..bytes.len() / 2]).unwrap();
    let mut slow = connect(address);
    let trickle = std::thread::spawn(move || {
        for byte in &bytes[..bytes.len() - 1] {
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        is_shown_out(slow)
    });
    assert!(is_shown_out(silent));
    assert!(is_shown_out(half));
    assert!(trickle.join().unwrap());
}

#[test]
fn a_flood_displaces_the_oldest_strangers_and_ranks_still_meet() {
    let hubs = hubs(3);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let mut flood: Vec<_> = (0..200).map(|_| connect(invitation.address)).collect();
    let players: Vec<_> = (0..3).map(|rank| sit(&hubs[rank as usize], invitation, rank, 3)).collect();
    flood.extend((0..100).map(|_| connect(invitation.address)));
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    // At most 64 are kept; the first went first, and the last is still waited for.
    let mut last = flood.pop().unwrap();
    flood.truncate(200);
    for stream in flood {
        assert!(is_shown_out(stream));
    }
    last.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let silence = last.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(silence, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
}

#[test]
fn a_stranger_in_the_middle_of_creation_changes_nothing() {
    let hubs = hubs(2);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let first = sit(&hubs[0], invitation, 0, 2);
    let mut wrong = invitation.token;
    wrong[0] ^= 1;
    // A stranger pretends to be rank 1, without the token.
    let mut stream = connect(invitation.address);
    stream.write_all(&wire::frame(PROTOCOL, &opening(wrong)).unwrap()).unwrap();
    assert!(is_shown_out(stream));
    let second = sit(&hubs[1], invitation, 1, 2);
    assert!(create_all(&[first, second]).iter().all(|settled| *settled == Settled::On));
}

#[test]
fn strangers_are_told_once() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let mut options = Options { ..options() };
    options.log.warn = |line| {
        assert!(line.contains("refused"), "{line}");
        TOLD.fetch_add(1, Ordering::SeqCst);
    };
    let hub = hub(options);
    let Trailer { address, .. } = hub.introduce(LOCAL).unwrap();
    for _ in 0..20 {
        let mut stream = connect(address);
        stream.write_all(b"hello?").unwrap();
        assert!(is_shown_out(stream));
    }
    assert_eq!(TOLD.load(Ordering::SeqCst), 1);
}

#[test]
fn who_knows_the_token_and_speaks_out_of_turn_is_cut_off_and_the_ranks_are_off_alike() {
    let hubs = hubs(2);
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).unwrap());
    let first = sit(&hubs[0], invitation, 0, 2);
    let mut stream = connect(invitation.address);
    stream.write_all(&wire::frame(PROTOCOL, &opening(invitation.token)).unwrap()).unwrap();
    // It is taken for rank 1; then it talks nonsense.
    stream.write_all(&wire::frame(PROTOCOL, &[0xff; 30]).unwrap()).unwrap();
    let second = sit(&hubs[1], invitation, 1, 2);
    for settled in create_all(&[first, second]) {
        assert!(is_off(&settled), "{settled:?}");
    }
}
