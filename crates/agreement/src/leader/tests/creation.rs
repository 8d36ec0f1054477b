//! From the first Hello to Begin: creation of a communicator.

use super::*;

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
    assert_eq!(leader.handle(ask(1, 0)), [Send(1, ToMember::Commit { number: 0 })]);
}

#[test]
fn a_rank_that_comes_back_hears_that_all_are_on_before_any_change_is_proposed_to_it() {
    let mut leader = on();
    feed(&mut leader, [Lost(1)]);
    assert_eq!(leader.handle(Linked(1)), [Send(1, ToMember::Begin)], "it may not have heard the first");
    assert!(
        leader.handle(change(0)).iter().any(|action| matches!(action, Send(1, ToMember::Propose { .. })))
    );
    assert_eq!(leader.handle(connected(1)), [], "this was on its way");
}
