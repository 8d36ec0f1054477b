//! Changes after creation.

use super::*;

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
    assert_eq!(feed(&mut leader, [pledge(2, 1), Linked(1)]), [Send(1, ToMember::Begin)]);
    assert_eq!(leader.handle(ask(1, 1)), [Send(1, abort)]);
}

#[test]
fn a_new_link_of_a_rank_counts_as_the_loss_of_the_old_one() {
    let mut leader = proposing();
    let actions = leader.handle(Linked(1));
    let abort = ToMember::Abort { number: 1 };
    assert_eq!(actions, [Send(0, abort.clone()), Send(2, abort), Send(1, ToMember::Begin)]);
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
