//! Compressed AllReduces on several streams and communicators, in groups, beside messages, in threads
//! and on several GPUs of one process. The emulator's race check is on: a missing dependency between
//! streams is an error.

use airamp_tests::scenario::{Scenario, assert_compressed, assert_exact_without_a_plan, assert_right};

/// Families of cases, with how many there are of each.
const FAMILIES: [(&str, usize); 5] =
    [("streams", 5), ("threads", 1), ("groups", 9), ("meeting", 5), ("mixed", 9)];

#[track_caller]
fn assert_family_compressed(name: &'static str, ranks: &[u32]) {
    let (_, cases) = FAMILIES.into_iter().find(|(family, _)| *family == name).expect("a family");
    ranks.iter().for_each(|ranks| assert_compressed(&Scenario::new(name, *ranks), cases));
}

#[test]
fn without_a_plan_every_call_is_exact() {
    for (name, cases) in FAMILIES {
        for ranks in [2, 3] {
            assert_exact_without_a_plan(&Scenario::new(name, ranks), cases);
        }
    }
}

#[test]
fn calls_on_several_streams_and_communicators_keep_their_order() {
    assert_family_compressed("streams", &[2, 3, 4]);
}

#[test]
fn threads_with_communicators_of_their_own_do_not_disturb_each_other() {
    assert_family_compressed("threads", &[2, 3]);
}

#[test]
fn groups_of_any_shape_give_the_same_bits() {
    assert_family_compressed("groups", &[2, 3]);
}

#[test]
fn groups_that_are_posted_in_parts_wait_for_all_their_streams_and_these_for_them() {
    assert_family_compressed("meeting", &[2, 3]);
}

#[test]
fn groups_of_which_calls_are_tried_do_too() {
    let outcomes = Scenario::new("tried", 2).in_mode("shadow");
    assert_right(&outcomes, 1);
    let leaders = outcomes[0].stderr_text();
    assert!(leaders.contains(r#""decision":"trial""#), "{}", outcomes[0]);
}

#[test]
fn so_do_calls_that_the_vendors_group_has_at_once() {
    for case in ["meeting/what_is_passed_on_at_once", "meeting/at_once_and_empty_beside_a_captured_call"] {
        let scenario = Scenario::new(case, 2).env("AIRAMP_EMU_NCCL_VERSION", "23203");
        assert_compressed(&scenario, 1);
    }
}

#[test]
fn messages_of_the_same_size_are_not_mixed_up_with_ours() {
    assert_family_compressed("mixed", &[2, 3, 4]);
}

#[test]
fn an_old_nccl_without_simulated_groups_compresses_too() {
    let scenario = Scenario::new("groups/on", 2).env("AIRAMP_EMU_NCCL_VERSION", "21800");
    assert_compressed(&scenario, 2);
}

mod several_gpus_in_a_process {
    use super::*;

    /// Ranks in each process, and how many cases there are then.
    const LAYOUTS: [(&str, u32, usize); 5] =
        [("2", 1, 4), ("3", 1, 4), ("2,1", 2, 3), ("1,2,1", 3, 3), ("2,2", 2, 3)];

    fn scenario(layout: &'static str, processes: u32) -> Scenario {
        Scenario::new("devices", processes).args(&["--layout", layout])
    }

    #[test]
    fn without_a_plan_every_call_is_exact() {
        for (layout, processes, cases) in LAYOUTS {
            assert_exact_without_a_plan(&scenario(layout, processes), cases);
        }
    }

    #[test]
    fn all_of_them_or_some_of_them_get_the_codecs_bits() {
        for (layout, processes, cases) in LAYOUTS {
            assert_compressed(&scenario(layout, processes), cases);
        }
    }
}
