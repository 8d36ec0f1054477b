use super::*;
use crate::calls::{AllReduce, Operation};
use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::compression::active::FastCall;
use crate::deferred::Deferred;

/// What the plan says of a call.
#[derive(Clone, Copy)]
enum Says {
    Vendor,
    Compressed,
    Trial,
}

/// A call on the communicator with that number, in a clique of the same number.
fn call(number: usize, index: u64, says: Says) -> Held {
    in_clique(number as u64, number, index, says)
}

fn in_clique(clique: u64, number: usize, index: u64, says: Says) -> Held {
    let fast = match says {
        Says::Vendor => None,
        Says::Compressed => Some(FastCall::for_tests(index, None)),
        Says::Trial => Some(FastCall::for_tests(index, Some(0))),
    };
    let all_reduce = AllReduce { send: std::ptr::null(), recv: std::ptr::null_mut(), op: RedOp::SUM };
    let operation = Operation {
        kind: Kind::AllReduce,
        comm: number as Comm,
        count: 1 << 20,
        datatype: DataType::FLOAT16,
        peer: -1,
        stream: std::ptr::null_mut(),
        all_reduce: Some(all_reduce),
        by_pointer: false,
        send_counts: std::ptr::null(),
    };
    let forward = Deferred::new(|| NcclResult::SUCCESS);
    Held::new(operation, None, Ticket::Nothing, Clique(clique), fast, forward)
}

/// What is posted, in order: the places of the calls in each step, and whether the vendor has them.
fn order(calls: &mut [Held]) -> Vec<(Next, Vec<usize>)> {
    let mut order = Vec::new();
    loop {
        let next = choose_next(calls);
        if next == Next::Nothing {
            return order;
        }
        let chosen = (0..calls.len()).filter(|place| is_chosen(&&calls[*place])).collect();
        order.push((next, chosen));
        match next {
            Next::FastPath => {
                for held in calls.iter_mut().filter(|held| held.state == State::Chosen) {
                    held.tried = held.fast.and_then(|fast| fast.trial).map(usize::from);
                }
                settle_turns(calls);
            }
            _ => settle_chosen(calls, true),
        }
        assert!(order.len() < 100, "{order:?}");
    }
}

#[test]
fn a_tried_call_is_in_one_group_of_the_vendors_with_what_is_left_of_the_applications() {
    let mut calls = [call(1, 0, Says::Trial), call(1, 1, Says::Vendor)];
    assert_eq!(order(&mut calls), [(Next::FastPath, vec![0]), (Next::PassOn, vec![0, 1])]);
}

#[test]
fn a_tried_call_comes_before_the_next_turn_as_on_a_rank_that_posts_its_calls_one_by_one() {
    let mut calls = [
        call(1, 0, Says::Vendor),
        call(1, 1, Says::Trial),
        call(1, 2, Says::Vendor),
        call(1, 3, Says::Compressed),
        call(1, 4, Says::Trial),
    ];
    let expected = [
        (Next::PassOn, vec![0]),
        (Next::FastPath, vec![1]),
        (Next::PassOn, vec![1]),
        (Next::PassOn, vec![2]),
        (Next::FastPath, vec![3]),
        (Next::FastPath, vec![4]),
        (Next::PassOn, vec![4]),
    ];
    assert_eq!(order(&mut calls), expected);
}

#[test]
fn a_clique_is_done_with_its_trial_before_the_next_clique_begins() {
    let mut calls = [call(2, 0, Says::Trial), call(1, 0, Says::Trial)];
    let expected = [
        (Next::FastPath, vec![1]),
        (Next::PassOn, vec![1]),
        (Next::FastPath, vec![0]),
        (Next::PassOn, vec![0]),
    ];
    assert_eq!(order(&mut calls), expected);
}

#[test]
fn what_stands_behind_the_turns_of_a_clique_comes_before_the_next_clique() {
    let mut calls = [
        call(2, 0, Says::Compressed),
        call(1, 0, Says::Trial),
        call(1, 1, Says::Vendor),
        call(2, 1, Says::Vendor),
        call(1, 2, Says::Vendor),
    ];
    let expected = [
        (Next::FastPath, vec![1]),
        (Next::PassOn, vec![1]),
        (Next::PassOn, vec![2, 4]),
        (Next::FastPath, vec![0]),
        (Next::PassOn, vec![3]),
    ];
    assert_eq!(order(&mut calls), expected);
}

/// Of many calls that take turns with the vendor's, on two ranks of this thread, one of which has fewer.
#[test]
fn each_communicator_of_a_clique_waits_for_its_own_turns_alone() {
    let mut calls = Vec::new();
    for index in 0..20 {
        calls.push(in_clique(1, 1, 2 * index, Says::Compressed));
        calls.push(in_clique(1, 1, 2 * index + 1, Says::Vendor));
        calls.push(in_clique(1, 2, index, Says::Vendor));
    }
    let order = order(&mut calls);
    let of_the_second: Vec<usize> = (0..20).map(|place| 3 * place + 2).collect();
    assert_eq!(order[0], (Next::PassOn, of_the_second), "nothing of theirs is ahead of them");
    for (place, pair) in order[1..].chunks(2).enumerate() {
        let expected = [(Next::FastPath, vec![3 * place]), (Next::PassOn, vec![3 * place + 1])];
        assert_eq!(pair, expected);
    }
    assert_eq!(order.len(), 41);
}

#[test]
fn messages_and_cliques_without_a_turn_come_last_in_one_group_of_the_vendors() {
    let mut message = call(2, 0, Says::Vendor);
    message.operation.kind = Kind::Send;
    let mut calls =
        [call(1, 0, Says::Vendor), message, call(2, 0, Says::Compressed), call(3, 0, Says::Compressed)];
    let expected = [(Next::FastPath, vec![2]), (Next::FastPath, vec![3]), (Next::PassOn, vec![0, 1])];
    assert_eq!(order(&mut calls), expected);
}

#[test]
fn ranks_of_one_communicator_make_their_dry_runs_together() {
    let mut calls = [in_clique(1, 1, 0, Says::Trial), in_clique(1, 2, 0, Says::Trial)];
    assert!(is_one_call(&calls));
    assert_eq!(order(&mut calls), [(Next::FastPath, vec![0, 1]), (Next::PassOn, vec![0, 1])]);
}

#[test]
fn a_group_with_a_second_call_or_another_communicator_is_not_timed() {
    assert!(is_one_call(&[call(1, 0, Says::Trial)]));
    assert!(!is_one_call(&[call(1, 0, Says::Trial), call(1, 1, Says::Vendor)]));
    assert!(!is_one_call(&[call(1, 0, Says::Trial), call(2, 0, Says::Trial)]));
}
