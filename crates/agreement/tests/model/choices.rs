//! The choices of the checker: in any state, which step of which thread, which message, loss, crash or time-out is
//! next.

use crate::link::Link;
use crate::properties::properties;
use crate::scene::{Mistake, Op, Scene};
use crate::world::{HelloIs, World};
use airamp_agreement::{LeaderTimer, MemberTimer};
use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Thread(usize),
    Hello(usize, usize),
    Connect(usize, usize),
    Up(usize, usize),
    Down(usize, usize),
    Compare(usize, usize),
    Think(usize),
    LeaderTime(usize, LeaderTimer),
    MemberTime(usize, usize, MemberTimer),
    Cut(usize, usize),
    LoseHello(usize, usize),
    LoseUp(usize, usize),
    LoseDown(usize, usize),
    Crash(usize),
}

impl Choice {
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Cut(..) | Self::LoseHello(..) | Self::LoseUp(..) | Self::LoseDown(..) | Self::Crash(_)
        )
    }
}

impl Model for Scene {
    type State = World;
    type Action = Choice;

    fn init_states(&self) -> Vec<World> {
        vec![if self.created { created(self) } else { World::new(self) }]
    }

    fn actions(&self, world: &World, choices: &mut Vec<Choice>) {
        if let Some(first) = self.prompt.then(|| self.introduction(world)).flatten() {
            return choices.push(first);
        }
        for rank in 0..self.ranks() {
            // A thread that has to wait makes no step, which the checker finds out for itself.
            choices.push(Choice::Thread(rank));
            if world.processes[rank].alive && world.crashes_left > 0 {
                choices.push(Choice::Crash(rank));
            }
        }
        for c in 0..self.communicators {
            self.leader_choices(world, c, choices);
            for rank in 0..self.ranks() {
                self.link_choices(world, c, rank, choices);
                self.member_choices(world, c, rank, choices);
            }
        }
        if self.time && (world.early_left > 0 || !self.goes_on(world)) {
            self.time_choices(world, choices);
        }
    }

    fn next_state(&self, world: &World, choice: Choice) -> Option<World> {
        if let Choice::Thread(rank) = choice {
            return world.step(self, rank);
        }
        let mut next = world.clone();
        match choice {
            Choice::Thread(_) => {}
            Choice::Hello(c, rank) => next.hello_arrives(self, c, rank),
            Choice::Connect(c, rank) => next.connect(self, c, rank),
            Choice::Up(c, rank) => next.deliver_up(self, c, rank),
            Choice::Down(c, rank) => next.deliver_down(self, c, rank),
            Choice::Compare(c, rank) => next.compare(self, c, rank),
            Choice::Think(c) => next.think(self, c),
            Choice::LeaderTime(c, timer) => next.leader_time(self, c, timer),
            Choice::MemberTime(c, rank, timer) => next.member_time(self, c, rank, timer),
            Choice::Cut(c, rank) => {
                next.cuts_left -= 1;
                next.seat(c, rank).link.cut();
            }
            Choice::LoseHello(c, rank) => {
                next.cuts_left -= 1;
                next.a_rank_crashed = true;
                next.seat(c, rank).hello = HelloIs::Gone;
            }
            Choice::LoseUp(c, rank) => next.seat(c, rank).link.lose_up(),
            Choice::LoseDown(c, rank) => next.seat(c, rank).link.lose_down(),
            Choice::Crash(rank) => {
                next.crashes_left -= 1;
                next.a_rank_crashed = true;
                next.end_process(rank);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties(self)
    }
}

impl Scene {
    fn introduction(&self, world: &World) -> Option<Choice> {
        let mut choices = Vec::new();
        for (c, rank) in (0..self.communicators).flat_map(|c| (0..self.ranks()).map(move |rank| (c, rank))) {
            self.link_choices(world, c, rank, &mut choices);
            self.member_choices(world, c, rank, &mut choices);
        }
        let first_link = |c: usize, rank: usize| world.communicators[c].seats[rank].link == Link::default();
        choices.into_iter().find(|choice| match *choice {
            Choice::Hello(..) => true,
            Choice::Connect(c, rank) => first_link(c, rank),
            _ => false,
        })
    }

    /// Something other than a fault or a time-out can happen. Threads last: they are dear to ask.
    pub(crate) fn goes_on(&self, world: &World) -> bool {
        let mut choices = Vec::new();
        for c in 0..self.communicators {
            self.leader_choices(world, c, &mut choices);
            for rank in 0..self.ranks() {
                self.link_choices(world, c, rank, &mut choices);
                self.member_choices(world, c, rank, &mut choices);
            }
        }
        choices.iter().any(|choice| !choice.is_fault())
            || (0..self.ranks()).any(|rank| world.step(self, rank).is_some())
    }

    /// Any timer that runs, while the control thread of its process is not busy.
    pub(crate) fn time_choices(&self, world: &World, choices: &mut Vec<Choice>) {
        for (c, communicator) in world.communicators.iter().enumerate() {
            if world.control_is_free(0) {
                choices.extend(communicator.leader_timers.iter().map(|timer| Choice::LeaderTime(c, *timer)));
            }
            for (rank, seat) in communicator.seats.iter().enumerate() {
                if world.control_is_free(rank) {
                    choices.extend(seat.timers.iter().map(|timer| Choice::MemberTime(c, rank, *timer)));
                }
            }
        }
    }

    fn leader_choices(&self, world: &World, c: usize, choices: &mut Vec<Choice>) {
        let communicator = &world.communicators[c];
        if communicator.leader.is_none() || !world.control_is_free(0) {
            return;
        }
        if communicator.started && communicator.changes_left > 0 && !communicator.proposal_open {
            choices.push(Choice::Think(c));
        }
    }

    fn link_choices(&self, world: &World, c: usize, rank: usize, choices: &mut Vec<Choice>) {
        let communicator = &world.communicators[c];
        let seat = &communicator.seats[rank];
        let link = &seat.link;
        let led = communicator.leader.is_some();
        let heard = led && world.control_is_free(0);
        if heard && seat.hello == HelloIs::UnderWay {
            choices.push(Choice::Hello(c, rank));
        }
        if heard && !link.up.is_empty() {
            choices.push(Choice::Up(c, rank));
        }
        if world.cuts_left > 0 && link.is_live() {
            choices.push(Choice::Cut(c, rank));
        }
        if world.cuts_left > 0 && seat.hello == HelloIs::UnderWay {
            choices.push(Choice::LoseHello(c, rank));
        }
        if link.can_lose_up() {
            choices.push(Choice::LoseUp(c, rank));
        }
        if link.can_lose_down() {
            choices.push(Choice::LoseDown(c, rank));
        }
    }

    fn member_choices(&self, world: &World, c: usize, rank: usize, choices: &mut Vec<Choice>) {
        let communicator = &world.communicators[c];
        let seat = &communicator.seats[rank];
        if seat.pledging.is_some() {
            if self.mistake != Mistake::AcquisitionInVote || world.pending(rank) == 0 {
                choices.push(Choice::Compare(c, rank));
            }
            return;
        }
        if seat.member.is_none() || !world.control_is_free(rank) {
            return;
        }
        let reachable = communicator.leader.is_some() && self.unreachable_for != Some(rank as u32);
        if reachable && !seat.link.member_sees() {
            choices.push(Choice::Connect(c, rank));
        }
        if !seat.link.down.is_empty() {
            choices.push(Choice::Down(c, rank));
        }
    }
}

/// Creation, along one of its ways: what all its ways lead to has scenes of its own.
fn created(scene: &Scene) -> World {
    let creation = (0..scene.communicators).map(Op::Create).collect::<Vec<_>>();
    let calm = Scene { communicators: scene.communicators, ..Scene::alike(scene.ranks(), &creation) };
    let calm = Scene { margin: scene.margin, ..calm };
    let mut world = World::new(&calm);
    let mut choices = Vec::new();
    loop {
        choices.clear();
        calm.actions(&world, &mut choices);
        let Some(next) = choices.iter().find_map(|choice| calm.next_state(&world, *choice)) else { break };
        world = next;
    }
    assert!(
        world.communicators.iter().all(|c| c.seats.iter().all(|seat| seat.is_on())),
        "creation in calm ends on"
    );
    for process in &mut world.processes {
        process.at = 0;
    }
    for communicator in &mut world.communicators {
        communicator.changes_left = scene.changes;
    }
    world.crashes_left = scene.crashes;
    world.cuts_left = scene.cuts;
    world.early_left = scene.early;
    world
}
