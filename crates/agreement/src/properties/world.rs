//! A communicator in a box: one leader, its members with real gates, links that can be cut, and applications that make
//! the same calls at their own pace. Every step checks that no two ranks did different things at one index.

use crate::message::{Capable, Hello, PLAN_BYTES, Rank, ToLeader, ToMember};
use crate::{
    Gate, Leader, LeaderAction, LeaderEvent, LeaderTimer, Member, MemberAction, MemberEvent, MemberTimer,
    Settled,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct World {
    leader: Leader,
    leader_timers: BTreeSet<LeaderTimer>,
    started: bool,
    commits: usize,
    next_plan: u8,
    ranks: Vec<Process>,
    /// What a rank did at an index; others must do the same.
    done: BTreeMap<u64, u8>,
}

struct Process {
    member: Member,
    gate: Gate,
    timers: BTreeSet<MemberTimer>,
    hello_sent: bool,
    prepared: bool,
    /// Both ends of the link: what is under way, with the news of the link itself.
    linked: bool,
    up: VecDeque<LeaderEvent>,
    down: VecDeque<MemberEvent>,
    state: State,
    reserved: u64,
    waiting: Option<u64>,
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Creating,
    Connecting,
    Off,
    On,
    Dead,
}

impl World {
    pub(super) fn new(ranks: u32) -> Self {
        let process = |rank| Process {
            member: Member::new(Hello { rank, ranks, terms: Vec::new() }),
            gate: Gate::new(),
            timers: BTreeSet::new(),
            hello_sent: false,
            prepared: false,
            linked: false,
            up: VecDeque::new(),
            down: VecDeque::new(),
            state: State::Creating,
            reserved: 0,
            waiting: None,
            lost: false,
        };
        Self {
            leader: Leader::new(ranks),
            leader_timers: BTreeSet::new(),
            started: false,
            commits: 0,
            next_plan: 1,
            ranks: (0..ranks).map(process).collect(),
            done: BTreeMap::new(),
        }
    }

    pub(super) fn are_all_on(&self) -> bool {
        self.ranks.iter().all(|process| process.state == State::On)
    }

    pub(super) fn commits(&self) -> usize {
        self.commits
    }

    /// Everything but faults, in turns. The leader's clock strikes only when it may try a change again.
    pub(super) fn run_calmly(&mut self, steps: usize) {
        let ranks = self.ranks.len();
        for step in 0..steps {
            let kind = [0, 10, 20, 30, 50, 50, 50, 60, 80][step / ranks % 9];
            self.step(kind, (step % ranks) as Rank, 0);
            if self.started && step % (40 * ranks) == 0 {
                self.strike_leader(0);
            }
        }
    }

    pub(super) fn step(&mut self, kind: u8, rank: Rank, choice: u8) {
        match kind {
            0..10 => self.connect(rank, choice),
            10..20 => self.say_hello(rank),
            20..30 => self.prepare(rank, choice),
            30..50 => self.deliver_up(rank),
            50..70 => self.deliver_down(rank),
            70..92 => self.proceed(rank, choice),
            92..96 => self.cut(rank, choice),
            96 => self.strike_member(rank),
            97 => self.strike_leader(choice),
            98 if choice < 40 => self.end(rank),
            _ => self.change(),
        }
    }

    fn process(&mut self, rank: Rank) -> &mut Process {
        &mut self.ranks[rank as usize]
    }

    fn connect(&mut self, rank: Rank, choice: u8) {
        let process = self.process(rank);
        let knows_of_loss = process.down.is_empty();
        if process.linked || !knows_of_loss {
            return;
        }
        if choice % 2 == 1 {
            // The leader's end drops what the old link still held when the new one comes.
            process.up.clear();
        }
        process.linked = true;
        process.up.push_back(LeaderEvent::Linked(rank));
        process.down.push_back(MemberEvent::LinkUp);
    }

    fn cut(&mut self, rank: Rank, choice: u8) {
        let process = self.process(rank);
        if process.linked {
            process.linked = false;
            process.up.truncate((choice % 4).into());
            process.down.truncate((choice / 4 % 4).into());
            process.up.push_back(LeaderEvent::Lost(rank));
            process.down.push_back(MemberEvent::LinkLost);
        }
    }

    fn say_hello(&mut self, rank: Rank) {
        let process = self.process(rank);
        if !process.hello_sent {
            process.hello_sent = true;
            let hello = process.member.hello().clone();
            self.tell_leader(LeaderEvent::From(rank, ToLeader::Hello(hello)));
        }
    }

    fn prepare(&mut self, rank: Rank, choice: u8) {
        if self.ranks.iter().all(|process| process.hello_sent) && !self.process(rank).prepared {
            self.process(rank).prepared = true;
            if rank == 0 {
                self.tell_leader(LeaderEvent::Present);
            }
            let capable = Capable { terms: Vec::new(), host: 0, tunings: Vec::new() };
            let result = if choice == 255 { Err("no memory".into()) } else { Ok(capable) };
            self.tell_member(rank, MemberEvent::Prepared(result));
        }
    }

    fn deliver_up(&mut self, rank: Rank) {
        if let Some(event) = self.process(rank).up.pop_front() {
            self.tell_leader(event);
        }
    }

    fn deliver_down(&mut self, rank: Rank) {
        if let Some(event) = self.process(rank).down.pop_front() {
            self.tell_member(rank, event);
        }
    }

    fn report_connected(&mut self, rank: Rank, choice: u8) {
        if self.process(rank).state == State::Connecting {
            let result = if choice == 255 { Err("no route".into()) } else { Ok(()) };
            self.tell_member(rank, MemberEvent::Connected(result));
        }
    }

    fn proceed(&mut self, rank: Rank, choice: u8) {
        match self.process(rank).state {
            State::Connecting => self.report_connected(rank, choice),
            State::On | State::Off => self.call(rank),
            State::Creating | State::Dead => {}
        }
        if choice < 32 {
            self.change();
        }
    }

    /// One call of the application: reserved, and then through the gate or waiting there.
    fn call(&mut self, rank: Rank) {
        let process = self.process(rank);
        let index = process.waiting.unwrap_or(process.reserved);
        if process.waiting.is_none() {
            process.reserved += 1;
        }
        let closed = process.state == State::On && process.gate.pledged().is_some_and(|at| index >= at);
        if closed && !process.lost {
            process.waiting = Some(index);
            return;
        }
        process.waiting = None;
        let entry = if process.state == State::On { process.gate.entry(index, 0) } else { Ok(0) };
        match entry {
            Ok(byte) => {
                assert_eq!(*self.done.entry(index).or_insert(byte), byte, "rank {rank}, index {index}")
            }
            Err(_) => process.state = State::Dead,
        }
    }

    fn strike_member(&mut self, rank: Rank) {
        if let Some(&timer) = self.process(rank).timers.first() {
            self.tell_member(rank, MemberEvent::TimeIsUp(timer));
        }
    }

    fn strike_leader(&mut self, choice: u8) {
        let timer = self.leader_timers.iter().nth(usize::from(choice) % 2).copied();
        if let Some(timer) = timer {
            self.tell_leader(LeaderEvent::TimeIsUp(timer));
        }
    }

    fn end(&mut self, rank: Rank) {
        self.process(rank).gate.end();
        self.process(rank).state = State::Dead;
        self.tell_member(rank, MemberEvent::Ended);
        if rank == 0 {
            self.tell_leader(LeaderEvent::Ended);
        }
    }

    fn change(&mut self) {
        if self.started {
            let (plan, reserved) = ([self.next_plan; PLAN_BYTES], self.ranks[0].reserved);
            self.next_plan = self.next_plan.wrapping_add(1);
            self.tell_leader(LeaderEvent::Change { plan, reserved });
        }
    }

    fn tell_leader(&mut self, event: LeaderEvent) {
        for action in self.leader.handle(event) {
            match action {
                LeaderAction::Send(rank, message) => self.send(rank, message),
                LeaderAction::ChooseFirst(_) => self.tell_leader(LeaderEvent::First([77; PLAN_BYTES])),
                LeaderAction::Started => self.started = true,
                LeaderAction::Decided { committed, .. } => self.commits += usize::from(committed),
                LeaderAction::Start(timer) => assert!(self.leader_timers.insert(timer)),
                LeaderAction::Stop(timer) => assert!(self.leader_timers.remove(&timer)),
                LeaderAction::Distrusted { reason } => panic!("an honest rank was distrusted: {reason}"),
                LeaderAction::Report(..) | LeaderAction::Order(_) | LeaderAction::Closed { .. } => {}
            }
        }
    }

    fn send(&mut self, rank: Rank, message: ToMember) {
        if self.process(rank).linked {
            self.process(rank).down.push_back(MemberEvent::Message(message));
        }
    }

    fn tell_member(&mut self, rank: Rank, event: MemberEvent) {
        for action in self.ranks[rank as usize].member.handle(event) {
            let process = &mut self.ranks[rank as usize];
            match action {
                MemberAction::Send(message) if process.linked => {
                    process.up.push_back(LeaderEvent::From(rank, message));
                }
                MemberAction::TryPledge { number, at } => {
                    let reserved = process.reserved;
                    let pledged = process.gate.try_pledge(at, || reserved);
                    self.tell_member(rank, MemberEvent::Gate { number, pledged });
                }
                MemberAction::Commit { at, plan } => process.gate.commit(at, plan),
                MemberAction::Abort => process.gate.abort(),
                MemberAction::Lost { .. } => {
                    process.lost = true;
                    process.gate.lose();
                }
                MemberAction::Settle(settled) => self.settle(rank, settled),
                MemberAction::Start(timer) => assert!(process.timers.insert(timer)),
                MemberAction::Stop(timer) => assert!(process.timers.remove(&timer)),
                MemberAction::Distrusts { reason } => panic!("an honest leader was distrusted: {reason}"),
                MemberAction::Send(_) => {}
            }
        }
    }

    fn settle(&mut self, rank: Rank, settled: Settled) {
        let process = self.process(rank);
        if process.state == State::Dead {
            return;
        }
        process.state = match settled {
            Settled::Off { .. } => State::Off,
            Settled::Connect { plan } => {
                process.gate.start(plan);
                State::Connecting
            }
            Settled::On => State::On,
            Settled::Broken { .. } => State::Dead,
        };
        let any = |state| self.ranks.iter().any(|process| process.state == state);
        assert!(!(any(State::Off) && (any(State::Connecting) || any(State::On))), "off beside on");
    }
}
