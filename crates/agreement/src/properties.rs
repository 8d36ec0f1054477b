//! What must hold whatever comes, and in whatever order: each machine alone, fed with anything at all, and then a
//! whole communicator (`world`) under random schedules with cuts, time-outs, ends and calls.

mod world;

use crate::message::{At, Capable, Hello, LAST_INDEX, Order, PLAN_BYTES, Plan, Term, ToLeader, ToMember};
use crate::{
    Leader, LeaderAction, LeaderEvent, LeaderTimer, Member, MemberAction, MemberEvent, MemberTimer, Settled,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use world::World;

const RANKS: u32 = 2;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..4_u64, 1 => Just(u64::MAX), 1 => Just(LAST_INDEX)]
}

fn plan() -> impl Strategy<Value = Plan> {
    (0..3_u8).prop_map(|byte| [byte; PLAN_BYTES])
}

fn terms() -> impl Strategy<Value = Vec<Term>> {
    let same = Term { name: "mode".into(), value: "on".into() };
    prop_oneof![12 => Just(Vec::new()), 1 => Just(vec![same.clone()]), 1 => Just(vec![same; 100])]
}

fn capable() -> impl Strategy<Value = Capable> {
    terms().prop_map(|terms| Capable { terms, host: 0, tunings: Vec::new() })
}

fn outcome<T: std::fmt::Debug + Clone>(
    good: impl Strategy<Value = T>,
) -> impl Strategy<Value = Result<T, String>> {
    prop_oneof![9 => good.prop_map(Ok), 1 => Just(Err("no".to_owned()))]
}

fn to_leader() -> impl Strategy<Value = ToLeader> {
    prop_oneof![
        3 => (0..3_u32, prop_oneof![9 => Just(RANKS), 1 => any::<u32>()], terms())
            .prop_map(|(rank, ranks, terms)| ToLeader::Hello(Hello { rank, ranks, terms })),
        3 => outcome(capable()).prop_map(ToLeader::Ready),
        6 => number().prop_map(|number| ToLeader::Pledge { number }),
        2 => (number(), number())
            .prop_map(|(number, reserved)| ToLeader::Refuse { number, reserved, reason: String::new() }),
        4 => outcome(Just(())).prop_map(ToLeader::Connected),
        3 => number().prop_map(|number| ToLeader::Ask { number }),
        1 => Just(ToLeader::Report(vec![1])),
        1 => Just(ToLeader::Order(Order::Off)),
        1 => Just(ToLeader::Leave),
        1 => Just(ToLeader::Distrust { reason: "no".into() }),
    ]
}

fn leader_event() -> impl Strategy<Value = LeaderEvent> {
    let rank = || prop_oneof![20 => 0..RANKS, 1 => any::<u32>()];
    let timer = prop_oneof![
        Just(LeaderTimer::Grace),
        Just(LeaderTimer::Verdict),
        number().prop_map(LeaderTimer::Proposal)
    ];
    prop_oneof![
        12 => (rank(), to_leader()).prop_map(|(rank, message)| LeaderEvent::From(rank, message)),
        2 => rank().prop_map(LeaderEvent::Linked),
        1 => rank().prop_map(LeaderEvent::Lost),
        1 => Just(LeaderEvent::Present),
        2 => plan().prop_map(LeaderEvent::First),
        4 => (plan(), number()).prop_map(|(plan, reserved)| LeaderEvent::Change { plan, reserved }),
        1 => timer.prop_map(LeaderEvent::TimeIsUp),
        1 => Just(LeaderEvent::Ended),
    ]
}

fn to_member() -> impl Strategy<Value = ToMember> {
    let at = prop_oneof![Just(At::Creation), number().prop_map(At::Index), (0..40_u64).prop_map(At::Index)];
    prop_oneof![
        1 => Just(ToMember::Off { reason: "no".into() }),
        1 => Just(ToMember::Broken { reason: "no".into() }),
        8 => (number(), at, plan()).prop_map(|(number, at, plan)| ToMember::Propose { number, at, plan }),
        6 => number().prop_map(|number| ToMember::Commit { number }),
        4 => number().prop_map(|number| ToMember::Abort { number }),
        3 => Just(ToMember::Begin),
    ]
}

fn member_event() -> impl Strategy<Value = MemberEvent> {
    prop_oneof![
        2 => Just(MemberEvent::LinkUp),
        1 => Just(MemberEvent::LinkLost),
        2 => outcome(capable()).prop_map(MemberEvent::Prepared),
        12 => to_member().prop_map(MemberEvent::Message),
        6 => (number(), prop_oneof![3 => Just(Ok(())), 1 => number().prop_map(Err)])
            .prop_map(|(number, pledged)| MemberEvent::Gate { number, pledged }),
        3 => outcome(Just(())).prop_map(MemberEvent::Connected),
        1 => Just(MemberEvent::Report(vec![1])),
        1 => Just(MemberEvent::Order(Order::On)),
        1 => prop_oneof![Just(MemberTimer::Verdict), Just(MemberTimer::Doubt)].prop_map(MemberEvent::TimeIsUp),
        1 => Just(MemberEvent::Ended),
    ]
}

/// Events that lead to On, before those that lead anywhere: otherwise few cases would come so far.
fn leader_prelude(length: usize) -> Vec<LeaderEvent> {
    let by_all = |event: fn(u32) -> LeaderEvent| (0..RANKS).map(event).collect::<Vec<_>>();
    let from = |message: ToLeader| (0..RANKS).map(move |rank| LeaderEvent::From(rank, message.clone()));
    let capable = Capable { terms: Vec::new(), host: 0, tunings: Vec::new() };
    let mut events = by_all(LeaderEvent::Linked);
    events.extend((0..RANKS).map(|rank| {
        LeaderEvent::From(rank, ToLeader::Hello(Hello { rank, ranks: RANKS, terms: Vec::new() }))
    }));
    events.extend(from(ToLeader::Ready(Ok(capable))));
    events.push(LeaderEvent::First([1; PLAN_BYTES]));
    events.extend(from(ToLeader::Pledge { number: 0 }));
    events.extend(from(ToLeader::Connected(Ok(()))));
    events.push(LeaderEvent::Change { plan: [2; PLAN_BYTES], reserved: 0 });
    events.truncate(length);
    events
}

fn member_prelude(length: usize) -> Vec<MemberEvent> {
    let capable = Capable { terms: Vec::new(), host: 0, tunings: Vec::new() };
    let propose = |number, at| ToMember::Propose { number, at, plan: [number as u8 + 1; PLAN_BYTES] };
    let mut events = vec![
        MemberEvent::LinkUp,
        MemberEvent::Prepared(Ok(capable)),
        MemberEvent::Message(propose(0, At::Creation)),
        MemberEvent::Message(ToMember::Commit { number: 0 }),
        MemberEvent::Connected(Ok(())),
        MemberEvent::Message(ToMember::Begin),
        MemberEvent::Message(propose(1, At::Index(10))),
        MemberEvent::Gate { number: 1, pledged: Ok(()) },
    ];
    events.truncate(length);
    events
}

/// Judges what a leader does from outside.
#[derive(Default)]
struct LeaderJudge {
    pledged: BTreeMap<u64, BTreeSet<u32>>,
    verdicts: BTreeMap<u64, bool>,
    running: BTreeSet<LeaderTimer>,
    closed: bool,
    distrusted: bool,
}

impl LeaderJudge {
    fn hears(&mut self, event: &LeaderEvent) {
        if let LeaderEvent::From(rank, ToLeader::Pledge { number }) = event {
            self.pledged.entry(*number).or_default().insert(*rank);
        }
    }

    fn sees(&mut self, action: &LeaderAction) {
        match action {
            LeaderAction::Send(rank, message) => {
                assert!(*rank < RANKS);
                match message {
                    ToMember::Commit { number } => self.verdict(*number, true),
                    ToMember::Abort { number } => self.verdict(*number, false),
                    ToMember::Off { .. } => self.verdict(0, false),
                    ToMember::Broken { .. } => self.verdict(0, true),
                    ToMember::Propose { .. } | ToMember::Begin => {}
                }
            }
            LeaderAction::Closed { .. } => assert!(!std::mem::replace(&mut self.closed, true)),
            LeaderAction::Distrusted { .. } => assert!(!std::mem::replace(&mut self.distrusted, true)),
            LeaderAction::Start(timer) => assert!(self.running.insert(*timer)),
            LeaderAction::Stop(timer) => assert!(self.running.remove(timer)),
            _ => {}
        }
    }

    fn verdict(&mut self, number: u64, yes: bool) {
        assert_eq!(*self.verdicts.entry(number).or_insert(yes), yes, "two verdicts on {number}");
        if yes {
            let pledged =
                self.pledged.get(&number).map_or(0, |ranks| (0..RANKS).filter(|r| ranks.contains(r)).count());
            assert_eq!(pledged, RANKS as usize, "committed {number} without all pledges");
        }
    }
}

/// Judges what a member does from outside.
#[derive(Default)]
struct MemberJudge {
    linked: bool,
    /// Proposals that it did not refuse at once.
    taken_up: BTreeMap<u64, (At, Plan)>,
    pledged: Option<u64>,
    committed: bool,
    running: BTreeSet<MemberTimer>,
}

impl MemberJudge {
    fn hears(&mut self, event: &MemberEvent) {
        match event {
            MemberEvent::LinkUp => self.linked = true,
            MemberEvent::LinkLost => self.linked = false,
            _ => {}
        }
    }

    fn sees(&mut self, event: &MemberEvent, action: &MemberAction) {
        if let MemberEvent::Message(ToMember::Propose { number, at, plan }) = event
            && matches!(action, MemberAction::TryPledge { .. } | MemberAction::Send(ToLeader::Pledge { .. }))
        {
            assert_eq!(self.taken_up.insert(*number, (*at, *plan)), None, "a number was taken up twice");
        }
        let pledged = self.pledged;
        let yes =
            matches!(event, MemberEvent::Message(ToMember::Commit { number }) if Some(*number) == pledged);
        let no =
            matches!(event, MemberEvent::Message(ToMember::Abort { number }) if Some(*number) == pledged);
        match action {
            MemberAction::Send(message) => {
                assert!(self.linked);
                if let ToLeader::Pledge { number } = message {
                    assert_eq!(self.pledged.replace(*number), None, "two pledges are open");
                }
            }
            MemberAction::Commit { at, plan } => {
                assert!(yes, "passed without the verdict");
                assert_eq!(
                    self.taken_up[&pledged.unwrap()],
                    (At::Index(*at), *plan),
                    "not what was proposed"
                );
                self.pledged = None;
            }
            MemberAction::Abort => {
                assert!(no || pledged.is_none(), "passed without the verdict");
                self.pledged = None;
            }
            MemberAction::Settle(Settled::Connect { plan }) => {
                assert!(yes && pledged == Some(0) && self.taken_up[&0].1 == *plan);
                (self.pledged, self.committed) = (None, true);
            }
            MemberAction::Settle(Settled::Off { .. }) => {
                let off = matches!(event, MemberEvent::Message(ToMember::Off { .. }));
                assert!(!self.committed && (pledged.is_none() || no || off), "off against its pledge");
                self.pledged = None;
            }
            MemberAction::Settle(Settled::On) => assert!(self.committed),
            MemberAction::Start(timer) => assert!(self.running.insert(*timer)),
            MemberAction::Stop(timer) => assert!(self.running.remove(timer)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_leader_decides_each_number_once_and_only_with_all_pledges_whatever_comes(
        start in 0..18_usize, events in vec(leader_event(), 0..40)
    ) {
        let (mut leader, mut judge) = (Leader::new(RANKS), LeaderJudge::default());
        for event in leader_prelude(start).into_iter().chain(events) {
            judge.hears(&event);
            leader.handle(event).iter().for_each(|action| judge.sees(action));
        }
    }

    #[test]
    fn a_member_that_has_pledged_never_passes_without_the_verdict_whatever_comes(
        start in 0..9_usize, events in vec(member_event(), 0..40)
    ) {
        let hello = Hello { rank: 1, ranks: RANKS, terms: Vec::new() };
        let (mut member, mut judge) = (Member::new(hello), MemberJudge::default());
        for event in member_prelude(start).into_iter().chain(events) {
            judge.hears(&event);
            for action in member.handle(event.clone()) {
                judge.sees(&event, &action);
            }
        }
    }

    #[test]
    fn no_two_ranks_do_different_things_at_one_index(
        ranks in 1..5_u32, calm in 0..120_usize, steps in vec((0..100_u8, any::<u8>(), any::<u8>()), 0..600)
    ) {
        let mut world = World::new(ranks);
        world.run_calmly(calm * ranks as usize);
        for (kind, rank, choice) in steps {
            world.step(kind, u32::from(rank) % ranks, choice);
        }
    }
}

#[test]
fn where_nothing_is_lost_all_ranks_get_on_and_change_together() {
    for ranks in 1..6 {
        let mut world = World::new(ranks);
        world.run_calmly(4000 * ranks as usize);
        assert!(world.are_all_on());
        assert!(world.commits() > 3, "{} commits", world.commits());
    }
}
