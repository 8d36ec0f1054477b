//! The leader's claims, one rule each: creation first, then changes, then ranks that cannot be trusted.

use super::LeaderAction::{ChooseFirst, Closed, Decided, Order, Report, Send, Start, Started, Stop};
use super::LeaderEvent::{Change, Ended, First, From, Linked, Lost, Present, TimeIsUp};
use super::LeaderTimer::{Grace, Proposal, Verdict};
use super::changes::MOST_MARGIN;
use super::*;
use crate::message::{Capable, Hello, LONGEST_REPORT, PLAN_BYTES, Term};

const RANKS: u32 = 3;
const PLAN: Plan = [1; PLAN_BYTES];
const OTHER: Plan = [2; PLAN_BYTES];

fn terms(name: &str, value: &str) -> Vec<Term> {
    vec![Term { name: name.into(), value: value.into() }]
}

fn hello(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Hello(Hello { rank, ranks: RANKS, terms: terms("mode", "on") }))
}

fn capable(rank: Rank) -> Capable {
    Capable { terms: terms("gpu", "sm_90"), host: rank.into(), tunings: Vec::new() }
}

fn ready(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Ready(Ok(capable(rank))))
}

fn pledge(rank: Rank, number: u64) -> LeaderEvent {
    From(rank, ToLeader::Pledge { number })
}

fn refuse(rank: Rank, number: u64, reserved: u64) -> LeaderEvent {
    From(rank, ToLeader::Refuse { number, reserved, reason: "no".into() })
}

fn connected(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Connected(Ok(())))
}

fn ask(rank: Rank, number: u64) -> LeaderEvent {
    From(rank, ToLeader::Ask { number })
}

fn leave(rank: Rank) -> LeaderEvent {
    From(rank, ToLeader::Leave)
}

fn change(reserved: u64) -> LeaderEvent {
    Change { plan: OTHER, reserved }
}

fn feed(leader: &mut Leader, events: impl IntoIterator<Item = LeaderEvent>) -> Actions {
    events.into_iter().flat_map(|event| leader.handle(event)).collect()
}

fn by_all(event: impl Fn(Rank) -> LeaderEvent) -> Vec<LeaderEvent> {
    (0..RANKS).map(event).collect()
}

fn gathering() -> Leader {
    let mut leader = Leader::new(RANKS);
    feed(&mut leader, [Present]);
    leader
}

fn choosing() -> Leader {
    let mut leader = gathering();
    feed(&mut leader, [by_all(hello), by_all(Linked), by_all(ready)].concat());
    leader
}

fn voting() -> Leader {
    let mut leader = choosing();
    feed(&mut leader, [First(PLAN)]);
    leader
}

fn connecting() -> Leader {
    let mut leader = voting();
    feed(&mut leader, by_all(|rank| pledge(rank, 0)));
    leader
}

fn on() -> Leader {
    let mut leader = connecting();
    feed(&mut leader, by_all(connected));
    leader
}

/// On, and change 1 is proposed at index 4.
fn proposing() -> Leader {
    let mut leader = on();
    feed(&mut leader, [change(0)]);
    leader
}

fn undecided() -> [Leader; 3] {
    [gathering(), choosing(), voting()]
}

fn to_all(message: &ToMember) -> Actions {
    (0..RANKS).map(|rank| Send(rank, message.clone())).collect()
}

/// What the ranks are told the reason to be, if all those linked are told Off.
fn off_reason(leader: &Leader, actions: &[LeaderAction]) -> Option<String> {
    let told: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Send(_, ToMember::Off { reason }) => Some(reason),
            _ => None,
        })
        .collect();
    let closed = actions.iter().find_map(|action| match action {
        Closed { reason } => Some(reason.clone()),
        _ => None,
    })?;
    (told.len() == leader.linked.len() && told.iter().all(|reason| **reason == closed)).then_some(closed)
}

fn is_broken(actions: &[LeaderAction]) -> bool {
    (0..RANKS).all(|rank| {
        actions.iter().any(|action| matches!(action, Send(to, ToMember::Broken { .. }) if *to == rank))
    })
}

fn is_closed(actions: &[LeaderAction]) -> bool {
    actions.iter().any(|action| matches!(action, Closed { .. }))
}

fn decided(at: u64, committed: bool) -> LeaderAction {
    Decided { at, plan: OTHER, committed }
}

#[test]
fn creation_goes_step_by_step_to_on() {
    let mut leader = Leader::new(RANKS);
    feed(&mut leader, [by_all(hello), by_all(Linked), vec![ready(2), ready(0)]].concat());
    assert_eq!(leader.handle(Present), [Start(Verdict)], "all have said Hello: no need for grace");
    assert_eq!(leader.handle(ready(1)), [ChooseFirst((0..RANKS).map(capable).collect())]);
    let propose = ToMember::Propose { number: 0, at: At::Creation, plan: PLAN };
    let expected = [to_all(&propose), vec![Stop(Verdict), Start(Proposal(0))]].concat();
    assert_eq!(leader.handle(First(PLAN)), expected);
    assert_eq!(feed(&mut leader, [pledge(2, 0), pledge(0, 0)]), []);
    let expected = [to_all(&ToMember::Commit { number: 0 }), vec![Stop(Proposal(0))]].concat();
    assert_eq!(leader.handle(pledge(1, 0)), expected);
    assert_eq!(feed(&mut leader, [connected(0), connected(2)]), []);
    assert_eq!(leader.handle(connected(1)), [to_all(&ToMember::Begin), vec![Started]].concat());
}

#[test]
fn what_comes_by_different_links_may_come_in_any_order() {
    let orders = [
        [by_all(ready), by_all(Linked), by_all(hello)],
        [by_all(hello), by_all(ready), by_all(Linked)],
        [by_all(Linked), by_all(hello), by_all(ready)],
    ];
    for order in orders {
        let mut leader = Leader::new(RANKS);
        let actions = feed(&mut leader, order.concat());
        assert!(matches!(actions[..], [ChooseFirst(_), Start(Verdict)]), "{actions:?}");
    }
}

#[test]
fn one_rank_alone_can_agree_with_itself() {
    let mut leader = Leader::new(1);
    let hello = From(0, ToLeader::Hello(Hello { rank: 0, ranks: 1, terms: Vec::new() }));
    let actions =
        feed(&mut leader, [hello, Linked(0), Present, ready(0), First(PLAN), pledge(0, 0), connected(0)]);
    assert!(actions.contains(&Started));
}

#[test]
fn a_rank_that_does_not_join_costs_no_more_than_the_grace() {
    let mut leader = Leader::new(RANKS);
    feed(&mut leader, [hello(0), Linked(0), ready(0)]);
    assert_eq!(leader.handle(Present), [Start(Grace), Start(Verdict)]);
    let actions = leader.handle(TimeIsUp(Grace));
    assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 1 and 1 more did not join");
    assert!(actions.contains(&Stop(Grace)) && actions.contains(&Stop(Verdict)));
}

#[test]
fn grace_ends_when_all_have_said_hello() {
    let mut leader = gathering();
    assert!(feed(&mut leader, by_all(hello)).contains(&Stop(Grace)));
    assert_eq!(leader.handle(TimeIsUp(Grace)), []);
}

#[test]
fn a_rank_that_does_not_get_ready_or_does_not_vote_is_named() {
    let mut leader = gathering();
    feed(&mut leader, [by_all(hello), by_all(Linked), vec![ready(0), ready(2)]].concat());
    let actions = leader.handle(TimeIsUp(Verdict));
    assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 1 did not get ready in time");

    let mut leader = gathering();
    feed(&mut leader, [by_all(hello), by_all(ready), vec![Linked(0), Linked(1)]].concat());
    let actions = leader.handle(TimeIsUp(Verdict));
    assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 2 did not get ready in time");

    let mut leader = voting();
    feed(&mut leader, [pledge(1, 0), pledge(2, 0)]);
    let actions = leader.handle(TimeIsUp(Proposal(0)));
    assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 0 did not vote in time");

    let mut leader = choosing();
    let actions = leader.handle(TimeIsUp(Verdict));
    assert!(off_reason(&leader, &actions).is_some());
}

#[test]
fn ranks_that_differ_are_off_and_the_reason_names_rank_term_and_values() {
    let odd =
        |rank| From(rank, ToLeader::Hello(Hello { rank, ranks: RANKS, terms: terms("mode", "shadow") }));
    let expected = "mode: rank 2 has 'shadow', rank 0 has 'on'";
    for order in [[hello(0), hello(1), odd(2)], [odd(2), hello(1), hello(0)]] {
        let mut leader = gathering();
        let actions = feed(&mut leader, order);
        assert_eq!(off_reason(&leader, &actions).unwrap(), expected);
    }
    let odd = From(1, ToLeader::Ready(Ok(Capable { terms: terms("gpu", "sm_80"), ..capable(1) })));
    for order in [[ready(0), odd.clone()], [odd, ready(0)]] {
        let mut leader = gathering();
        let actions = feed(&mut leader, order);
        assert_eq!(off_reason(&leader, &actions).unwrap(), "gpu: rank 1 has 'sm_80', rank 0 has 'sm_90'");
    }
}

#[test]
fn a_rank_that_says_no_before_the_commit_switches_all_off_with_its_reason() {
    for mut leader in undecided() {
        let actions = leader.handle(From(1, ToLeader::Ready(Err("no memory".into()))));
        assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 1: no memory");
    }
    let mut leader = voting();
    let actions = leader.handle(refuse(2, 0, 0));
    assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 2: no");
}

#[test]
fn a_rank_that_leaves_or_is_lost_before_the_commit_switches_all_off() {
    for mut leader in undecided() {
        let linked = leader.linked.contains(&1);
        feed(&mut leader, (!linked).then_some(Linked(1)));
        for event in [leave(1), Lost(1), Linked(1), Ended] {
            let mut leader = leader.clone();
            let actions = leader.handle(event.clone());
            assert!(matches!(leader.phase, Phase::Off { .. }) && is_closed(&actions), "{event:?}");
            assert_eq!(feed(&mut leader, by_all(|rank| pledge(rank, 0))), [], "nothing is committed then");
        }
    }
}

#[test]
fn who_comes_after_the_verdict_hears_it_too() {
    let mut leader = gathering();
    leader.handle(TimeIsUp(Grace));
    assert!(matches!(&leader.handle(Linked(2))[..], [Send(2, ToMember::Off { .. })]));
    assert_eq!(leader.handle(ready(2)), []);
    let mut leader = connecting();
    feed(&mut leader, [Lost(2), leave(1)]);
    assert!(matches!(&leader.handle(Linked(2))[..], [Send(2, ToMember::Broken { .. })]));
}

#[test]
fn a_failure_between_commit_and_begin_breaks_all() {
    for event in [leave(1), From(1, ToLeader::Connected(Err("no route".into()))), Ended] {
        let actions = connecting().handle(event);
        assert!(is_broken(&actions) && is_closed(&actions));
    }
}

#[test]
fn a_link_that_is_cut_after_the_commit_may_come_back() {
    let mut leader = connecting();
    assert_eq!(feed(&mut leader, [Lost(1), Linked(1)]), []);
    assert_eq!(leader.handle(ask(1, 0)), [Send(1, ToMember::Commit { number: 0 })]);
    assert!(feed(&mut leader, by_all(connected)).contains(&Started));
    assert_eq!(leader.handle(connected(1)), [Send(1, ToMember::Begin)], "it did not hear the first");
    assert_eq!(leader.handle(ask(1, 0)), [Send(1, ToMember::Commit { number: 0 })]);
}

#[test]
fn a_change_is_committed_when_all_have_pledged_it_and_not_before() {
    let mut leader = on();
    let propose = ToMember::Propose { number: 1, at: At::Index(104), plan: OTHER };
    assert_eq!(leader.handle(change(100)), [to_all(&propose), vec![Start(Proposal(1))]].concat());
    assert_eq!(feed(&mut leader, [pledge(0, 1), pledge(2, 1)]), []);
    let expected = [to_all(&ToMember::Commit { number: 1 }), vec![decided(104, true), Stop(Proposal(1))]];
    assert_eq!(leader.handle(pledge(1, 1)), expected.concat());
}

#[test]
fn a_second_change_waits_for_the_first() {
    let mut leader = proposing();
    assert_eq!(leader.handle(change(50)), []);
    feed(&mut leader, by_all(|rank| pledge(rank, 1)));
    let next = ToMember::Propose { number: 2, at: At::Index(4 + LEAST_MARGIN), plan: OTHER };
    assert_eq!(leader.handle(change(0))[0], Send(0, next), "behind the first, though that lies ahead");
}

fn proposed_at(actions: &[LeaderAction]) -> u64 {
    let at = actions.iter().find_map(|action| match action {
        Send(_, ToMember::Propose { at: At::Index(at), .. }) => Some(*at),
        _ => None,
    });
    at.expect("a proposal")
}

#[test]
fn the_margin_doubles_when_a_rank_was_past_the_index_and_halves_after_a_commit() {
    let mut leader = on();
    let (mut reserved, mut margin) = (0, LEAST_MARGIN);
    for number in 1..=12 {
        let at = proposed_at(&leader.handle(change(0)));
        assert_eq!(at, reserved + margin);
        (reserved, margin) = (at + 1, (margin * 2).min(MOST_MARGIN));
        let actions = leader.handle(refuse(1, number, reserved));
        let told = [to_all(&ToMember::Abort { number }), vec![decided(at, false), Stop(Proposal(number))]];
        assert_eq!(actions, told.concat(), "at once: a larger index may heal it");
    }
    assert_eq!(margin, MOST_MARGIN);
    let at = proposed_at(&leader.handle(change(0)));
    feed(&mut leader, by_all(|rank| pledge(rank, 13)));
    let next = proposed_at(&leader.handle(change(0)));
    assert_eq!(next, at + MOST_MARGIN / 2, "never at or before the last change");
}

#[test]
fn the_index_lies_above_every_rank_that_was_heard_of() {
    let mut leader = proposing();
    feed(&mut leader, [refuse(2, 1, 500)]);
    assert_eq!(proposed_at(&leader.handle(change(20))), 500 + 2 * LEAST_MARGIN);
}

#[test]
fn a_refusal_that_a_larger_index_would_not_heal_is_answered_when_the_time_is_up() {
    let mut leader = proposing();
    assert_eq!(leader.handle(refuse(2, 1, 0)), to_all(&ToMember::Abort { number: 1 }));
    assert_eq!(leader.handle(change(0)), [], "not yet");
    assert_eq!(leader.handle(pledge(1, 1)), [], "and never committed");
    assert_eq!(leader.handle(TimeIsUp(Proposal(1))), [decided(4, false), Stop(Proposal(1))]);
    assert_eq!(proposed_at(&leader.handle(change(0))), LEAST_MARGIN, "the margin stays");
}

#[test]
fn a_proposal_whose_time_is_up_is_aborted() {
    let mut leader = proposing();
    feed(&mut leader, [pledge(0, 1), pledge(1, 1)]);
    let expected = [to_all(&ToMember::Abort { number: 1 }), vec![decided(4, false), Stop(Proposal(1))]];
    assert_eq!(leader.handle(TimeIsUp(Proposal(1))), expected.concat());
    assert_eq!(leader.handle(pledge(2, 1)), [], "a late pledge does not revive it");
    assert_eq!(leader.handle(TimeIsUp(Proposal(1))), []);
}

#[test]
fn a_rank_that_is_lost_aborts_what_is_not_decided() {
    let mut leader = proposing();
    feed(&mut leader, [pledge(0, 1), pledge(1, 1)]);
    let abort = ToMember::Abort { number: 1 };
    assert_eq!(leader.handle(Lost(1)), [Send(0, abort.clone()), Send(2, abort.clone())]);
    assert_eq!(feed(&mut leader, [pledge(2, 1), Linked(1)]), []);
    assert_eq!(leader.handle(ask(1, 1)), [Send(1, abort)]);
}

#[test]
fn a_new_link_of_a_rank_counts_as_the_loss_of_the_old_one() {
    let mut leader = proposing();
    let actions = leader.handle(Linked(1));
    assert_eq!(actions, [Send(0, ToMember::Abort { number: 1 }), Send(2, ToMember::Abort { number: 1 })]);
}

#[test]
fn nothing_is_proposed_while_a_rank_is_not_linked() {
    let mut leader = on();
    feed(&mut leader, [Lost(2)]);
    assert_eq!(leader.handle(change(0)), [Start(Proposal(1))]);
    assert_eq!(feed(&mut leader, by_all(|rank| pledge(rank, 1))), []);
    assert_eq!(leader.handle(TimeIsUp(Proposal(1))), [decided(4, false), Stop(Proposal(1))]);
    leader.handle(Linked(2));
    assert_eq!(proposed_at(&leader.handle(change(0))), 4);
}

#[test]
fn a_commit_is_remembered_for_a_rank_that_did_not_hear_it_whatever_was_aborted_since() {
    let mut leader = proposing();
    feed(&mut leader, by_all(|rank| pledge(rank, 1)));
    feed(&mut leader, [Lost(1), Linked(1), change(4), refuse(1, 2, 0), TimeIsUp(Proposal(2))]);
    assert_eq!(leader.handle(ask(1, 2)), [Send(1, ToMember::Abort { number: 2 })]);
    assert_eq!(leader.handle(ask(1, 1)), [Send(1, ToMember::Commit { number: 1 })]);
    assert_eq!(leader.handle(leave(0)).len(), 1);
    assert_eq!(leader.handle(ask(1, 1)), [Send(1, ToMember::Commit { number: 1 })], "also when closed");
}

#[test]
fn a_question_about_what_is_open_ends_it() {
    let mut leader = proposing();
    assert_eq!(leader.handle(ask(1, 1)), to_all(&ToMember::Abort { number: 1 }));
}

#[test]
fn a_question_about_the_past_is_not_answered_by_a_guess() {
    let mut leader = proposing();
    feed(&mut leader, by_all(|rank| pledge(rank, 1)));
    assert_eq!(leader.handle(ask(1, 0)), []);
}

#[test]
fn a_rank_that_leaves_ends_all_changes() {
    for event in [leave(1), Ended] {
        let mut leader = proposing();
        let actions = leader.handle(event);
        assert!(
            actions.starts_with(&[to_all(&ToMember::Abort { number: 1 }), vec![decided(4, false)]].concat())
        );
        assert!(is_closed(&actions) && actions.contains(&Stop(Proposal(1))));
        assert_eq!(leader.handle(change(0)), []);
        assert!(!is_closed(&leader.handle(leave(2))), "it is said once");
    }
}

#[test]
fn reports_and_orders_reach_the_brain_until_there_is_no_change_any_more() {
    let order = From(2, ToLeader::Order(crate::Order::Off));
    let report = From(1, ToLeader::Report(vec![7]));
    let mut leader = on();
    assert_eq!(leader.handle(report.clone()), [Report(1, vec![7])]);
    assert_eq!(leader.handle(order.clone()), [Order(crate::Order::Off)]);
    leader.handle(leave(0));
    assert_eq!(feed(&mut leader, [report, order]), []);
}

fn lies() -> Vec<(LeaderEvent, &'static str)> {
    let wrong_ranks = Hello { rank: 1, ranks: 9, terms: terms("mode", "on") };
    let in_anothers_name = Hello { rank: 2, ranks: RANKS, terms: terms("mode", "on") };
    vec![
        (From(1, ToLeader::Hello(wrong_ranks)), "rank 1"),
        (From(1, ToLeader::Hello(in_anothers_name)), "rank 1"),
        (hello(1), "rank 1"),
        (ready(1), "rank 1"),
        (From(RANKS, ToLeader::Leave), "rank 3"),
        (From(u32::MAX, ToLeader::Ask { number: 0 }), "rank 4294967295"),
        (Linked(RANKS), "rank 3"),
        (Lost(RANKS), "rank 3"),
        (pledge(1, 7), "rank 1"),
        (refuse(1, 7, 0), "rank 1"),
        (refuse(1, 1, u64::MAX), "rank 1"),
        (ask(1, 7), "rank 1"),
        (From(1, ToLeader::Report(vec![0; LONGEST_REPORT + 1])), "rank 1"),
    ]
}

#[test]
fn a_first_hello_that_lies_switches_all_off_and_is_named() {
    let say = |hello: Hello| {
        let mut leader = gathering();
        let actions = feed(&mut leader, [Linked(0), Linked(1), From(1, ToLeader::Hello(hello))]);
        off_reason(&leader, &actions).unwrap()
    };
    let honest = Hello { rank: 1, ranks: RANKS, terms: Vec::new() };
    assert_eq!(say(Hello { ranks: 9, ..honest.clone() }), "rank 1 counts 9 ranks, rank 0 counts 3");
    assert_eq!(say(Hello { rank: 2, ..honest }), "rank 2 said Hello in the name of rank 1");
}

#[test]
fn two_ranks_with_the_same_number_switch_all_off() {
    let mut leader = gathering();
    let actions = feed(&mut leader, [hello(0), hello(1), hello(1)]);
    assert_eq!(off_reason(&leader, &actions).unwrap(), "there are two with the number of rank 1");
}

#[test]
fn a_rank_that_lies_before_the_commit_switches_all_off_and_is_named() {
    let mut gathering = gathering();
    feed(&mut gathering, [hello(1), ready(1), Linked(0), Linked(1), Linked(2)]);
    let mut half = voting();
    feed(&mut half, [pledge(1, 0)]);
    let more = [(pledge(1, 0), "rank 1"), (connected(1), "rank 1"), (ask(1, 0), "rank 1")];
    for leader in [gathering, choosing(), half] {
        for (event, who) in lies().into_iter().chain(more.clone()) {
            let mut leader = leader.clone();
            let actions = leader.handle(event.clone());
            let reason = off_reason(&leader, &actions).unwrap_or_else(|| panic!("{event:?}: {actions:?}"));
            assert!(reason.contains(who), "{event:?}: {reason}");
        }
    }
}

#[test]
fn a_rank_that_lies_after_the_commit_ends_all_changes_and_breaks_nothing() {
    let mut proposing = proposing();
    feed(&mut proposing, [pledge(1, 1)]);
    for leader in [connecting(), on(), proposing.clone()] {
        for (event, who) in lies() {
            let mut leader = leader.clone();
            let actions = leader.handle(event.clone());
            let reason = actions.iter().find_map(|action| match action {
                Closed { reason } => Some(reason.as_str()),
                _ => None,
            });
            assert!(reason.is_some_and(|reason| reason.contains(who)), "{event:?}: {actions:?}");
            assert!(!actions.iter().any(|action| matches!(
                action,
                Send(_, ToMember::Broken { .. } | ToMember::Off { .. } | ToMember::Commit { .. })
            )));
        }
    }
    for event in [pledge(1, 1), refuse(1, 1, 0)] {
        assert!(is_closed(&proposing.clone().handle(event)), "it has pledged already");
    }
    assert!(is_closed(&on().handle(From(1, ToLeader::Connected(Err(String::new()))))));
    let mut leader = connecting();
    feed(&mut leader, [hello(1)]);
    let actions = feed(&mut leader, by_all(connected));
    assert_eq!(actions, to_all(&ToMember::Begin), "creation goes on, without a brain");
}

#[test]
fn what_nobody_asked_for_means_nothing() {
    for mut leader in [gathering(), voting(), connecting(), on()] {
        assert_eq!(leader.handle(First(OTHER)), []);
    }
    for mut leader in [gathering(), choosing(), voting(), connecting()] {
        assert_eq!(leader.handle(change(0)), []);
    }
    for mut leader in [choosing(), on(), proposing()] {
        assert_eq!(feed(&mut leader, [Present, TimeIsUp(Grace), TimeIsUp(Proposal(7))]), []);
        assert_eq!(leader.handle(TimeIsUp(Proposal(0))), []);
    }
}
