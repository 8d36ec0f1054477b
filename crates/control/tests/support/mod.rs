//! Several processes' worth of hubs in one process, over loopback, and what their ranks do.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use airamp_agreement::{Capable, Gate, Hello, Order, Plan, Rank, Settled, Term, VENDOR_PLAN};
use airamp_control::{Brain, Cut, Hub, Invitation, Log, Options, Seat, Timeouts};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

pub const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Nothing in these tests takes longer, on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

pub fn quiet() -> Log {
    Log { warn: |_| {}, info: |_| {}, debug: |_| {} }
}

pub fn options() -> Options {
    let timeouts = Timeouts { consensus: Duration::from_secs(20), doubt: Duration::from_secs(20) };
    Options::new(timeouts, "a job", quiet())
}

/// Short enough for tests in which ranks give up.
pub fn impatient() -> Options {
    let timeouts = Timeouts { consensus: Duration::from_millis(1500), doubt: Duration::from_millis(3000) };
    Options { timeouts, ..options() }
}

pub fn hub(options: Options) -> Hub {
    Hub::start(options).expect("a hub")
}

pub fn hubs(count: usize) -> Vec<Hub> {
    (0..count).map(|_| hub(options())).collect()
}

pub fn hubs_that_warn(count: usize, warn: fn(&str)) -> Vec<Hub> {
    let options = || Options { log: Log { warn, ..quiet() }, ..options() };
    (0..count).map(|_| hub(options())).collect()
}

/// What a brain was told, and what it will say.
#[derive(Default)]
pub struct Thoughts {
    pub heard: Vec<String>,
    pub plans: Vec<Plan>,
    pub waits: bool,
    pub panics_at: Option<&'static str>,
}

#[derive(Clone, Default)]
pub struct Thinker(pub Arc<Mutex<Thoughts>>);

impl Thinker {
    pub fn with_plans(plans: &[Plan]) -> Self {
        let mut plans = plans.to_vec();
        plans.reverse();
        Self(Arc::new(Mutex::new(Thoughts { plans, ..Thoughts::default() })))
    }

    fn note(&self, what: &str, rest: String) {
        let mut thoughts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        thoughts.heard.push(format!("{what}{rest}"));
        let panics = thoughts.panics_at == Some(what);
        drop(thoughts);
        assert!(!panics, "a brain with a defect");
    }

    pub fn has_heard(&self, what: &str) -> bool {
        let thoughts = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        thoughts.heard.iter().any(|heard| heard.contains(what))
    }

    pub fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).heard.clone()
    }
}

impl Brain for Thinker {
    fn first(&mut self, capable: &[Capable]) -> Plan {
        self.note("first", format!(" of {}", capable.len()));
        plan(7)
    }
    fn started(&mut self) {
        self.note("started", String::new());
    }
    fn report(&mut self, rank: Rank, report: &[u8]) {
        self.note("report", format!(" {rank} {report:?}"));
    }
    fn order(&mut self, order: Order) {
        self.note("order", format!(" {order:?}"));
    }
    fn distrusted(&mut self, reason: &str) {
        self.0.lock().unwrap().plans = vec![VENDOR_PLAN];
        self.note("distrusted", format!(" {reason}"));
    }
    fn decided(&mut self, at: u64, plan: &Plan, committed: bool) {
        if !committed {
            self.0.lock().unwrap().plans.push(*plan);
        }
        self.note("decided", format!(" {} {committed} at {at}", plan[0]));
    }
    fn next(&mut self) -> Option<Plan> {
        self.0.lock().unwrap().plans.pop()
    }
    fn waits(&self) -> bool {
        self.0.lock().unwrap().waits
    }
    fn committed(&mut self, at: u64, plan: &Plan) {
        self.note("committed", format!(" {} at {at}", plan[0]));
    }
    fn closed(&mut self, reason: &str) {
        self.note("closed", format!(" {reason}"));
    }
}

pub fn plan(byte: u8) -> Plan {
    let mut plan = VENDOR_PLAN;
    plan[0] = byte;
    plan
}

pub fn term(name: &str, value: &str) -> Term {
    Term { name: name.into(), value: value.into() }
}

/// A rank that has taken a seat, and its application's side.
pub struct Player {
    pub rank: Rank,
    pub seat: Seat,
    pub gate: Arc<Gate>,
    pub reserved: Arc<AtomicU64>,
    pub brain: Thinker,
}

pub fn sit(hub: &Hub, to: Invitation, rank: Rank, ranks: u32) -> Player {
    sit_with(hub, to, Hello { rank, ranks, terms: vec![term("mode", "on")] }, Thinker::default())
}

pub fn sit_with(hub: &Hub, to: Invitation, hello: Hello, brain: Thinker) -> Player {
    // Longer than a test waits: what ends earlier was ended by the hub.
    let gate = Arc::new(Gate::with_longest_wait(10 * LONG));
    let reserved = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reserved);
    let rank = hello.rank;
    let counts = Box::new(move || count.load(Ordering::SeqCst));
    let seat = hub.join(&to, hello, Arc::clone(&gate), counts, Box::new(brain.clone()));
    Player { rank, seat, gate, reserved, brain }
}

pub fn capable() -> Capable {
    Capable { terms: vec![term("architecture", "sm_90")], host: 1, tunings: Vec::new() }
}

impl Player {
    pub fn prepare(&self) {
        self.seat.prepared(Ok(capable()));
    }

    /// Creation, as the interposer does it: `On`, `Off` or `Broken`.
    pub fn create(&self) -> Settled {
        self.seat.wait_until_hello_is_sent(Instant::now() + LONG);
        self.prepare();
        self.finish_creation()
    }

    pub fn finish_creation(&self) -> Settled {
        match self.seat.wait() {
            Settled::Connect { .. } => {
                self.seat.connected(Ok(()));
                self.seat.wait()
            }
            end => end,
        }
    }

    /// One call of the application, and the byte of the plan that it got.
    pub fn call(&self) -> Result<(u64, u8), airamp_agreement::GateError> {
        let index = self.reserved.fetch_add(1, Ordering::SeqCst);
        Ok((index, self.gate.entry(index, 0)?))
    }
}

/// All players create at once, each on a thread of its own.
pub fn create_all(players: &[Player]) -> Vec<Settled> {
    create_all_as(players, Player::prepare)
}

/// Nobody is prepared before all have said Hello, as the vendor's init would see to: from then on there is only a grace.
pub fn create_all_as(players: &[Player], prepare: impl Fn(&Player) + Sync) -> Vec<Settled> {
    let hellos = Barrier::new(players.len());
    let create = |player: &Player| {
        player.seat.wait_until_hello_is_sent(Instant::now() + LONG);
        hellos.wait();
        prepare(player);
        player.finish_creation()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = players.iter().map(|player| scope.spawn(|| create(player))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Makes calls until every rank has seen the last plan; what each index got.
fn calls(player: &Player, last: u8, done: &[AtomicBool]) -> Vec<(u64, u8)> {
    let mut seen = Vec::new();
    while !done.iter().all(|done| done.load(Ordering::SeqCst)) && seen.len() < 2_000_000 {
        let (index, byte) = player.call().expect("a verdict");
        if byte == last {
            done[player.rank as usize].store(true, Ordering::SeqCst);
        }
        seen.push((index, byte));
        std::thread::sleep(Duration::from_micros(50 * (1 + u64::from(player.rank))));
    }
    seen
}

/// Each rank on two threads.
pub fn calls_of_all(players: &[Player], last: u8) -> Vec<Vec<(u64, u8)>> {
    let done: Vec<AtomicBool> = players.iter().map(|_| AtomicBool::new(false)).collect();
    let done = &done;
    std::thread::scope(|scope| {
        let threads: Vec<_> = players
            .iter()
            .map(|player| [(); 2].map(|()| scope.spawn(move || calls(player, last, done))))
            .collect();
        let mut all: Vec<Vec<_>> = Vec::new();
        for pair in threads {
            let mut seen: Vec<_> = pair.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            seen.sort_unstable();
            all.push(seen);
        }
        all
    })
}

/// An invitation from the first hub, and a player on each.
pub fn table(hubs: &[Hub]) -> Vec<Player> {
    let invitation = Invitation::from(hubs[0].introduce(LOCAL).expect("a listener"));
    hubs.iter().enumerate().map(|(rank, hub)| sit(hub, invitation, rank as u32, hubs.len() as u32)).collect()
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn cut(rank: Rank, after: u64, forever: bool) -> Option<Cut> {
    Some(Cut { rank, after, forever })
}

pub fn reason(settled: &Settled) -> &str {
    match settled {
        Settled::Off { reason } | Settled::Broken { reason } => reason,
        _ => "",
    }
}

pub fn is_off(settled: &Settled) -> bool {
    matches!(settled, Settled::Off { .. })
}
