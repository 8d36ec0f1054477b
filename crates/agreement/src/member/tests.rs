//! A member's claims, one rule each: creation first, then changes, then a leader that cannot be trusted.

mod orders;

use super::MemberAction::{Abort, Commit, Distrusts, Lost, Send, Settle, Start, Stop, TryPledge};
use super::MemberEvent::{
    Connected, Ended, Gate, LinkLost, LinkUp, Message, Order, Prepared, Report, TimeIsUp,
};
use super::MemberTimer::{Doubt, Verdict};
use super::standing::MOST_BEHIND;
use super::*;
use crate::message::{LAST_INDEX, PLAN_BYTES, VENDOR_PLAN};

const PLAN: Plan = [1; PLAN_BYTES];
const OTHER: Plan = [2; PLAN_BYTES];

fn capable() -> Capable {
    Capable { terms: Vec::new(), host: 7, tunings: Vec::new() }
}

fn creation() -> MemberEvent {
    Message(ToMember::Propose { number: 0, at: At::Creation, plan: PLAN })
}

fn propose(number: u64, at: u64) -> MemberEvent {
    Message(ToMember::Propose { number, at: At::Index(at), plan: OTHER })
}

fn verdict_is_yes(number: u64) -> MemberEvent {
    Message(ToMember::Commit { number })
}

fn verdict_is_no(number: u64) -> MemberEvent {
    Message(ToMember::Abort { number })
}

fn off() -> MemberEvent {
    Message(ToMember::Off { reason: "no".into() })
}

fn broken() -> MemberEvent {
    Message(ToMember::Broken { reason: "no".into() })
}

/// A member after these events, whose actions are of no interest.
fn after(events: impl IntoIterator<Item = MemberEvent>) -> Member {
    let mut member = Member::new(Hello { rank: 1, ranks: 2, terms: Vec::new() });
    events.into_iter().for_each(|event| drop(member.handle(event)));
    member
}

fn ready() -> Member {
    after([LinkUp, Prepared(Ok(capable()))])
}

fn pledged() -> Member {
    after([LinkUp, Prepared(Ok(capable())), creation()])
}

fn connecting() -> Member {
    after([LinkUp, Prepared(Ok(capable())), creation(), verdict_is_yes(0)])
}

fn awaiting_begin() -> Member {
    let mut member = connecting();
    member.handle(Connected(Ok(())));
    member
}

fn on() -> Member {
    let mut member = awaiting_begin();
    member.handle(Message(ToMember::Begin));
    member
}

/// On, and pledged to change 1 at index 10.
fn in_doubt() -> Member {
    let mut member = on();
    member.handle(propose(1, 10));
    member.handle(Gate { number: 1, pledged: Ok(()) });
    member
}

fn settles_off(actions: &[MemberAction]) -> bool {
    actions.iter().any(|action| matches!(action, Settle(Settled::Off { .. })))
}

fn settles_broken(actions: &[MemberAction]) -> bool {
    actions.iter().any(|action| matches!(action, Settle(Settled::Broken { .. })))
}

fn refuses(actions: &[MemberAction]) -> bool {
    actions.iter().any(|action| matches!(action, Send(ToLeader::Refuse { .. })))
}

fn is_lost(actions: &[MemberAction]) -> bool {
    actions.iter().any(|action| matches!(action, Lost { .. }))
}

/// It says so to the leader and to the log, with the same reason.
fn distrusts(actions: &[MemberAction]) -> bool {
    actions.iter().any(|action| match action {
        Distrusts { reason } => actions.contains(&Send(ToLeader::Distrust { reason: reason.clone() })),
        _ => false,
    })
}

fn propose_the_vendor(number: u64, at: u64) -> MemberEvent {
    Message(ToMember::Propose { number, at: At::Index(at), plan: VENDOR_PLAN })
}

#[test]
fn creation_goes_step_by_step_to_on() {
    let mut member = after([]);
    assert_eq!(member.handle(LinkUp), []);
    let said = Send(ToLeader::Ready(Ok(capable())));
    assert_eq!(member.handle(Prepared(Ok(capable()))), [said, Start(Verdict)]);
    let pledge = Send(ToLeader::Pledge { number: 0 });
    assert_eq!(member.handle(creation()), [pledge, Stop(Verdict), Start(Doubt)]);
    assert_eq!(member.handle(verdict_is_yes(0)), [Settle(Settled::Connect { plan: PLAN }), Stop(Doubt)]);
    assert_eq!(member.handle(Connected(Ok(()))), [Send(ToLeader::Connected(Ok(()))), Start(Doubt)]);
    assert_eq!(member.handle(Message(ToMember::Begin)), [Settle(Settled::On), Stop(Doubt)]);
}

#[test]
fn a_rank_that_is_ready_before_its_link_says_so_when_the_link_comes() {
    let mut member = after([]);
    assert_eq!(member.handle(Prepared(Ok(capable()))), [Start(Verdict)]);
    assert_eq!(member.handle(LinkUp), [Send(ToLeader::Ready(Ok(capable())))]);
}

#[test]
fn a_rank_that_cannot_compress_is_off_at_once_and_says_why() {
    let mut member = after([LinkUp]);
    let actions = member.handle(Prepared(Err("no\nmemory".into())));
    let why = "no memory".to_owned();
    assert_eq!(actions, [Send(ToLeader::Ready(Err(why.clone()))), Settle(Settled::Off { reason: why })]);
    let mut unlinked = after([]);
    assert!(settles_off(&unlinked.handle(Prepared(Err("no memory".into())))));
    assert_eq!(unlinked.handle(LinkUp), [Send(ToLeader::Ready(Err("no memory".into())))]);
}

#[test]
fn a_verdict_of_off_is_heard_in_every_step_before_the_commit() {
    for mut member in [after([]), after([LinkUp]), after([Prepared(Ok(capable()))]), ready(), pledged()] {
        assert!(settles_off(&member.handle(off())), "{member:?}");
        assert_eq!(member.handle(off()), [], "it is said once");
    }
}

#[test]
fn a_rank_that_has_pledged_nothing_gives_up_alone_and_refuses_from_then_on() {
    let mut member = ready();
    let actions = member.handle(TimeIsUp(Verdict));
    assert!(
        settles_off(&actions) && actions.contains(&Send(ToLeader::Leave)) && actions.contains(&Stop(Verdict))
    );
    assert!(refuses(&member.handle(creation())));
    assert_eq!(member.handle(Prepared(Ok(capable()))), []);
}

#[test]
fn a_rank_without_a_link_gives_up_when_its_time_is_up_and_later_says_so() {
    let mut member = after([Prepared(Ok(capable()))]);
    assert!(settles_off(&member.handle(TimeIsUp(Verdict))));
    assert!(matches!(member.handle(LinkUp)[..], [Send(ToLeader::Ready(Err(_)))]));
}

#[test]
fn a_rank_that_loses_its_link_before_it_has_pledged_is_off() {
    assert!(settles_off(&after([LinkUp]).handle(LinkLost)));
    assert!(settles_off(&ready().handle(LinkLost)));
}

#[test]
fn a_rank_that_has_pledged_creation_does_not_give_up_but_asks() {
    let mut member = pledged();
    assert_eq!(member.handle(TimeIsUp(Verdict)), []);
    assert_eq!(member.handle(LinkLost), []);
    assert_eq!(member.handle(LinkUp), [Send(ToLeader::Ask { number: 0 })]);
    assert_eq!(member.handle(verdict_is_yes(0))[0], Settle(Settled::Connect { plan: PLAN }));
}

#[test]
fn an_abort_of_creation_means_off() {
    assert!(settles_off(&pledged().handle(verdict_is_no(0))));
    assert!(settles_off(&ready().handle(verdict_is_no(0))));
}

#[test]
fn doubt_about_creation_ends_in_an_error_and_never_in_a_guess() {
    for mut member in [pledged(), awaiting_begin()] {
        let actions = member.handle(TimeIsUp(Doubt));
        assert!(settles_broken(&actions) && actions.contains(&Send(ToLeader::Leave)));
        assert_eq!(member.handle(verdict_is_yes(0)), []);
        assert_eq!(member.handle(off()), []);
    }
}

#[test]
fn a_failure_after_the_commit_is_broken_and_never_off() {
    for mut member in [connecting(), awaiting_begin()] {
        for event in [off(), broken(), verdict_is_no(0)] {
            let actions = member.clone().handle(event);
            assert!(settles_broken(&actions) && !settles_off(&actions));
        }
        assert_eq!(member.handle(LinkLost), []);
    }
    assert!(settles_broken(&pledged().handle(broken())), "its commit was lost with its link");
    let actions = connecting().handle(Connected(Err("no route".into())));
    assert_eq!(actions[0], Send(ToLeader::Connected(Err("no route".into()))));
    assert!(settles_broken(&actions));
}

#[test]
fn a_rank_that_was_cut_off_says_again_that_it_is_connected() {
    let mut member = awaiting_begin();
    member.handle(LinkLost);
    assert_eq!(member.handle(LinkUp), [Send(ToLeader::Connected(Ok(())))]);
    assert_eq!(member.handle(verdict_is_yes(0)), [], "an answer that the verdict has overtaken");
    member.handle(Message(ToMember::Begin));
    assert_eq!(member.handle(Message(ToMember::Begin)), [], "and so is this");
}

#[test]
fn a_leader_that_begins_without_this_ranks_pledge_breaks_it() {
    for event in [verdict_is_yes(0), verdict_is_yes(3), Message(ToMember::Begin), broken()] {
        for mut member in [after([LinkUp]), ready()] {
            assert!(settles_broken(&member.handle(event.clone())), "{event:?}");
        }
    }
}

#[test]
fn a_proposal_out_of_turn_in_creation_is_refused_and_ends_in_off() {
    let cases = [(after([LinkUp]), creation()), (ready(), propose(1, 10)), (ready(), propose(0, 10))];
    for (mut member, event) in cases {
        let actions = member.handle(event);
        assert!(refuses(&actions) && settles_off(&actions));
    }
}

#[test]
fn a_leader_that_changes_its_mind_about_creation_does_not_free_a_rank_from_its_pledge() {
    let second = Message(ToMember::Propose { number: 0, at: At::Creation, plan: OTHER });
    for event in [second, propose(1, 10), verdict_is_yes(5), verdict_is_no(5), Message(ToMember::Begin)] {
        let mut member = pledged();
        assert_eq!(member.handle(event), [Send(ToLeader::Leave)]);
        assert_eq!(member.handle(verdict_is_yes(0))[0], Settle(Settled::Connect { plan: PLAN }));
    }
}

#[test]
fn a_change_is_pledged_through_the_gate_and_ends_with_the_verdict() {
    let mut member = on();
    assert_eq!(member.handle(propose(1, 10)), [TryPledge { number: 1, at: 10 }]);
    let pledge = Send(ToLeader::Pledge { number: 1 });
    assert_eq!(member.handle(Gate { number: 1, pledged: Ok(()) }), [pledge, Start(Doubt)]);
    let mut other = member.clone();
    assert_eq!(member.handle(verdict_is_yes(1)), [Commit { at: 10, plan: OTHER }, Stop(Doubt)]);
    assert_eq!(other.handle(verdict_is_no(1)), [Abort, Stop(Doubt)]);
}

#[test]
fn a_past_index_is_refused_with_the_number_of_reserved_calls() {
    let mut member = on();
    member.handle(propose(1, 10));
    let actions = member.handle(Gate { number: 1, pledged: Err(12) });
    assert!(matches!(&actions[..], [Send(ToLeader::Refuse { number: 1, reserved: 12, .. })]));
    assert_eq!(member.handle(propose(2, 20)), [TryPledge { number: 2, at: 20 }]);
}

#[test]
fn an_answer_of_the_gate_to_another_question_means_nothing() {
    let mut member = on();
    assert_eq!(member.handle(Gate { number: 1, pledged: Ok(()) }), []);
    member.handle(propose(1, 10));
    assert_eq!(member.handle(Gate { number: 2, pledged: Ok(()) }), []);
}

#[test]
fn an_abort_that_overtakes_the_gates_answer_opens_the_gate_again() {
    let mut member = on();
    member.handle(propose(1, 10));
    assert_eq!(member.handle(verdict_is_no(1)), []);
    assert_eq!(member.handle(Gate { number: 1, pledged: Ok(()) }), [Abort]);
}

#[test]
fn a_link_lost_before_the_gates_answer_means_that_nothing_is_pledged() {
    let mut member = on();
    member.handle(propose(1, 10));
    member.handle(LinkLost);
    member.handle(LinkUp);
    assert_eq!(member.handle(Gate { number: 1, pledged: Ok(()) }), [Abort]);
    assert_eq!(member.handle(verdict_is_no(1)), []);
}

#[test]
fn a_proposal_that_cannot_be_answered_closes_no_gate() {
    let mut member = on();
    member.handle(LinkLost);
    assert_eq!(member.handle(propose(1, 10)), []);
    assert!(is_lost(&member.handle(verdict_is_yes(1))));
}

#[test]
fn a_rank_in_doubt_asks_when_its_link_is_back_and_refuses_everything_else_until_it_knows() {
    let mut member = in_doubt();
    assert_eq!(member.handle(LinkLost), []);
    assert_eq!(member.handle(LinkUp), [Send(ToLeader::Ask { number: 1 })]);
    let actions = member.handle(propose(2, 20));
    assert!(refuses(&actions) && !distrusts(&actions), "the answer is on its way: {actions:?}");
    assert_eq!(member.handle(verdict_is_yes(1))[0], Commit { at: 10, plan: OTHER });
    assert!(distrusts(&member.clone().handle(propose(2, 30))), "what it has refused is not proposed again");
    assert_eq!(member.handle(propose(3, 30)), [TryPledge { number: 3, at: 30 }]);
}

#[test]
fn doubt_about_a_change_ends_in_an_error_and_no_later_verdict_counts() {
    let mut member = in_doubt();
    let actions = member.handle(TimeIsUp(Doubt));
    assert!(is_lost(&actions) && actions.contains(&Send(ToLeader::Leave)) && actions.contains(&Stop(Doubt)));
    assert_eq!(member.handle(verdict_is_yes(1)), []);
    assert_eq!(member.handle(verdict_is_no(1)), []);
}

#[test]
fn a_timer_that_strikes_when_nobody_waits_means_nothing() {
    for mut member in [on(), connecting(), ready()] {
        assert_eq!(member.handle(TimeIsUp(Doubt)), []);
    }
    for mut member in [on(), connecting(), pledged(), in_doubt()] {
        assert_eq!(member.handle(TimeIsUp(Verdict)), []);
    }
}

#[test]
fn a_rank_that_loses_its_leader_goes_on_as_it_is_and_takes_part_again_later() {
    let mut member = on();
    assert_eq!(member.handle(LinkLost), []);
    assert_eq!(member.handle(Report(vec![1])), [], "nothing is said without a link");
    assert_eq!(member.handle(LinkUp), []);
    assert_eq!(member.handle(propose(1, 10)), [TryPledge { number: 1, at: 10 }]);
}

#[test]
fn a_verdict_that_is_repeated_means_nothing() {
    let mut member = in_doubt();
    member.handle(verdict_is_yes(1));
    assert_eq!(member.handle(verdict_is_yes(1)), []);
    let mut member = in_doubt();
    member.handle(verdict_is_no(1));
    assert_eq!(member.handle(verdict_is_no(1)), []);
}

#[test]
fn a_proposal_that_no_honest_leader_makes_is_refused_told_once_and_only_the_vendors_plan_is_agreed_to_then() {
    let mut changed = in_doubt();
    changed.handle(verdict_is_yes(1));
    let cases = [
        (changed.clone(), propose(1, 20), "a number used before"),
        (changed.clone(), propose(0, 20), "the number of creation"),
        (changed.clone(), propose(2, 10), "the index of the last change"),
        (changed.clone(), propose(2, 3), "an index before the last change"),
        (changed.clone(), propose(2, LAST_INDEX + 1), "an index out of reach"),
        (changed.clone(), creation(), "creation again"),
        (on(), propose(1, 0), "the index of creation"),
    ];
    for (mut member, event, case) in cases {
        let actions = member.handle(event);
        assert!(refuses(&actions) && distrusts(&actions), "{case}: {actions:?}");
        for event in [propose(9, 90), propose_the_vendor(0, 100)] {
            let next = member.handle(event);
            assert!(refuses(&next) && !distrusts(&next), "{case}: it is said once");
        }
        assert_eq!(member.handle(propose_the_vendor(10, 100)), [TryPledge { number: 10, at: 100 }], "{case}");
        member.handle(Gate { number: 10, pledged: Ok(()) });
        assert_eq!(member.handle(verdict_is_yes(10))[0], Commit { at: 100, plan: VENDOR_PLAN }, "{case}");
    }
}

#[test]
fn a_rank_that_distrusts_still_awaits_the_verdict_on_what_it_has_pledged_and_says_it_again_to_a_new_link() {
    let mut member = in_doubt();
    assert!(distrusts(&member.handle(propose(1, 11))), "the same number with another index");
    assert_eq!(member.handle(verdict_is_yes(1))[0], Commit { at: 10, plan: OTHER });
    member.handle(LinkLost);
    assert!(matches!(&member.handle(LinkUp)[..], [Send(ToLeader::Distrust { .. })]));
}

#[test]
fn a_leader_that_is_behind_the_calls_is_trusted_for_a_while_and_not_for_ever() {
    let refuse_one = |member: &mut Member, number: u64| {
        member.handle(propose(number, number));
        member.handle(Gate { number, pledged: Err(1000) })
    };
    let mut member = on();
    for number in 1..u64::from(MOST_BEHIND) {
        let actions = refuse_one(&mut member, number);
        assert!(refuses(&actions) && !distrusts(&actions), "{number}");
    }
    let mut pledges = member.clone();
    assert!(distrusts(&refuse_one(&mut member, 100)));
    pledges.handle(propose(100, 1100));
    pledges.handle(Gate { number: 100, pledged: Ok(()) });
    pledges.handle(verdict_is_no(100));
    assert!(!distrusts(&refuse_one(&mut pledges, 101)), "one that could be pledged is enough");
}

#[test]
fn a_rank_that_distrusts_while_the_gate_is_asked_pledges_nothing() {
    let mut member = on();
    member.handle(propose(1, 10));
    assert!(distrusts(&member.handle(off())));
    assert_eq!(member.handle(Gate { number: 1, pledged: Ok(()) }), [Abort]);
}

#[test]
fn a_commit_without_this_ranks_pledge_is_an_error_on_this_rank() {
    let mut asked = on();
    asked.handle(propose(1, 10));
    let mut refused = asked.clone();
    refused.handle(Gate { number: 1, pledged: Err(12) });
    let mut aborted = in_doubt();
    aborted.handle(verdict_is_no(1));
    for mut member in [on(), asked, refused, aborted] {
        assert!(is_lost(&member.handle(verdict_is_yes(1))));
    }
    assert!(is_lost(&in_doubt().handle(verdict_is_yes(2))));
}

#[test]
fn an_abort_of_what_was_committed_is_an_error_on_this_rank() {
    let mut member = in_doubt();
    member.handle(verdict_is_yes(1));
    assert!(is_lost(&member.handle(verdict_is_no(1))));
    assert!(is_lost(&on().handle(verdict_is_no(0))));
}

#[test]
fn an_old_verdict_is_distrusted_and_changes_nothing_else() {
    for event in [verdict_is_yes(0), verdict_is_no(0)] {
        let mut member = in_doubt();
        member.handle(verdict_is_yes(1));
        let actions = member.handle(event);
        assert!(distrusts(&actions) && !is_lost(&actions));
    }
}

#[test]
fn a_verdict_on_creation_after_creation_is_distrusted() {
    assert!(distrusts(&on().handle(off())));
    assert!(distrusts(&on().handle(broken())));
}

#[test]
fn reports_are_passed_on_only_when_on_and_only_if_they_are_small() {
    assert_eq!(on().handle(Report(vec![1])), [Send(ToLeader::Report(vec![1]))]);
    assert_eq!(ready().handle(Report(vec![1])), []);
    assert_eq!(on().handle(Report(vec![1; MOST_REPORT_BYTES + 1])), []);
}

#[test]
fn the_end_is_told_to_the_leader_and_to_whoever_waits() {
    for mut member in [after([LinkUp]), ready()] {
        let actions = member.handle(Ended);
        assert!(settles_off(&actions) && actions.contains(&Send(ToLeader::Leave)));
    }
    for mut member in [pledged(), connecting(), awaiting_begin()] {
        let actions = member.handle(Ended);
        assert!(settles_broken(&actions) && actions.contains(&Send(ToLeader::Leave)));
    }
    for mut member in [on(), in_doubt()] {
        assert!(member.handle(Ended).contains(&Send(ToLeader::Leave)));
        assert_eq!(member.handle(Ended), []);
        assert_eq!(member.handle(verdict_is_yes(1)), []);
        assert_eq!(member.handle(propose(2, 20)), []);
    }
}
