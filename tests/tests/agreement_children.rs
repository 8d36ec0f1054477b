//! Communicators that are made from others agree for themselves, and compress: those of a Shrink as those of a Split.

use airamp_tests::Outcome;
use airamp_tests::scenario::{Line, Scenario, assert_compressed, assert_exact_without_a_plan, parsed};

/// Digests of what was seen on the child, of the ranks that are in it.
fn of_the_child(outcomes: &[Outcome], case: &str, left_out: usize) -> Vec<String> {
    let in_it = outcomes.iter().enumerate().filter(|(rank, _)| *rank != left_out);
    let lines = in_it.map(|(_, outcome)| parsed::<Line>(outcome));
    lines.flatten().filter(|line| line.case == case).map(|line| line.others).collect()
}

#[test]
fn a_shrunk_child_compresses_with_the_bits_of_its_own_ranks() {
    for ranks in [3, 4] {
        let scenario = Scenario::new("children", ranks);
        assert_exact_without_a_plan(&scenario, 3);
        assert_compressed(&scenario, 3);
        let outcomes = scenario.compressed();
        let cases = [
            ("children/shrunk_by_the_last_rank", ranks as usize - 1),
            ("children/shrunk_by_the_first_rank", 0),
            ("children/shrunk_and_then_split", 1),
        ];
        for (case, left_out) in cases {
            let bits = of_the_child(&outcomes, case, left_out);
            assert_eq!(bits.len(), ranks as usize - 1, "{outcomes:?}");
            assert!(bits.iter().all(|own| *own == bits[0]), "{case}: {bits:?}");
        }
    }
}

#[test]
fn so_do_several_children_of_one_parent_that_leave_out_one_rank_and_then_another() {
    let scenario = Scenario::new("children/shrunk_without", 4);
    assert_exact_without_a_plan(&scenario, 1);
    assert_compressed(&scenario, 1);
}

#[test]
fn so_do_the_children_of_a_split() {
    assert_compressed(&Scenario::new("streams/children_of_a_split", 4), 1);
}

#[test]
fn a_child_lies_on_nodes_of_its_own() {
    // Five ranks make no even nodes of two, and four do.
    let scenario = Scenario::new("children", 5).env("AIRAMP_RANKS_PER_NODE", "2");
    assert_compressed(&scenario, 3);
    let outcomes = scenario.compressed();
    let says =
        |outcome: &Outcome, per_node: &str| outcome.stderr_text().contains(&format!("{per_node} to a node"));
    assert!(outcomes.iter().all(|outcome| says(outcome, "1")), "{}", outcomes[0]);
    assert!(outcomes.iter().filter(|outcome| says(outcome, "2")).count() >= 4, "{}", outcomes[0]);
}
