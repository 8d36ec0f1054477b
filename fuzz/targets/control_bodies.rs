//! Any bytes as the body of a frame, in each of its meanings: refused, or something that is written as it was read.
//! The machines take whatever was understood without a panic.
#![no_main]

use airamp_agreement::{Hello, Leader, LeaderEvent, Member, MemberEvent, ToLeader};
use airamp_control::orders::{Answer, Request};
use airamp_control::wire::{self, Down, Opening, Prelude};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    let _ = Prelude::read(bytes);
    if let Ok(opening) = Opening::read(bytes) {
        assert_eq!(Opening::read(&opening.body().expect("it fits")), Ok(opening));
    }
    if let Some(Down::Message(message)) = body(bytes) {
        let mut member = Member::new(Hello { rank: 1, ranks: 2, terms: Vec::new() });
        let _ = member.handle(MemberEvent::LinkUp);
        let _ = member.handle(MemberEvent::Message(message));
    }
    if let Some(message) = body::<ToLeader>(bytes) {
        let mut leader = Leader::new(2);
        let _ = leader.handle(LeaderEvent::Linked(1));
        let _ = leader.handle(LeaderEvent::From(1, message));
    }
    let _ = (body::<Request>(bytes), body::<Answer>(bytes));
    let line = wire::plain(&String::from_utf8_lossy(bytes));
    assert!(line.len() <= 4 * 600 && !line.contains(char::is_control));
});

/// Numbers may be written longer than need be, so that the bytes need not be the same; the meaning is.
fn body<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value: T = wire::decode(bytes).ok()?;
    let again = wire::encode(&value).expect("it can be written");
    assert_eq!(wire::decode::<T>(&again).as_ref(), Ok(&value));
    Some(value)
}
