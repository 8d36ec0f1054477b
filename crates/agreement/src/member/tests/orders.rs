//! What becomes of an operator's orders when links come and go.

use super::*;

#[test]
fn an_operators_order_waits_for_the_link_and_for_on() {
    let mut member = awaiting_begin();
    assert_eq!(member.handle(Order(crate::Order::On)), []);
    assert_eq!(member.handle(Order(crate::Order::Off)), []);
    let actions = member.handle(Message(ToMember::Begin));
    assert!(actions.contains(&Send(ToLeader::Order(crate::Order::Off))));
    assert!(!actions.contains(&Send(ToLeader::Order(crate::Order::On))), "only the last counts");
    member.handle(LinkLost);
    assert_eq!(member.handle(Order(crate::Order::On)), []);
    assert_eq!(member.handle(LinkUp), [Send(ToLeader::Order(crate::Order::On))]);
}

#[test]
fn an_order_that_a_link_may_have_taken_with_it_is_said_again_by_the_next_one() {
    let said = [Send(ToLeader::Order(crate::Order::Off))];
    let mut member = on();
    assert_eq!(member.handle(Order(crate::Order::Off)), said);
    for _ in 0..2 {
        member.handle(LinkLost);
        assert_eq!(member.handle(LinkUp), said);
    }
    // What is committed was pledged before the order.
    let mut member = in_doubt();
    assert_eq!(member.handle(Order(crate::Order::Off)), said);
    member.handle(verdict_is_yes(1));
    member.handle(LinkLost);
    assert_eq!(member.handle(LinkUp), said);
}

/// While the link was down somebody may have ordered to stop, by way of another rank.
#[test]
fn an_order_to_go_on_is_said_once() {
    let mut member = on();
    assert_eq!(member.handle(Order(crate::Order::On)), [Send(ToLeader::Order(crate::Order::On))]);
    member.handle(LinkLost);
    assert_eq!(member.handle(LinkUp), []);
}

/// It may have been taken back since, by way of another rank.
#[test]
fn an_order_that_the_leader_has_heard_is_not_said_again() {
    let mut member = on();
    member.handle(Order(crate::Order::Off));
    member.handle(propose(1, 10));
    member.handle(Gate { number: 1, pledged: Ok(()) });
    member.handle(verdict_is_yes(1));
    member.handle(LinkLost);
    assert_eq!(member.handle(LinkUp), []);
}
