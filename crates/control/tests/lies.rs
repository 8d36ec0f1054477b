//! Ranks that are on, and then one side of a connection says what no honest rank does: it is refused, told once, and all
//! ranks go to the vendor at one index. The lie is put between the frames of a connection that leads over this test.

mod support;

use airamp_agreement::{At, PROTOCOL, Settled, ToLeader, ToMember, VENDOR_PLAN};
use airamp_control::wire::{self, Down, Frames};
use airamp_control::{Hub, Invitation};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use support::*;

/// Everything that any rank warned of. The tests take turns.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static TURN: Mutex<()> = Mutex::new(());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Both ends of a connection to the leader that goes over here, to write to.
struct Between {
    address: SocketAddr,
    ends: Arc<Mutex<Option<[TcpStream; 2]>>>,
}

const TO_LEADER: usize = 0;
const TO_MEMBER: usize = 1;

impl Between {
    /// Takes one connection, and passes on whole frames.
    fn new(leader: SocketAddr) -> Self {
        let listener = TcpListener::bind((LOCAL, 0)).unwrap();
        let (address, ends) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(None)));
        let shared = Arc::clone(&ends);
        thread::spawn(move || {
            let (member, _) = listener.accept().unwrap();
            let leader = TcpStream::connect(leader).unwrap();
            let copies = [leader.try_clone().unwrap(), member.try_clone().unwrap()];
            *locked(&shared) = Some(copies);
            for (from, to) in [(member, TO_LEADER), (leader, TO_MEMBER)] {
                let ends = Arc::clone(&shared);
                thread::spawn(move || pass_on(from, &ends, to));
            }
        });
        Self { address, ends }
    }

    fn say(&self, to: usize, body: &[u8]) {
        write_frame(&self.ends, to, PROTOCOL, body);
    }
}

fn write_frame(ends: &Mutex<Option<[TcpStream; 2]>>, to: usize, protocol: u16, body: &[u8]) {
    if let Some(ends) = locked(ends).as_mut() {
        let _ = ends[to].write_all(&wire::frame(protocol, body).unwrap());
    }
}

fn pass_on(mut from: TcpStream, ends: &Mutex<Option<[TcpStream; 2]>>, to: usize) {
    let (mut frames, mut bytes) = (Frames::default(), [0; 4096]);
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        frames.push(&bytes[..length]);
        while let Ok(Some(frame)) = frames.take() {
            write_frame(ends, to, frame.protocol, &frame.body);
        }
    }
    if let Some(ends) = locked(ends).as_ref() {
        let _ = ends[to].shutdown(Shutdown::Both);
    }
}

struct Table {
    _hubs: Vec<Hub>,
    players: Vec<Player>,
    between: Between,
}

/// Three ranks that have changed to plan 1 together; rank 1 speaks with its leader over `between`.
fn changed_once() -> Table {
    let hubs = hubs_that_warn(3, |line| locked(&WARNINGS).push(line.to_owned()));
    let trailer = hubs[0].introduce(LOCAL).unwrap();
    let between = Between::new(trailer.address);
    let direct = Invitation::from(trailer);
    let over = Invitation { address: between.address, ..direct };
    let invitations = [direct, over, direct];
    let players: Vec<_> = (0..3)
        .map(|rank| {
            let brain = if rank == 0 { Thinker::with_plans(&[plan(1)]) } else { Thinker::default() };
            let hello = airamp_agreement::Hello { rank, ranks: 3, terms: Vec::new() };
            sit_with(&hubs[rank as usize], invitations[rank as usize], hello, brain)
        })
        .collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    calls_of_all(&players, 1);
    Table { _hubs: hubs, players, between }
}

/// All ranks leave plan 1 for the vendor's, at one index, and who found out says so once, as does the leader.
fn assert_all_go_to_the_vendor(table: &Table, finder: Option<&str>, reason: &str) {
    let seen = calls_of_all(&table.players, VENDOR_PLAN[0]);
    let switched = |calls: &[(u64, u8)]| calls.iter().find(|(_, byte)| *byte == 0).map(|(index, _)| *index);
    let indices: Vec<_> = seen.iter().map(|calls| switched(calls)).collect();
    assert!(indices[0].is_some() && indices.iter().all(|index| *index == indices[0]), "{indices:?}");
    assert!(seen.iter().flatten().all(|(_, byte)| [0, 1].contains(byte)));
    let brain = &table.players[0].brain;
    assert!(brain.has_heard("distrusted") && brain.has_heard(reason), "{:?}", brain.heard());
    let told = locked(&WARNINGS);
    let by = |who: &str| told.iter().filter(|line| line.contains(who)).count();
    assert!(told.iter().all(|line| line.contains(reason)), "{told:?}");
    assert_eq!(by("rank 0 of 3"), 1, "{told:?}");
    assert_eq!(told.len(), 1 + finder.map_or(0, by), "{told:?}");
    assert!(finder.is_none_or(|finder| by(finder) == 1), "{told:?}");
}

fn lie_of_the_leader(lies: &[ToMember], reason: &str) {
    let _turn = locked(&TURN);
    locked(&WARNINGS).clear();
    let table = changed_once();
    for lie in lies {
        table.between.say(TO_MEMBER, &wire::encode(&Down::Message(lie.clone())).unwrap());
    }
    assert_all_go_to_the_vendor(&table, Some("rank 1 of 3"), reason);
}

#[test]
fn a_proposal_for_a_past_index_is_refused_told_once_and_all_ranks_go_to_the_vendor() {
    let past = |number| ToMember::Propose { number, at: At::Index(0), plan: plan(9) };
    lie_of_the_leader(&[past(100), past(101), past(102)], "an index before the last change");
}

#[test]
fn a_leader_that_changes_its_mind_is_refused_told_once_and_all_ranks_go_to_the_vendor() {
    let again = ToMember::Propose { number: 1, at: At::Index(1 << 40), plan: plan(9) };
    lie_of_the_leader(&[again.clone(), again], "a number that was used before");
    let off = ToMember::Off { reason: "after all".into() };
    lie_of_the_leader(&[off.clone(), off], "went back to creation");
}

#[test]
fn a_rank_that_speaks_out_of_turn_is_named_once_and_all_ranks_go_to_the_vendor() {
    let _turn = locked(&TURN);
    locked(&WARNINGS).clear();
    let table = changed_once();
    for _ in 0..3 {
        table.between.say(TO_LEADER, &wire::encode(&ToLeader::Pledge { number: 77 }).unwrap());
    }
    assert_all_go_to_the_vendor(&table, None, "rank 1 pledged out of turn");
}
