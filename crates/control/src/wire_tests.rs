use super::*;
use airamp_agreement::{At, Capable, Order, ToLeader};

fn opening() -> Opening {
    Opening {
        prelude: Prelude { token: [7; 16], clique: 3, seat: u64::MAX, rank: 2, ranks: 9 },
        purpose: Purpose::Introduce {
            terms: vec![Term { name: "mode".into(), value: "on".into() }],
            listening: Some("[::1]:99".parse().unwrap()),
        },
    }
}

fn said() -> Vec<ToLeader> {
    vec![
        ToLeader::Hello(Hello { rank: 1, ranks: 2, terms: Vec::new() }),
        ToLeader::Ready(Ok(Capable { terms: Vec::new(), host: 8, tunings: vec![(1, 2)] })),
        ToLeader::Ready(Err("no memory".into())),
        ToLeader::Refuse { number: 3, reserved: 4, reason: "past".into() },
        ToLeader::Report(vec![1, 2, 3]),
        ToLeader::Order(Order::Off),
        ToLeader::Leave,
    ]
}

#[test]
fn what_is_said_is_understood() {
    let body = opening().body().unwrap();
    assert_eq!(Opening::read(&body), Ok(opening()));
    for message in said() {
        assert_eq!(decode(&encode(&message).unwrap()), Ok(message));
    }
    let down = Down::Message(ToMember::Propose { number: 1, at: At::Index(5), plan: [9; 64] });
    assert_eq!(decode(&encode(&down).unwrap()), Ok(down));
}

#[test]
fn a_body_that_is_cut_short_or_has_something_left_over_is_refused() {
    let body = opening().body().unwrap();
    for length in 0..body.len() {
        assert_eq!(Opening::read(&body[..length]), Err(WireError::Malformed), "{length}");
    }
    let mut longer = body;
    longer.push(0);
    assert_eq!(Opening::read(&longer), Err(WireError::Malformed));
}

#[test]
fn frames_come_out_as_they_went_in_however_they_are_cut() {
    let bodies: [&[u8]; 3] = [b"one", b"", &[5; 3000]];
    let bytes: Vec<u8> = bodies.iter().flat_map(|body| frame(1, body).unwrap()).collect();
    for piece in [1, 2, 7, 8, 9, 100, bytes.len()] {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for part in bytes.chunks(piece) {
            frames.push(part);
            while let Some(frame) = frames.take().unwrap() {
                seen.push(frame.body);
            }
        }
        assert_eq!(seen, bodies, "pieces of {piece}");
    }
}

#[test]
fn a_stranger_is_known_by_the_first_wrong_byte() {
    for noise in [b"GET / HTTP/1.1\r\n".as_slice(), &[0], &[0xc5, 0]] {
        let mut frames = Frames::default();
        frames.push(noise);
        assert_eq!(frames.take(), Err(WireError::NotOurs));
    }
}

#[test]
fn an_overlong_frame_is_refused_by_its_header_alone() {
    assert!(frame(1, &[0; MOST_BODY_BYTES]).is_ok());
    assert_eq!(frame(1, &[0; MOST_BODY_BYTES + 1]), Err(WireError::TooLong(MOST_BODY_BYTES + 1)));
    let mut bytes = frame(1, &[]).unwrap();
    bytes[4..8].copy_from_slice(&(MOST_BODY_BYTES as u32 + 1).to_le_bytes());
    let mut frames = Frames::default();
    frames.push(&bytes);
    assert_eq!(frames.take(), Err(WireError::TooLong(MOST_BODY_BYTES + 1)));
}

#[test]
fn a_frame_of_another_version_shows_which_and_its_opening_can_be_told() {
    let mut frames = Frames::default();
    let mut body = opening().body().unwrap();
    body.truncate(PRELUDE_BYTES);
    body.extend_from_slice(b"whatever a later version says here");
    frames.push(&frame(77, &body).unwrap());
    let frame = frames.take().unwrap().unwrap();
    assert_eq!(frame.protocol, 77);
    assert_eq!(Prelude::read(&frame.body), Ok(opening().prelude));
}

#[test]
fn text_from_elsewhere_stays_on_one_line() {
    assert_eq!(plain("a\nb\u{1b}[0m"), "a b [0m");
    assert_eq!(plain(&"x".repeat(5000)).len(), 600);
}
