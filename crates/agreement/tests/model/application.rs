//! The applications' threads and their devices. A thread's step is what no other thread can see half done; a step
//! that has to wait is simply not possible yet.

use crate::gate::Pass;
use crate::scene::{Mistake, Op, Scene};
use crate::world::{Launch, Outcome, Seat, Step, World};
use airamp_agreement::{Capable, LeaderEvent, MemberEvent, Rank, Settled};

impl World {
    /// The thread's next step. `None`: it waits, has finished, or has given up.
    pub(crate) fn step(&self, scene: &Scene, rank: usize) -> Option<Self> {
        let process = &self.processes[rank];
        if !process.alive || process.failed {
            return None;
        }
        let op = *scene.programs[rank].get(process.at)?;
        let mut next = self.clone();
        let moved = match op {
            Op::Create(c) => next.create(scene, c, rank),
            Op::AllReduce(c) => next.all_reduce(scene, c, rank),
            Op::Capture(c) => next.capture(scene, c, rank),
            Op::Send(c, to) => next.message(scene, c, rank, Launch::Send(to)),
            Op::Receive(c, from) => next.message(scene, c, rank, Launch::Receive(from)),
            Op::Wait(c) => {
                next.done()[c][rank] == next.communicators[c].seats[rank].launched.len() && next.advance(rank)
            }
            Op::GroupStart => {
                next.processes[rank].group = Some(Vec::new());
                next.advance(rank)
            }
            Op::GroupEnd => next.end_group(scene, rank),
            Op::GroupUndone => next.undo_group(rank),
            Op::End(c) => {
                next.leave(scene, c, rank);
                next.advance(rank)
            }
            Op::Exit => {
                next.end_process(rank);
                true
            }
        };
        moved.then_some(next)
    }

    pub(crate) fn has_finished(&self, scene: &Scene, rank: usize) -> bool {
        let process = &self.processes[rank];
        !process.alive || process.at == scene.programs[rank].len()
    }

    /// The thread waits for the agreement: not for a peer, not for a device.
    pub(crate) fn waits_for_verdict(&self, scene: &Scene, rank: usize) -> Option<&Seat> {
        let process = &self.processes[rank];
        if !process.alive || process.failed {
            return None;
        }
        match (scene.programs[rank].get(process.at)?, process.step) {
            (Op::Create(c), Step::AwaitsVerdict | Step::AwaitsStart) => {
                Some(&*self.communicators[*c].seats[rank]).filter(|seat| seat.settled.is_empty())
            }
            (Op::AllReduce(c) | Op::Capture(c), Step::Reserved(index)) => {
                let seat = &self.communicators[*c].seats[rank];
                matches!(seat.gate.pass(index), Pass::Wait).then_some(seat)
            }
            _ => None,
        }
    }

    fn advance(&mut self, rank: usize) -> bool {
        self.processes[rank].at += 1;
        self.to(rank, Step::Begin)
    }

    fn to(&mut self, rank: usize, step: Step) -> bool {
        self.processes[rank].step = step;
        true
    }

    fn give_up(&mut self, rank: usize) -> bool {
        self.processes[rank].failed = true;
        true
    }

    fn create(&mut self, scene: &Scene, c: usize, rank: usize) -> bool {
        let bare = scene.without_library == Some(rank as Rank);
        match self.processes[rank].step {
            Step::Begin => {
                self.seat(c, rank).entered_init = true;
                if !bare {
                    self.join(scene, c, rank);
                }
                self.to(rank, Step::InVendorInit)
            }
            Step::InVendorInit => self.leave_vendor_init(scene, c, rank, bare),
            Step::Acquiring => {
                if scene.busy_device && self.pending(rank) > 0 {
                    return false;
                }
                self.tell_member(scene, c, rank, MemberEvent::Prepared(capable(scene, rank)));
                self.to(rank, Step::AwaitsVerdict)
            }
            Step::AwaitsVerdict | Step::AwaitsStart => self.settle(c, rank),
            Step::Connecting => self.connect_peers(scene, c, rank),
            Step::Reserved(_) | Step::Passed(_) | Step::Enqueued(_) => false,
        }
    }

    /// The vendor's init is a barrier.
    fn leave_vendor_init(&mut self, scene: &Scene, c: usize, rank: usize, bare: bool) -> bool {
        if !self.communicators[c].seats.iter().all(|seat| seat.entered_init) {
            return false;
        }
        if bare {
            self.seat(c, rank).outcome = Some(Outcome::Off);
            return self.advance(rank);
        }
        if rank == 0 {
            self.tell_leader(scene, c, LeaderEvent::Present);
        }
        self.to(rank, Step::Acquiring);
        // Elsewhere nobody can see that init has returned and nothing is acquired yet.
        rank == 0 || scene.busy_device || self.create(scene, c, rank)
    }

    fn settle(&mut self, c: usize, rank: usize) -> bool {
        let seat = self.seat(c, rank);
        match seat.settled.pop_front() {
            None => false,
            Some(Settled::Off { .. } | Settled::On) => self.advance(rank),
            Some(Settled::Broken { .. }) => self.give_up(rank),
            Some(Settled::Connect { .. }) => {
                seat.connecting = true;
                self.to(rank, Step::Connecting)
            }
        }
    }

    /// First uses: the host is blocked until every peer has entered the same call, or the news is that one will not.
    fn connect_peers(&mut self, scene: &Scene, c: usize, rank: usize) -> bool {
        let late = scene.mistake == Mistake::LateConnection;
        let fails = scene.fails_to_connect == Some(rank as Rank);
        if !self.seat(c, rank).settled.is_empty() {
            return self.to(rank, Step::AwaitsStart);
        }
        if !late && !fails && !self.communicators[c].seats.iter().all(|seat| seat.connecting) {
            return false;
        }
        let result = if fails { Err("p".to_owned()) } else { Ok(()) };
        self.tell_member(scene, c, rank, MemberEvent::Connected(result));
        self.to(rank, Step::AwaitsStart)
    }

    fn all_reduce(&mut self, scene: &Scene, c: usize, rank: usize) -> bool {
        match self.processes[rank].step {
            Step::Begin => {
                let seat = self.seat(c, rank);
                let index = seat.reserved;
                seat.reserved += 1;
                self.to(rank, Step::Reserved(index));
                // Where no index is ever pledged, nothing can come between.
                scene.changes > 0 || self.all_reduce(scene, c, rank)
            }
            Step::Reserved(index) => match self.seat(c, rank).gate.pass(index) {
                Pass::Wait => false,
                Pass::Fail => self.give_up(rank),
                Pass::Go if scene.fine => self.to(rank, Step::Passed(index)),
                Pass::Go => self.issue(scene, c, rank, index),
            },
            Step::Passed(index) => self.issue(scene, c, rank, index),
            Step::Enqueued(index) => {
                let done = self.done()[c][rank] as u64;
                done > index && self.advance(rank)
            }
            _ => false,
        }
    }

    fn capture(&mut self, scene: &Scene, c: usize, rank: usize) -> bool {
        let (step, seat) = (self.processes[rank].step, self.seat(c, rank));
        match step {
            Step::Begin => {
                let index = seat.reserved;
                seat.gone_by = seat.gone_by.max(index + 1);
                self.to(rank, Step::Reserved(index))
            }
            Step::Reserved(index) => match seat.gate.pass(index) {
                Pass::Wait => false,
                Pass::Fail => self.give_up(rank),
                Pass::Go if scene.fine => self.to(rank, Step::Passed(index)),
                Pass::Go => self.record(c, rank, index),
            },
            Step::Passed(index) => self.record(c, rank, index),
            _ => false,
        }
    }

    fn record(&mut self, c: usize, rank: usize, index: u64) -> bool {
        let seat = self.seat(c, rank);
        let plan = seat.gate.plan(index);
        seat.captured.push((index, plan));
        self.advance(rank)
    }

    fn issue(&mut self, scene: &Scene, c: usize, rank: usize, index: u64) -> bool {
        let plan = self.seat(c, rank).gate.plan(index);
        let grouped = self.processes[rank].group.is_some();
        let plan = match scene.mistake {
            Mistake::LocalFallback(who) if who as usize == rank => 0,
            Mistake::EligibilityByGroup if grouped => 0,
            _ => plan,
        };
        if let Some(calls) = &mut self.processes[rank].group {
            calls.push((c, plan));
            return self.advance(rank);
        }
        if self.pending(rank) >= scene.queue {
            return false;
        }
        self.seat(c, rank).launched.push(Launch::AllReduce(plan));
        if blocks_host(scene, plan) { self.to(rank, Step::Enqueued(index)) } else { self.advance(rank) }
    }

    fn message(&mut self, scene: &Scene, c: usize, rank: usize, launch: Launch) -> bool {
        if self.pending(rank) >= scene.queue {
            return false;
        }
        self.seat(c, rank).launched.push(launch);
        self.advance(rank)
    }

    fn end_group(&mut self, scene: &Scene, rank: usize) -> bool {
        if self.pending(rank) >= scene.queue {
            return false;
        }
        for (c, plan) in self.processes[rank].group.take().unwrap_or_default() {
            self.seat(c, rank).launched.push(Launch::AllReduce(plan));
        }
        self.advance(rank)
    }

    fn undo_group(&mut self, rank: usize) -> bool {
        for (c, _) in self.processes[rank].group.take().unwrap_or_default() {
            self.seat(c, rank).reserved -= 1;
        }
        self.advance(rank)
    }
}

/// The host waits for the device in a call that is not the vendor's own: in one case for every such call, in the
/// other because the peers meet there for the first time.
fn blocks_host(scene: &Scene, plan: u8) -> bool {
    matches!(scene.mistake, Mistake::BlockingWarmUp | Mistake::LateConnection) && plan != 0
}

fn capable(scene: &Scene, rank: usize) -> Result<Capable, String> {
    if scene.incapable == Some(rank as Rank) {
        return Err("m".to_owned());
    }
    Ok(Capable { terms: Vec::new(), host: 0, tunings: Vec::new() })
}
