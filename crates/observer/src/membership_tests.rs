//! Claims about whom a look counts on: ranks that tell nothing any more, numbers that nobody has any more, and programs
//! of one name, with made-up readings.

use airamp_telemetry::State;
use airamp_telemetry::snapshot::{Arrival, Communicator};

use crate::conditions::Limits;
use crate::made_up::{communicator, reading, snapshot};
use crate::reading::{Now, Reading};
use crate::view::{FindingKind, Node};
use crate::world::World;

const S: u64 = 1_000_000_000;

fn world() -> World {
    World::new("node-1".to_owned(), Limits { hang_after_ns: 10 * S, late_after_ns: S })
}

fn at(second: u64) -> Now {
    Now { ns: second * S, unix_ms: 1_000_000 + second * 1000 }
}

/// Rank `rank` of two, which issued collective `issued` at that second.
fn member(rank: i32, issued: u64, second: u64) -> Reading {
    let mut made_up = snapshot("job", rank, 100 + rank as u32);
    let issued_ns = second * S;
    let arrivals = vec![Arrival { sequence: issued, at_ns: issued_ns }];
    made_up.communicators =
        vec![Communicator { issued, issued_ns, arrivals, ..communicator(0xabc, rank, 2) }];
    reading(rank as u64 + 1, made_up)
}

/// The library keeps out of it since the first second, in the midst of a call.
fn inert(rank: i32) -> Reading {
    let mut inert = member(rank, 4, 1);
    inert.snapshot.state = State::Inert;
    let own = &mut inert.snapshot.communicators[0];
    (own.inside, own.inside_since_ns) = (1, S);
    inert
}

fn kinds(node: &Node) -> Vec<FindingKind> {
    node.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_rank_that_became_inert_is_neither_late_nor_missing_while_its_job_goes_on() {
    let mut world = world();
    for second in 1..40 {
        let node = world.look(vec![member(0, 4 + second, second), inert(1)], at(second)).node;
        assert_eq!(kinds(&node), [], "at {second} s: {:#?}", node.findings);
        assert!(node.jobs[0].ranks.iter().all(|rank| !rank.late));
    }
}

#[test]
fn a_hang_beside_a_rank_that_became_inert_sends_one_to_look_at_it() {
    let mut world = world();
    let waits = || {
        let mut waits = member(0, 4, 2);
        let own = &mut waits.snapshot.communicators[0];
        (own.inside, own.inside_since_ns) = (1, 3 * S);
        waits
    };
    world.look(vec![waits(), inert(1)], at(4));
    let node = world.look(vec![waits(), inert(1)], at(20)).node;
    let [hang] = &node.findings[..] else { panic!("{:#?}", node.findings) };
    assert_eq!((hang.kind, hang.ranks.as_slice()), (FindingKind::Hang, &[][..]));
    assert!(hang.text.contains("look at the 1 more in which the library is inert"), "{}", hang.text);
}
