//! Ranks that cannot be trusted.

use super::*;

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
        (From(1, ToLeader::Report(vec![0; MOST_REPORT_BYTES + 1])), "rank 1"),
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

fn distrust_reasons(actions: &[LeaderAction]) -> Vec<&str> {
    let told = actions.iter().filter_map(|action| match action {
        Distrusted { reason } => Some(reason.as_str()),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_rank_that_lies_after_the_commit_is_named_once_and_breaks_nothing() {
    let mut proposing = proposing();
    feed(&mut proposing, [pledge(1, 1)]);
    for leader in [connecting(), on(), proposing.clone()] {
        for (event, who) in lies() {
            let mut leader = leader.clone();
            let actions = feed(&mut leader, [event.clone(), event.clone()]);
            let reasons = distrust_reasons(&actions);
            assert!(reasons.len() == 1 && reasons[0].contains(who), "{event:?}: {actions:?}");
            assert!(!actions.iter().any(|action| matches!(
                action,
                Closed { .. }
                    | Send(_, ToMember::Broken { .. } | ToMember::Off { .. } | ToMember::Commit { .. })
            )));
        }
    }
    for event in [pledge(1, 1), refuse(1, 1, 0)] {
        assert_eq!(distrust_reasons(&proposing.clone().handle(event)).len(), 1, "it has pledged already");
    }
    let connected_twice = on().handle(From(1, ToLeader::Connected(Err(String::new()))));
    assert_eq!(distrust_reasons(&connected_twice).len(), 1);
    let mut leader = connecting();
    feed(&mut leader, [hello(1)]);
    let actions = feed(&mut leader, by_all(connected));
    assert!(actions.ends_with(&[Started]), "creation goes on, and the brain may switch off: {actions:?}");
}

/// What is open is withdrawn; the next change is agreed on like any other.
#[test]
fn after_a_lie_all_ranks_can_still_agree_on_the_vendors_plan() {
    let said =
        From(2, ToLeader::Distrust { reason: "rank 0 proposed an index before the last change".into() });
    for lie in [pledge(1, 7), said] {
        let mut leader = proposing();
        let actions = leader.handle(lie);
        assert_eq!(distrust_reasons(&actions).len(), 1);
        assert!(actions.contains(&decided(4, false)), "{actions:?}");
        feed(&mut leader, [Change { plan: VENDOR_PLAN, reserved: 0 }]);
        let actions = feed(&mut leader, by_all(|rank| pledge(rank, 2)));
        assert!(actions.contains(&Decided { at: 4, plan: VENDOR_PLAN, committed: true }), "{actions:?}");
    }
}

#[test]
fn a_rank_whose_calls_have_no_index_any_more_ends_all_changes_and_nobody_is_distrusted() {
    let retired = refuse(1, 1, LAST_INDEX);
    let no_index = Change { plan: OTHER, reserved: LAST_INDEX };
    for (mut leader, event, who) in [(proposing(), retired, "rank 1"), (on(), no_index, "rank 0")] {
        let actions = leader.handle(event);
        let reason = actions.iter().find_map(|action| match action {
            Closed { reason } => Some(reason.as_str()),
            _ => None,
        });
        assert!(reason.is_some_and(|reason| reason.contains(who)), "{actions:?}");
        assert!(distrust_reasons(&actions).is_empty(), "{actions:?}");
    }
}

/// Else a lie would put the vendor's plan where no call ever comes.
#[test]
fn a_refusal_out_of_turn_does_not_move_the_next_proposal() {
    let mut leader = on();
    leader.handle(refuse(1, 99, LAST_INDEX));
    let actions = leader.handle(Change { plan: VENDOR_PLAN, reserved: 0 });
    let propose = ToMember::Propose { number: 1, at: At::Index(4), plan: VENDOR_PLAN };
    assert!(actions.contains(&Send(1, propose)), "{actions:?}");
}

#[test]
fn a_rank_that_distrusts_before_the_commit_switches_all_off() {
    for mut leader in undecided() {
        let actions = leader.handle(From(2, ToLeader::Distrust { reason: "a lie".into() }));
        assert_eq!(off_reason(&leader, &actions).unwrap(), "rank 2: a lie");
    }
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
